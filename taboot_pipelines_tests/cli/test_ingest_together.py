"""``taboot ingest`` with many sources: the namespace's stages run once, each source is told of as before."""

from __future__ import annotations

import re
import threading

import pytest

from taboot_pipelines import ingesting
from taboot_pipelines.cli.progress import Display
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import waiting
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.progress import running
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.shards.counting import shards_new
from taboot_pipelines_tests.world import World, differences, logical

GUIDE = "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n"


@pytest.fixture
def shell(world: World) -> Shell:
    for i in range(12):
        namespace = {"namespace": "other"} if i in (4, 9) else {}
        (world.source(f"s{i:02d}", **namespace) / "guide.md").write_text(f"{GUIDE}\nNumber {i}.\n")
    return Shell(world)


def test_all_sources_are_published_together(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "FIRST_SECONDS", 3600.0)
    told = shell.json("ingest")
    assert told["ok"] and len(told["sources"]) == 12
    # One for each of the two namespaces.
    assert shards_new(told) == 2
    for source in told["sources"]:
        assert source["state"] == "succeeded" and len(source["stages"]) == len(CHAIN.names)
        assert {stage["source_id"] for stage in source["stages"]} == {source["source"]}
    assert shell.world.kb().documents().num_rows == 10
    assert shell.world.kb("other").documents().num_rows == 2

    again = shell.json("ingest")
    assert again["ok"] and shards_new(again) == 0
    assert {
        stage["skipped"] for s in again["sources"] for stage in s["stages"] if stage["stage"] == "kb_shards"
    } == {"unchanged"}


def test_an_ingest_that_is_interrupted_leaves_what_was_finished_and_goes_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = shell.world
    monkeypatch.setattr(ingesting, "PUBLISH_SOURCES", 3)
    monkeypatch.setattr(ingesting, "FIRST_SECONDS", 3600.0)

    def interrupted_at(source: str) -> None:
        def begin(_display: Display, what: str) -> None:
            if what == source:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Display, "begin", begin)
            shell("ingest", "--json", code=130)
        assert "run the same command again to go on" in shell.err

    interrupted_at("s02")
    with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
        world.kb()
    interrupted_at("s06")
    assert set(world.kb().documents().column("source").to_pylist()) == {"s00", "s01", "s02", "s03", "s05"}
    interrupted_at("s11")
    published = {f"s0{n}" for n in range(9)} - {"s04"}
    assert set(world.kb().documents().column("source").to_pylist()) == published
    assert shell.json("ingest")["ok"]
    assert shell.world.kb().documents().num_rows == 10 and world.kb("other").documents().num_rows == 2
    # It is what one run over everything makes.
    scratch = world.open(world.replay())
    try:
        for namespace in ("default", "other"):
            found, wanted = (logical(w, namespace) for w in (world.workspace, scratch))
            assert differences(found, wanted) == {}
    finally:
        scratch.close()


def test_a_fetch_that_is_interrupted_is_no_job_that_runs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = shell.world
    for n in range(70):
        (world.directory / "s00" / f"{n}.md").write_text(f"{GUIDE}\nPage {n}.\n")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Display, "progress", interrupt)
        shell("ingest", "s00", "--json", code=130)
    assert [job["state"] for job in world.workspace.catalog.jobs.find("default", "s00")] == ["canceled"]
    (state,) = (s for s in shell.json("status")["sources"] if s["id"] == "s00")
    assert state["last_job"]["state"] == "canceled" and running(world.workspace, "default") == []
    # What was fetched by then is kept.
    assert world.workspace.catalog.locators.count("default", "s00") == 63
    assert shell.json("ingest", "s00")["ok"] and world.kb().documents().num_rows == 71


