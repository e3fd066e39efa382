"""The rules that the shards rest on: cutting, terms, quantization."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.shards import postings
from taboot_pipelines.shards.analyzer import (
    HYPHENATED_WEIGHT,
    QueryTerm,
    analyze,
    analyze_fields,
    analyze_query,
    form_stem,
    is_form,
)
from taboot_pipelines.shards.plan import cut
from taboot_pipelines.shards.postings import Postings, TermLookup, by_hash, inverted_lists
from taboot_pipelines.shards.quantization import quantize


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 255), st.integers(1, 9)), max_size=40), limit=st.integers(1, 30)
)
def test_leaves_are_prefixes_as_large_as_the_limit_lets_them_be(rows, limit):
    rows = sorted(rows)
    positions, weights = [p for p, _ in rows], [w for _, w in rows]
    leaves = cut(positions, weights, 8, limit)
    assert [i for lo, hi in leaves for i in range(lo, hi)] == list(range(len(rows)))

    def weight(depth, prefix):
        return sum(w for p, w in rows if p >> (8 - depth) == prefix)

    for lo, hi in leaves:
        alike = positions[lo] == positions[hi - 1]
        assert sum(weights[lo:hi]) <= limit or alike
        # The shortest prefix that holds just these rows, and the one above it: that one is over the limit.
        depth = next(
            d
            for d in range(9)
            if {p for p in positions if p >> (8 - d) == positions[lo] >> (8 - d)} == set(positions[lo:hi])
        )
        assert depth == 0 or weight(depth - 1, positions[lo] >> (9 - depth)) > limit


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ERR-123", {"err": 1, "123": 1, "err-123": 1}),
        ("Node-Exporter's services", {"node": 1, "export": 1, "node-exporter": 1, "servic": 1}),
        ("10.0.0.5:8080", {"10": 1, "0": 2, "5": 1, "8080": 1, "10.0.0.5:8080": 1}),
        ("the policies of the boss", {"polici": 1, "boss": 1}),
        ("MY_DB_HOST", {"my": 1, "db": 1, "host": 1, "my_db_host": 1}),
        ("ﬁle Ⅷ", {"file": 1, "viii": 1}),
        ("", {}),
        ("— !?", {}),
        ("a" * 500, {}),
    ],
)
def test_terms(text, terms):
    found, _ = analyze(text)
    assert dict(found) == terms


def test_words_are_indexed_as_they_are_written_too():
    terms, length = analyze_fields("The services of a Node-Exporter: serving, the service")
    assert length == analyze("The services of a Node-Exporter: serving, the service").length == 5
    written = {t: n for t, n in terms.items() if is_form(t)}
    assert written == {
        "=the": 2, "=services": 1, "=of": 1, "=a": 1, "=node": 1, "=exporter": 1, "=serving": 1, "=service": 1
    }  # fmt: skip
    assert {form_stem(t) for t in written} == {"", "servic", "node", "export", "serv"}


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("service services", [QueryTerm("servic", ("=service", "=services"))]),
        ("the node-1", [QueryTerm("1", ("=1",)), QueryTerm("node", ("=node",)), QueryTerm("node-1")]),
        (
            "Two-Dimensional my_db",
            [
                QueryTerm("db", ("=db",)),
                QueryTerm("dimension", ("=dimensional",)),
                QueryTerm("my", ("=my",)),
                QueryTerm("my_db"),
                QueryTerm("two", ("=two",)),
                QueryTerm("two-dimensional", weight=HYPHENATED_WEIGHT),
            ],
        ),
        ("To be, or not to be?", [QueryTerm("=be"), QueryTerm("=not"), QueryTerm("=or"), QueryTerm("=to")]),
        ("???", []),
    ],
)
def test_what_a_query_looks_for(query, terms):
    assert analyze_query(query) == terms


words = st.sampled_from(["port", "ports", "ported", "the", "of", "node-1", "node", "nodes", "Port", "größe"])


@settings(deadline=None)
@given(
    texts=st.lists(st.lists(words, max_size=12).map(" ".join), max_size=8),
    query=st.lists(words, max_size=4).map(" ".join),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8).map(sorted),
)
def test_every_term_is_found_where_it_stands(texts, query, owners):
    """Words that are the only ones with their stem have no list of their own, and are found all the same.
    ``owners``: the document of each text."""
    table, lengths = inverted_lists(texts)
    counts = [analyze_fields(t) for t in texts]
    assert lengths.tolist() == [c.length for c in counts]

    def places(term):
        return {i: c.terms[term] for i, c in enumerate(counts) if term in c.terms}

    every = [t for t in {t for c in counts for t in c.terms} if not is_form(t) or not form_stem(t)]
    wanted = analyze_query(query) + [QueryTerm(t) for t in every] + [QueryTerm("absent", ("=absents",))]
    found = dict(Postings(by_hash(table, np.array(owners, np.int32))).find(TermLookup.of(wanted)))
    for number, (term, forms, _) in enumerate(wanted):
        own = found.get(number)
        assert (as_counts(own.places) if own else {}) == places(term)
        of_documents: Counter[int] = Counter()
        for row, count in places(term).items():
            of_documents[owners[row]] += count
        assert (in_documents(own.places) if own else {}) == of_documents
        for i, form in enumerate(forms):
            at = own and (own.places if own.forms is None else own.forms[i])
            assert (as_counts(at) if at else {}) == places(form)
            assert sum(in_documents(at).values() if at else ()) == sum(places(form).values())
    held = {t for c in counts for t in c.terms}
    terms, alone = table.column("term").to_pylist(), set(table.column("form").drop_null().to_pylist())
    assert terms == sorted(held - alone) and alone <= held


def as_counts(places):
    return dict(zip(places.rows.tolist(), places.tfs.tolist(), strict=True))


def in_documents(places):
    assert np.all(np.diff(places.documents.astype(int)) > 0)
    return dict(zip(places.documents.tolist(), places.counts.tolist(), strict=True))


def test_terms_of_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(postings, "term_hash", lambda term: 7)
    table, _ = inverted_lists(["alpha beta", "beta-1 gamma"])
    found = dict(
        Postings(by_hash(table, np.arange(2, dtype=np.int32))).find(
            TermLookup.of([QueryTerm(t) for t in ("beta", "gamma", "delta", "beta-1")])
        )
    )
    assert {n: as_counts(f.places) for n, f in found.items()} == {0: {0: 1, 1: 1}, 1: {1: 1}, 3: {1: 1}}


def test_compounds_do_not_make_a_text_longer():
    assert analyze("node-exporter")[1] == analyze("node exporter")[1] == 2


@given(st.text())
def test_every_text_has_terms_of_itself(text):
    terms, length = analyze(text)
    assert all(terms) and length <= len(text) * 20
    assert analyze(text)[0] == terms == analyze(text.lower())[0] or not text.isascii()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1e-30, 1e-6, 1.0, 1e6]),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 40)),
)
def test_the_error_of_a_quantized_product_is_within_its_bound(seed, scale, shape):
    rng = np.random.default_rng(seed)
    vectors = (rng.standard_normal(shape) ** 3 * scale).astype(np.float32)
    vectors[0] = 0
    q = quantize(vectors)
    query = rng.standard_normal(shape[1])
    step = np.abs(query).max() / 127
    codes = np.rint(query / step)
    bound = q.error.astype(float) * np.linalg.norm(query) + q.radius.astype(float) * np.linalg.norm(
        query - codes * step
    )
    approximate = (q.codes.astype(float) @ codes) * q.scale.astype(float) * step
    assert (np.abs(vectors.astype(float) @ query - approximate) <= bound * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("text", "charset", "bom", "yes"),
    [
        ("a\nb", "utf-8", 0, True),
        ("ä\nb", "utf-8", 3, True),
        ("ä\nb", "utf-16-le", 2, True),
        ("", "utf-8", 0, False),
    ],
)
def test_a_document_has_its_files_lines_if_all_of_it_is_mapped(text, charset, bom, yes):
    assert covers_file(OffsetMap.of_text(text, charset, bom), len(text)) is yes


def test_a_document_without_its_front_matter_or_of_blocks_has_no_lines():
    assert not covers_file(OffsetMap.of([(0, 5, 40, 45, 1)]), 5)
    assert not covers_file(OffsetMap.of([(0, 5, 0, 50, 0)]), 5)
    assert not covers_file(OffsetMap.of([(0, 5, 0, 5, 1), (5, 9, 30, 34, 1)]), 9)
    assert covers_file(OffsetMap.of([(0, 5, 0, 5, 1), (5, 9, 6, 10, 1)]), 9)  # one \r left out
