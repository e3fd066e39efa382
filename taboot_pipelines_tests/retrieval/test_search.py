"""Search against brute force: exact order, filters that lose nothing, equal texts as one hit."""

from __future__ import annotations

import math
import shutil
import statistics
import sys
from collections import Counter
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.retrieval import KnowledgeBase, vectors
from taboot_pipelines.retrieval.bm25 import names_something
from taboot_pipelines.retrieval.fusion import Arm, Ranking, fuse
from taboot_pipelines.settings import Settings, ShardSettings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.analyzer import ANALYZER, Analysis, analyze_fields, analyze_query
from taboot_pipelines.shards.layout import shards_dir
from taboot_pipelines.shards.publish import prune, publish
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, HashEmbedder, World, embed

SOURCES = {
    "docs": {"type": "files", "tags": ["manual", "home"], "root": "/srv/docs"},
    "stack": {"type": "compose", "tags": ["home"], "root": None},
    "chat": {"type": "ai_session", "tags": [], "root": None},
}
WORDS = [
    "nginx",
    "redis",
    "postgres",
    "backup",
    "ERR-123",
    "node-exporter",
    "the",
    "restart",
    "restarts",
    "port 8080",
    "ports",
    "traefik",
]


def build(home, docs, cuts=6) -> KnowledgeBase:
    publish(
        open_shards(Settings(home=home)), World(docs, sources=SOURCES).input(), ShardSettings(max_chunks=cuts)
    )
    return KnowledgeBase.open(settings=Settings(home=home), embedder=HashEmbedder())


paragraph = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
moments = st.sampled_from(
    [
        datetime(2023, 5, 1, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 6, 30, 12, tzinfo=UTC),
    ]
)
documents = st.lists(
    st.builds(
        Doc,
        path=st.integers(0, 99).map("{}.md".format),
        text=st.lists(paragraph, min_size=0, max_size=5).map("\n\n".join),
        source=st.sampled_from(sorted(SOURCES)),
        lang=st.sampled_from(["en", "de"]),
        date=st.none() | moments,
        since=moments,
    ),
    max_size=14,
    unique_by=lambda d: (d.source, d.path),
)
some = (
    st.none()
    | st.sampled_from(["docs", "stack", "missing"])
    | st.lists(st.sampled_from(["docs", "stack", "chat"]), max_size=2)
)
filters = st.fixed_dictionaries(
    {
        "source": some,
        "type": st.none() | st.sampled_from(["files", "compose"]),
        "tag": st.none() | st.sampled_from(["manual", "home", "none"]),
        "language": st.none() | st.sampled_from(["en", "de"]),
        "date_from": st.none() | st.sampled_from(["2024-01-01", date(2023, 6, 1), datetime(2024, 6, 30, 12)]),
        "date_to": (
            st.none() | st.sampled_from(["2024-01-01", "2024-06-30T12:00:00+00:00", date(2024, 6, 30)])
        ),
    }
)


def passes(doc: Doc, f: dict) -> bool:
    def among(value, wanted):
        return wanted is None or bool({value} & ({wanted} if isinstance(wanted, str) else set(wanted)))

    def moment(value, end):
        if isinstance(value, str):
            value = datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return datetime.fromtimestamp(value.timestamp() + 86400, UTC) if end else value

    own = doc.date or doc.since
    return (
        among(doc.source, f["source"])
        and among(SOURCES[doc.source]["type"], f["type"])
        and (f["tag"] is None or f["tag"] in SOURCES[doc.source]["tags"])
        and among(doc.lang, f["language"])
        and (f["date_from"] is None or own >= moment(f["date_from"], False))
        and (f["date_to"] is None or own < moment(f["date_to"], True))
    )


