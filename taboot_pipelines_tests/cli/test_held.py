"""A slip deletes nothing: what leaves the sources file is held and told, and a dry run says it beforehand."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.needs import HOMELAB
from taboot_pipelines_tests.world import World

GUIDE = "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n"


@pytest.fixture
def shell(tmp_path: Path, tei: FakeTei) -> Shell:
    """The example homelab, taken in."""
    world = World(tmp_path, tei.url)
    shutil.copytree(HOMELAB, world.directory, dirs_exist_ok=True)
    world.entries = yaml.safe_load((HOMELAB / "sources.yaml").read_text())["sources"]
    world.ingest()
    return Shell(world)


def documents(shell: Shell) -> int:
    return shell.world.kb().documents().num_rows


def state(folder: Path) -> dict[str, str]:
    """Every file below with a hash of it; SQLite's index of its journal changes by being read."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "catalog.db-shm"
    }


def test_another_sources_file_takes_nothing_away(shell: Shell, tmp_path: Path) -> None:
    whole, former = documents(shell), shell.environment["TABOOT_SOURCES"]
    other = tmp_path / "other"
    (other / "notes").mkdir(parents=True)
    (other / "notes" / "guide.md").write_text(GUIDE)
    shell.environment["TABOOT_SOURCES"] = slip = str(other / "sources.yaml")
    Path(slip).write_text("sources: [{id: notes, type: files, path: notes}]\n")

    foreseen = {s["source"]: s for s in shell.json("ingest", "--dry-run")["sources"]}
    assert foreseen["notes"]["entry"] == "new" and foreseen["notes"]["added"] == ["guide.md"]
    assert foreseen["runbooks"]["entry"] == "gone" and foreseen["runbooks"]["held"]
    assert "redis.md" in foreseen["runbooks"]["deleted"]

    told = {s["source"]: s for s in shell.json("ingest", code=1)["sources"]}
    assert {s for s, t in told.items() if t["state"] == "held"} == {e["id"] for e in shell.world.entries}
    assert former in shell.err and slip in shell.err, "the home says whose it is"
    assert documents(shell) == whole + 1
    assert "all that it has" in str(told["runbooks"]["held"]).lower() and former in str(told["runbooks"])

    waiting = {h["source"]: h for h in shell.json("held")["held"]}
    assert sum(h["deletions"] for h in waiting.values()) == whole + 1, "and one in a language not kept"
    assert former in waiting["mail"]["reason"] and "redis.md" in waiting["runbooks"]["paths"]
    shown = shell("held")
    assert "- redis.md" in shown and "taboot ingest runbooks --confirm-deletes" in shown

    # Back with the right file nothing has happened, and only what the slip brought waits.
    shell.environment["TABOOT_SOURCES"] = former
    again = {s["source"]: s["state"] for s in shell.json("ingest", code=1)["sources"]}
    assert {s for s, t in again.items() if t == "held"} == {"notes"} and "belonged" not in shell.err
    assert shell.json("ingest", "notes", "--confirm-deletes")["sources"][0]["state"] == "retired"
    assert shell.json("held") == {"held": []} and documents(shell) == whole
    assert "Nothing waits" in shell("held")


def test_a_file_cut_between_two_entries_takes_nothing_away(shell: Shell) -> None:
    whole, file = documents(shell), Path(shell.environment["TABOOT_SOURCES"])
    text = file.read_text()
    file.write_text(text[: text.index("  # nginx confs")])
    told = {s["source"]: s["state"] for s in shell.json("ingest", code=1)["sources"]}
    assert told.pop("stacks") == "succeeded" and set(told.values()) == {"held"}
    assert documents(shell) == whole
    # One is meant, the others are not.
    assert shell.json("ingest", "chats", "--confirm-deletes")["ok"]
    assert documents(shell) == whole - 1
    file.write_text(text[: text.index("  # A session with")])
    assert shell.json("ingest")["ok"] and documents(shell) == whole - 1


def test_a_dry_run_tells_paths_and_changes_nothing(shell: Shell) -> None:
    runbooks = shell.world.directory / "runbooks"
    (runbooks / "redis.md").unlink()
    (runbooks / "new.md").write_text(GUIDE)
    (runbooks / "backups.md").write_text((runbooks / "backups.md").read_text() + "\nOne line more.\n")
    for path in (shell.world.directory / "proxy").iterdir():
        path.unlink()
    (shell.world.directory / "mail").rename(shell.world.directory / "post")
    shell.world.entries += [{"id": "site2", "type": "web", "urls": ["http://127.0.0.1:9/"]}]
    shell.world.declare()
    before = state(shell.world.home)
    told = {s["source"]: s for s in shell.json("ingest", "--dry-run", code=1)["sources"]}
    assert state(shell.world.home) == before
    runs = told["runbooks"]
    assert (runs["added"], runs["changed"], runs["deleted"]) == (["new.md"], ["backups.md"], ["redis.md"])
    assert not runs["held"] and runs["unchanged"] == 11
    assert told["proxy"]["held"] and len(told["proxy"]["deleted"]) == 13
    assert told["mail"]["error"]["code"] == "E_PATH" and told["mail"]["deleted"] == []
    assert told["site2"]["plan"] == [] and "discover" in told["site2"]["note"]
    shown = shell("ingest", "--dry-run", "runbooks", "proxy")
    assert "+ new.md" in shown and "~ backups.md" in shown and "- redis.md" in shown
    assert "held until `taboot ingest proxy --confirm-deletes`" in shown
    assert "E_SOURCE_UNKNOWN" in shell.json("ingest", "--dry-run", "nobody", code=1)["error"]["code"]
    shell("ingest", "--dry-run", "proxy", "--confirm-deletes", code=2)

    # A run then does what was said, and `held` names what it held.
    shell("ingest", "runbooks", "proxy", code=1)
    (waiting,) = shell.json("held")["held"]
    assert waiting["source"] == "proxy" and waiting["paths"] == told["proxy"]["deleted"]
    shell(
        "delete",
        shell.world.workspace.catalog.locators.of_source("default", "proxy")["dns.subdomain.conf"].doc_id,
        "--erase",
    )
    (waiting,) = shell.json("held")["held"]
    assert "dns.subdomain.conf" not in waiting["paths"], "what is erased is named nowhere"


def test_a_dry_run_before_the_first_ingest_makes_no_home(world: World, tmp_path: Path) -> None:
    (world.source("guides") / "guide.md").write_text(GUIDE)
    shell = Shell(world)
    shell.environment["TABOOT_HOME"] = str(tmp_path / "fresh")
    (told,) = shell.json("ingest", "--dry-run")["sources"]
    assert told["added"] == ["guide.md"] and told["entry"] == "new"
    assert shell.json("held") == {"held": []}
    assert not (tmp_path / "fresh").exists()
