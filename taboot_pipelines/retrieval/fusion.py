"""One ranking for every backend (rule ``one-ranking``): scores rounded to 1e-6, ties by id, arms joined
by rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

#: Digits after the point that a score keeps: what two backends may compute differently lies below.
DIGITS = 6
#: What leaves rows out before :func:`rank` keeps those that score less than this below the last of the best:
#: rounded (rule ``one-ranking``), scores that differ by less than one unit of the last digit may tie, and
#: then the id decides. The second unit is room for the last bits of sums, which may differ between two ways
#: to add.
SLACK = 2 * 10.0**-DIGITS

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


class Ranking(NamedTuple):
    """Ids, best first, and the score of each."""

    ids: Ids
    scores: Scores


def rank(ids: Ids, scores: Scores, limit: int) -> Ranking:
    """The best ``limit`` of ``ids`` by rounded score, ties by id: ids ascend as what they stand for does."""
    rounded = np.round(scores, DIGITS)
    order = np.lexsort((ids, -rounded))[:limit]
    return Ranking(ids[order], rounded[order])


def reciprocal_rank_fusion(arms: Sequence[tuple[Ids, float]], k: int, limit: int) -> Ranking:
    """Join ranked lists: score(d) = Σ weight / (k + rank of d in the arm), ranks from 1 (Cormack, Clarke,
    Büttcher 2009).

    ``arms``: (ids, best first; weight). An arm of weight 0 takes no part.
    """
    used = [(ids, weight) for ids, weight in arms if weight > 0 and len(ids)]
    if not used:
        return Ranking(np.zeros(0, dtype=np.int64), np.zeros(0))
    every, place = np.unique(np.concatenate([ids for ids, _ in used]), return_inverse=True)
    scores = np.zeros(len(every))
    at = 0
    for ids, weight in used:
        scores[place[at : at + len(ids)]] += weight / (k + 1 + np.arange(len(ids)))
        at += len(ids)
    return rank(every, scores, limit)
