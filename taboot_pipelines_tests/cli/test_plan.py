"""``taboot plan``: what a run would look at or ask for, before it does."""

from __future__ import annotations

import json

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.world import World


@pytest.fixture
def shell(world: World) -> Shell:
    folder = world.source("guides", exclude=["draft*"])
    (folder / "guide.md").write_text("x" * 1200)
    (folder / "hosts.csv").write_text("host\natlas\n")
    (folder / "draft.md").write_text("not yet")
    (folder / ".env").write_text("A=1")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return Shell(world)


def test_a_folder_is_counted_and_nothing_is_stored(shell: Shell) -> None:
    told = json.loads(shell("plan", "guides", "--json"))
    folder = shell.world.directory / "guides"
    part = {"what": f"files of {folder}", "requests": 0, "items": 2, "bytes": 1211, "note": ""}
    assert told == {"source": "guides", "plan": [part]}
    shown = shell("plan", "guides")
    assert "1,211" in shown and "requests" in shown
    assert [p for p in (shell.world.home / "blobs").rglob("*") if p.is_file()] == []
    catalog = shell.world.workspace.catalog
    assert catalog.jobs.find("default", "guides") == []
    assert catalog.locators.of_source("default", "guides", state=None) == {}


def test_what_the_quota_leaves_room_for_is_said(shell: Shell) -> None:
    shell.environment["TABOOT_QUOTA__DOCUMENTS"] = "1"
    shell.environment["TABOOT_QUOTA__BYTES"] = "5000"
    _, room = json.loads(shell("plan", "guides", "--json"))["plan"]
    assert (room["items"], room["bytes"]) == (1, 5000) and "E_QUOTA" in room["note"]
    (found,) = json.loads(shell("ingest", "guides", "--dry-run", "--json"))["sources"]
    assert len(found["added"]) == 2 and "room for 1 more" in found["note"]


def test_other_types(shell: Shell) -> None:
    for type_, name, text, fields in (
        ("compose", "compose.yaml", "services:\n  web:\n    image: nginx\n", {"host": "atlas"}),
        ("swag", "a.subdomain.conf", "server { listen 80; }\n", {}),
    ):
        (shell.world.source(type_, type_, **fields) / name).write_text(text)
        (part,) = json.loads(shell("plan", type_, "--json"))["plan"]
        assert (part["requests"], part["items"]) == (0, 1), type_


def test_what_cannot_be_planned_says_so(shell: Shell) -> None:
    shell.world.source("site", "web", path=None, urls=["http://127.0.0.1:9/"])
    shell.world.source("gone", path="nowhere")
    for source, code, words in (
        ("nobody", "E_SOURCE_UNKNOWN", "nobody"),
        ("site", "E_QUERY", "discover"),
        ("gone", "E_PATH", "nowhere"),
    ):
        told = json.loads(shell("plan", source, "--json", code=1))
        assert told["error"]["code"] == code and words in json.dumps(told["error"]), source
