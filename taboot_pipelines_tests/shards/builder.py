"""A small knowledge base of the tests' own making: documents by name, their rows as the tables hold them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.knowledge.reducer import entity_fingerprint
from taboot_pipelines.model import ids, tables
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import Chunk
from taboot_pipelines.shards.inputs import DocumentRows, ShardInput
from taboot_pipelines.stages.chunks import chunk_row

SPACE = Space("tests/hash", "0123456789abcdef", 16, 256)
NAMESPACE = "default"


def embed(text: str, dimension: int = SPACE.dimension) -> np.ndarray:
    """A unit vector that depends on the text alone: the sum of one random direction per word."""
    total = np.zeros(dimension)
    for word in text.lower().split() or [""]:
        seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        total += np.random.default_rng(seed).standard_normal(dimension)
    return (total / (np.linalg.norm(total) or 1.0)).astype(np.float32)


class HashEmbedder:
    """The fake embedder of these tests."""

    space = SPACE

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([embed(t) for t in texts])

    def embed_query(self, text: str) -> np.ndarray:
        return embed(text)


@dataclass
class Doc:
    """A document whose chunks are its paragraphs. ``edges`` are rows of tables.RELATIONS but for what is
    filled in.
    """

    path: str
    text: str
    source: str = "docs"
    type: str = "files"
    lang: str = "en"
    date: datetime | None = None
    since: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    edges: list[dict[str, Any]] = field(default_factory=list)

    @property
    def doc_id(self) -> str:
        return ids.doc_id(NAMESPACE, ids.locator(self.source, self.path))

    @property
    def blob(self) -> bytes:
        return self.text.encode()

    @property
    def fingerprint(self) -> str:
        return ids.digest(self.text, self.lang, str(self.date), str(self.since), self.edges)

    def spans(self) -> list[tuple[int, int]]:
        out, at = [], 0
        for part in self.text.split("\n\n"):
            if part.strip():
                out.append((at, at + len(part)))
            at += len(part) + 2
        return out

    def document_row(self) -> dict[str, Any]:
        return {
            "bucket": ids.bucket(self.doc_id),
            "doc_id": self.doc_id,
            "source_id": self.source,
            "source_type": self.type,
            "path": self.path,
            "url": f"{self.source}:{self.path}",
            "title": self.path.rsplit("/", 1)[-1],
            "mime": "text/markdown",
            "charset": "utf-8",
            "lang": self.lang,
            "text": self.text,
            "text_sha256": ids.sha256_hex(self.text),
            "blob_sha256": ids.sha256_hex(self.blob),
            "offsets": OffsetMap.of_text(self.text, "utf-8").dumps(),
            "metadata": "{}",
            "date": self.date,
            "created_at": self.since,
            "since": self.since,
            "job_id": "job",
            "fingerprint": self.fingerprint,
        }

    def chunk_rows(self) -> list[dict[str, Any]]:
        return [
            chunk_row(self.doc_id, Chunk(i, a, b, text, len(text.split()), "Top", "prose"), "")
            for i, (a, b) in enumerate(self.spans())
            for text in [self.text[a:b]]
        ]

    def relation_rows(self) -> list[dict[str, Any]]:
        rows = []
        for e in self.edges:
            quote = e.get("quote", "")
            start = self.blob.find(quote.encode()) if quote else 0
            end = start + len(quote.encode())
            line = 1 + self.blob[:start].count(b"\n")
            row = {
                "bucket": ids.bucket(self.doc_id),
                "doc_id": self.doc_id,
                "type": "DEPENDS_ON",
                "start_label": "Service",
                "end_label": "Service",
                "discriminator": "[]",
                "properties": "{}",
                "confidence": 1.0,
                "source": "tier_a",
                "extraction_method": "test",
                "start_basis": "derived",
                "end_basis": "bytes",
                "run_id": "run",
                "blob_sha256": ids.sha256_hex(self.blob),
                "byte_start": start,
                "byte_end": end,
                "line": line,
                **{k: v for k, v in e.items() if k != "quote"},
            }
            row.setdefault(
                "supports",
                ids.canonical_json(
                    [
                        {
                            "run": row["run_id"],
                            "blob": row["blob_sha256"],
                            "start": start,
                            "end": end,
                            "line": line,
                            "span": [start, end],
                            "method": row["extraction_method"],
                        }
                    ]
                ),
            )
            rows.append(row)
        return rows


def service(scope: str, name: str) -> str:
    return ids.node_key((scope, name))


def edge(start: tuple[str, str], end: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {
        "start_key": service(*start),
        "start_name": start[1],
        "end_key": service(*end),
        "end_name": end[1],
        **more,
    }


def entity(scope: str, name: str, **properties: Any) -> dict[str, Any]:
    row = {
        "label": "Service",
        "key": service(scope, name),
        "name": name,
        "scope": scope,
        "properties": json.dumps(properties),
    }
    return {**row, "position": ids.position(row["key"]), "fingerprint": entity_fingerprint(**row)}


ENTITY_SCHEMA = pa.schema([f for f in tables.ENTITIES if f.name not in {"bucket", "claims"}])


class World:
    """Documents by doc_id, counting which were loaded."""

    def __init__(
        self,
        docs: Sequence[Doc],
        entities: Sequence[dict[str, Any]] = (),
        names: Sequence[dict[str, Any]] = (),
        sources: dict[str, Any] | None = None,
    ) -> None:
        self.docs = {d.doc_id: d for d in docs}
        self.entities = list(entities)
        self.names = list(names)
        self.sources = sources or {
            s: {"type": "files", "tags": [], "root": None} for s in sorted({d.source for d in docs})
        }
        self.loaded: list[str] = []

    def load(self, doc_ids: Sequence[str]) -> DocumentRows:
        self.loaded += doc_ids
        docs = [self.docs[d] for d in doc_ids]
        chunks = [c for d in docs for c in d.chunk_rows()]
        texts = {c["sha256"]: c["text"] for c in chunks}
        return DocumentRows(
            pa.Table.from_pylist([d.document_row() for d in docs], schema=tables.DOCUMENTS),
            pa.Table.from_pylist(chunks, schema=tables.CHUNKS),
            pa.Table.from_pylist(
                [{"bucket": 0, "sha256": k, "vector": embed(t).tolist()} for k, t in texts.items()],
                schema=tables.VECTORS,
            ),
            pa.Table.from_pylist([r for d in docs for r in d.relation_rows()], schema=tables.RELATIONS),
            tables.empty("links"),
            tables.empty("title_links"),
        )

    def input(self, snapshot: str = "s1") -> ShardInput:
        rows = [
            {"doc_id": d.doc_id, "chunk_count": len(d.spans()), "fingerprint": d.fingerprint}
            for d in self.docs.values()
        ]
        schema = pa.schema(
            [("doc_id", pa.string()), ("chunk_count", pa.int32()), ("fingerprint", pa.string())]
        )
        return ShardInput(
            NAMESPACE,
            SPACE,
            pa.Table.from_pylist(rows, schema=schema),
            pa.Table.from_pylist(self.entities, schema=ENTITY_SCHEMA),
            pa.Table.from_pylist(self.names, schema=tables.NAMES),
            self.sources,
            snapshot,
            self.load,
            self.load_entities,
        )

    def load_entities(self, first: int, last: int) -> pa.Table:
        rows = [e for e in self.entities if first <= e["position"] <= last]
        return pa.Table.from_pylist(rows, schema=ENTITY_SCHEMA)


class Blobs:
    """A blob store in memory."""

    def __init__(self, world: World) -> None:
        self.data = {ids.sha256_hex(d.blob): d.blob for d in world.docs.values()}

    def get(self, namespace: str, sha256: str) -> bytes:
        return self.data[sha256]
