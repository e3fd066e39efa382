"""A slip deletes nothing: what leaves the sources file is held and told, and a dry run says it beforehand."""

from __future__ import annotations

import hashlib
from pathlib import Path

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.world import World

GUIDE = "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n"


def documents(lab: Shell) -> int:
    return lab.world.kb().documents().num_rows


def state(folder: Path) -> dict[str, str]:
    """Every file below with a hash of it; SQLite's index of its journal changes by being read."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "catalog.db-shm"
    }


def test_another_sources_file_takes_nothing_away(lab: Shell, tmp_path: Path) -> None:
    whole, former = documents(lab), lab.environment["TABOOT_SOURCES"]
    other = tmp_path / "other"
    (other / "notes").mkdir(parents=True)
    (other / "notes" / "guide.md").write_text(GUIDE)
    lab.environment["TABOOT_SOURCES"] = slip = str(other / "sources.yaml")
    Path(slip).write_text("sources: [{id: notes, type: files, path: notes}]\n")

    foreseen = {s["source"]: s for s in lab.json("ingest", "--dry-run")["sources"]}
    assert foreseen["notes"]["entry"] == "new" and foreseen["notes"]["added"] == ["guide.md"]
    assert foreseen["runbooks"]["entry"] == "gone" and foreseen["runbooks"]["held"]
    assert "redis.md" in foreseen["runbooks"]["deleted"]

    told = {s["source"]: s for s in lab.json("ingest", code=1)["sources"]}
    assert {s for s, t in told.items() if t["state"] == "held"} == {e["id"] for e in lab.world.entries}
    assert former in lab.err and slip in lab.err, "the home says whose it is"
    assert documents(lab) == whole + 1
    assert "all that it has" in str(told["runbooks"]["held"]).lower() and former in str(told["runbooks"])

    waiting = {h["source"]: h for h in lab.json("held")["held"]}
    assert sum(h["deletions"] for h in waiting.values()) == whole + 1, "and one in a language not kept"
    assert former in waiting["mail"]["reason"] and "redis.md" in waiting["runbooks"]["paths"]
    shown = lab("held")
    assert "- redis.md" in shown and "taboot ingest runbooks --confirm-deletes" in shown

    # Back with the right file nothing has happened, and only what the slip brought waits.
    lab.environment["TABOOT_SOURCES"] = former
    again = {s["source"]: s["state"] for s in lab.json("ingest", code=1)["sources"]}
    assert {s for s, t in again.items() if t == "held"} == {"notes"} and "belonged" not in lab.err
    assert lab.json("ingest", "notes", "--confirm-deletes")["sources"][0]["state"] == "retired"
    assert lab.json("held") == {"held": []} and documents(lab) == whole
    assert "Nothing waits" in lab("held")


def test_a_file_cut_between_two_entries_takes_nothing_away(lab: Shell) -> None:
    whole, file = documents(lab), Path(lab.environment["TABOOT_SOURCES"])
    text = file.read_text()
    file.write_text(text[: text.index("  # nginx confs")])
    told = {s["source"]: s["state"] for s in lab.json("ingest", code=1)["sources"]}
    assert told.pop("stacks") == "succeeded" and set(told.values()) == {"held"}
    assert documents(lab) == whole
    # One is meant, the others are not.
    assert lab.json("ingest", "chats", "--confirm-deletes")["ok"]
    assert documents(lab) == whole - 1
    file.write_text(text[: text.index("  # A session with")])
    assert lab.json("ingest")["ok"] and documents(lab) == whole - 1


def test_a_dry_run_tells_paths_and_changes_nothing(lab: Shell) -> None:
    runbooks = lab.world.directory / "runbooks"
    (runbooks / "redis.md").unlink()
    (runbooks / "new.md").write_text(GUIDE)
    (runbooks / "backups.md").write_text((runbooks / "backups.md").read_text() + "\nOne line more.\n")
    for path in (lab.world.directory / "proxy").iterdir():
        path.unlink()
    (lab.world.directory / "mail").rename(lab.world.directory / "post")
    lab.world.entries += [{"id": "site2", "type": "web", "urls": ["http://127.0.0.1:9/"]}]
    lab.world.declare()
    before = state(lab.world.home)
    told = {s["source"]: s for s in lab.json("ingest", "--dry-run", code=1)["sources"]}
    assert state(lab.world.home) == before
    runs = told["runbooks"]
    assert (runs["added"], runs["changed"], runs["deleted"]) == (["new.md"], ["backups.md"], ["redis.md"])
    assert not runs["held"] and runs["unchanged"] == 11
    assert told["proxy"]["held"] and len(told["proxy"]["deleted"]) == 13
    assert told["mail"]["error"]["code"] == "E_PATH" and told["mail"]["deleted"] == []
    assert told["site2"]["plan"] == [] and "discover" in told["site2"]["note"]
    shown = lab("ingest", "--dry-run", "runbooks", "proxy")
    assert "+ new.md" in shown and "~ backups.md" in shown and "- redis.md" in shown
    assert "held until `taboot ingest proxy --confirm-deletes`" in shown
    assert "E_SOURCE_UNKNOWN" in lab.json("ingest", "--dry-run", "nobody", code=1)["error"]["code"]
    lab("ingest", "--dry-run", "proxy", "--confirm-deletes", code=2)

    # A run then does what was said, and `held` names what it held.
    lab("ingest", "runbooks", "proxy", code=1)
    (waiting,) = lab.json("held")["held"]
    assert waiting["source"] == "proxy" and waiting["paths"] == told["proxy"]["deleted"]
    lab(
        "delete",
        lab.world.workspace.catalog.locators.of_source("default", "proxy")["dns.subdomain.conf"].doc_id,
        "--erase",
    )
    (waiting,) = lab.json("held")["held"]
    assert "dns.subdomain.conf" not in waiting["paths"], "what is erased is named nowhere"


def test_a_dry_run_before_the_first_ingest_makes_no_home(world: World, tmp_path: Path) -> None:
    (world.source("guides") / "guide.md").write_text(GUIDE)
    lab = Shell(world)
    lab.environment["TABOOT_HOME"] = str(tmp_path / "fresh")
    (told,) = lab.json("ingest", "--dry-run")["sources"]
    assert told["added"] == ["guide.md"] and told["entry"] == "new"
    assert lab.json("held") == {"held": []}
    assert not (tmp_path / "fresh").exists()
