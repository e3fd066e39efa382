"""Two-bit codes: what they say of a product errs as is known, and a search by them misses nothing that it
promised.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.retrieval import KnowledgeBase, fast_scan, vectors
from taboot_pipelines.retrieval.fast_scan import FastScan
from taboot_pipelines.settings import Settings, ShardSettings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import publish
from taboot_pipelines.shards.quantization import DEVIATION, SHARE, levels, rotation, two_bit_codes
from taboot_pipelines_tests.shards import builder
from taboot_pipelines_tests.shards.builder import Doc, World

#: Vectors of kinds that an encoder, or a careless one, may make, as what is drawn for each number becomes.
KINDS = {
    "normal": lambda drawn: drawn,
    "a few large numbers": lambda drawn: drawn**5,
    "all positive": abs,
    "one direction": lambda drawn: drawn * 0.02 + 1,
    "one number": lambda drawn: np.where(np.arange(drawn.shape[1]) == 3, drawn + 5, drawn * 1e-3),
}


def made(kind, count, dimension, seed):
    drawn = KINDS[kind](np.random.default_rng(seed).standard_normal((count, dimension)))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def decoded(codes, dimension):
    """The vectors that codes stand for, rotated: four numbers to a byte."""
    parts = np.stack([codes >> 2 & 3, codes & 3, codes >> 6, codes >> 4 & 3], axis=-1)
    return levels(dimension)[parts.reshape(len(codes), -1)[:, :dimension]]


@pytest.mark.parametrize("dimension", [1, 2, 3, 40, 100, 384, 768])
def test_a_rotation_keeps_lengths_and_is_always_the_same(dimension):
    turned = rotation(dimension)
    assert np.allclose(turned @ turned.T, np.eye(dimension), atol=1e-5)
    rotation.cache_clear()
    assert np.array_equal(turned, rotation(dimension))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [100, 384])
def test_what_codes_say_of_a_product_errs_by_the_known_deviation(kind, dimension):
    rows = made(kind, 4000, dimension, 1)
    queries = np.concatenate([made(k, 20, dimension, 2) for k in KINDS])
    told = decoded(two_bit_codes(rows), dimension) @ (queries @ rotation(dimension)).T / SHARE
    errors = (told - rows @ queries.T) * dimension**0.5 / DEVIATION
    # Rows of one direction are nearly one row, whose error all of them have.
    assert np.abs(errors).max() < 6 and errors.std() < 1.2
    assert kind in ("one direction", "one number") or errors.std() > 0.9


def test_lengths_and_rows_of_zeros_are_no_matter():
    rows = made("normal", 50, 24, 3)
    assert np.array_equal(two_bit_codes(rows), two_bit_codes(rows * np.float32(1e4)))
    assert two_bit_codes(np.zeros((2, 24), dtype=np.float32)).shape == (2, 6)
    assert two_bit_codes(np.zeros((0, 24), dtype=np.float32)).shape == (0, 6)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    dimension=st.integers(1, 130),
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=4).filter(any),
    seed=st.integers(0, 2**32),
    halves=st.booleans(),
    alone=st.booleans(),
)
def test_the_scan_names_the_rows_whose_codes_are_best(kind, dimension, sizes, seed, halves, alone):
    if kind == "one number" and dimension < 4:
        kind = "normal"
    rows = made(kind, sum(sizes), dimension, seed)
    query = made("normal", 1, dimension, seed + 1)[0]
    codes = two_bit_codes(rows)
    parts = np.split(codes, np.cumsum(sizes)[:-1])
    count = max(1, len(rows) // 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_scan, "_MANY", 0 if halves else 1000)
        scan = FastScan(parts, dimension)
    near, might = scan.nearest(query, count, alone=alone)
    told = decoded(codes, dimension) @ (query @ rotation(dimension))
    # A table's products are held in eight bits: so much may two rows change places.
    rounding = 0.01 + 2 * dimension * float(np.abs(told).max()) / 255
    assert len(set(near)) == len(near) <= count
    assert len(near) == count or len(rows) < 32 or np.ptp(told) < rounding
    best = np.sort(told)[::-1][: len(near)]
    assert told[near] == pytest.approx(best, abs=rounding)
    assert might == pytest.approx(best / SHARE + 5 * DEVIATION / dimension**0.5, abs=rounding / SHARE)


def test_without_the_library_the_int8_codes_are_scanned(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "_MANY", 10)
    monkeypatch.setattr("taboot_pipelines.retrieval.index.find_spec", lambda name: None)
    monkeypatch.setattr(FastScan, "__init__", lambda *given: pytest.fail("there is no library"))
    docs = [Doc(f"{i}.md", f"redis {i}") for i in range(2000)]
    publish(open_shards(Settings(home=tmp_path)), World(docs).input(), ShardSettings(max_chunks=600))
    kb = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=builder.HashEmbedder())
    found = [
        [h.text for h in kb.search("redis 7", 3, mode="vector", exact=exact, cache=False).hits]
        for exact in (False, False, True)
    ]
    assert found[0] == found[1] == found[2] and found[0][0] == "redis 7"


class Given(builder.HashEmbedder):
    """An embedder that is told the query's vector."""

    query = np.zeros(0, dtype=np.float32)

    def embed_query(self, text):
        return self.query


@pytest.mark.parametrize(
    ("groups", "spread"), [(100, 0.5), (1, 1.0), (1, 0.05), (1, 0.0)], ids=["apart", "near", "close", "equal"]
)
def test_a_search_by_codes_finds_what_all_vectors_say(tmp_path, monkeypatch, groups, spread):
    """However close the vectors lie: where codes cannot tell them apart every vector is looked at."""
    monkeypatch.setattr(vectors, "_MANY", 1000)
    docs = [Doc(f"{i}.md", f"text {i}", source=["docs", "chat"][i % 4 == 0]) for i in range(4000)]
    rng = np.random.default_rng(5)
    size = 256
    monkeypatch.setattr(builder, "SPACE", Space("tests/drawn", "0", size, 256))
    monkeypatch.setattr(Given, "space", builder.SPACE)
    drawn = rng.standard_normal((groups, size))[np.arange(4000) % groups]
    drawn += rng.standard_normal((4000, size)) * spread
    drawn = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    monkeypatch.setattr(builder, "embed", lambda text: drawn[int(text.split()[1])])
    publish(open_shards(Settings(home=tmp_path)), World(docs).input(), ShardSettings(max_chunks=600))
    embedder = Given()
    kb = KnowledgeBase.open(settings=Settings(home=tmp_path), embedder=embedder)
    scans, looked = [], []
    nearest, best = FastScan.nearest, vectors._best
    monkeypatch.setattr(FastScan, "nearest", lambda *given, **k: scans.append(1) or nearest(*given, **k))
    monkeypatch.setattr(vectors, "_best", lambda *given: looked.append(given[3]) or best(*given))
    for i in range(12):
        embedder.query = drawn[i] + rng.standard_normal(size).astype(np.float32) * 0.05
        for source in (None, "docs"):
            own = [h.chunk_id for h in kb.search("x", 20, mode="vector", source=source, cache=False).hits]
            # The first search of a process has no codes in place, and an exact one never asks for them.
            asked = len(looked)
            proof = kb.search("x", 20, mode="vector", source=source, exact=True, cache=False).hits
            assert own == [h.chunk_id for h in proof] and len(looked) == asked + 1
    assert 23 <= len(scans) <= 46
    # Where codes cannot tell, more rows are looked at, and then all: of groups that stand apart, where a
    # filter leaves none of the query's.
    again = len(looked) - 2 * 24
    assert 0 < again < 12 if groups > 1 else again > 30
