"""What is told of how a search came to its hits: the modes side by side, and why a document is no hit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import Cell, SourceLocation, Stack
from taboot_pipelines.retrieval.results.base import Result, TableResult


class Compared(Result):
    """A text that at least one mode found, with its rank (from 1) and score in each that did."""

    chunk_id: str
    doc_id: str
    url: str
    title: str
    text: str
    line: int | None
    ranks: dict[str, int]
    scores: dict[str, float]


class Comparison(TableResult):
    """What every mode finds for one query, side by side: by the best rank in any, then by the mode's place.

    ``notes``: by mode, what to know about it, such as why it found nothing.
    """

    query: str
    modes: tuple[str, ...]
    rows: tuple[Compared, ...]
    latency_ms: dict[str, float]
    notes: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """One row a text, with a column ``{mode}_rank`` and ``{mode}_score`` for each mode."""
        fixed = [("chunk_id", pa.string()), ("doc_id", pa.string()), ("url", pa.string())]
        fixed += [("title", pa.string()), ("text", pa.string()), ("line", pa.int32())]
        for mode in self.modes:
            fixed += [(f"{mode}_rank", pa.int32()), (f"{mode}_score", pa.float64())]
        rows = []
        for row in self.rows:
            made: dict[str, Any] = row.model_dump(exclude={"ranks", "scores"})
            for mode in self.modes:
                made[f"{mode}_rank"], made[f"{mode}_score"] = row.ranks.get(mode), row.scores.get(mode)
            rows.append(made)
        return pa.Table.from_pylist(rows, schema=pa.schema(fixed))

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            (
                *(f"{r.ranks[m]} ({r.scores[m]:.4f})" if m in r.ranks else "–" for m in self.modes),
                Stack((r.title, SourceLocation(r.url, r.line))),
                rendering.folded(r.text, 120),
            )
            for r in self.rows
        ]
        return rendering.table(
            f"{len(rows)} texts for “{self.query}”: rank and score in each mode",
            (*self.modes, "document", "passage"),
            rows,
        )


class Step(Result):
    """One step of a search and what became of a chunk there. ``passed``: whether it went on; ``rank`` (from
    1) and ``score``: its own there, where the step has such.
    """

    step: str
    passed: bool
    reason: str
    rank: int | None = None
    score: float | None = None


class Considered(Result):
    """A chunk of the document that was asked about. ``rank``: its place among the hits, where it is one;
    ``fell_out``: the step at which it did not go on, where it is none.
    """

    chunk_id: str
    line: int | None
    text: str
    rank: int | None
    fell_out: str | None
    steps: tuple[Step, ...]


class WhyNot(TableResult):
    """Why a document is not among the hits of a search, or where among them it is.

    ``chunks``: those of the document that came furthest first; ``reason``: one sentence about the first.
    """

    query: str
    mode: str
    doc_id: str
    url: str
    title: str
    found: bool
    reason: str
    chunks: tuple[Considered, ...]

    def to_arrow(self) -> pa.Table:
        """One row a chunk and step."""
        schema = pa.schema(
            [
                ("chunk_id", pa.string()),
                ("step", pa.string()),
                ("passed", pa.bool_()),
                ("rank", pa.int32()),
                ("score", pa.float64()),
                ("reason", pa.string()),
            ]
        )
        rows = [{"chunk_id": c.chunk_id, **s.model_dump()} for c in self.chunks for s in c.steps]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (
                SourceLocation(self.url, c.line) if s is c.steps[0] else "",
                s.step,
                "passed" if s.passed else "fell out",
                "" if s.rank is None else str(s.rank),
                "" if s.score is None else f"{s.score:.4f}",
                s.reason,
            )
            for c in self.chunks
            for s in c.steps
        ]
        return rendering.table(self.reason, ("chunk", "step", "", "rank", "score", "why"), rows)
