"""Search with a reranker over real HTTP: what it orders, what it leaves, and what happens when it is down."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.rerank.tei import TeiReranker
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import RerankerSettings, Settings
from taboot_pipelines_tests.fakes.tei import FakeTei, overlap
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder

DOCS = [
    Doc(
        path=f"{i}.md",
        text="\n\n".join(["restart " * (i % 5) + f"nginx note {i}", f"backup of postgres {i} restart"]),
    )
    for i in range(20)
]
QUERY = "restart nginx note"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kb")
    build(folder, DOCS)
    return folder


@pytest.fixture
def server():
    with FakeTei(kind="reranker") as fake:
        yield fake


def opened(home, url: str | None, **settings) -> KnowledgeBase:
    reranker = RerankerSettings(url=url, **{"max_retries": 0, **settings})
    return KnowledgeBase.open(
        settings=Settings(home=home, reranker=reranker), namespace=NAMESPACE, embedder=HashEmbedder()
    )


def test_the_best_hits_are_ordered_by_the_reranker_ties_by_id(home, server):
    fused = opened(home, None).search(QUERY, 60).hits
    kb = opened(home, server.url)
    hits = kb.search(QUERY, 60).hits
    assert [h.chunk_id for h in hits] != [h.chunk_id for h in fused] and {h.chunk_id for h in hits} == {
        h.chunk_id for h in fused
    }
    expected = sorted(
        fused, key=lambda h: (-round(overlap(QUERY, h.text), 6), h.doc_id, int(h.chunk_id.rpartition(":")[2]))
    )
    assert [h.chunk_id for h in hits] == [h.chunk_id for h in expected]
    assert all(h.scores["rerank"] == round(overlap(QUERY, h.text), 6) for h in hits)
    assert {h.chunk_id: h.score for h in hits} == {h.chunk_id: h.score for h in fused}
    assert kb.search(QUERY, 60, rerank=True).hits == hits
    assert kb.search(QUERY, 60, rerank=False).hits == fused
    assert (
        kb.search(QUERY, 3).hits == hits[:3]
    )  # what is ordered does not depend on how much of it is asked for


def test_only_the_candidates_are_ordered_the_rest_follows(home, server):
    fused = opened(home, None).search(QUERY, 60).hits
    hits = opened(home, server.url, candidates=5).search(QUERY, 60).hits
    assert {h.chunk_id for h in hits[:5]} == {h.chunk_id for h in fused[:5]} and server.texts == 5
    assert hits[5:] == fused[5:]


def test_a_reranker_that_fails_leaves_the_fused_order_and_one_warning(home, server, caplog):
    fused = opened(home, None).search(QUERY, 10).hits
    kb = opened(home, server.url, candidates=20)
    server.fail(500, times=3)
    with caplog.at_level(logging.WARNING):
        assert kb.search(QUERY, 10).hits == fused and kb.search(QUERY, 10).hits == fused
    assert [r.message for r in caplog.records].count(
        caplog.records[0].message
    ) == 1 and "E_RERANKER" in caplog.text
    assert server.requests == 1  # the second search did not wait for it
    with pytest.raises(TabootError, match="E_RERANKER"):
        kb.search(QUERY, 10, rerank=True)
    answer = kb.answer("how do I restart nginx")
    assert answer.citations or answer.closest


def test_a_result_says_whether_it_was_reranked_and_why_not(home, server):
    kb = opened(home, server.url, candidates=20)
    found = kb.search(QUERY, 10)
    assert found.reranked and found.notes == () and "rerank" in found.latency_ms
    assert [h.ranks["rerank"] for h in found.hits] == list(range(1, 11))
    assert kb.search(QUERY, 60, rerank_top_n=7).hits[7].scores.keys() == {"vector", "keyword"}
    assert not kb.search(QUERY, 10, rerank=False).reranked
    server.fail(500, times=1)
    failed = kb.search("nginx", 10)
    assert not failed.reranked and "E_RERANKER" in failed.notes[0] and "keep their order" in failed.notes[0]
    again = kb.search("nginx", 10)
    assert not again.cached and "given a rest" in again.notes[0]


def test_pages_of_reranked_hits_are_the_whole_list(home, server):
    kb = opened(home, server.url, candidates=15)
    whole = kb.search(QUERY, 60)
    got, cursor = [], None
    while True:
        page = kb.search(QUERY, 4, cursor=cursor)
        got += page.hits
        assert page.reranked
        cursor = page.next_cursor
        if cursor is None:
            break
    assert got == list(whole.hits)
    first = kb.search(QUERY, 4, cache=False)
    server.fail(500, times=1)
    with pytest.raises(TabootError, match="E_RERANKER"):  # the page would not be of the same list
        kb.search(QUERY, 4, cursor=first.next_cursor, cache=False)


@pytest.mark.parametrize("scores", [[], [1.0] * 3, [float("nan")] * 60, [[1.0]] * 60])
def test_what_is_not_one_finite_score_a_text_is_a_failure(home, scores):
    class Odd:
        def rank(self, query, texts):
            return np.array(scores)

    kb = KnowledgeBase.open(
        settings=Settings(home=home), namespace=NAMESPACE, embedder=HashEmbedder(), reranker=Odd()
    )
    found = kb.search(QUERY, 60)
    assert not found.reranked and found.hits == opened(home, None).search(QUERY, 60).hits
    with pytest.raises(TabootError, match="E_RERANKER"):
        kb.search(QUERY, rerank=True)


def test_asking_for_one_that_is_not_there_is_refused(home):
    kb = opened(home, None)
    with pytest.raises(TabootError, match="TABOOT_RERANKER__URL"):
        kb.search(QUERY, rerank=True)
    with pytest.raises(TabootError, match="E_QUERY"):
        kb.search(QUERY, rerank="yes")


def test_one_may_be_handed_in(home, server):
    reranker = TeiReranker(RerankerSettings(url=server.url))
    kb = KnowledgeBase.open(
        settings=Settings(home=home), namespace=NAMESPACE, embedder=HashEmbedder(), reranker=reranker
    )
    assert "rerank" in kb.search(QUERY).hits[0].scores


def test_without_one_nothing_of_it_is_imported(home):
    code = (
        "import sys; from pathlib import Path; from taboot_pipelines import KnowledgeBase; from"
        f" taboot_pipelines_tests.shards.builder import HashEmbedder\nKnowledgeBase.open({str(home)!r},"
        f" {NAMESPACE!r}, embedder=HashEmbedder()).search('nginx')\nprint([m for m in sys.modules if"
        " m.startswith('taboot_pipelines.inference') or m in ('httpcore', 'torch', 'jsonschema')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
