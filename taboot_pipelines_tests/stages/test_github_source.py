"""A source of the type ``github`` through the chain: its projects, what a kill leaves, what it hides."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

from taboot_pipelines_tests.fakes.github import TOKEN, FakeGithub, Repository
from taboot_pipelines_tests.world import World, contents, differences, logical

COMPOSE = "services:\n  {0}:\n    image: {0}:${{TAG:-1}}\n    ports: ['80:80']\n"
CONF = "server { server_name shop.example.org; location / { proxy_pass http://web:80; } }\n"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGithub]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with FakeGithub() as made:
        yield made


def source(world: World, hub: FakeGithub, **fields: Any) -> None:
    world.source(
        "hub",
        "github",
        **{
            "path": None,
            "base_url": hub.url,
            "token": "${GITHUB_TOKEN}",
            "organisations": ["acme"],
            **fields,
        },
    )


def two(hub: FakeGithub) -> tuple[Repository, Repository]:
    one = hub.repository(
        "acme/one",
        {
            "docker/compose.yaml": COMPOSE.format("web"),
            "docker/.env": "TAG=7\nDB_PASSWORD=swordfish-env\n",
            "nginx/shop.conf": "include snippets/*.conf;\n" + CONF,
            "nginx/snippets/more.conf": "",
            "redis.conf": "maxmemory 1gb\nbind 127.0.0.1\n",
            "README.md": "# One\n\nSee [the guide](docs/guide.md).\n",
            "docs/guide.md": "# Guide\n\nHow to run one.\n",
        },
    )
    other = hub.repository("acme/two", {"docker/compose.yaml": COMPOSE.format("api")})
    issue = one.issue("The proxy fails", "It says 502 since http://proxy.example.org:8080 moved.")
    one.comment(issue, "password: swordfish-comment")
    return one, other


def test_each_repository_is_a_root_of_compose_and_nginx(world: World, hub: FakeGithub) -> None:
    two(hub)
    source(world, hub)
    assert not [p for report in world.ingest() for p in report.problems]
    kb = world.kb()
    edges = kb.edges().to_pylist()
    images = {e["end_name"].rpartition("/")[2] for e in edges if e["end_label"] == "Image"}
    assert images == {"web:7", "api:1"}, "each reads its own .env, and no other's"
    services = {n["scope"] for n in kb.nodes().to_pylist() if n["label"] == "Service"}
    assert {"acme/one/docker", "acme/two/docker"} <= services
    proxies = {n["name"] for n in kb.nodes().to_pylist() if n["label"] == "ReverseProxy"}
    assert proxies == {"acme.one"}
    routes = [e for e in edges if e["type"] == "ROUTES_TO"]
    assert [e["end_name"] for e in routes] == ["web"]
    document = next(d for d in kb.documents().to_pylist() if d["doc_id"] == routes[0]["doc_id"])
    assert document["url"] == "https://github.com/acme/one/blob/main/nginx/shop.conf"


def test_an_edit_of_one_repository_leaves_the_other_alone(world: World, hub: FakeGithub) -> None:
    one, _ = two(hub)
    source(world, hub, host="box", proxy="edge")
    world.ingest()
    one.files["docker/.env"] = "TAG=8\n"
    reports = {r.stage: r for r in world.ingest("hub")}
    assert reports["raw_blobs"].counts["fetched"] == 1
    assert reports["tier_a_triples"].counts["interpreted"] == 1
    reports = {r.stage: r for r in world.ingest("hub")}
    assert reports["raw_blobs"].counts["fetched"] == 0
    assert reports["raw_blobs"].counts.get("new_blobs", 0) == 0
    kb = world.kb()
    assert {n["name"] for n in kb.nodes().to_pylist() if n["label"] == "ReverseProxy"} == {"edge"}


def test_incremental_equals_a_replay(world: World, hub: FakeGithub) -> None:
    one, other = two(hub)
    source(world, hub)
    world.ingest()
    del one.files["nginx/shop.conf"]
    one.comment(1, "Solved.")
    other.files["docker/compose.yaml"] = COMPOSE.format("changed")
    one.issue("Another", "Body")
    world.ingest()
    scratch = world.open(world.replay())
    try:
        assert not differences(logical(world.workspace), logical(scratch))
    finally:
        scratch.close()


def test_no_secret_is_found_but_in_blobs(
    world: World, hub: FakeGithub, caplog: pytest.LogCaptureFixture
) -> None:
    two(hub)
    source(world, hub)
    with caplog.at_level(0):
        world.ingest()
    assert TOKEN not in caplog.text
    for path, content in contents(world.home):
        assert TOKEN.casefold() not in content, path
        if "blobs" not in path.split(os.sep):
            assert "swordfish" not in content, path


def test_a_killed_run_loses_nothing(world: World, hub: FakeGithub) -> None:
    one, _ = two(hub)
    for i in range(40):
        one.issue(f"Issue {i}", f"Body {i}")
        one.files[f"notes/{i}.md"] = f"# Note {i}\n"
    source(world, hub)
    world.workspace.sync_sources()
    program = textwrap.dedent(
        """
        import json, sys
        from pathlib import Path
        from taboot_pipelines_tests.world import World
        root, tei, entries = sys.argv[1:]
        world = World(Path(root), tei)
        world.entries = json.loads(entries)
        world.ingest()
        """
    )
    for after in (4, 40):
        begun = len(hub.log)
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(world.root), world.tei, json.dumps(world.entries)]
        )
        try:
            while process.poll() is None and len(hub.log) - begun < after:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        finally:
            process.wait()
        one.comment(1, f"Said after {after}")
    world.ingest()
    paths = set(world.workspace.catalog.locators.of_source("default", "hub"))
    assert len([p for p in paths if "#issues" in p]) == 41
    assert len([p for p in paths if "/notes/" in p]) == 40
    scratch = world.open(world.replay())
    try:
        assert not differences(logical(world.workspace), logical(scratch))
    finally:
        scratch.close()
    hub.log.clear()
    world.ingest("hub")
    assert {a.status for a in hub.log} == {304}
