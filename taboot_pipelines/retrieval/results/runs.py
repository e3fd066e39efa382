"""Interpretation runs, what one said, and how two differ."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.explanations import Quote

_SHOWN = 50


class Run(Result):
    """One interpretation of one unit by one tier.

    ``run_id`` is None of what is under way, or what its process died over; ``batch_id`` is set then.
    ``number``: which reinterpretation of its unit it is, 0 for none; ``overrides``: what was otherwise than
    configured. ``path``: the unit's main file.
    """

    run_id: str | None
    batch_id: str | None
    source: str
    tier: str
    unit: str
    path: str
    status: str
    active: bool
    candidate: bool
    number: int
    overrides: dict[str, Any]
    config: dict[str, Any]
    nodes: int
    edges: int
    confidence: float | None
    unknown_fields: int
    completeness: str
    error: str | None
    started_at: datetime | None
    completed_at: datetime | None
    heartbeat_at: datetime | None
    timeout_at: datetime | None
    archived_at: datetime | None

    @property
    def state(self) -> str:
        """What it is at present, in a word."""
        if self.status != "completed":
            return self.status
        return "active" if self.active else "candidate" if self.candidate else "archived"


class RunList(TableResult):
    """Runs, newest first. ``truncated``: the limit may have cut some."""

    items: tuple[Run, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """One row a run; ``overrides`` and ``config`` as JSON."""
        import json

        texts = ("run_id", "batch_id", "source", "tier", "unit", "path", "status", "completeness", "error")
        times = ("started_at", "completed_at", "heartbeat_at", "timeout_at", "archived_at")
        schema = pa.schema(
            [
                *((name, pa.string()) for name in texts),
                *((name, pa.bool_()) for name in ("active", "candidate")),
                *((name, pa.int64()) for name in ("number", "nodes", "edges", "unknown_fields")),
                ("confidence", pa.float64()),
                *((name, pa.string()) for name in ("overrides", "config")),
                *((name, pa.timestamp("us", tz="UTC")) for name in times),
            ]
        )
        rows = [
            {
                **run.model_dump(),
                "overrides": json.dumps(run.overrides, sort_keys=True),
                "config": json.dumps(run.config, sort_keys=True),
            }
            for run in self.items
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (
                (run.run_id or run.batch_id or "")[:12],
                run.state,
                run.source,
                run.tier,
                run.path,
                f"{run.nodes + run.edges}",
                "" if run.confidence is None else f"{run.confidence:.2f}",
            )
            for run in self.items[:_SHOWN]
        ]
        columns = ("run", "state", "source", "tier", "unit", "facts", "confidence")
        return rendering.table(f"{len(self.items)} runs", columns, rows)


class Fact(Result):
    """What a run says once or several times of a document: ``spans`` are the places in code points of the
    document, ``line`` the first one's. ``quote``: its bytes, read just now; None where they cannot be read.
    A node has no end.
    """

    run_id: str
    kind: str
    type: str
    start_label: str
    start_key: str
    start_name: str
    end_label: str | None
    end_key: str | None
    end_name: str | None
    properties: dict[str, Any]
    confidence: float
    method: str
    doc_id: str
    path: str
    line: int
    spans: tuple[tuple[int, int], ...]
    quote: Quote | None = None

    @property
    def statement(self) -> str:
        start = f"({self.start_label} {self.start_name})"
        return start if self.kind == "node" else f"{start}-[{self.type}]->({self.end_label} {self.end_name})"


class RunFacts(TableResult):
    """A run and what it says. ``truncated``: the limit cut some."""

    run: Run
    facts: tuple[Fact, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """One row a fact."""
        return _table([("", (), fact) for fact in self.facts]).drop_columns(["change", "fields"])

    def _repr_html_(self) -> str:
        rows = [(f.statement, SourceLocation(f.path, f.line), _said(f)) for f in self.facts[:_SHOWN]]
        title = f"{self.run.state} run {self.run.run_id}: {len(self.facts)} facts"
        return rendering.table(title, ("fact", "where", "says"), rows, preformatted=2)


class FactDifference(Result):
    """A fact that the second side adds, leaves out, or says otherwise. ``fields``: in what it changed, such
    as ``properties`` or ``span``; ``before``: as the first side says a changed one.
    """

    change: Literal["added", "removed", "changed"]
    fact: Fact
    fields: tuple[str, ...] = ()
    before: Fact | None = None


class GoldScore(Result):
    """How well one side reads the labelled passages."""

    precision: float
    recall: float
    f1: float
    found: int
    labelled: int


class GoldSlice(Result):
    """Both sides on the labelled passages that stand in their documents."""

    passages: int
    a: GoldScore
    b: GoldScore


class RunDiff(TableResult):
    """How what the runs ``b`` say differs from what ``a`` say.

    The counts are of all differences, of which ``items`` holds as many as were asked for (``truncated``).
    ``gold``: None where no labelled passage stands in the documents.
    """

    runs_a: tuple[Run, ...]
    runs_b: tuple[Run, ...]
    added: int
    removed: int
    changed: int
    same: int
    items: tuple[FactDifference, ...]
    gold: GoldSlice | None = None
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """One row a difference, as the second side says it, a removed one as the first did."""
        return _table([(item.change, item.fields, item.fact) for item in self.items])

    def _repr_html_(self) -> str:
        rows = [
            (
                item.change,
                item.fact.statement,
                SourceLocation(item.fact.path, item.fact.line),
                _said(item.fact),
            )
            for item in self.items[:_SHOWN]
        ]
        title = f"{self.added} added, {self.removed} removed, {self.changed} changed, {self.same} the same"
        return rendering.table(title, ("change", "fact", "where", "says"), rows, preformatted=3)


def _said(fact: Fact) -> str:
    return "" if fact.quote is None else fact.quote.text


def _table(rows: list[tuple[str, tuple[str, ...], Fact]]) -> pa.Table:
    import json

    texts = ("kind", "type", "start_label", "start_key", "start_name", "end_label", "end_key", "end_name")
    schema = pa.schema(
        [
            ("change", pa.string()),
            ("fields", pa.list_(pa.string())),
            *((name, pa.string()) for name in ("run_id", *texts, "properties", "method", "doc_id", "path")),
            ("confidence", pa.float64()),
            ("line", pa.int64()),
            ("spans", pa.list_(pa.list_(pa.int64()))),
            ("quote", pa.string()),
        ]
    )
    return pa.Table.from_pylist(
        [
            {
                **fact.model_dump(exclude={"quote", "properties"}),
                "change": change,
                "fields": list(fields),
                "properties": json.dumps(fact.properties, sort_keys=True),
                "quote": None if fact.quote is None else fact.quote.text,
            }
            for change, fields, fact in rows
        ],
        schema=schema,
    )
