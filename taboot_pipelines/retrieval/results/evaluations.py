"""What ``KnowledgeBase.evaluate`` found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result, TableResult


class Judged(Result):
    """A question and its answer. ``right``: it was answered as it must be, or left alone where nothing
    answers; ``missing``: the patterns that the text does not match; ``cited``: the URLs of its citations.
    """

    id: str
    kind: str
    question: str
    found: bool
    right: bool
    confidence: float
    certainty: Literal["sure", "likely", "closest"]
    text: str
    missing: tuple[str, ...]
    cited: tuple[str, ...]

    @property
    def verdict(self) -> Literal["right", "wrong", "unanswered"]:
        return "right" if self.right else "wrong" if self.found else "unanswered"


class Feedback(Result):
    """What ``who`` thinks of the answer to a question: ``right``, ``wrong``, or ``none`` where the house does
    not say it; ``must``: expressions that a right answer matches; ``doc_ids``: of which it cites one."""

    question: str
    verdict: Literal["right", "wrong", "none"]
    must: tuple[str, ...]
    doc_ids: tuple[str, ...]
    note: str
    who: str
    at: datetime


class Score(Result):
    """Of the questions of one kind (of all: ``all``) how many there are, were answered rightly, wrongly, and
    not at all though something answers."""

    kind: str
    asked: int
    right: int
    wrong: int
    unanswered: int


class Evaluation(TableResult):
    """Every question with its answer, in the order in which they were given."""

    rows: tuple[Judged, ...]

    @property
    def scores(self) -> tuple[Score, ...]:
        """By kind, in the order in which they come, then of all."""
        kinds = list(dict.fromkeys(row.kind for row in self.rows))
        each = [self._score(kind, [row for row in self.rows if row.kind == kind]) for kind in kinds]
        return (*each, self._score("all", self.rows))

    @staticmethod
    def _score(kind: str, rows: Sequence[Judged]) -> Score:
        verdicts = [row.verdict for row in rows]
        return Score(
            kind=kind,
            asked=len(rows),
            right=verdicts.count("right"),
            wrong=verdicts.count("wrong"),
            unanswered=verdicts.count("unanswered"),
        )

    def to_arrow(self) -> pa.Table:
        """The questions, with ``verdict``."""
        schema = pa.schema(
            [
                *((name, pa.string()) for name in ("id", "kind", "question", "verdict")),
                ("confidence", pa.float64()),
                ("certainty", pa.string()),
                ("text", pa.string()),
                ("missing", pa.list_(pa.string())),
                ("cited", pa.list_(pa.string())),
            ]
        )
        rows = [{**row.model_dump(exclude={"found", "right"}), "verdict": row.verdict} for row in self.rows]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        columns = ("kind", "asked", "right", "wrong", "unanswered")
        rows = [tuple(str(getattr(score, name)) for name in columns) for score in self.scores]
        return rendering.table("Evaluation", columns, rows)
