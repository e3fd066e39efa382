"""Bytes of vanished and edited files go on demand, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import deletion, storage_audit
from taboot_pipelines.stages.deletion import purge_vanished
from taboot_pipelines_tests.world import World, graph, holding

GUIDE = "# Guide\n\nThe web server keeps its sessions in cache and listens on port 8080.\n"


@pytest.fixture
def folder(world: World) -> Path:
    folder = world.source("guides")
    for name in ("stays", "edited", "vanished", "deleted"):
        (folder / f"{name}.md").write_text(f"{GUIDE}\nThis is the first {name}words.\n")
    world.ingest()
    (folder / "edited.md").write_text(f"{GUIDE}\nThis is the second version.\n")
    (folder / "vanished.md").unlink()
    world.ingest()
    return folder


def blobs(world: World) -> int:
    return len(list(world.workspace.blobs.list("default")))


def test_only_what_no_document_has_is_purged_and_only_when_told(world: World, folder: Path) -> None:
    (doomed,) = [
        x.doc_id
        for x in world.workspace.catalog.locators.of_source("default", "guides").values()
        if x.path == "deleted.md"
    ]
    deletion.delete(world.workspace, "default", [doomed])
    before = graph(world.kb())
    told = purge_vanished(world.workspace, "default")
    assert (told.blobs, told.done) == (2, False) and blobs(world) == 5 and told.bytes > 100
    done = purge_vanished(world.workspace, "default", carry_out=True)
    assert (done.blobs, done.bytes, done.done) == (2, told.bytes, True) and blobs(world) == 3
    for word in ("edited", "vanished"):
        assert holding(world.home / "blobs", f"first {word}words") == []
    assert purge_vanished(world.workspace, "default", carry_out=True).blobs == 0
    assert graph(world.kb()) == before
    report = storage_audit.run(world.workspace, "default", deep=True)
    assert [d for d in report.found if d.store in ("blobs", "catalog")] == []
    # What was deleted on purpose can still be restored, and what vanished may come back.
    assert deletion.restore(world.workspace, "default", [doomed]).restored == (doomed,)
    (folder / "vanished.md").write_text(f"{GUIDE}\nThis is the first vanishedwords.\n")
    world.ingest()
    assert world.kb().documents().num_rows == 4
    assert storage_audit.run(world.workspace, "default", deep=True).found == []
    assert graph(world.kb()) != before


def test_a_purge_that_is_killed_is_completed(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world.workspace.catalog, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            purge_vanished(world.workspace, "default", carry_out=True)
    assert purge_vanished(world.workspace, "default", carry_out=True).blobs == 2
    assert storage_audit.run(world.workspace, "default").found == []


def test_bytes_stay_that_a_run_which_failed_half_way_still_serves(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.source("guides")
    (folder / "stays.md").write_text(f"{GUIDE}\nThis is another.\n")
    world.run("raw_blobs", "guides")
    edges = world.kb().edges()
    served = set(edges.column("blob_sha256").to_pylist())
    told = purge_vanished(world.workspace, "default", carry_out=True)
    assert told.blobs == 2 and served <= dict(world.workspace.blobs.list("default")).keys()
    for edge_id in edges.column("edge_id").to_pylist():
        assert world.kb().explain(edge_id)


def test_a_purge_waits_for_nobody_half_done(world: World, folder: Path) -> None:
    import threading

    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with world.workspace.leases.source("default", "guides"):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        impatient = world.open(world.home)
        impatient.leases._wait = 0.1
        with pytest.raises(TabootError, match="E_BUSY"):
            purge_vanished(impatient, "default", carry_out=True)
        impatient.close()
    finally:
        done.set()
        thread.join()
    assert blobs(world) == 5
