"""What hits show: highlights, neighbours of the document, near duplicates, the arms, what it took."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.retrieval.pages import alike, shingles
from taboot_pipelines.retrieval.snippets import terms_of, word_ranges
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines_tests.retrieval.test_search import build
from taboot_pipelines_tests.shards.builder import Doc
from taboot_pipelines_tests.world import World


def marked(text: str, query: str) -> list[str]:
    return [text[a:b] for a, b in word_ranges(text, terms_of(query))]


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("Backups of the Redis server.", "redis backup", ["Backups", "Redis"]),
        ("see ERR-123 or err 123", "ERR-123", ["ERR-123", "err", "123"]),
        ("node-exporter exports", "exporter", ["exporter", "exports"]),
        ("listen 10.0.0.5:8080;", "10.0.0.5", ["10", "0", "0", "5"]),
        ("cafe\u0301 or CAFÉ", "café", ["cafe\u0301", "CAFÉ"]),
        ("ｒｅｄｉｓ wide", "redis", ["ｒｅｄｉｓ"]),
        ("the of and", "the of and", []),
        ("dying, tied and skies", "die tie sky", ["dying", "tied", "skies"]),
        ("x aing 7", "x 7", ["x", "7"]),
        ("", "redis", []),
        ("redis", "🙂", []),
    ],
)
def test_words_of_the_query_are_marked_where_they_stand(text, query, found):
    assert marked(text, query) == found


@given(text=st.text(max_size=200), query=st.text(max_size=30))
def test_marks_are_apart_and_each_is_a_word_of_the_query(text, query):
    terms, last = terms_of(query), 0
    for start, end in word_ranges(text, terms):
        assert last <= start < end <= len(text)
        assert analyze(text[start:end])[0].keys() & terms
        last = end


words = st.text(st.sampled_from("aeiouydgnst7"), min_size=1, max_size=7)


@given(text=st.lists(words).map(" ".join), query=words)
def test_every_word_with_the_stem_of_the_query_is_marked(text, query):
    """Though only words that begin like the stem are looked at."""
    stems = analyze(query)[0].keys()
    assert marked(text, query) == [word for word in text.split() if analyze(word)[0].keys() & stems]


def test_neighbours_come_without_what_they_share(world: World):
    """Chunks of a real document overlap; the pieces of a context do not, and each stands where it says."""
    text = "\n\n".join(
        f"## Part {n}\n\n" + " ".join(f"sentence{n}x{i} speaks of redis and backups." for i in range(60))
        for n in range(6)
    )
    (world.source("docs") / "long.md").write_text(f"# Long\n\n{text}\n")
    (world.source("more") / "short.md").write_text("# Short\n\nredis\n")
    world.ingest()
    kb = world.kb()
    plain = {h.chunk_id: h for h in kb.search("redis backups", 100).hits}
    whole = "\n".join(["# Long", "", *text.split("\n")]) + "\n"
    for count in (1, 2, 10):
        for hit in kb.search("redis backups", 100, expand=count).hits:
            assert hit.model_copy(update={"context": ()}) == plain[hit.chunk_id]
            indexes = [int(p.chunk_id.rpartition(":")[2]) for p in hit.context]
            own = int(hit.chunk_id.rpartition(":")[2])
            assert indexes == sorted(set(indexes)) and own in indexes
            assert all(
                abs(i - own) <= count and p.chunk_id.startswith(hit.doc_id)
                for i, p in zip(indexes, hit.context, strict=True)
            )
            assert all(a.end <= b.start for a, b in zip(hit.context, hit.context[1:], strict=False))
            if hit.source == "docs":
                assert all(whole[p.start : p.end] == p.text for p in hit.context)
                assert len(hit.expanded) > len(hit.text)
            assert hit.text in hit.expanded
    assert all(h.context == () and h.expanded == h.text for h in plain.values())


def test_of_nearly_equal_texts_the_best_is_shown_and_names_the_others(tmp_path):
    long = "how to restore the postgres database of the house from the backup of last night step by step"
    docs = [Doc(f"{n}.md", f"{long} version {n}") for n in range(5)] + [Doc("other.md", "postgres listens")]
    kb = build(tmp_path, docs)
    every, sifted = kb.search("restore postgres"), kb.search("restore postgres", dedupe=True)
    assert len(every) == 6 and len(sifted) == 2
    assert sifted.hits[0].chunk_id == every.hits[0].chunk_id
    assert set(sifted.hits[0].similar) == {h.chunk_id for h in every.hits[1:] if long in h.text}
    assert all(h.similar == () for h in every.hits)


def test_resemblance_is_of_runs_of_words():
    one = "one two three four five six seven eight nine ten eleven twelve"
    assert alike(shingles(one), shingles(one.upper() + "!"))
    assert alike(shingles(one), shingles(one + " thirteen"))
    assert not alike(
        shingles(one), shingles("twelve eleven ten nine eight seven six five four three two one")
    )
    assert not alike(shingles("redis"), shingles("nginx")) and alike(shingles(""), shingles("- -"))


def test_a_result_says_what_the_arms_made_of_it_and_what_it_took(tmp_path):
    kb = build(tmp_path, [Doc(f"{n}.md", f"redis backup {n}") for n in range(30)])
    found = kb.search("redis 7", 5, weights={"vector": 2, "keyword": 1}, rrf_k=10, fusion="rrf")
    assert (found.fusion, found.rrf_k, found.weights) == ("rrf", 10, {"vector": 2.0, "keyword": 1.0})
    assert not found.reranked and found.manifest_version == 1 and found.total == 30
    for hit in found.hits:
        assert hit.ranks.keys() == {"vector", "keyword"}
        expected = 2 / (10 + hit.ranks["vector"]) + 1 / (10 + hit.ranks["keyword"])
        assert hit.score == pytest.approx(expected, abs=1e-6)
    assert {"embedding", "keyword", "vector", "fusion", "hits", "total"} <= found.latency_ms.keys()
    # The parts follow one another: between two of them another process may run.
    spent = [v for k, v in found.latency_ms.items() if k != "total"]
    assert all(v >= 0 for v in spent) and 0 < sum(spent) <= found.latency_ms["total"] + 0.01
    alone = kb.search("redis 7", 5, mode="keyword")
    assert alone.fusion == "" and alone.weights == {} and "vector" not in alone.latency_ms
    assert alone.total == 30 and kb.search("7", 1, mode="keyword").total == 1
    table = found.to_arrow()
    assert dict(table.column("ranks")[0].as_py()) == found.hits[0].ranks
    assert table.column("highlights")[0].as_py() == [list(h) for h in found.hits[0].highlights]


def test_a_query_that_was_cut_is_said_to_be(tmp_path):
    kb = build(tmp_path, [Doc("a.md", "redis backup")])
    found = kb.search("redis " * 10_000)
    assert len(found.query) <= 1000 and len(found) == 1
    assert found.notes == ("Of the query's 59999 characters the first 995 were searched.",)
    assert kb.answer("redis " * 10_000).found