def expected(docs, query, f):
    """Per arm the texts in order, and per text its occurrences that pass, in order of id."""
    chunks = [(d.doc_id, i, d.text[a:b], d) for d in docs for i, (a, b) in enumerate(d.spans())]
    occurrences: dict[str, list] = {}
    for c in sorted(chunks, key=lambda c: c[:2]):
        if passes(c[3], f):
            occurrences.setdefault(c[2], []).append(c)
    by_chunk = {c[:2]: analyze_fields(c[2]) for c in chunks}
    by_document: dict[str, Analysis] = {}
    for (doc_id, _), (terms, length) in by_chunk.items():
        held = by_document.get(doc_id, Analysis(Counter(), 0))
        by_document[doc_id] = Analysis(held.terms + terms, held.length + length)

    def collection(texts):
        """In how many texts each term is, how many texts there are, and their mean length."""
        held = Counter(term for text in texts for term in text.terms)
        return held, len(texts), sum(text.length for text in texts) / max(len(texts), 1) or 1.0

    def field(term, own, texts):
        """BM25 of one term in one text of a collection."""
        if not own.terms[term]:
            return 0.0
        held, count, mean = texts
        norm = 1.2 * (0.25 + 0.75 * own.length / mean)
        idf = math.log(1 + (count - held[term] + 0.5) / (held[term] + 0.5))
        return idf * own.terms[term] * 2.2 / (own.terms[term] + norm)

    def bm25(own, texts):
        """Of each word the quadratic mean of its stem's score and of its own as it is written."""
        score = 0.0
        for term, forms, weight in analyze_query(query):
            stem = field(term, own, texts)
            written = max((field(f, own, texts) for f in forms), default=stem)
            score += weight * math.sqrt((stem**2 + written**2) / 2)
        return score

    all_chunks, all_documents = collection(by_chunk.values()), collection(by_document.values())

    def keyword(occurrence):
        own = bm25(by_chunk[occurrence[:2]], all_chunks)
        return (own + bm25(by_document[occurrence[0]], all_documents)) / 2 if own else 0.0

    target = embed(query).astype(np.float64)
    arms = {}
    for arm, score in (
        ("vector", lambda o: float(embed(o[2]).astype(np.float64) @ target)),
        ("keyword", keyword),
    ):
        scored = [(-round(score(o[0]), 6), o[0][:2], t) for t, o in occurrences.items()]
        arms[arm] = [(t, -s) for s, _, t in sorted(scored) if arm == "vector" or s < 0]
    return arms, occurrences


