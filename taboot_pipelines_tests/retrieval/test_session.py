"""A session pins a manifest for a query, sees a newer one with the next, asks again where a file has gone."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.answering.fact_answers import answer_from_facts
from taboot_pipelines.retrieval.queries.config_files import config_entries
from taboot_pipelines.retrieval.session import Session, View, sparing_collections
from taboot_pipelines.settings import Settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc

OLD = [Doc(f"{i}.md", f"note {i}", source="docs") for i in range(12)]
NEW = [*OLD, Doc("new.md", "a new note", source="docs")]


@pytest.fixture
def session(tmp_path) -> Session:
    build(tmp_path, OLD)
    return Session(Settings(home=tmp_path), NAMESPACE)


def test_a_view_stays_until_something_is_published(session, tmp_path):
    first = session.view()
    assert session.view() is first and first.index is first.index and first.graph is first.graph
    assert len(first.index) == 12
    build(tmp_path, NEW)
    second = session.view()
    assert second is not first and session.view() is second
    assert (len(first.index), len(second.index)) == (12, 13), "a query keeps to what it began with"
    assert second.manifest.version == first.manifest.version + 1


def test_shards_that_stay_are_mapped_once(session, tmp_path):
    first = session.view()
    build(tmp_path, NEW)
    before = {s.entry.key: s for s in first.shards.documents}
    after = {s.entry.key: s for s in session.view().shards.documents}
    shared = before.keys() & after.keys()
    assert shared and all(after[key] is before[key] for key in shared) and after.keys() - before.keys()


def test_a_view_that_no_query_uses_goes_at_once(session, tmp_path):
    """Its mapped files go with it: they must not wait for the garbage collector."""
    gone = weakref.ref(session.view())
    gone().keywords.idf("note")
    assert config_entries(gone()) is config_entries(gone())
    gc.disable()
    try:
        build(tmp_path, NEW)
        session.view()
        assert gone() is None
    finally:
        gc.enable()


def test_a_view_goes_though_what_was_made_of_it_refers_to_it(session, tmp_path):
    """A process that answers for weeks holds the newest publication, not all that it was asked about."""
    gone = weakref.ref(session.view())
    assert answer_from_facts(gone(), "What does immich depend on?") is not None
    build(tmp_path, NEW)
    session.view()
    gc.collect()
    assert gone() is None


def test_the_readers_of_a_view_are_made_once_for_all_threads(session):
    view, barrier = session.view(), threading.Barrier(6)

    def read(_: int) -> tuple[object, ...]:
        barrier.wait()
        return view.keywords, view.index, view.graph

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(read, range(6))) == {(view.keywords, view.index, view.graph)}


def test_who_serves_looks_for_no_garbage_among_what_stays(session, tmp_path, monkeypatch):
    monkeypatch.setattr("taboot_pipelines.retrieval.session._FELT_SECONDS", 0.0)
    with sparing_collections():
        old = weakref.ref(session.view())
        gc.collect()
        assert gc.get_freeze_count() > 1000
        build(tmp_path, NEW)
        session.view()
        assert gc.get_freeze_count() == 0
        gc.collect()
        assert old() is None, "what was left out went with the publication"
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gc.get_freeze_count() == 0, "whoever serves no more is as any process"


@pytest.mark.parametrize("code", ["E_SHARD_MISSING", "E_SHARD_CORRUPT"])
def test_a_query_is_asked_once_more_on_the_next_manifest(session, tmp_path, code):
    asked: list[View] = []

    def query(view: View) -> int:
        asked.append(view)
        if len(asked) == 1:
            build(tmp_path, NEW)
            raise TabootError(code, "gone")
        return len(view.index)

    assert session.ask(query) == 13 and len(asked) == 2


@pytest.mark.parametrize(("code", "published"), [("E_SHARD_MISSING", False), ("E_QUERY", True)])
def test_it_is_not_asked_again_without_a_reason(session, tmp_path, code, published):
    """The same manifest would fail again, and other errors are not of its files."""
    asked: list[View] = []

    def query(view: View) -> None:
        asked.append(view)
        if published:
            build(tmp_path, NEW)
        raise TabootError(code, "wrong")

    with pytest.raises(TabootError, match=code):
        session.ask(query)
    assert len(asked) == 1


def test_a_query_that_fails_again_fails(session, tmp_path):
    asked: list[View] = []

    def query(view: View) -> None:
        asked.append(view)
        build(tmp_path, NEW if len(asked) == 1 else OLD)
        raise TabootError("E_SHARD_MISSING", "gone")

    with pytest.raises(TabootError, match="E_SHARD_MISSING"):
        session.ask(query)
    assert len(asked) == 2


def test_urls_of_local_files_are_paths_where_the_root_is_known(session):
    view = session.view()  # the sources: docs with a root, stack without one
    assert view.shown_url("docs", "guide/a.md", "docs:guide/a.md") == "/srv/docs/guide/a.md"
    assert view.shown_url("docs", "guide/a.md", "https://docs.example/a") == "https://docs.example/a"
    assert view.shown_url("stack", "b.yaml", "stack:b.yaml") == "stack:b.yaml"
    assert view.shown_url("nobody", "b.yaml", "nobody:b.yaml") == "nobody:b.yaml"
    assert view.document_url(OLD[3].doc_id) == "/srv/docs/3.md" and view.document_url("nobody") == ""


def test_before_the_first_publish_there_is_nothing(tmp_path):
    with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
        Session(Settings(home=tmp_path), NAMESPACE).view()


def test_while_the_first_ingest_runs_it_is_told(tmp_path):
    settings = Settings(home=tmp_path)
    workspace = Workspace(settings)
    try:
        workspace.catalog.jobs.start("other", "docs")
        with pytest.raises(TabootError) as none:
            Session(settings, NAMESPACE).view()
        assert "running" not in str(none.value) and "taboot ingest" in none.value.remedy
        workspace.catalog.jobs.start(NAMESPACE, "docs")
    finally:
        workspace.close()
    with pytest.raises(TabootError, match="its first ingest is running") as found:
        Session(settings, NAMESPACE).view()
    assert found.value.code == "E_KB_UNINITIALIZED" and "taboot status" in found.value.remedy
