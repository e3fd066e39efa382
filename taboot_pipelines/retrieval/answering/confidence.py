"""How sure an answer out of text is, from 0 to 1, and from where on it is given.

A logistic function of three features, none of which lowers it as it grows, so that an answer that fits better
in every way is never less sure. The constants were fitted on the open half of the questions of
``benchmarks/answers`` (whether the best statement is right), by ``benchmarks/answer_confidence.py``, which
also prints how well it holds on the other half.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Features(NamedTuple):
    """What is known of how well a statement answers, each from 0 to 1.

    ``coverage``: the share of the question's weight (IDF) that it and what belongs to it cover, less where
    the property or the thing asked about is missing; ``names``: how well the least covered
    name of the question is covered; ``similarity``: the cosine of its passage's vector and the question's.
    That it carries the kind of value asked for is no feature: without it no statement is
    considered.
    """

    coverage: float
    names: float
    similarity: float


#: Constant, then a weight for each feature. That of names was not fitted: near misses are what it is for, and
#: the questions hold too few whose name is covered in part.
_CONSTANT = -6.39
_WEIGHTS = Features(coverage=5.52, names=2.0, similarity=1.99)
#: Below it nothing is said: chosen on the open half, so that of the questions that text answers one in ten at
#: most is left unanswered, and of those that nothing answers nine in ten are.
THRESHOLD = 0.38


def confidence(features: Features) -> float:
    """The probability that the statement answers, by the fit."""
    z = _CONSTANT + math.fsum(w * x for w, x in zip(_WEIGHTS, features, strict=True))
    return round(1 / (1 + math.exp(-z)), 4)