def joined(arms, size):
    """The fused score of each text (``fusion="auto"``, equal weights): see ``retrieval.fusion``."""
    parts, weights = {}, {}
    for arm, ranked in arms.items():
        if not ranked:
            continue
        scores = [s for _, s in ranked] + [0.0] * (size - len(ranked))
        low, high, deviation = scores[-1], scores[0], statistics.pstdev(scores)
        weights[arm] = ((high - statistics.fmean(scores)) / deviation) ** 2 if deviation > 2e-6 else 0.0
        parts[arm] = {
            text: ((s - low) / (high - low) if high > low else 1.0) / 2 + 61 / (60 + i) / 2
            for i, (text, s) in enumerate(ranked, 1)
        }
    if not sum(weights.values()):
        weights = dict.fromkeys(weights, 1.0)
    fused = Counter()
    for arm, part in parts.items():
        for text, s in part.items():
            fused[text] += weights[arm] / sum(weights.values()) * s
    return fused


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    docs=documents,
    queries=st.lists(st.tuples(paragraph, filters, st.integers(1, 12)), min_size=1, max_size=6),
    cuts=st.integers(1, 9),
    few=st.sampled_from([0, 1000]),
)
def test_search_is_what_brute_force_finds(docs, queries, cuts, few, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(vectors, "_FEW", few)  # 0: the scan of codes, by two threads, else exactly at once
    monkeypatch.setattr(vectors, "_MANY", few)
    kb = build(tmp_path_factory.mktemp("kb"), docs, cuts)
    for query, f, limit in queries:
        arms, occurrences = expected(docs, query, f)
        fused = joined(arms, len(occurrences))
        by_id = {t: o[0][:2] for t, o in occurrences.items()}
        arms["hybrid"] = [
            (t, round(s, 6)) for t, s in sorted(fused.items(), key=lambda i: (-round(i[1], 6), by_id[i[0]]))
        ]
        for mode, ranked in arms.items():
            hits = kb.search(query, limit, mode=mode, vector_weight=1, keyword_weight=1, **f).hits
            assert [(h.text, pytest.approx(h.score, abs=2e-6)) for h in hits] == ranked[:limit]
            for h in hits:
                own = [f"{d}:{i}" for d, i, _, _ in occurrences[h.text]]
                assert [h.chunk_id, *h.also_in] == own
                doc = occurrences[h.text][0][3]
                assert doc.text[h.start : h.end] == h.text and (h.doc_id, h.source, h.language) == (
                    doc.doc_id,
                    doc.source,
                    doc.lang,
                )
                assert h.line == 1 + doc.text[: h.start].count("\n")


@pytest.mark.parametrize("many", [0, 10**9], ids=["two threads", "one thread"])
def test_the_scan_of_codes_is_exact_at_every_selectivity(tmp_path, monkeypatch, many):
    """More rows than are scored at once, many of them nearly equal, so that codes alone would choose
    wrongly; in several shards.
    """
    monkeypatch.setattr(vectors, "_MANY", many)
    rng = np.random.default_rng(3)
    docs = [
        Doc(
            f"{i}.md",
            "\n\n".join(f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i} {j}" for j in range(20)),
            source=["docs", "stack", "chat"][min(i % 40, 2)],
        )
        for i in range(150)
    ]
    kb = build(tmp_path, docs, 700)
    for query in ("redis backup", "node-exporter 7", "traefik"):
        for source in (None, "docs", "chat"):
            ranked = expected(
                docs,
                query,
                {
                    "source": source,
                    "type": None,
                    "tag": None,
                    "language": None,
                    "date_from": None,
                    "date_to": None,
                },
            )[0]["vector"]
            assert [h.text for h in kb.search(query, 50, mode="vector", source=source).hits] == [
                t for t, _ in ranked[:50]
            ]


def test_hits_say_where_they_are_from(tmp_path):
    kb = build(
        tmp_path,
        [
            Doc("guide/a.md", "first\n\nredis backup", source="docs"),
            Doc("b.yaml", "redis backup", source="stack"),
        ],
    )
    (hit,) = kb.search("redis backup", 1, source="docs").hits
    assert (hit.url, hit.source_type, hit.tags, hit.line, hit.title, hit.also_in) == (
        "/srv/docs/guide/a.md",
        "files",
        ("manual", "home"),
        3,
        "a.md",
        (),
    )
    assert set(hit.scores) == {"vector", "keyword"} and hit.scores["vector"] == pytest.approx(1.0)
    both = kb.search("redis backup").hits
    assert len([h for h in both if h.text == "redis backup"]) == 1 and len(both[0].also_in) == 1
    assert kb.search("redis backup", source="stack").hits[0].url == "stack:b.yaml"


def test_a_new_manifest_is_seen_by_the_next_query(tmp_path):
    kb = build(tmp_path, [Doc("a.md", "old words", source="docs")])
    assert kb.search("new words", 1).hits[0].text == "old words"
    build(tmp_path, [Doc("a.md", "new words", source="docs")])
    assert kb.search("new words", 1).hits[0].text == "new words"
    prune(open_shards(Settings(home=tmp_path)), NAMESPACE)
    assert kb.search("new words", 1).hits[0].text == "new words"


def test_a_shard_that_goes_away_during_a_query_is_looked_for_in_the_next_manifest(tmp_path, monkeypatch):
    build(tmp_path, [Doc("a.md", "old words", source="docs")])

    class Slow(HashEmbedder):
        def embed_query(self, text):
            return embed(text)

    kb = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=Slow())
    session = kb._session
    session.view()  # pinned, nothing mapped yet
    real = session.view
    calls = []

    def racing(**options):
        view = real()
        if not calls:
            calls.append(1)
            build(tmp_path, [Doc("a.md", "new words", source="docs")])
            prune(open_shards(Settings(home=tmp_path)), NAMESPACE)
        return view

    monkeypatch.setattr(session, "view", racing)
    assert kb.search("new words", 1).hits[0].text == "new words"


@pytest.mark.parametrize(("harm", "code"), [("flip", "E_SHARD_CORRUPT"), ("remove", "E_SHARD_MISSING")])
@pytest.mark.parametrize("cached", [True, False])
def test_damage_is_found_by_the_first_query_that_needs_the_file(tmp_path, harm, code, cached):
    docs = [Doc("a.md", "redis backup", source="docs")]
    build(tmp_path, docs)
    path = next(shards_dir(tmp_path / "kb", NAMESPACE).glob("*/shard-00000.duckdb"))
    data = path.read_bytes()
    path.chmod(0o644)
    path.unlink()
    if harm == "flip":
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    if not cached:
        shutil.rmtree(tmp_path / "cache")
    kb = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=HashEmbedder())
    if cached:
        assert len(kb.search("redis").hits) == 1 and kb.links("a.md")
    for ask in [kb.nodes] if cached else [kb.nodes, lambda: kb.search("redis"), lambda: kb.links("a.md")]:
        with pytest.raises(TabootError) as caught:
            ask()
        assert caught.value.code == code and path.name in caught.value.message
    world = World(docs, sources=SOURCES)
    assert (
        publish(open_shards(Settings(home=tmp_path)), world.input(), ShardSettings(max_chunks=6)).shards_new
        == 1
    )
    assert len(kb.search("redis").hits) == 1 and len(kb.nodes()) == 1


