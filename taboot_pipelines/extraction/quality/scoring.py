"""What was found in passages beside what is labelled: precision, recall and F1 of each relation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from taboot_pipelines.extraction import tier_b
from taboot_pipelines.extraction.quality.passages import Labelled, Passage

#: The key of the sum over all relations.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Score:
    """How many triples were found, how many are labelled, and how many of them match."""

    matched: int = 0
    found: int = 0
    labelled: int = 0

    @property
    def precision(self) -> float:
        """The share of what was found that matches; 1 where nothing was found."""
        return self.matched / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of the labels that are matched; 1 where nothing is labelled."""
        return self.matched / self.labelled if self.labelled else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 1 where nothing was found and nothing is labelled."""
        total = self.found + self.labelled
        return 2 * self.matched / total if total else 1.0

    def __add__(self, other: Score) -> Score:
        return Score(self.matched + other.matched, self.found + other.found, self.labelled + other.labelled)


def found_by_grammar(passages: Sequence[Passage]) -> list[list[Labelled]]:
    """What Tier B finds in the sentence of each passage. Raises ``E_EXTRA`` as the reader does."""
    documents = [tier_b.Prose(str(number), passage.text) for number, passage in enumerate(passages)]
    found: list[list[Labelled]] = [[] for _ in passages]
    for asserted in tier_b.assertions(documents):
        passage = passages[asserted.document]
        start, end = asserted.place
        if max(start, passage.start) < min(end, passage.end):
            triple = asserted.triple
            found[asserted.document].append(Labelled(triple.type, triple.start.text, triple.end.text))
    return found


def score(found: Sequence[Sequence[Labelled]], passages: Sequence[Passage]) -> dict[str, Score]:
    """{relation: its score}, and under ``all`` the sum. Ends match if one name holds the other: "Plex" and
    "Plex server" are one thing, with blanks, case and marks of code aside."""
    scores: dict[str, Score] = defaultdict(Score)
    for mine, passage in zip(found, passages, strict=True):
        left = list(passage.labels)
        for label in passage.labels:
            scores[label.type] += Score(labelled=1)
        for triple in mine:
            match = next((label for label in left if _same(triple, label)), None)
            if match is not None:
                left.remove(match)
            scores[triple.type] += Score(matched=int(match is not None), found=1)
    total = sum(scores.values(), Score())
    return {**{relation: scores[relation] for relation in sorted(scores)}, ALL: total}


def _same(one: Labelled, other: Labelled) -> bool:
    return one.type == other.type and _holds(one.subject, other.subject) and _holds(one.object, other.object)


def _holds(one: str, other: str) -> bool:
    a, b = (name.strip("`* ").lower() for name in (one, other))
    return a in b or b in a
