"""Which candidates are stated: a logistic regression over their features, with thresholds by form.

``model.json`` has the coefficients; ``benchmarks/gold/fit_relations.py`` of the
repository fits them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from taboot_pipelines.extraction.tier_a.prose.pairs import Candidate
from taboot_pipelines.extraction.tier_a.prose.scan import PACKAGE
from taboot_pipelines.extraction.tier_a.prose.segments import Segment
from taboot_pipelines.model.ids import digest

#: A relation of which less was right, in repositories left out, is not read from text.
LEAST_OF_RELATION = 0.6


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of features, and by form the least probability that counts and how often what it lets through
    was right, in repositories that the weights were not fitted to: steps (from probability, precision).
    ``relations``: the same of each relation in any form, and under ``""`` of all."""

    weights: Mapping[str, float]
    thresholds: Mapping[str, float]
    precision: Mapping[str, Sequence[tuple[float, float]]]
    relations: Mapping[str, float]

    def probability(self, features: Iterable[str]) -> float:
        """Return how probable a candidate with these features is right."""
        get = self.weights.get
        total = get("", 0.0) + sum(get(f, 0.0) for f in set(features))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def confidence(self, form: str, relation: str, probability: float) -> float:
        """Return the measured precision of what the form's candidates of this probability state, less as the
        relation was right more seldom than all relations together.
        """
        steps = self.precision.get(form, ())
        said = max((p for least, p in steps if probability >= least), default=0.5)
        return round(said * min(1.0, self.relations.get(relation, 0.0) / self.relations[""]), 3)

    def tells(self, relation: str) -> bool:
        """Whether what texts were found to state of a relation was right often enough to be stated at all."""
        return self.relations.get(relation, 0.0) >= LEAST_OF_RELATION


@cache
def packaged() -> Model:
    """Return the model of the package."""
    said = json.loads(files(PACKAGE).joinpath("model.json").read_text("utf-8"))
    return Model(said["weights"], said["thresholds"], said["precision"], said["relations"])


@cache
def model_version() -> str:
    """Return a hash of everything that decides beside the code: coefficients and word lists."""
    names = ("model.json", "ordinary_words.txt", "roles.txt", "verbs.txt")
    return digest(*(files(PACKAGE).joinpath(name).read_text("utf-8") for name in names))[:16]


def chosen(
    segment: Segment, scored: Sequence[tuple[float, Candidate]], least: float
) -> list[tuple[float, Candidate]]:
    """Return which candidates of a piece are stated: of two that contradict each other, the more probable.

    One pair is told one relation, and one address or port is that of one thing.
    """
    taken: set[tuple[object, ...]] = set()
    found = []
    for p, one in sorted(scored, key=lambda s: (-s[0], s[1].start_place, s[1].end_place, s[1].type)):
        if p < least:
            break
        keys = _keys(one)
        if not any(key in taken for key in keys):
            taken.update(keys)
            found.append((p, one))
    return found


def _keys(one: Candidate) -> list[tuple[object, ...]]:
    if one.end is not None and one.end.kind == "name" and one.port is None:
        pair = sorted((one.start.text.lower(), one.end.text.lower()))
        return [("pair", *pair)]
    if one.port is not None and (one.end is None or one.end.kind != "hostport"):
        return (
            [("port", one.port, one.protocol), ("address", one.end_place)]
            if one.end is None
            else [("port", one.port, one.protocol)]
        )
    return [("address", one.end_place)]