def test_no_knowledge_base_yet(tmp_path):
    for home in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TabootError) as caught:
            KnowledgeBase.open(home)
        assert caught.value.code == "E_KB_UNINITIALIZED"


def test_an_empty_knowledge_base_finds_nothing(tmp_path):
    kb = build(tmp_path, [])
    assert kb.search("anything").hits == () and not kb.answer("anything?").found
    assert len(kb.nodes()) == len(kb.edges()) == len(kb.documents()) == 0


def test_a_foreign_embedding_space_is_searched_by_words_alone_and_said(tmp_path):
    build(tmp_path, [Doc("a.md", "redis\n\nredis twice", source="docs")])

    class Other(HashEmbedder):
        space = Space("other", "1", 16, 256)

    kb = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=Other())
    with pytest.raises(TabootError) as caught:
        kb.search("redis", mode="vector")
    assert caught.value.code == "E_CONFIG"
    by_words = kb.search("redis", mode="keyword")
    for mode in ("hybrid", "adaptive", "graph"):
        found = kb.search("redis", mode=mode)
        assert found.hits == by_words.hits and (found.mode, found.chosen) == (mode, "keyword")
        assert "other.1.16" in found.notes[0] and "taboot ingest" in found.notes[0]
        assert not kb.search("redis", mode=mode).cached
    assert kb.why_not("a.md", "redis").chunks
    first = kb.search("redis", limit=1)
    assert first.next_cursor is None or kb.search("redis", limit=1, cursor=first.next_cursor).hits
    assert not by_words.notes and kb.answer("What is redis?") is not None


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("query", ""),
        ("query", "  \n"),
        ("query", None),
        ("query", "x" * 200_000),
        ("limit", 0),
        ("limit", -1),
        ("limit", "5"),
        ("limit", True),
        ("limit", 10**9),
        ("mode", "magic"),
        ("source", 3),
        ("tag", [None]),
        ("date_from", "yesterday"),
        ("date_to", 5),
        ("vector_weight", -1),
        ("keyword_weight", float("nan")),
        ("vector_weight", "1"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path, argument, value):
    kb = build(tmp_path, [Doc("a.md", "redis", source="docs")])
    with pytest.raises(TabootError) as caught:
        kb.search(**{"query": "redis", argument: value})
    assert caught.value.code == "E_QUERY" and argument in caught.value.message


@pytest.mark.parametrize(
    "query",
    [
        "\ud800",
        "\x00",
        "'; DROP TABLE docs; --",
        "%s" * 50,
        "the of and",
        "🙂" * 1000,
        "a" * 1000,
        "漢" * 1000,
        ". " * 500,
    ],
)
def test_any_text_is_a_query(tmp_path, query):
    kb = build(tmp_path, [Doc("a.md", "redis", source="docs")])
    for mode in ("hybrid", "vector", "keyword"):
        kb.search(query, mode=mode)


def test_fusion_ranks_by_reciprocal_ranks_and_ties_by_id():
    def arm(*ids, weight=1.0):
        return Arm(Ranking(np.array(ids), np.linspace(2, 1, len(ids))), weight, 10)

    ids, scores = fuse([arm(7, 3, 9), arm(3, 7, 5), arm(1, weight=0.0)], 10, fusion="rrf")
    assert ids.tolist() == [3, 7, 5, 9]
    assert scores.tolist() == [round(1 / 61 + 1 / 62, 6)] * 2 + [round(1 / 63, 6)] * 2
    assert fuse([], 5, fusion="rrf").ids.tolist() == []


