"""What people decided, as it is shown, and what supports an entity."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import Cell, SourceLocation
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.results.graph import Node

#: How a person names an entity: by its key, its name, or itself.
EntityName = str | NodeRef | Node


class Decided(Result):
    """What a decision did. ``observation_id`` is what :meth:`KnowledgeBase.undo` takes; ``stores`` says of
    what serves it whether it is ``done`` or ``pending``: a server that did not answer follows with the next
    run."""

    observation_id: str
    kind: str
    priority: int
    stores: dict[str, str]

    @property
    def final(self) -> bool:
        """Whether everything that serves it is up to date."""
        return all(state == "done" for state in self.stores.values())


class Stated(Decided):
    """A fact that was stated. ``entity_id``: the entity's key, None of a relation; ``source_id``: the hash of
    what was handed in with it."""

    entity_id: str | None = None
    source_id: str | None = None


class DecisionNote(Result):
    """A decision behind something that is shown: what it ``says``, and who decided it, why and when."""

    observation_id: str
    says: str
    who: str
    reason: str
    at: datetime


class AssertionItem(Result):
    """One assertion. ``state``: ``in_force``; ``superseded``, by a later one about the same; ``undone``, by
    ``undone_by``; or ``erased``. ``payload``: what was said, in full."""

    observation_id: str
    number: int
    kind: str
    state: str
    says: str
    who: str
    reason: str
    at: datetime
    undone_by: str | None
    payload: dict[str, Any]


class AssertionList(TableResult):
    """What people decided, in the order in which they did; ``truncated``: there is more before it."""

    items: tuple[AssertionItem, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """One row an assertion; ``payload`` as JSON."""
        texts = ("observation_id", "kind", "state", "says", "who", "reason", "undone_by", "payload")
        schema = pa.schema(
            [("number", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), *((n, pa.string()) for n in texts)]
        )
        rows = [{**i.model_dump(), "payload": canonical_json(i.payload)} for i in self.items]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows = [
            (i.observation_id[:12], i.state, i.says, i.who, i.reason, f"{i.at:%Y-%m-%d}") for i in self.items
        ]
        return rendering.table(
            f"{len(self.items)} assertions", ("id", "state", "says", "who", "why", "when"), rows
        )


class Observed(Result):
    """What one document says of an entity, under the key as observed; ``line`` and ``url`` say where it
    declares it, and are empty where the document only refers to it."""

    observed_key: str
    source: str
    confidence: float
    properties: dict[str, Any]
    doc_id: str
    url: str
    line: int | None


class EntitySupports(TableResult):
    """Everything behind an entity: what documents say of it, the strongest first, and what people decided of
    it. ``truncated``: the limit cut the documents."""

    entity: Node
    observations: tuple[Observed, ...]
    decisions: tuple[DecisionNote, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """One row an observation; ``properties`` as JSON."""
        texts = ("observed_key", "source", "properties", "doc_id", "url")
        schema = pa.schema(
            [*((n, pa.string()) for n in texts), ("confidence", pa.float64()), ("line", pa.int32())]
        )
        rows = [{**o.model_dump(), "properties": canonical_json(o.properties)} for o in self.observations]
        return pa.Table.from_pylist(rows, schema=schema)

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            ("correction", d.says, f"{d.who}: {d.reason}") for d in self.decisions
        ]
        rows += [
            (o.source, canonical_json(o.properties), SourceLocation(o.url, o.line)) for o in self.observations
        ]
        return rendering.table(f"{self.entity.label} {self.entity.name}", ("who", "says", "where"), rows)
