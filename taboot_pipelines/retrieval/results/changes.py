"""What documents and the graph say otherwise than at an earlier time, as a result."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from taboot_pipelines.model.tables import TIME
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result, TableResult


class ChangedPassage(Result):
    """What stood there before and stands there now; empty where nothing did. ``line``: of the text as it is
    now, from 1."""

    before: str
    after: str
    line: int


class Commit(Result):
    """The last git commit that changed a file since then."""

    id: str
    at: datetime
    subject: str


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
    commit: Commit | None = None


class FactSide(Result):
    """What a publication said: in words, by its properties, and where it stands. ``key``: label and key of
    the thing, or of either end of the fact; ``edge_id``: what ``explain`` takes while that publication is in
    force, empty for a thing."""

    says: str
    key: tuple[str, ...]
    properties: dict[str, Any]
    source: str
    path: str
    doc_id: str
    url: str
    line: int | None = None
    edge_id: str = ""


class FactChange(Result):
    """A thing, fact or route (``what``) that is otherwise than it was: ``before`` is None of what was added,
    ``after`` of what was removed. ``type``: its relation, or of a thing its label; ``name``: its subject."""

    change: Literal["added", "removed", "changed"]
    what: Literal["thing", "fact", "route"]
    type: str
    name: str
    before: FactSide | None
    after: FactSide | None
    commit: Commit | None = None


class DocumentChanges(TableResult):
    """What changed since a moment: documents by source and path, and facts. ``counts``: of each kind of
    document, those beyond the limit included; ``facts_since``: when the publication was made that the facts
    are compared with; ``note``: why it is a later one, or none."""

    since: datetime
    items: tuple[DocumentChange, ...]
    counts: dict[str, int]
    truncated: bool
    facts: tuple[FactChange, ...] = ()
    fact_counts: dict[str, int] = Field(default_factory=dict)
    facts_since: datetime | None = None
    note: str = ""

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
