"""Statements of the knowledge base that cannot both be so."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.explanations import Quote


class DriftSide(Result):
    """One of the statements that disagree. ``edge_ids``: the edges that say so, by place, of which a value of
    a file may have none; ``doc_id``, ``url`` and ``line``: of the first place. ``quote``: its bytes, as read
    now; None where they cannot be read, of which ``explain`` says why, and where something is missing.
    """

    says: str
    edge_ids: tuple[str, ...]
    doc_id: str
    url: str
    line: int
    quote: Quote | None = None


class DriftItem(Result):
    """One disagreement about a node. ``sides``: what was said, then what is configured; one side where it is
    that something is missing. ``record``: the first side is a text of a day, such as a mail, which nobody
    corrects: the list is sorted with these last, and no check counts them. ``as_of``: when what runs was
    told (the date that a dump has of itself, else when its bytes were first read), if the first side says
    what runs.
    """

    kind: str
    label: str
    key: str
    name: str
    statement: str
    sides: tuple[DriftSide, ...]
    record: bool = False
    as_of: datetime | None = None


class DriftReport(TableResult):
    """What drifted, the surest kinds first. ``truncated``: the limit cut some of ``total``."""

    items: tuple[DriftItem, ...]
    truncated: bool = False
    total: int = 0

    def to_arrow(self) -> pa.Table:
        """One row a side; ``drift`` numbers the items from 1."""
        schema = pa.schema(
            [
                ("drift", pa.int32()),
                *((n, pa.string()) for n in ("kind", "label", "key", "name", "statement")),
                ("record", pa.bool_()),
                ("as_of", pa.timestamp("us", "UTC")),
                *((n, pa.string()) for n in ("says", "edge_id", "doc_id", "url")),
                ("line", pa.int32()),
                ("quote", pa.string()),
            ]
        )
        rows = [
            {
                "drift": number,
                **item.model_dump(exclude={"sides"}),
                **side.model_dump(include={"says", "doc_id", "url", "line"}),
                "edge_id": side.edge_ids[0] if side.edge_ids else None,
                "quote": None if side.quote is None else side.quote.text,
            }
            for number, item in enumerate(self.items, 1)
            for side in item.sides
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (
                item.kind if first else "",
                item.statement if first else "",
                SourceLocation(side.url, side.line),
                side.says if side.quote is None else side.quote.text,
            )
            for item in self.items
            for first, side in ((side is item.sides[0], side) for side in item.sides)
        ]
        count = "1 drift" if len(self.items) == 1 else f"{len(self.items)} drifts"
        title = count + (" (cut at the limit)" if self.truncated else "")
        return rendering.table(title, ("kind", "what", "where", "says"), rows, preformatted=3)
