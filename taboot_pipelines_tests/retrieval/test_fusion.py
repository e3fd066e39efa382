"""What leaves rows out before a ranking loses none of the best, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.retrieval.fusion import SLACK, rank, reciprocal_rank_fusion

#: Scores that lie within a few units of the last digit of each other, most of them between two digits.
close = st.lists(st.integers(0, 60).map(lambda n: 0.5 + n / 1e7), min_size=1, max_size=40).map(np.array)


@settings(max_examples=300, deadline=None)
@given(scores=close, limit=st.integers(1, 40))
def test_rows_further_below_the_last_of_the_best_than_the_slack_are_not_among_them(scores, limit):
    ids = np.arange(len(scores))
    best = rank(ids, scores, limit)
    k = min(limit, len(scores))
    kept = ids[scores >= np.sort(scores)[-k] - SLACK]
    assert rank(kept, scores[kept], limit).ids.tolist() == best.ids.tolist()


def test_without_slack_a_tie_would_go_to_the_wrong_row():
    """Both scores are 0.500000 when rounded, so the smaller id is first, though its score is the smaller."""
    scores = np.array([0.4999996, 0.5000004])
    assert rank(np.arange(2), scores, 1).ids.tolist() == [0]
    assert scores[0] < np.max(scores) and scores[0] >= np.max(scores) - SLACK


def test_a_ranking_of_a_ranking_is_the_same():
    rng = np.random.default_rng(5)
    once = rank(np.arange(500), rng.standard_normal(500), 100)
    again = rank(once.ids, once.scores, 100)
    assert np.array_equal(once.ids, again.ids) and np.array_equal(once.scores, again.scores)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_an_arm_without_weight_or_without_rows_takes_no_part(weight):
    arms = [(np.array([4, 2]), 2.0), (np.array([9] if not weight else [], dtype=np.int64), weight)]
    fused = reciprocal_rank_fusion(arms, 60, 5)
    assert fused.ids.tolist() == [4, 2] and fused.scores.tolist() == [round(2 / 61, 6), round(2 / 62, 6)]
