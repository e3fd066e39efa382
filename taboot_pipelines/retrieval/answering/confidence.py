"""How sure an answer out of text is, from 0 to 1, and from where on it is given.

A logistic function of six features, none of which lowers it as it grows, so that an answer that fits better in
every way is never less sure. The constants were fitted on the open half of the questions of
``benchmarks/answers`` (whether the best statement is right), by ``benchmarks/answer_confidence.py``, which also
prints how well it holds on the other half.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Features(NamedTuple):
    """What is known of how well a statement answers, each from 0 to 1.

    ``coverage``: the share of the question's weight (IDF) that it and what belongs to it cover; ``own``: that
    it says itself; ``names``: how well the least covered name of the question is covered; ``carries``: it
    holds the kind of value asked for; ``similarity``: the cosine of its passage's vector and the question's;
    ``substance``: how much the question says.
    """

    coverage: float
    own: float
    names: float
    carries: float
    similarity: float
    substance: float


#: Constant, then a weight for each feature.
_CONSTANT = -12.0
_WEIGHTS = Features(coverage=11.0, own=1.0, names=2.0, carries=2.0, similarity=1.5, substance=0.5)
#: Below it nothing is said.
THRESHOLD = 0.5


def confidence(features: Features) -> float:
    """The probability that the statement answers, by the fit."""
    z = _CONSTANT + math.fsum(w * x for w, x in zip(_WEIGHTS, features, strict=True))
    return round(1 / (1 + math.exp(-z)), 4)
