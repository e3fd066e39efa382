"""Searches with candidates from Qdrant give what the shards alone give: the same hits, scores and order."""

from __future__ import annotations

import logging
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.retrieval import KnowledgeBase, candidates
from taboot_pipelines.settings import QdrantSettings
from taboot_pipelines.stages import qdrant_points
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant, any_qdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def qdrant() -> Iterator[FakeQdrant]:
    with any_qdrant() as server:
        yield server


@pytest.fixture(scope="module")
def embedder() -> Iterator[FakeTei]:
    with FakeTei(dimension=64) as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, embedder: FakeTei, qdrant: FakeQdrant) -> Iterator[World]:
    """Real documentation in two sources, a fifth of it in both; and texts that tie."""
    asked = {"url": qdrant.url, "max_retries": 0, "search_from_chunks": 0}
    made = World(tmp_path_factory.mktemp("world"), embedder.url, qdrant=asked)
    pages = sorted((DATA / "linuxserver-docs-md").rglob("*.md"))[:24]
    one, two, ties = made.source("one", tags=["a", "b"]), made.source("two", tags=["b"]), made.source("ties")
    for i, page in enumerate(pages):
        shutil.copy(page, (one if i % 2 else two) / f"{i}-{page.name}")
        if i % 5 == 0:
            shutil.copy(page, (two if i % 2 else one) / f"{i}-{page.name}")
    for i in range(90):
        # One word each besides: equal in score by vector and by words for a query of the common ones.
        (ties / f"{i}.md").write_text(f"tie {'breaker ' * (i % 3)}x{i:02}\n")
    made.ingest()
    yield made
    made.workspace.close()