def test_progress_off_a_terminal_is_lines_and_what_is_not_configured_is_said_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taboot_pipelines.cli.progress._SECONDS_BETWEEN_LINES", 0.0)
    for n in range(70):
        (shell.world.directory / "s00" / f"{n}.md").write_text(f"{GUIDE}\nPage {n}.\n")
    shown = shell("ingest")
    assert shown.count("TABOOT_NEO4J__URL") == shown.count("TABOOT_QDRANT__URL") == 1
    assert "skipped:" not in shown
    assert re.search(r"^not configured: .*\bneo4j_subgraph \(TABOOT_NEO4J__URL\)", shown, re.MULTILINE)
    lines = [line for line in shell.err.splitlines() if line.startswith("s00: ")]
    assert any(re.fullmatch(r"s00: raw_blobs: 64(, .*)?", line) for line in lines), shell.err
    assert any(re.search(r": \d+ of \d+, [\d,.]+/s", line) for line in lines), shell.err
    monkeypatch.undo()
    shown = shell("ingest")
    assert shell.err == "", "what takes no time says nothing"
    # What did not change is a line a source, and one for all that the namespace's stages would have done.
    for row in (r"s01 +\d+ stages +unchanged \(1 not modified\)", r"all of other +2 stages"):
        assert re.search(row, shown), shown
    assert len(shown.splitlines()) <= 20


def test_what_it_waits_for_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.world.entries = shell.world.entries[:1]
    shell.world.declare()
    # Off a terminal after ten seconds, as all progress; here at once.
    monkeypatch.setattr("taboot_pipelines.cli.progress._SECONDS_BETWEEN_LINES", 0.0)
    leases = FileLeases(shell.world.home, 0.0)
    held, going_on = threading.Event(), threading.Event()

    def hold() -> None:
        with leases.source("default", "s00"):
            held.set()
            going_on.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    told = waiting.tell

    def tell(what: str, seconds: float = 0.0) -> None:
        told(what, seconds)
        going_on.set()

    monkeypatch.setattr(waiting, "tell", tell)
    shell("ingest", "s00")
    holder.join()
    assert "s00: waits for the lease of source s00" in shell.err
    assert shell.world.kb().documents().num_rows == 1


def test_what_fails_is_told_of_the_sources_that_it_concerns(shell: Shell) -> None:
    world = shell.world
    world.source("s03").joinpath("guide.md").unlink()
    world.source("s03").rmdir()
    world.remove_source("s05")
    done = {s["source"]: s for s in shell.json("ingest", code=1)["sources"]}
    assert {s["state"] for name, s in done.items() if name != "s03"} == {"succeeded"}
    assert done["s03"]["state"] == "failed" and done["s03"]["error"]["code"] == "E_PATH"
    assert world.kb().documents().num_rows == 8

    # Several sources retire in one ingest, while another still fails: once that is confirmed.
    for name in ("s00", "s07"):
        world.remove_source(name)
    done = {s["source"]: s for s in shell.json("ingest", code=1)["sources"]}
    assert {name for name, s in done.items() if s["state"] == "held"} == {"s00", "s07"}
    assert world.kb().documents().num_rows == 8
    confirmed = shell.json("ingest", "s00", "s03", "s07", "--confirm-deletes", code=1)
    done = {s["source"]: s for s in confirmed["sources"]}
    assert {name for name, s in done.items() if s["state"] == "retired"} == {"s00", "s07"}
    assert world.kb().documents().num_rows == 6

    # A namespace whose shards cannot be written fails for all its sources, and for no others.
    shards = world.home / "kb"
    (guide,) = (world.directory / "s01").iterdir()
    guide.write_text(f"{GUIDE}\nEdited.\n")
    (manifest,) = shards.glob("default*manifest.json")
    manifest.unlink()
    manifest.mkdir()
    done = {s["source"]: s for s in shell.json("ingest", code=1)["sources"]}
    assert {name for name, s in done.items() if s["state"] == "succeeded"} == {"s04", "s09"}
    assert done["s01"]["error"]["code"] == "E_STORAGE"


def test_purge_says_what_would_go_and_removes_it_when_told(world: World) -> None:
    folder = world.source("guides")
    for name in ("a", "b", "c"):
        (folder / f"{name}.md").write_text(f"{GUIDE}\nThis is {name}.\n")
    shell = Shell(world)
    world.ingest()
    (folder / "a.md").unlink()
    world.ingest()
    shell("purge", code=2)
    told = shell.json("purge", "--vanished")
    assert (
        told["blobs"] == 1
        and told["done"] is False
        and "purge --vanished --yes" in shell("purge", "--vanished")
    )
    assert "Removed 1 blobs" in shell("purge", "--vanished", "--yes")
    assert shell.json("purge", "--vanished") == {
        "namespace": "default",
        "blobs": 0,
        "bytes": 0,
        "done": False,
    }
    assert shell.json("purge", "--vanished", "--namespace", "Not A Name", code=1)["error"]["code"]
