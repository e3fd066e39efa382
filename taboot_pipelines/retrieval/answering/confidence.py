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
    considered. ``meaning``: the cosine of the statement itself and the question's, 0 where they were not
    compared.
    """

    coverage: float
    names: float
    similarity: float
    meaning: float = 0.0


#: Constant, then a weight for each feature. That of names was not fitted: near misses are what it is for, and
#: the questions hold too few whose name is covered in part.
_CONSTANT = -6.39
_WEIGHTS = Features(coverage=5.52, names=2.0, similarity=1.99, meaning=0.0)
#: Below it nothing is said: chosen on the open half, so that of the questions that text answers one in ten at
#: most is left unanswered, and of those that nothing answers nine in ten are.
THRESHOLD = 0.38


#: A statement that means what is asked answers in other words, if it says so much of it and its names.
_MIN_MEANING, _MIN_COVERAGE, _MIN_NAMES = 0.6, 0.3, 0.8


def confidence(features: Features) -> float:
    """The probability that the statement answers, by the fit; no less than half-way from the threshold to its
    likeness in meaning where that is great."""
    z = _CONSTANT + math.fsum(w * x for w, x in zip(_WEIGHTS, features, strict=True))
    sure = 1 / (1 + math.exp(-z))
    close = features.meaning >= _MIN_MEANING and features.coverage >= _MIN_COVERAGE
    if close and features.names >= _MIN_NAMES:
        sure = max(sure, (THRESHOLD + features.meaning) / 2)
    return round(sure, 4)