def test_words_count_as_much_as_meaning_where_a_query_names_something(tmp_path):
    """The embedder knows nothing of the code in the question; the chunk that holds it must still come
    first.
    """
    docs = [
        Doc(f"{i}.md", f"what to do when it is not there and how {i}", source="docs") for i in range(300)
    ] + [Doc("x.md", "see ERR-4711", source="docs")]
    kb = build(tmp_path, docs, 1000)
    question = "what to do when it is not there and how restart nginx backup redis ERR-4711"
    assert kb.search(question, mode="vector").hits[0].text != "see ERR-4711"
    assert "see ERR-4711" in [h.text for h in kb.search(question, 10).hits]
    assert "see ERR-4711" not in [
        h.text for h in kb.search(question, 10, vector_weight=3, keyword_weight=0).hits
    ]
    assert kb.search("ERR-4711", 1).hits[0].text == "see ERR-4711"
    assert [
        names_something(q)
        for q in ("redis backup", "10.0.0.5", "how do I restart the nginx container safely", "")
    ] == [True, True, False, True]


def test_results_are_tables_and_escape_what_documents_say(tmp_path):
    kb = build(tmp_path, [Doc("a.md", "<script>alert(1)</script> redis", source="docs")])
    result = kb.search("redis")
    table = result.to_arrow()
    assert table.num_rows == 1 and table.column("chunk_id")[0].as_py() == result.hits[0].chunk_id
    assert result.to_pandas().loc[0, "text"] == result.hits[0].text
    assert "<script>" not in result._repr_html_() and "&lt;script&gt;" in result._repr_html_()
    assert sha256_hex(result.model_dump_json()) == sha256_hex(kb.search("redis").model_dump_json())


def test_a_result_is_no_frame_without_the_extra(tmp_path, monkeypatch):
    result = build(tmp_path, [Doc("a.md", "redis", source="docs")]).search("redis")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TabootError, match="notebook") as raised:
        result.to_pandas()
    assert raised.value.code == "E_EXTRA" and result.to_arrow().num_rows == 1


def test_words_that_another_release_indexed_are_refused(tmp_path):
    """Its terms are other terms: the search would be worse, and nobody would notice."""
    kb = build(tmp_path, [Doc("a.md", "redis backup", source="docs")])
    path = tmp_path / "kb" / f"{NAMESPACE}.duckdb.manifest.json"
    path.write_text(path.read_text().replace(ANALYZER, "taboot-1"))
    for mode in ("keyword", "vector", "hybrid"):
        with pytest.raises(TabootError) as caught:
            kb.search("redis", mode=mode)
        assert caught.value.code == "E_SHARD_CORRUPT" and "taboot-1" in caught.value.message
    build(tmp_path, [Doc("a.md", "redis backup", source="docs"), Doc("b.md", "more", source="docs")])
    assert kb.search("redis", mode="keyword").hits


def test_a_query_of_function_words_alone_finds_them(tmp_path):
    texts = ["who are the who", "the port of the server", "nothing else"]
    kb = build(tmp_path, [Doc(f"{i}.md", t, source="docs") for i, t in enumerate(texts)])
    assert kb.search("the who", mode="keyword").hits[0].text == texts[0]
    assert {h.text for h in kb.search("The?", mode="keyword").hits} == set(texts[:2])
    # Beside any other word they are left out.
    assert [h.text for h in kb.search("the server", mode="keyword").hits] == [texts[1]]


def test_the_very_word_stands_above_another_form_of_it(tmp_path):
    texts = ["it connects a port", "it connected a port", "connection of a port"]
    kb = build(tmp_path, [Doc(f"{i}.md", t, source="docs") for i, t in enumerate(texts)])
    for word, first in (("connects", 0), ("connected", 1), ("connection", 2)):
        hits = kb.search(word, mode="keyword").hits
        assert hits[0].text == texts[first] and len(hits) == 3


def test_what_a_passage_leaves_out_may_stand_beside_it(tmp_path):
    """Of two passages with the same words, that comes first whose document has the other word too."""
    docs = [
        Doc("a.md", "restart the proxy\n\nabout redis", source="docs"),
        Doc("b.md", "restart the proxy now\n\nabout nginx", source="docs"),
    ]
    kb = build(tmp_path, docs)
    hits = kb.search("nginx restart", mode="keyword").hits
    ranked = [h.text for h in hits]
    assert ranked.index("restart the proxy now") < ranked.index("restart the proxy")
    assert "about redis" not in ranked  # it has no word of the query itself
