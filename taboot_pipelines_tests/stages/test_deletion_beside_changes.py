"""Deletions while something else is going on: a server is down, a source is half done, new, or put back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import storage_audit
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deletion import delete, finish_pending, restore
from taboot_pipelines.stages.housekeeping import vacuum
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.world import Kept, World, differences, graph, holding, logical

WORD = "zyxwvutquux"
HALF = ("raw_blobs", "documents", "chunks", "links")
TO_SNAPSHOT = CHAIN.names[: CHAIN.names.index("entity_snapshots") + 1]


def doc_id(world: World, source: str, path: str) -> str:
    return world.workspace.catalog.locators.of_source("default", source, state=None)[path].doc_id


def served(world: World) -> set[str]:
    """Return source and name of each document that a reader sees."""
    urls = [Path(url) for url in world.kb().documents().column("url").to_pylist()]
    return {f"{url.parent.name}:{url.name}" for url in urls}


def write(path: Path, count: int, text: str = "Document {} of many listens on 10.0.0.1:{}.\n") -> None:
    for i in range(count):
        (path / f"{i}.md").write_text(text.format(i, 1000 + i))


def assert_equal_to_scratch(world: World) -> None:
    scratch = world.replay()
    other = world.open(scratch)
    try:
        assert differences(logical(world.workspace), logical(other)) == {}
        assert differences(graph(world.kb()), graph(world.kb(home=scratch))) == {}
    finally:
        other.close()


# --- the embedding server is down ---------------------------------------------------------------------------


@pytest.fixture
def own_tei() -> Any:
    # Stopped and started again: its port stays ours.
    with held_port() as port, FakeTei(port=port) as server:
        yield server


@pytest.fixture
def down(tmp_path: Path, own_tei: FakeTei) -> Any:
    """Return a world with six documents whose embedding server has stopped, opened by a new process."""
    world = World(tmp_path, own_tei.url, tei={"timeout_seconds": 1, "max_retries": 0})
    notes = world.source("notes")
    write(notes, 5)
    (notes / "secret-plan.md").write_text(f"# Plan {WORD}\n\nIt listens on {WORD}.example.com:4433.\n")
    world.ingest()
    own_tei.stop()
    world.workspace.close()
    world.workspace = world.open(world.home)
    yield world
    world.workspace.close()


@pytest.mark.parametrize("erase", [False, True])
def test_a_deletion_needs_no_embedding_server(down: World, erase: bool) -> None:
    gone = doc_id(down, "notes", "secret-plan.md")
    assert delete(down.workspace, "default", [gone], erase=erase).final
    assert served(down) == {f"notes:{i}.md" for i in range(5)}
    if erase:
        assert holding(down.home, WORD) == []


def test_an_ingest_that_only_removes_needs_no_embedding_server(down: World) -> None:
    (down.directory / "notes" / "3.md").unlink()
    down.ingest()
    assert "notes:3.md" not in served(down) and len(served(down)) == 5


def test_an_unchanged_ingest_needs_no_embedding_server(down: World) -> None:
    assert {r.skipped for r in down.ingest() if r.stage in {"embeddings", "kb_shards"}} == {"unchanged"}


@pytest.mark.parametrize("erase", [False, True])
def test_a_deletion_does_not_wait_for_the_vectors_of_another_change(
    down: World, own_tei: FakeTei, erase: bool
) -> None:
    notes = down.directory / "notes"
    (notes / "new.md").write_text("A new text that has no vector yet.\n")
    (notes / "1.md").write_text("An edited text that has no vector yet.\n")
    with pytest.raises(TabootError, match="E_EMBEDDER"):
        down.ingest()
    gone = doc_id(down, "notes", "secret-plan.md")
    receipt = delete(down.workspace, "default", [gone], erase=erase)
    # It is served no more, and the documents beside it are what they were.
    assert served(down) == {f"notes:{i}.md" for i in range(5)}
    assert WORD not in str(graph(down.kb()))
    # Its rows lie beside those that other documents are served from: this waits, and the receipt says so.
    assert receipt.stores["tables"] == "pending" and receipt.stores["shards"] == "done"
    assert [r.final for r in finish_pending(down.workspace, "default")] == [False]
    with FakeTei(port=int(own_tei.url.rsplit(":", 1)[1])):
        down.ingest()
        assert served(down) == {*(f"notes:{i}.md" for i in range(5)), "notes:new.md"}
        assert_equal_to_scratch(down)
        assert down.workspace.catalog.receipts.pending("default") == []
        if erase:
            assert holding(down.home, WORD) == []


def test_what_vanished_does_not_wait_for_the_vectors_of_another_change(down: World) -> None:
    notes = down.directory / "notes"
    (notes / "new.md").write_text("A new text that has no vector yet.\n")
    (notes / "2.md").unlink()
    (notes / "3.md").rename(notes / "moved.md")
    for _ in range(2):
        with pytest.raises(TabootError, match="E_EMBEDDER"):
            down.ingest()
        # Only what is gone has gone: the moved document is served from its old place until the new one is.
    other = down.source("other")
    (other / "o.md").write_text("Document 0 of many listens on 10.0.0.1:1000.\n")
    down.workspace.sync_sources()
    for stage in TO_SNAPSHOT:
        run_stage(down.workspace, stage, "other")
    run_stage(down.workspace, "kb_shards", "other")
    assert served(down) == {
        *(f"notes:{i}.md" for i in (0, 1, 3, 4)),
        "notes:secret-plan.md",
        "other:o.md",
    }


def test_a_withdrawn_document_can_be_restored_while_its_source_is_half_done(
    down: World, own_tei: FakeTei
) -> None:
    (down.directory / "notes" / "new.md").write_text("A new text that has no vector yet.\n")
    with pytest.raises(TabootError, match="E_EMBEDDER"):
        down.ingest()
    gone = doc_id(down, "notes", "4.md")
    delete(down.workspace, "default", [gone])
    assert "notes:4.md" not in served(down)
    assert restore(down.workspace, "default", [gone]).restored == (gone,)
    assert served(down) == {*(f"notes:{i}.md" for i in range(5)), "notes:secret-plan.md"}
    with FakeTei(port=int(own_tei.url.rsplit(":", 1)[1])):
        down.ingest()
        assert "notes:new.md" in served(down)
        assert_equal_to_scratch(down)


# --- another source is half done, or is being added ---------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    notes, other = world.source("notes"), world.source("other")
    write(notes, 5)
    write(other, 5, "The other document {} names port {}.\n")
    (notes / "secret-plan.md").write_text(f"# Plan {WORD}\n\nIt listens on {WORD}.example.com:4433.\n")
    world.ingest()
    return Kept(world)


@pytest.fixture
def two(world: World, kept: Kept) -> World:
    return kept.put_back(world)


@pytest.mark.parametrize("done", [1, 3, 4])
def test_an_erasure_leaves_a_half_done_source_its_rows(two: World, done: int) -> None:
    for i in range(5):
        (two.directory / "other" / f"{i}.md").write_text(f"Edited document {i} names port 2{i}.\n")
    for stage in HALF[:done]:
        two.run(stage, "other")
    gone = doc_id(two, "notes", "secret-plan.md")
    assert delete(two.workspace, "default", [gone], erase=True).final
    assert holding(two.home, WORD) == []
    # The snapshot still names the rows before the edit; a run of the namespace reads them.
    (two.directory / "notes" / "0.md").write_text("An edit of the first source names port 77.\n")
    two.ingest("notes")
    assert len(served(two)) == 10
    two.ingest()
    assert_equal_to_scratch(two)
    assert storage_audit.run(two.workspace, "default", deep=True).found == []


@pytest.mark.parametrize("how", ["erase", "repair"])
def test_a_source_that_is_added_meanwhile_loses_no_bytes(
    two: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The new source is fetched by another process while bytes that no document names are swept."""
    new = two.source("new")
    write(new, 40, "A new document {} on port {}.\n")
    failures: list[BaseException] = []

    def fetch() -> None:
        beside = Workspace(two.settings(two.home))
        try:
            beside.sync_sources()
            run_stage(beside, "raw_blobs", "new")
        except BaseException as error:
            failures.append(error)
        finally:
            beside.close()

    fetching = threading.Thread(target=fetch)
    sweep = two.workspace.blobs.sweep

    def slow_sweep(namespace: str, keep: Any) -> Any:
        # What is kept is decided; now the other process fetches, if nothing keeps it from it.
        fetching.start()
        fetching.join(3)
        return sweep(namespace, keep)

    monkeypatch.setattr(two.workspace.blobs, "sweep", slow_sweep)
    if how == "erase":
        delete(two.workspace, "default", [doc_id(two, "notes", "secret-plan.md")], erase=True)
    else:
        two.workspace.blobs.put("default", b"bytes that no fetch recorded")
        storage_audit.run(two.workspace, "default", repair=True)
    fetching.join()
    assert failures == []
    present = two.workspace.catalog.locators.of_source("default", "new").values()
    assert len(present) == 40
    assert [x.path for x in present if not two.workspace.blobs.exists("default", x.sha256)] == []
    two.ingest()
    assert len(served(two)) == (50 if how == "erase" else 51)


