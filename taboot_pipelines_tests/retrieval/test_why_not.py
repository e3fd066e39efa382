"""Why a document is no hit, and what the modes find side by side: every way to fall out, named as it was."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import RerankerSettings, RetrievalSettings, Settings
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.retrieval.test_search import build, documents, paragraph
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder

DOCS = [Doc(f"{n}.md", f"redis backup note {n}") for n in range(30)]
LAST = Doc("guide/last.md", "nothing of the kind stands here at all", lang="de")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kb")
    build(folder, [*DOCS, LAST, Doc("twin.md", DOCS[3].text), Doc("chat.md", "redis talk", source="chat")])
    return folder


@pytest.fixture
def kb(home):
    return KnowledgeBase.open(settings=Settings(home=home), embedder=HashEmbedder())


def test_by_filter(kb):
    why = kb.why_not("chat.md", "redis", source="docs", language="en")
    assert not why.found and why.chunks[0].fell_out == "filter"
    assert why.reason == "The filter source wants docs; the document has chat."
    both = kb.why_not("guide/last.md", "redis", language="en", path_prefix="x", date_from="2024-01-01")
    assert "language wants en; the document has de" in both.reason and "path_prefix wants x" in both.reason
    assert "date_from" not in both.reason


def test_by_rank_with_the_rank_in_every_arm(kb):
    every = kb.search("redis backup 7", 100)
    target = every.hits[20]
    why = kb.why_not(target.chunk_id, "redis backup 7", 5)
    (chunk,) = why.chunks
    assert (chunk.fell_out, chunk.rank, why.doc_id) == ("limit", None, target.doc_id)
    steps = {s.step: s for s in chunk.steps}
    assert steps["ranking"].rank == steps["limit"].rank == 21 and steps["ranking"].score == target.score
    assert {a: steps[a].rank for a in ("vector", "keyword")} == target.ranks
    assert {a: steps[a].score for a in ("vector", "keyword")} == pytest.approx(target.scores, abs=1e-6)
    found = kb.why_not(target.chunk_id, "redis backup 7", 21)
    assert found.found and found.chunks[0].rank == 21 and found.reason == "It is hit 21 of 21."


def test_by_depth_and_by_words(home):
    shallow = Settings(home=home, retrieval=RetrievalSettings(candidates=10))
    kb = KnowledgeBase.open(settings=shallow, embedder=HashEmbedder())
    why = kb.why_not("guide/last.md", "redis backup 7", 5)
    assert why.chunks[0].fell_out == "ranking" and "of which the best 10 take part" in why.reason
    assert "none of the query's words" in why.reason
    only = kb.why_not("guide/last.md", "redis", mode="keyword")
    assert only.chunks[0].fell_out == "ranking" and only.reason.startswith("It has none of the query's words")
    silent = kb.why_not("guide/last.md", "nothing of the kind stands", weights={"keyword": 0, "vector": 0})
    assert "weight 0" in silent.reason


def test_by_equal_text_by_score_and_by_near_duplicate(kb):
    first, second = sorted([DOCS[3], next(d for d in [Doc("twin.md", DOCS[3].text)])], key=lambda d: d.doc_id)
    why = kb.why_not(second.doc_id, "redis backup 3", 5)
    assert why.chunks[0].fell_out == "equal text" and f"{first.doc_id}:0" in why.reason
    assert "That is hit" in why.reason
    low = kb.why_not("guide/last.md", "redis", min_score=0.9, mode="vector")
    assert low.chunks[0].fell_out == "min_score" and "below min_score 0.9" in low.reason


def test_by_near_duplicate(tmp_path):
    text = "how to restore the postgres database of the house from the backup of last night step by step"
    kb = build(tmp_path, [Doc(f"{n}.md", f"{text} {n}") for n in range(3)])
    shown = kb.search("restore", dedupe=True).hits[0]
    why = kb.why_not(shown.similar[0], "restore", dedupe=True)
    assert why.chunks[0].fell_out == "dedupe" and shown.chunk_id in why.reason


def test_by_the_reranker(home):
    with FakeTei(kind="reranker") as server:
        settings_ = Settings(home=home, reranker=RerankerSettings(url=server.url, max_retries=0))
        kb = KnowledgeBase.open(settings=settings_, namespace=NAMESPACE, embedder=HashEmbedder())
        order = [h.chunk_id for h in kb.search("redis backup 7", 100).hits]
        why = kb.why_not(order[10], "redis backup 7", 5)
        steps = {s.step: s for s in why.chunks[0].steps}
        assert steps["rerank"].rank == 11 and why.chunks[0].fell_out == "limit" and "number 11" in why.reason


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    docs=documents,
    query=paragraph,
    limit=st.integers(1, 5),
    mode=st.sampled_from(["hybrid", "vector", "keyword"]),
    options=st.sampled_from([{}, {"language": "en"}, {"min_score": 0.03}, {"dedupe": True}]),
)
def test_what_is_said_to_be_found_is_and_nothing_else(docs, query, limit, mode, options, tmp_path_factory):
    kb = build(tmp_path_factory.mktemp("kb"), docs)
    hits = {h.chunk_id: n for n, h in enumerate(kb.search(query, limit, mode=mode, **options).hits, 1)}
    for doc in docs:
        if not doc.spans():
            with pytest.raises(TabootError, match="E_NOT_FOUND"):
                kb.why_not(doc.doc_id, query, limit, mode=mode, **options)
            continue
        why = kb.why_not(doc.doc_id, query, limit, mode=mode, **options)
        ranks = {c.chunk_id: c.rank for c in why.chunks}
        assert ranks == {f"{doc.doc_id}:{n}": hits.get(f"{doc.doc_id}:{n}") for n in range(len(doc.spans()))}
        assert why.found == any(r is not None for r in ranks.values())
        assert all((c.fell_out is None) == (c.rank is not None) for c in why.chunks)


@pytest.mark.parametrize(
    "name", ["guide/last.md", "docs:guide/last.md", "/srv/docs/guide/last.md", LAST.doc_id]
)
def test_a_document_goes_by_many_names(kb, name):
    assert kb.why_not(name, "redis").doc_id == LAST.doc_id


def test_what_is_not_there_is_not_found_and_the_near_is_named(kb):
    with pytest.raises(TabootError, match=r"E_NOT_FOUND.*Did you mean 'guide/last.md'"):
        kb.why_not("guide/lost.md", "redis")
    for document in ("", None, 3):
        with pytest.raises(TabootError, match="E_QUERY: document must"):
            kb.why_not(document, "redis")
    with pytest.raises(TabootError, match="E_QUERY: cursor must"):
        kb.why_not("twin.md", "redis", cursor="x")


def test_results_are_tables_in_notebooks(kb):
    why = kb.why_not("guide/last.md", "redis <b>", 2)
    assert why.to_arrow().num_rows == sum(len(c.steps) for c in why.chunks) == len(why.to_pandas())
    assert "<table>" in why._repr_html_() and "<b>" not in why._repr_html_()
    found = kb.compare("redis backup 7", 4)
    assert found.modes[:3] == ("hybrid", "vector", "keyword")
    for mode in ("hybrid", "vector", "keyword"):
        hits = kb.search("redis backup 7", 4, mode=mode).hits
        assert {r.chunk_id: (r.ranks[mode], r.scores[mode]) for r in found.rows if mode in r.ranks} == {
            h.chunk_id: (n, h.score) for n, h in enumerate(hits, 1)
        }
    assert found.to_arrow().column("hybrid_rank").to_pylist()[0] == 1 == found.rows[0].ranks["hybrid"]
    assert len(found.to_pandas()) == len(found.rows) and "<table>" in found._repr_html_()


def test_a_mode_that_cannot_answer_says_why_beside_the_others(home):
    class Broken(HashEmbedder):
        def embed_query(self, text):
            raise TabootError("E_EMBEDDER", "down.")

    kb = KnowledgeBase.open(settings=Settings(home=home), embedder=Broken())
    found = kb.compare("redis")
    assert found.notes["vector"] == ("E_EMBEDDER: down.",) and "vector" not in found.latency_ms
    assert any("keyword" in r.ranks for r in found.rows)
    with pytest.raises(TabootError, match="E_QUERY"):
        kb.compare("")
