"""What documents say otherwise than at an earlier time, as a result."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from taboot_pipelines.model.tables import TIME
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result, TableResult


class ChangedPassage(Result):
    """What stood there before and stands there now; empty where nothing did. ``line``: of the text as it is
    now, from 1."""

    before: str
    after: str
    line: int


class DocumentChange(Result):
    """A document that is otherwise than it was. ``kind``: ``new``, ``changed``, ``gone`` or ``shell`` (its
    bytes are others and it says the same); ``note``: why the passages are not known, where they are not."""

    kind: str
    source: str
    path: str
    doc_id: str
    url: str
    at: datetime
    blob_before: str | None
    blob_after: str | None
    passages: tuple[ChangedPassage, ...] = ()
    note: str = ""


class DocumentChanges(TableResult):
    """What changed since a moment, by source and path. ``counts``: of each kind, those beyond the limit
    included."""

    since: datetime
    items: tuple[DocumentChange, ...]
    counts: dict[str, int]
    truncated: bool

    def to_arrow(self) -> pa.Table:
        """One row a document."""
        schema = pa.schema(
            [
                *((n, pa.string()) for n in ("kind", "source", "path", "doc_id", "url")),
                ("at", TIME),
                *((n, pa.string()) for n in ("blob_before", "blob_after", "note")),
                ("passages", pa.int32()),
            ]
        )
        rows = [{**x.model_dump(exclude={"passages"}), "passages": len(x.passages)} for x in self.items]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (
                x.kind,
                x.source,
                x.path,
                f"{x.at:%Y-%m-%d %H:%M}",
                "; ".join(p.after[:80] or f"(gone: {p.before[:60]})" for p in x.passages) or x.note,
            )
            for x in self.items
        ]
        head = f"{len(rows)} documents changed since {self.since:%Y-%m-%d %H:%M}"
        return rendering.table(head, ("kind", "source", "path", "when", "passages"), rows)
