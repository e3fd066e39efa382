"""The walk over links and statements: what a question names, what it reaches, and that it stays bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.retrieval.graph_walk import WalkGraph


def web(documents: int, links: list[tuple[int, int, float]]) -> WalkGraph:
    """A web of documents alone, made of (source, target, weight) without the shards behind it."""
    made = WalkGraph.__new__(WalkGraph)
    made.documents = made.size = documents
    rows = np.array([a for a, _, _ in links], dtype=np.int64)
    columns = np.array([b for _, b, _ in links], dtype=np.int64)
    made._arrows(rows, columns, np.array([w for _, _, w in links], dtype=np.float64))
    return made


def power(made: WalkGraph, seeds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Personalized PageRank as it is defined, by power iteration over the whole matrix."""
    matrix = np.zeros((made.size, made.size))
    for node in range(made.size):
        for arrow in range(made.starts[node], made.starts[node + 1]):
            matrix[node, made.targets[arrow]] += made.weights[arrow]
    seed = np.zeros(made.size)
    np.add.at(seed, seeds, weights / weights.sum())
    spent, held = np.zeros(made.size), seed
    for _ in range(60):
        spent += 0.5 * held
        held = 0.5 * (held @ matrix)
    return spent


links = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11), st.sampled_from([0.25, 1.0, 3.0])).filter(
        lambda link: link[0] != link[1]
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(links, st.lists(st.integers(0, 11), min_size=1, max_size=4))
def test_a_walk_is_personalized_pagerank(made: list[tuple[int, int, float]], seeds: list[int]) -> None:
    some = web(12, made)
    at, weights = np.array(seeds), np.linspace(1.0, 0.5, len(seeds))
    # What is not passed on any more is less than the floor at each node and round.
    assert np.allclose(some.walk(at, weights), power(some, at, weights), atol=2e-3)


@settings(max_examples=50, deadline=None)
@given(links, st.randoms(use_true_random=False))
def test_the_order_of_links_never_matters(made: list[tuple[int, int, float]], order: object) -> None:
    shuffled = list(made)
    order.shuffle(shuffled)
    seeds, weights = np.array([3, 7]), np.array([1.0, 0.3])
    assert np.allclose(web(12, made).walk(seeds, weights), web(12, shuffled).walk(seeds, weights), atol=1e-9)


def test_a_hub_that_everything_links_to_is_walked_in_bounded_work() -> None:
    size = 20_000
    made = web(size, [(i, 0, 1.0) for i in range(1, size)])
    spent = made.walk(np.array([5]), np.array([1.0]))
    assert spent[5] > spent[0] > 0.0
    # What comes back from the hub is so little for each that it is not passed on.
    assert spent.sum() == pytest.approx(1.0, abs=0.3)
