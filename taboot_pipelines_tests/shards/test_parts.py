"""The rules that the shards rest on: cutting, terms, quantization."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.shards.lines import covers_file
from taboot_pipelines.shards.plan import cut
from taboot_pipelines.shards.quantize import quantize


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
        ("Node-Exporter's services", {"node": 1, "exporter": 1, "node-exporter": 1, "service": 1}),
        ("10.0.0.5:8080", {"10": 1, "0": 2, "5": 1, "8080": 1, "10.0.0.5:8080": 1}),
        ("the policies of the boss", {"policy": 1, "boss": 1}),
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
