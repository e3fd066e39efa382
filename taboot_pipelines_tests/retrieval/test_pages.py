"""Pages of hits: together the whole list, whatever is published meanwhile, and cursors that lead nowhere."""

from __future__ import annotations

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval import KnowledgeBase, session
from taboot_pipelines.retrieval.pages import Cursor, read_cursor
from taboot_pipelines.retrieval.results.hits import SearchResult
from taboot_pipelines.settings import RetrievalSettings, Settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import prune
from taboot_pipelines_tests.retrieval.test_search import build, documents, paragraph
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder

DOCS = [Doc(f"{i}.md", f"nginx note {i}\n\nredis backup number {i} restart") for i in range(30)]
OTHERS = [Doc(f"new/{i}.md", f"nginx redis backup restart {i}") for i in range(40)]


def pages(kb: KnowledgeBase, query: str, limit: int, between=lambda n: None, **options) -> list[SearchResult]:
    found = [kb.search(query, limit, **options)]
    while found[-1].next_cursor is not None:
        between(len(found))
        found.append(kb.search(query, limit, cursor=found[-1].next_cursor, **options))
        assert len(found) < 300
    return found


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    docs=documents,
    query=paragraph,
    limit=st.integers(1, 7),
    mode=st.sampled_from(["hybrid", "vector", "keyword", "adaptive"]),
    min_score=st.none() | st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    dedupe=st.booleans(),
    expand=st.integers(0, 1),
    language=st.none() | st.just("en"),
)
def test_pages_together_are_the_whole_list(
    docs, query, limit, mode, min_score, dedupe, expand, language, tmp_path_factory
):
    kb = build(tmp_path_factory.mktemp("kb"), docs)
    options = {
        "mode": mode,
        "min_score": min_score,
        "dedupe": dedupe,
        "expand": expand,
        "language": language,
    }
    whole = kb.search(query, 10_000, **options)
    found = pages(kb, query, limit, **options)
    assert [h.chunk_id for p in found for h in p.hits] == [h.chunk_id for h in whole.hits]
    assert all(len(p) == limit for p in found[:-1]) and whole.next_cursor is None
    assert whole.total == len(whole) and all(p.total >= len(p) for p in found)
    if min_score is not None:
        assert all(h.score >= min_score for h in whole.hits)
        every = kb.search(query, 10_000, **{**options, "min_score": None, "dedupe": False})
        assert len(whole) <= sum(h.score >= min_score for h in every.hits)
    if not dedupe:
        plain = [h.model_copy(update={"context": ()}) for h in whole.hits]
        assert plain == list(kb.search(query, 10_000, mode=mode, min_score=min_score, language=language).hits)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword", "adaptive"])
def test_pages_stay_the_same_while_others_publish_and_sweep(tmp_path, mode):
    kb = build(tmp_path, DOCS)
    whole = kb.search("redis restart 3", 10_000, mode=mode)

    def publish(number: int) -> None:
        build(tmp_path, [*DOCS, *OTHERS[:number]])
        prune(open_shards(Settings(home=tmp_path)), NAMESPACE)

    found = pages(kb, "redis restart 3", 7, publish, mode=mode)
    assert [h for p in found for h in p.hits] == list(whole.hits)
    assert {p.manifest_version for p in found} == {1}
    assert kb.search("redis restart 3", 10_000, mode=mode).manifest_version == len(found)


def test_the_arms_go_as_deep_on_every_page_as_on_the_first(tmp_path):
    build(tmp_path, DOCS)
    few = Settings(home=tmp_path, retrieval=RetrievalSettings(candidates=10))
    kb = KnowledgeBase.open(settings=few, embedder=HashEmbedder())
    found = [h.chunk_id for p in pages(kb, "redis backup 3", 4) for h in p.hits]
    assert 10 <= len(found) == len(set(found)) <= 20


def test_a_document_deleted_since_is_on_no_page(tmp_path):
    kb = build(tmp_path, DOCS)
    whole = kb.search("redis backup", 10_000)
    first = kb.search("redis backup", 5)
    gone = {h.doc_id for h in whole.hits[5:8]} - {h.doc_id for h in first.hits}
    build(tmp_path, [d for d in DOCS if d.doc_id not in gone])
    second = kb.search("redis backup", 5, cursor=first.next_cursor)
    assert gone and [h.chunk_id for h in second.hits] == [
        h.chunk_id for h in whole.hits[5:10] if h.doc_id not in gone
    ]
    assert "deleted since" in second.notes[-1]
    assert kb.search("redis backup", 5, cursor=first.next_cursor) == second, "and from no cache either"


