"""What leaves rows out before a ranking loses none of the best, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.retrieval.fusion import FUSIONS, SLACK, Arm, Ranking, fuse, rank, threshold

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


arms = st.lists(
    st.builds(
        lambda ids, scores, weight, more: Arm(
            rank(np.array(sorted(ids)), np.array(scores[: len(ids)]), len(ids)), weight, len(ids) + more
        ),
        st.sets(st.integers(0, 60), max_size=30),
        st.lists(st.floats(0.001, 30), min_size=30, max_size=30),
        st.sampled_from([0.0, 0.5, 1.0, 3.0, 1e200]),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("fusion", FUSIONS)
@settings(max_examples=200, deadline=None)
@given(given_arms=arms, limit=st.integers(1, 50), depth=st.integers(1, 40))
def test_a_fusion_ranks_what_its_arms_name(fusion, given_arms, limit, depth):
    used = [a for a in given_arms if a.weight > 0]
    named = {int(i) for a in used for i in a.ranking.ids}
    whole = fuse(given_arms, 1000, fusion=fusion, depth=depth)
    assert set(whole.ids.tolist()) == named
    # From 0 to 1 but for reciprocal ranks; sorted, ties by id; fewer are the first of more.
    if fusion != "rrf":
        assert ((whole.scores >= 0) & (whole.scores <= 1)).all()
    pairs = list(zip((-whole.scores).tolist(), whole.ids.tolist(), strict=True))
    assert pairs == sorted(pairs)
    best = fuse(given_arms, limit, fusion=fusion, depth=depth)
    assert best.ids.tolist() == whole.ids[:limit].tolist()
    assert best.scores.tolist() == whole.scores[:limit].tolist()
    # Who stands above another in every arm does so in the fusion.
    places = [{int(d): i for i, d in enumerate(a.ranking.ids)} for a in used]
    order = {int(d): i for i, d in enumerate(whole.ids)}
    score = dict(zip(whole.ids.tolist(), whole.scores.tolist(), strict=True))
    for one in named:
        for other in named:
            if all(p.get(one, 99) < p.get(other, 99) or (one not in p and other not in p) for p in places):
                assert score[one] >= score[other] and (
                    order[one] < order[other] or score[one] == score[other]
                )


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_order_of_arms_changes_nothing(fusion):
    rng = np.random.default_rng(3)
    made = [
        Arm(rank(np.sort(rng.choice(400, 90, replace=False)), rng.random(90) * s, 90), w, 400)
        for s, w in ((1.0, 3.0), (30.0, 1.0))
    ]
    one, other = fuse(made, 50, fusion=fusion), fuse(made[::-1], 50, fusion=fusion)
    assert one.ids.tolist() == other.ids.tolist() and one.scores.tolist() == other.scores.tolist()


def ranking(*scores):
    return rank(np.arange(len(scores)), np.array(scores), len(scores))


def test_an_arm_whose_best_stands_out_decides():
    """The arms disagree about everything; the one in which one hit lies far above the others is heard."""
    flat = np.linspace(0.5, 0.4, 40)
    clear = np.concatenate(([9.0], np.linspace(2.0, 1.9, 39)))
    arms = [
        Arm(rank(np.arange(40), flat, 40), 1.0, 40),
        Arm(rank(np.arange(40), clear[::-1].copy(), 40), 1.0, 40),
    ]
    assert fuse(arms, 1).ids.tolist() == [39]
    assert fuse(arms, 1, fusion="rrf").ids.tolist() == [0]


@pytest.mark.parametrize("fusion", ["auto", "convex"])
@pytest.mark.parametrize("scores", [(0.7,), (0.7, 0.7, 0.7), ()])
def test_arms_that_prefer_nothing(fusion, scores):
    arms = [Arm(ranking(*scores), 3.0, len(scores)), Arm(ranking(), 1.0, len(scores))]
    fused = fuse(arms, 5, fusion=fusion)
    assert fused.ids.tolist() == list(range(len(scores)))
    assert all(0 < s <= 1 for s in fused.scores)


def test_a_named_choice_of_weights_is_kept():
    one, other = ranking(1.0, 0.5, 0.25, 0.0), rank(np.arange(4), np.array([0.0, 2.0, 1.0, 4.0]), 4)
    fused = fuse([Arm(one, 3.0, 4), Arm(other, 1.0, 4)], 4, fusion="convex")
    assert fused.ids.tolist() == [0, 1, 2, 3]
    assert fused.scores.tolist() == [0.75, 0.5, 0.25, 0.25]


@settings(max_examples=200, deadline=None)
@given(
    scores=st.lists(st.integers(0, 40).map(lambda n: n / 8), min_size=1, max_size=400).map(np.array),
    limit=st.integers(1, 30),
)
def test_the_threshold_is_the_last_of_the_best(scores, limit):
    limit = min(limit, len(scores))
    assert threshold(scores, limit) == np.sort(scores)[-limit]


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_an_arm_without_weight_or_without_rows_takes_no_part(weight):
    other = np.array([9] if not weight else [], dtype=np.int64)
    arms = [
        Arm(Ranking(np.array([4, 2]), np.array([0.9, 0.8])), 2.0, 3),
        Arm(Ranking(other, np.ones(len(other))), weight, 3),
    ]
    fused = fuse(arms, 5, fusion="rrf")
    assert fused.ids.tolist() == [4, 2] and fused.scores.tolist() == [round(2 / 61, 6), round(2 / 62, 6)]