@pytest.fixture
def pair(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[KnowledgeBase, KnowledgeBase]:
    """(with Qdrant, the shards alone)"""
    monkeypatch.setattr(candidates, "_REST_STALE", 0.0)
    monkeypatch.setattr(candidates, "_REST_FAILED", 0.0)
    bare = world.settings(world.home).model_copy(update={"qdrant": type(world.workspace.settings.qdrant)()})
    return world.kb(), KnowledgeBase.open(settings=bare)


def vocabulary(world: World) -> list[str]:
    return sorted(
        {w for p in world.directory.rglob("*.md") for w in re.findall(r"[\w-]{3,}", p.read_text().lower())}
    )


FILTERS = [
    {},
    {"source": "one"},
    {"source": ["two", "ties"]},
    {"tag": "a"},
    {"tag": ["a", "b"]},
    {"language": "en"},
    {"language": ["und", "de"]},
    {"type": "files"},
    {"date_from": "2020-01-01"},
    {"source": "two", "tag": "b", "language": "en"},
    {"collection": "b"},
    {"content_type": ["code", "table"]},
    {"collection": ["a", "ties"], "content_type": "prose"},
    {"domain": ["", "docs.example.org"], "source": "one"},
]


def test_hundreds_of_searches_are_the_same(world, pair, qdrant):
    served, shards = pair
    words, rng = vocabulary(world), random.Random(19)
    qdrant.requests.clear()
    asked = 0
    # Each mode with each filter.
    for i in range(70):
        query = " ".join(rng.sample(words, rng.randint(1, 5)))
        mode, where, limit = (
            ["hybrid", "vector", "keyword", "graph", "adaptive"][i % 5],
            FILTERS[i % len(FILTERS)],
            rng.choice([1, 3, 10, 40]),
        )
        hits = served.search(query, limit, mode=mode, exact=True, **where)
        assert hits == shards.search(query, limit, mode=mode, **where), (query, mode, where, limit)
        asked += mode != "keyword"
    assert qdrant.requests["query"] >= asked * 0.95, "the shards answered instead"
    assert all(q["params"]["exact"] for q in qdrant.queries[-20:])


def test_ties_and_equal_texts_are_the_same(pair, qdrant):
    served, shards = pair
    qdrant.requests.clear()
    for query in ("tie", "breaker tie", "breaker breaker", "x07", "the", "???"):
        for mode in ("vector", "keyword", "hybrid", "graph"):
            for limit in (1, 7, 30, 89, 200):
                hits = served.search(query, limit, mode=mode, exact=True).hits
                assert hits == shards.search(query, limit, mode=mode).hits
    assert qdrant.requests["query"] >= 60
    shared = [h for h in served.search("container image", 100).hits if h.also_in]
    assert shared and all(h.doc_id < o.rsplit(":", 1)[0] or h.chunk_id < o for h in shared for o in h.also_in)


def test_more_is_asked_for_until_the_best_are_proven(pair, qdrant, monkeypatch):
    """With next to no margin the first answer seldom suffices, and with a tight limit the shards answer:
    never a wrong hit.
    """
    served, shards = pair
    for margin, most in ((1, 20_000), (1, 20)):
        monkeypatch.setattr(candidates, "_MARGIN", margin)
        monkeypatch.setattr(candidates, "_MAX_CANDIDATES", most)
        for query in ("nginx port", "docker container volumes", "tie", "update the image"):
            for mode in ("vector", "keyword"):
                for limit in (1, 5, 25):
                    hits = served.search(query, limit, mode=mode, exact=True)
                    assert hits == shards.search(query, limit, mode=mode)


@pytest.mark.parametrize("change", ["snapshot", "sources", "changing"])
def test_points_of_another_state_are_not_used(world, pair, qdrant, caplog, change):
    served, shards = pair
    space = world.workspace.embedder.space.id
    mark = world.workspace.points.watermark("default", space)
    snapshot = {"snapshot": "another", "changing": "", "sources": mark.snapshot}[change]
    world.workspace.points.set_watermark(
        "default", space, snapshot, "another" if change == "sources" else mark.sources
    )
    try:
        qdrant.requests.clear()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert served.search("nginx", 5) == shards.search("nginx", 5)
        assert (
            qdrant.requests["query"] == 0
            and len([r for r in caplog.records if "instead of Qdrant" in r.message]) == 1
        )
    finally:
        world.workspace.points.set_watermark("default", space, mark.snapshot, mark.sources)
    served.search("nginx", 5)
    assert qdrant.requests["query"] >= 1


def test_points_that_change_during_a_search_are_not_used(world, pair, monkeypatch):
    served, shards = pair
    served.search("nginx", 5)
    space = world.workspace.embedder.space.id
    mark = world.workspace.points.watermark("default", space)
    real = QdrantPoints.nearest

    def overtaken(self, namespace, *args, **kwargs):
        found = real(self, namespace, *args, **kwargs)
        world.workspace.points.set_watermark("default", space, "", mark.sources)
        return found[5:]

    monkeypatch.setattr(QdrantPoints, "nearest", overtaken)
    try:
        assert served.search("nginx", 5, mode="vector") == shards.search("nginx", 5, mode="vector")
    finally:
        world.workspace.points.set_watermark("default", space, mark.snapshot, mark.sources)


def test_the_shards_answer_while_the_server_fails(pair, qdrant, caplog):
    served, shards = pair
    with caplog.at_level(logging.WARNING):
        qdrant.stop()
        for query in ("nginx", "redis", "port"):
            assert served.search(query, 5) == shards.search(query, 5)
        qdrant.start()
        assert len(caplog.records) == 1 and "E_QDRANT" in caplog.records[0].message
        for status in (400, 500):
            qdrant.fail(status, operation="query")
            assert served.search("nginx", 5) == shards.search("nginx", 5)
        for exact in (True, False):
            qdrant.say(b'{"result": {"points": []}}', operation="query")
            hits = served.search("nginx", 5, mode="vector", exact=exact)
            assert hits == shards.search("nginx", 5, mode="vector")
    qdrant.requests.clear()
    served.search("nginx", 5)
    assert qdrant.requests["query"] >= 1


def test_a_failed_server_is_left_alone_for_a_while(pair, qdrant, monkeypatch):
    served, _ = pair
    monkeypatch.setattr(candidates, "_REST_FAILED", 60.0)
    qdrant.fail(500, operation="query")
    served.search("nginx", 5)
    qdrant.requests.clear()
    served.search("nginx", 5)
    assert not qdrant.requests


def test_a_new_manifest_is_searched_with_its_own_points(world, pair, qdrant):
    served, shards = pair
    (world.directory / "two" / "new.md").write_text("# Fresh\n\nA document about quuxification.\n")
    world.ingest("two")
    for mode in ("vector", "keyword", "hybrid"):
        assert served.search("quuxification", 5, mode=mode) == shards.search("quuxification", 5, mode=mode)
    assert "quuxification" in served.search("quuxification", 1, mode="keyword").hits[0].text
    assert list(qdrant_points.TARGET.audit(world.workspace, "default")) == []


def test_it_is_asked_only_where_it_helps(world, qdrant):
    """Not for words, which are known here; not with a filter, unless exactness is asked for; and not for
    fewer chunks than it pays for."""
    held = len(world.kb()._session.view().index)
    asked: dict[str, Any] = {}
    for name, chunks in (("all", 0), ("just", held // 2), ("default", None)):
        given = world.settings(world.home)
        update = {"search_from_chunks": QdrantSettings().search_from_chunks if chunks is None else chunks}
        kb = KnowledgeBase.open(
            settings=given.model_copy(update={"qdrant": given.qdrant.model_copy(update=update)})
        )
        for what, arguments in (
            ("words", {"mode": "keyword"}),
            ("vector", {"mode": "vector"}),
            ("both", {}),
            ("filter", {"mode": "vector", "source": "ties"}),
            ("exact", {"mode": "vector", "source": "ties", "exact": True}),
        ):
            before = qdrant.requests["query"]
            kb.search("nginx port", 5, **arguments)
            asked[name, what] = qdrant.requests["query"] - before > 0
    assert {what for (name, what), yes in asked.items() if name == "all" and yes} == {
        "vector",
        "both",
        "exact",
    }
    # Of the rows that pass the filter, fewer than half of all remain.
    assert {what for (name, what), yes in asked.items() if name == "just" and yes} <= {"vector", "both"}
    assert not any(yes for (name, _), yes in asked.items() if name == "default")


def test_by_default_the_graph_is_asked_and_its_answer_scored_here(pair, qdrant):
    """The stand-in compares every vector, so what is found is the shards' own; only the request differs."""
    served, shards = pair
    qdrant.queries.clear()
    for mode in ("vector", "hybrid"):
        for query in ("nginx port", "docker container volumes", "update the image"):
            for limit in (1, 10, 40):
                assert (
                    served.search(query, limit, mode=mode).hits[0]
                    == shards.search(query, limit, mode=mode).hits[0]
                )
    assert len(qdrant.queries) == 18 and not any(q["params"].get("exact") for q in qdrant.queries)
    assert not any(q.get("with_payload") for q in qdrant.queries)


def test_nothing_of_qdrant_is_imported_where_it_is_not_set(tmp_path: Path, embedder: FakeTei):
    import subprocess
    import sys

    script = (
        "import sys; from taboot_pipelines.retrieval import KnowledgeBase; from"
        " taboot_pipelines.stages.workspace import Workspace;from taboot_pipelines.settings import"
        " load_settings; from taboot_pipelines.stages.running import run_chain;w ="
        f" Workspace(load_settings(home={str(tmp_path / 'home')!r},"
        f" sources={str(tmp_path / 'sources.yaml')!r}, tei={{'url': {embedder.url!r}}}));w.sync_sources();"
        " run_chain(w, 'notes'); KnowledgeBase.open(settings=w.settings).search('text');assert"
        " 'qdrant_client' not in sys.modules"
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Some text.\n")
    (tmp_path / "sources.yaml").write_text("sources:\n  - {id: notes, type: files, path: notes}\n")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
