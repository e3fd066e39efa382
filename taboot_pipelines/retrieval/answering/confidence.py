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

    ``coverage``: the share of the question's weight (IDF) that it and what belongs to it cover, less where the
    property asked for is missing; ``names``: how well the least covered name of the question is covered;
    ``similarity``: the cosine of its passage's vector and the question's. That it carries the kind of value
    asked for is no feature: without it no statement is considered.
    """

    coverage: float
    names: float
    similarity: float


#: Constant, then a weight for each feature.
_CONSTANT = -7.15
_WEIGHTS = Features(coverage=6.13, names=2.07, similarity=2.12)
#: Below it nothing is said: chosen on the open half too, so that one in ten at most of the questions that
#: text answers are left unanswered.
THRESHOLD = 0.35


def confidence(features: Features) -> float:
    """The probability that the statement answers, by the fit."""
    z = _CONSTANT + math.fsum(w * x for w, x in zip(_WEIGHTS, features, strict=True))
    return round(1 / (1 + math.exp(-z)), 4)
