"""A document's edges by the names as observed: from observations, declarations and mentions to
``tables.RELATIONS``.

One row per (type, ends, what makes it another fact, document), however often the document says it (rule
``support``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taboot_pipelines.knowledge.evidence import Place
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import PRIORITY, Basis, EdgeSource
from taboot_pipelines.model.ids import canonical_json

RELATIONS_VERSION = "1"


@dataclass(frozen=True, slots=True)
class End:
    """A node by label, key (``ids.node_key``) and the name it was observed by."""

    label: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of one document: an edge observation, a declaration, or a mention of a known name."""

    type: str
    start: End
    end: End
    discriminator: str
    properties: str
    confidence: float
    source: str
    method: str
    start_basis: str
    end_basis: str
    run_id: str
    blob_sha256: str
    place: Place

    @property
    def identity(self) -> tuple[str, ...]:
        return (
            self.type,
            self.start.label,
            self.start.key,
            self.end.label,
            self.end.key,
            self.discriminator,
        )

    @property
    def strength(self) -> tuple[Any, ...]:
        """Ascending: the strongest first; the rest of the statement breaks ties, so that order never does."""
        return (
            -self.confidence,
            -PRIORITY[EdgeSource(self.source)],
            self.method,
            self.place.byte_start,
            self.place.byte_end,
            self.properties,
            self.run_id,
            self.place.line,
            self.place.span_start,
            self.place.span_end,
            self.blob_sha256,
            self.start.name,
            self.end.name,
            self.start_basis,
            self.end_basis,
        )


class ChunkIndex:
    """The chunks of one document in order: which is the first that holds a span?"""

    def __init__(
        self,
        chunk_ids: Sequence[str],
        starts: Sequence[int],
        ends: Sequence[int],
        hashes: Sequence[str],
        sections: Sequence[str],
    ) -> None:
        self._ids, self._hashes, self._sections = chunk_ids, hashes, sections
        self._starts, self._ends = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)

    def properties(self, start: int, end: int) -> dict[str, Any]:
        """chunkId, chunkHash, chunkIndex and section of the first chunk that holds the span, or else its
        start.
        """
        if not len(self._ids):
            return {}
        # Ends ascend with the index: the first chunk that reaches the span's end is the first that can hold
        # it.
        i = int(np.searchsorted(self._ends, end, side="left"))
        if i >= len(self._ids) or self._starts[i] > start:
            i = min(int(np.searchsorted(self._ends, start, side="right")), len(self._ids) - 1)
        found = {"chunkId": self._ids[i], "chunkHash": self._hashes[i], "chunkIndex": i}
        return {**found, "section": self._sections[i]} if self._sections[i] else found


def mention(
    doc_id: str,
    doc_name: str,
    end: End,
    place: Place,
    chunks: ChunkIndex,
    *,
    blob_sha256: str,
    confidence: float,
    source: str,
    method: str,
    end_basis: str,
    run_id: str,
) -> Statement:
    """``(:Document)-[:MENTIONS {chunkId, chunkHash, chunkIndex, span, section}]->(entity)``."""
    span = (place.span_start, place.span_end)
    return Statement(
        type="MENTIONS",
        start=End("Document", doc_id, doc_name),
        end=end,
        discriminator=ids.composite(place.span_start),
        properties=canonical_json({"span": list(span), **chunks.properties(*span)}),
        confidence=confidence,
        source=source,
        method=method,
        start_basis=Basis.DERIVED.value,
        end_basis=end_basis,
        run_id=run_id,
        blob_sha256=blob_sha256,
        place=place,
    )


def relation_rows(doc_id: str, statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """Rows of ``tables.RELATIONS`` of one document, ordered by identity; the strongest statement speaks, all
    support.
    """
    groups: dict[tuple[str, ...], list[Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.identity, []).append(statement)
    rows = []
    for identity in sorted(groups):
        group = sorted(set(groups[identity]), key=lambda s: s.strength)
        best = group[0]
        properties: dict[str, Any] = {}
        for statement in group:
            for name, value in json.loads(statement.properties).items():
                properties.setdefault(name, value)
        supports = {(s.place.byte_start, s.place.byte_end, s.run_id, s.method): s for s in group}
        rows.append(
            {
                "bucket": ids.doc_bucket(doc_id),
                "doc_id": doc_id,
                "type": best.type,
                "start_label": best.start.label,
                "start_key": best.start.key,
                "start_name": best.start.name,
                "end_label": best.end.label,
                "end_key": best.end.key,
                "end_name": best.end.name,
                "discriminator": best.discriminator,
                "properties": canonical_json(properties),
                "confidence": best.confidence,
                "source": best.source,
                "extraction_method": best.method,
                "start_basis": best.start_basis,
                "end_basis": best.end_basis,
                "run_id": best.run_id,
                "blob_sha256": best.blob_sha256,
                "byte_start": best.place.byte_start,
                "byte_end": best.place.byte_end,
                "line": best.place.line,
                "supports": canonical_json(
                    [
                        {
                            "run": s.run_id,
                            "blob": s.blob_sha256,
                            "start": s.place.byte_start,
                            "end": s.place.byte_end,
                            "line": s.place.line,
                            "span": [s.place.span_start, s.place.span_end],
                            "method": s.method,
                        }
                        for _, s in sorted(supports.items())
                    ]
                ),
            }
        )
    return rows