def test_a_cursor_leads_on_in_another_process_while_its_publication_is_in_force(tmp_path):
    kb = build(tmp_path, DOCS)
    cursor = kb.search("nginx", 3).next_cursor
    other = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=HashEmbedder())
    assert other.search("nginx", 4, cursor=cursor).hits == kb.search("nginx", 7).hits[3:]
    build(tmp_path, [*DOCS, *OTHERS])
    third = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=HashEmbedder())
    with pytest.raises(TabootError, match=r"E_CURSOR.*published anew.*without the cursor"):
        third.search("nginx", 4, cursor=cursor)
    assert kb.search("nginx", 4, cursor=cursor).hits, "who made it keeps what it is for"


def test_cursors_are_kept_for_an_hour_and_so_many_at_most(tmp_path, monkeypatch):
    kb = build(tmp_path, DOCS)
    cursor = kb.search("nginx", 3).next_cursor
    now = [session.time.monotonic()]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    build(tmp_path, [*DOCS, *OTHERS])
    now[0] += 3500
    assert kb.search("nginx", 3, cursor=cursor).hits
    now[0] += 3601
    with pytest.raises(TabootError, match="E_CURSOR"):
        kb.search("nginx", 3, cursor=cursor)
    cursors = []
    for n in range(12):
        build(tmp_path, [*DOCS, *OTHERS[:n]])
        cursors.append(kb.search("nginx", 3).next_cursor)
    with pytest.raises(TabootError, match="E_CURSOR"):
        kb.search("nginx", 3, cursor=cursors[0])
    assert kb.search("nginx", 3, cursor=cursors[-4]).hits


def test_a_cursor_of_something_else_says_so(tmp_path):
    kb = build(tmp_path / "a", DOCS)
    other = build(tmp_path / "b", DOCS[:20])
    cursor = kb.search("nginx", 3, source="docs").next_cursor
    for query, options, said in (
        ("redis", {"source": "docs"}, "another query or other arguments"),
        ("nginx", {}, "another query or other arguments"),
        ("nginx", {"source": "docs", "mode": "vector"}, "another query or other arguments"),
    ):
        with pytest.raises(TabootError, match=said) as caught:
            kb.search(query, 3, cursor=cursor, **options)
        assert caught.value.code == "E_CURSOR" and caught.value.remedy
    with pytest.raises(TabootError, match="E_CURSOR"):
        other.search("nginx", 3, source="docs", cursor=cursor)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_cursor_is_refused_and_never_followed(data, tmp_path_factory):
    home = getattr(test_a_damaged_cursor_is_refused_and_never_followed, "kb", None)
    if home is None:
        home = build(tmp_path_factory.mktemp("kb"), DOCS)
        test_a_damaged_cursor_is_refused_and_never_followed.kb = home
    cursor = home.search("nginx", 3).next_cursor
    at = data.draw(st.integers(0, len(cursor) - 1))
    harmed = data.draw(
        st.sampled_from(
            [
                cursor[:at],
                cursor[:at] + data.draw(st.characters()) + cursor[at + 1 :],
                data.draw(st.text(min_size=1, max_size=40)),
                base64.urlsafe_b64encode(data.draw(st.binary(min_size=1, max_size=60))).decode(),
            ]
        )
    )
    try:
        raw = base64.urlsafe_b64decode(harmed + "=" * (-len(harmed) % 4))
        same = raw == base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        same = False
    if same:
        return
    with pytest.raises(TabootError) as caught:
        home.search("nginx", 3, cursor=harmed)
    assert caught.value.code in ("E_CURSOR", "E_QUERY")


@pytest.mark.parametrize(
    ("position", "depth", "reranked"), [("3", 500, False), (-1, 500, False), (3, None, False), (3, 5, 1)]
)
def test_a_cursor_of_our_form_with_other_values_is_refused(position, depth, reranked):
    text = Cursor("default", "m", "r", position, depth, reranked).write()
    with pytest.raises(TabootError, match=r"E_CURSOR.*damaged"):
        read_cursor(text, "default", "r")
    assert read_cursor(Cursor("default", "m", "r", 3, 5, True).write(), "default", "r").position == 3