def test_an_erasure_keeps_the_vectors_of_a_half_done_source(two: World) -> None:
    for i in range(5):
        (two.directory / "other" / f"{i}.md").write_text(f"Edited document {i} names port 2{i}.\n")
    for stage in HALF:
        two.run(stage, "other")
    delete(two.workspace, "default", [doc_id(two, "notes", "secret-plan.md")], erase=True)
    # Everything is built anew from the rows that the snapshot names, their vectors included.
    two.workspace.catalog.pointers.drop("default", "_", ["kb_shards"])
    for shard in (two.home / "shards").rglob("*.duckdb"):
        shard.unlink()
    run_stage(two.workspace, "kb_shards", "notes")
    assert len(served(two)) == 10


# --- a source is put back -----------------------------------------------------------------------------------


# The same documents, some more, and so many that their tables get one commit, two and three.
@pytest.mark.parametrize("count", [5, 7, 12, 19])
def test_a_source_that_is_put_back_is_read_anew(tmp_path: Path, tei: FakeTei, count: int) -> None:
    world = World(tmp_path, tei.url, limits={"batch_documents": 8})
    other = world.source("other")
    write(other, 3, "The other document {} names port {}.\n")
    z = world.source("z")
    write(z, 5)
    world.ingest()
    world.remove_source("z")
    world.ingest("z", confirm_deletes=True)
    assert len(served(world)) == 3
    world.source("z")
    write(z, count)
    world.ingest()
    assert len(served(world)) == 3 + count
    version = world.workspace.tables.version("default", "z", "documents")
    assert version is not None and version.partition(".")[0] == str(count // 8)
    assert_equal_to_scratch(world)
    world.workspace.close()


def test_a_table_that_is_made_again_is_another_table(two: World) -> None:
    tables = two.workspace.tables
    version = tables.version("default", "notes", "documents")
    rows = tables.read("default", "notes", "documents", version)
    tables.drop("default", "notes", "documents")
    again = tables.replace("default", "notes", "documents", rows, buckets=None, txn="again")
    assert again != version
    with pytest.raises(TabootError, match="E_TABLE"):
        tables.read("default", "notes", "documents", version)


# --- audit and vacuum ---------------------------------------------------------------------------------------


def test_an_audit_after_an_erasure_finds_nothing(two: World) -> None:
    delete(two.workspace, "default", [doc_id(two, "notes", "secret-plan.md")], erase=True)
    assert storage_audit.run(two.workspace, "default", deep=True).found == []
    again = two.ingest()
    asking = {"raw_blobs", "tier_c_triples", *CHAIN.targets}
    assert {r.skipped for r in again if r.stage not in asking} == {"unchanged"}


def test_a_vacuum_between_any_two_stages_changes_nothing(two: World) -> None:
    for i in range(5):
        (two.directory / "other" / f"{i}.md").write_text(f"Edited document {i} names port 2{i}.\n")
    (two.directory / "notes" / "1.md").unlink()
    for stage in (*TO_SNAPSHOT, "kb_shards"):
        for source in ("notes", "other"):
            run_stage(two.workspace, stage, source)
            for owner in ("notes", "other", "_"):
                for name in two.workspace.tables.names("default", owner):
                    vacuum(two.workspace, "default", owner, name)
            assert len(served(two)) in {10, 11}
    assert_equal_to_scratch(two)
