"""Deleted stays deleted, vanished may return, erased leaves no byte.

Holds rules ``complete-enumeration`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taboot_pipelines.crawl import captures
from taboot_pipelines.crawl.captures import Capture, Captured
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Event, Fetched, Skipped
from taboot_pipelines.stages import source_state
from taboot_pipelines.stages.deletion import delete, finish_pending, restore
from taboot_pipelines.stages.held_deletions import held
from taboot_pipelines.stores.replays import Recorded, Replays
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import Kept, World, graph, holding

WORD = "zyxwvutquux"


def doc_id(world: World, source: str, path: str) -> str:
    return world.workspace.catalog.locators.of_source("default", source, state=None)[path].doc_id


def reports(world: World, **options: bool) -> dict[str, object]:
    return {r.stage: r for r in world.ingest(**options)}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    path = world.source("notes")
    for i in range(4):
        (path / f"{i}.md").write_text(
            f"# Note {i}\n\nThe number {i} is served by http://host{i}.example.com:80{i}0/ today.\n"
        )
    (path / "secret-plan.md").write_text(
        f"# Plan {WORD}\n\nThe {WORD} service listens on {WORD}.example.com:4433 and nothing else does.\n"
    )
    (path / f"{WORD}.yaml").write_text("key: value\n")
    world.ingest()
    return Kept(world)


@pytest.fixture
def notes(world: World, kept: Kept) -> Path:
    return kept.put_back(world).directory / "notes"


def test_a_vanished_file_goes_and_comes_back(world: World, notes: Path) -> None:
    before = graph(world.kb())
    (notes / "1.md").rename(world.root / "aside.md")
    world.ingest()
    assert not [h for h in world.kb().search("number", limit=50).hits if h.url.endswith("/1.md")]
    assert world.kb().documents().num_rows == 5
    (world.root / "aside.md").rename(notes / "1.md")
    world.ingest()
    after = graph(world.kb())
    # It is back with the same identity; only the times of its new presence differ.
    assert len(after["edges"]) == len(before["edges"]) and world.kb().documents().num_rows == 6


def test_deleted_stays_deleted_until_restored(world: World, notes: Path) -> None:
    gone = doc_id(world, "notes", "secret-plan.md")
    receipt = delete(world.workspace, "default", [gone])
    assert receipt.final and set(receipt.stores) == {"tables", "vectors", "shards"}
    assert gone not in world.kb().documents().column("doc_id").to_pylist()
    ledger = reports(world)["raw_blobs"]
    assert ledger.counts["skipped"] == 1 and gone not in world.kb().documents().column("doc_id").to_pylist()
    back = restore(world.workspace, "default", [gone])
    assert back.restored == (gone,) and back.awaiting_fetch == ()
    assert gone in world.kb().documents().column("doc_id").to_pylist()
    decided = [e["kind"] for e in world.workspace.catalog.audit_log.all("default")]
    assert [kind for kind in decided if kind != "lifecycle"] == ["delete", "restore"]


def test_a_knowledge_base_deletes_and_restores_what_it_serves(world: World, notes: Path) -> None:
    kb = world.kb()
    gone = doc_id(world, "notes", "1.md")
    assert kb.delete([gone]).final and gone not in kb.documents().column("doc_id").to_pylist()
    assert kb.restore([gone]).restored == (gone,) and gone in kb.documents().column("doc_id").to_pylist()


def test_an_erased_document_leaves_no_byte(world: World, notes: Path) -> None:
    # An earlier version held the word as well: past bytes are bytes.
    (notes / "0.md").write_text(f"An older version with {WORD}.\n")
    world.ingest()
    (notes / "0.md").write_text("A newer version without.\n")
    world.ingest()
    kb = world.kb()
    asked = kb.answer(f"What is {WORD}?")
    assert holding(world.home, WORD) and kb.replay(asked.answer_id).question == f"What is {WORD}?"
    wanted = [doc_id(world, "notes", p) for p in ("secret-plan.md", f"{WORD}.yaml", "0.md")]
    receipt = delete(world.workspace, "default", wanted, erase=True)
    assert receipt.final
    assert set(receipt.stores) == {"tables", "vectors", "shards", "blobs", "catalog", "answers"}
    assert holding(world.home, WORD) == []
    assert not [e for e in world.kb().nodes().column("key").to_pylist() if WORD in e]
    # The tombstones hold: the files are still on disk and are not taken in again.
    world.ingest()
    assert holding(world.home, WORD) == []
    assert restore(world.workspace, "default", wanted).awaiting_fetch == tuple(sorted(wanted))
    world.ingest()
    assert set(wanted) <= set(world.kb().documents().column("doc_id").to_pylist())


def test_an_answer_that_was_under_way_during_an_erasure_is_not_recorded(world: World, notes: Path) -> None:
    before = world.kb()
    before.answer("What is there?")
    wanted = [doc_id(world, "notes", "secret-plan.md")]
    late = Recorded(
        answer_id="0" * 16, question=WORD, version=before.manifest.version, parameters={}, candidates=()
    )
    assert delete(world.workspace, "default", wanted, erase=True).final
    Replays(world.home, "default").record(late)
    assert holding(world.home / "answers.db", WORD) == []
    Replays(world.home, "default").record(late.model_copy(update={"version": late.version + 1}))
    assert Replays(world.home, "default").find("0" * 16) is not None


def test_recorded_answers_that_cannot_be_dropped_keep_an_erasure_pending(world: World, notes: Path) -> None:
    world.kb().answer(f"What is {WORD}?")
    wanted = [doc_id(world, "notes", p) for p in ("secret-plan.md", f"{WORD}.yaml")]
    with contextlib.closing(sqlite3.connect(world.home / "answers.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        receipt = delete(world.workspace, "default", wanted, erase=True)
        assert receipt.stores["answers"] == "pending" and not receipt.final
        other.rollback()
    (finished,) = finish_pending(world.workspace, "default")
    assert finished.final and holding(world.home, WORD) == []


def test_bytes_that_another_document_holds_stay(world: World, notes: Path) -> None:
    shutil.copy(notes / "secret-plan.md", notes / "copy.md")
    world.ingest()
    delete(world.workspace, "default", [doc_id(world, "notes", "secret-plan.md")], erase=True)
    kb = world.kb()
    hit = kb.search(WORD, mode="keyword").hits[0]
    assert hit.doc_id == doc_id(world, "notes", "copy.md")
    assert WORD in kb.explain(hit).quote


def test_an_erasure_that_was_killed_is_finished_by_the_next_run(
    world: World, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [doc_id(world, "notes", "secret-plan.md")]

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(world.workspace.catalog, "forget", killed)
    with pytest.raises(Killed):
        delete(world.workspace, "default", wanted, erase=True)
    monkeypatch.undo()
    (notes / f"{WORD}.yaml").unlink()
    world.ingest()
    assert finish_pending(world.workspace, "default") == []
    delete(world.workspace, "default", [doc_id(world, "notes", f"{WORD}.yaml")], erase=True)
    assert holding(world.home, WORD) == []


@pytest.mark.parametrize("erase", [False, True])
def test_what_was_captured_of_a_page_goes_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, erase: bool
) -> None:
    capture = Capture(screenshot=True, scripts=("1",))
    pages = {
        f"https://example.com/{name}": f"A page about {name}.\n" for name in (WORD, "other", f"{WORD}#x")
    }

    class Site:
        def events(self, known: object, tombstoned: Callable[[str], bool]) -> Iterator[Event]:
            for url, text in pages.items():
                if tombstoned(url):
                    yield Skipped(url, "E_TOMBSTONED", "It was deleted.")
                    continue
                yield Fetched(url, text.encode(), mime="text/markdown", url=url, final_url=url)
                taken = [Captured(n, k, f"{k} of {text}".encode()) for n, (k, _) in capture.names().items()]
                yield from captures.events(
                    capture, url, {}, taken, url=url, final_url=url, page_is_known=False
                )
            yield Enumerated(True)

    monkeypatch.setattr(source_state, "open_connector", lambda *_: Site())
    world.source("site", "web", path=None, urls=list(pages))
    world.ingest()
    locators = world.workspace.catalog.locators
    found = locators.of_source("default", "site")
    assert sorted(x.role for x in found.values()) == ["document"] * 3 + ["input"] * 6
    assert world.kb().documents().num_rows == 3
    delete(world.workspace, "default", [doc_id(world, "site", f"https://example.com/{WORD}")], erase=erase)
    left = locators.of_source("default", "site")
    assert {p for p in found if p not in left} == {
        p for p in found if p.startswith(f"https://example.com/{WORD}") and f"{WORD}#x" not in p
    }
    blobs = [p.read_bytes() for p in world.home.rglob("*") if p.is_file() and p.stat().st_size < 200]
    assert any(b"screenshot of A page about other" in b for b in blobs)
    assert any(f"screenshot of A page about {WORD}.".encode() in b for b in blobs) != erase
    world.ingest()
    assert locators.of_source("default", "site").keys() == left.keys()


def test_unknown_ids_delete_nothing(world: World, notes: Path) -> None:
    known = doc_id(world, "notes", "1.md")
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        delete(world.workspace, "default", [known, "0" * 36])
    assert known in world.kb().documents().column("doc_id").to_pylist()
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        restore(world.workspace, "default", [known])


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(
            lambda path: [p.unlink() for p in path.iterdir()], id="an unmounted folder that is left empty"
        ),
        pytest.param(
            lambda path: [(path / f"{i}.md").unlink() for i in range(12)],
            id="more than half and more than ten",
        ),
    ],
)
def test_mass_deletions_are_held_until_confirmed(world: World, empty: Callable[[Path], object]) -> None:
    path = world.source("many")
    for i in range(20):
        (path / f"{i}.md").write_text(f"Document number {i} of many.\n")
    world.ingest()
    empty(path)
    (path / "new.md").write_text("Adds and edits go on.\n") if (path / "15.md").exists() else None
    left = len(list(path.iterdir()))
    held = reports(world)["raw_blobs"]
    assert [h["code"] for h in held.held] == ["E_MASS_DELETE"]
    assert world.kb().documents().num_rows >= 20
    assert reports(world)["raw_blobs"].held
    reports(world, confirm_deletes=True)
    assert world.kb().documents().num_rows == left


def test_moving_everything_is_no_deletion(world: World) -> None:
    path = world.source("many")
    for i in range(20):
        (path / f"{i}.md").write_text(f"Document number {i} of many.\n")
    world.ingest()
    (path / "sub").mkdir()
    for i in range(20):
        (path / f"{i}.md").rename(path / "sub" / f"{i}.md")
    found = reports(world)
    assert not found["raw_blobs"].held and found["embeddings"].counts["new"] == 0
    assert world.kb().documents().num_rows == 20


def test_a_missing_root_fails_and_deletes_nothing(world: World, notes: Path) -> None:
    notes.rename(world.root / "elsewhere")
    with pytest.raises(TabootError, match="E_PATH"):
        world.ingest()
    assert world.kb().documents().num_rows == 6
    assert world.workspace.catalog.jobs.find("default", "notes")[0]["state"] == "failed"


def test_a_source_that_leaves_the_file_is_retired(world: World, notes: Path) -> None:
    other = world.source("other")
    (other / "o.md").write_text("The other source stays.\n")
    world.ingest()
    world.remove_source("notes")
    world.ingest()
    assert world.kb().documents().num_rows == 7, "held until a person confirms it"
    world.ingest("notes", confirm_deletes=True)
    assert world.kb().documents().num_rows == 1
    assert [r["source_id"] for r in world.workspace.catalog.sources.find()] == ["other"]
    assert not world.workspace.tables.names("default", "notes")
    world.source("notes")
    world.ingest()
    assert world.kb().documents().num_rows == 7


def test_a_source_may_move_to_another_namespace(world: World, notes: Path) -> None:
    other = world.source("other")
    (other / "o.md").write_text("The other source stays.\n")
    world.ingest()
    world.source("notes", namespace="elsewhere")
    world.ingest()
    # What it had in the other namespace is held.
    assert (world.kb().documents().num_rows, world.kb("elsewhere").documents().num_rows) == (7, 6)
    (waiting,) = held(world.workspace)
    assert (waiting.namespace, waiting.source_id, waiting.deletions) == ("default", "notes", 6)
    assert "has moved from namespace default to elsewhere" in waiting.reason
    world.ingest("notes", confirm_deletes=True)
    assert list(held(world.workspace)) == []
    assert world.kb().documents().num_rows == 1
    assert world.kb("elsewhere").documents().num_rows == 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sources: []\n",
        "sources:\n- id: notes\n  type: fil",
        "sources:\n- {id: notes, type: files, path: notes}\n- {id: notes, type: files, path: x}\n",
    ],
)
def test_an_invalid_sources_file_changes_nothing(world: World, notes: Path, text: str) -> None:
    (world.directory / "sources.yaml").write_text(text)
    with pytest.raises(TabootError, match="E_SOURCES"):
        world.ingest()
    assert world.kb().documents().num_rows == 6
    assert [r["state"] for r in world.workspace.catalog.sources.find()] == ["active"]
