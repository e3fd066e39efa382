"""One ranking for every backend (rule ``one-ranking``): scores rounded to 1e-6, ties by id, arms joined in
one of three ways (``Fusion``).

``rrf`` is reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): it knows ranks only. ``convex`` is a
convex combination of scores (Bruch, Gai, Ingber 2022, "An Analysis of Fusion Functions for Hybrid
Retrieval"): it keeps how far apart the hits of an arm are, but with weights that fit one kind of query.
``auto`` takes the mean of ranks and scores, and lets each query decide the weights: an arm counts by how far
its best hit stands out of its list, in standard deviations, squared. A word that few texts have lifts those
far above the rest, and the words decide; a long question whose words are everywhere lifts nothing, and the
meaning decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

#: Digits after the point that a score keeps: what two backends may compute differently lies below.
DIGITS = 6
#: What leaves rows out before :func:`rank` keeps those that score less than this below the last of the best:
#: rounded (rule ``one-ranking``), scores that differ by less than one unit of the last digit may tie, and
#: then the id decides. The second unit is room for the last bits of sums, which may differ between two ways
#: to add.
SLACK = 2 * 10.0**-DIGITS

Fusion = Literal["auto", "rrf", "convex"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
#: The constant of reciprocal ranks, as in the paper.
RRF_K = 60
#: How many of an arm's best tell how its scores are spread, however many hits are asked for.
DEPTH = 500

#: Scores of which :func:`threshold` takes the best at first.
_GROUP = 16

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


class Ranking(NamedTuple):
    """Ids, best first, and the score of each."""

    ids: Ids
    scores: Scores


class Arm(NamedTuple):
    """A ranking that takes part in a fusion. ``weight``: from 0, which leaves it out; ``size``: how many ids
    there were to rank, of which those that it does not name score 0 or less than those that it does.
    """

    ranking: Ranking
    weight: float
    size: int


def threshold(scores: npt.NDArray[np.floating[Any]], limit: int) -> float:
    """The ``limit``-th best of ``scores``, of which there are at least so many.

    The best of each of many strided groups are scores too, so the ``limit``-th best of those lies no higher:
    what is below it need not be looked at. This takes a quarter of the time of a selection among all.
    """
    groups = len(scores) // _GROUP
    if groups > 2 * limit:
        best = scores[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
        scores = scores[scores >= np.partition(best, groups - limit)[groups - limit]]
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])


def rank(ids: Ids, scores: Scores, limit: int) -> Ranking:
    """The best ``limit`` of ``ids`` by rounded score, ties by id: ids ascend as what they stand for does."""
    rounded = np.round(scores, DIGITS)
    order = np.lexsort((ids, -rounded))[:limit]
    return Ranking(ids[order], rounded[order])


def fuse(
    arms: Sequence[Arm], limit: int, *, fusion: Fusion = "auto", rrf_k: int = RRF_K, depth: int = DEPTH
) -> Ranking:
    """The best ``limit`` of all that the arms name.

    An arm of weight 0, or without hits, takes no part. ``rrf_k``: damps the head of each arm's ranks;
    ``depth``: see ``DEPTH``. With ``rrf`` the score is Σ weight / (k + rank), ranks from 1; otherwise it lies
    from 0 to 1, where 1 is the best of every arm.
    """
    used = [arm for arm in arms if arm.weight > 0 and len(arm.ranking.ids)]
    if not used:
        return Ranking(np.zeros(0, dtype=np.int64), np.zeros(0))
    if fusion == "rrf":
        parts = [arm.weight * _reciprocal(arm, rrf_k) for arm in used]
    else:
        spreads = [_spread(arm, depth) for arm in used]
        largest = max(arm.weight for arm in used)  # only the ratios count, and products must stay finite
        weights = [
            arm.weight / largest * (s.height**2 if fusion == "auto" else 1.0)
            for arm, s in zip(used, spreads, strict=True)
        ]
        total = sum(weights)
        if not total:  # no arm prefers anything
            weights = [arm.weight / largest for arm in used]
            total = sum(weights)
        parts = []
        for arm, spread, weight in zip(used, spreads, weights, strict=True):
            part = spread.share(arm.ranking.scores)
            if fusion == "auto":
                part = (part + (rrf_k + 1) * _reciprocal(arm, rrf_k)) / 2
            parts.append(weight / total * part)
    every, place = np.unique(np.concatenate([arm.ranking.ids for arm in used]), return_inverse=True)
    scores: Scores = np.bincount(place, weights=np.concatenate(parts)).astype(np.float64)
    return rank(every, scores, limit)


def reorder(ranked: Ranking, scores: Scores, weight: float) -> Ranking:
    """The ids of ``ranked`` by their scores there and by others, ``scores`` in the same order, of which these
    count ``weight``. Each of the two counts by how far its best stands out, as in :func:`fuse`; the result
    keeps the ends of the scores that there were, so what is ranked behind stays behind.
    """
    count = len(ranked.ids)
    if not count:
        return ranked
    own = _spread(Arm(ranked, 1.0, count), count)
    other = _spread(Arm(Ranking(ranked.ids, np.sort(scores)[::-1]), weight, count), count)
    shares = own.height**2, weight * other.height**2
    if not shares[1]:  # they prefer nothing
        return ranked
    joined = (shares[0] * own.share(ranked.scores) + shares[1] * other.share(scores)) / sum(shares)
    return rank(ranked.ids, own.low + (own.high - own.low) * joined, count)


class _Spread(NamedTuple):
    """How the scores of an arm's best lie. ``low`` and ``high``: their ends; ``height``: how far ``high``
    stands above their mean, in standard deviations.
    """

    low: float
    high: float
    height: float

    def share(self, scores: Scores) -> Scores:
        """Where scores lie from ``low``, 0, to ``high``, 1."""
        if self.high <= self.low:
            return np.ones(len(scores))
        return np.clip((scores - self.low) / (self.high - self.low), 0.0, 1.0)


def _spread(arm: Arm, depth: int) -> _Spread:
    """The spread of the best ``depth`` of all that there was to rank; what the arm does not name counts 0."""
    size = max(min(depth, arm.size), 1)
    best = arm.ranking.scores[:size]
    high, low = float(best[0]), float(best[-1]) if len(best) == size else min(0.0, float(best[-1]))
    mean = float(best.sum()) / size
    # Of those that are not named each is 0, and so its distance from the mean is the mean.
    variance = (float(((best - mean) ** 2).sum()) + (size - len(best)) * mean**2) / size
    deviation = variance**0.5
    return _Spread(low, high, (high - mean) / deviation if deviation > SLACK else 0.0)


def _reciprocal(arm: Arm, k: int) -> Scores:
    """1 / (k + rank) of each hit of an arm, ranks from 1."""
    reciprocal: Scores = 1.0 / (k + 1 + np.arange(len(arm.ranking.ids)))
    return reciprocal
