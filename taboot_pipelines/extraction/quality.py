"""How well sentences are read: labelled passages, and precision, recall and F1 of each relation on them.

A user labels passages of their own documents and names the file in ``TABOOT_EXTRACTION__GOLD``. A line of it
is a JSON object ``{"text": …, "sentence": …, "triples": [[relation, subject, object, properties], …]}``: a
piece of Markdown, one sentence of it, and the relations that the sentence asserts. ``sentence`` stands in
``text``; subject and object are written as they stand there. ``benchmarks/gold/prose`` of the project's
repository has the sets that the reading itself is measured on, and the guide by which they were labelled.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES, STRUCTURED, stated
from taboot_pipelines.model.graph import EDGES

#: The key of the sum over all relations.
ALL = "all"
_REMEDY = 'A line is {"text": …, "sentence": …, "triples": [[relation, subject, object, {…}], …]}.'


@dataclass(frozen=True, slots=True)
class Labelled:
    """A relation and the names of its ends, as they stand in the passage."""

    type: str
    subject: str
    object: str


@dataclass(frozen=True, slots=True)
class Passage:
    """Markdown, and the sentence at ``[start, end)`` of it with what it asserts."""

    text: str
    start: int
    end: int
    labels: tuple[Labelled, ...]


def read_passages(path: Path) -> list[Passage]:
    """The passages of a file. Raises ``E_PATH`` if it cannot be read, ``E_SCHEMA_INVALID`` with the line that
    is no passage."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TabootError(
            "E_PATH", f"{path} cannot be read: {type(error).__name__}.", path=str(path)
        ) from error
    return list(_passages(text, str(path)))


def _passages(text: str, name: str) -> Iterator[Passage]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield _passage(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise TabootError(
                    "E_SCHEMA_INVALID",
                    f"Line {number} of {name} is no labelled passage: {error}.",
                    remedy=_REMEDY,
                    line=number,
                ) from error


def _passage(row: dict[str, Any]) -> Passage:
    text, sentence = row["text"], row["sentence"]
    start = text.find(sentence)
    if not sentence or start < 0:
        raise ValueError("its sentence does not stand in its text")
    labels = tuple(Labelled(*triple[:3]) for triple in row["triples"])
    for label in labels:
        if label.type not in EDGES:
            raise ValueError(f"{label.type!r} is no relation")
        if label.subject not in text or label.object not in text:
            raise ValueError(f"{label.subject!r} or {label.object!r} does not stand in its text")
    return Passage(text, start, start + len(sentence), labels)


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


def found_by_rules(passages: Sequence[Passage]) -> list[list[Labelled]]:
    """What Tiers A and B find in the sentence of each passage."""
    found: list[list[Labelled]] = [[] for _ in passages]
    for mine, passage in zip(found, passages, strict=True):
        for said in stated(passage.text, STRUCTURED | SENTENCES):
            one, text = said.candidate, said.segment.text
            if max(text.start, passage.start) < min(text.end, passage.end):
                end = str(one.port) if one.end is None else one.end.text
                mine.append(Labelled(one.type, one.start.text, end))
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
    return a == b if a.isdigit() and b.isdigit() else a in b or b in a
