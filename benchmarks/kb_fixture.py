"""A knowledge base out of plain texts, for the benchmarks that need one without an ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.model import ids, tables
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import Chunk
from taboot_pipelines.shards.inputs import DocumentRows, ShardInput
from taboot_pipelines.stages.chunks import chunk_row

NAMESPACE = "default"
SINCE = datetime(2024, 1, 1, tzinfo=UTC)
SPANS = list[tuple[int, int]]


@dataclass(frozen=True)
class Text:
    """A document: its spans are its chunks, ``vectors`` (n, d) theirs."""

    source: str
    path: str
    text: str
    spans: SPANS
    vectors: np.ndarray

    @property
    def doc_id(self) -> str:
        return ids.doc_id(NAMESPACE, ids.locator(self.source, self.path))


class Given:
    """An embedder that is told the query's vector."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.next = np.zeros(space.dimension, dtype=np.float32)

    def embed(self, texts: object) -> np.ndarray:
        raise NotImplementedError

    def embed_query(self, text: str) -> np.ndarray:
        return self.next


def shard_input(texts: Sequence[Text], space: Space, sources: Mapping[str, Mapping[str, Any]]) -> ShardInput:
    by_id = {t.doc_id: t for t in texts}

    def load(doc_ids: Sequence[str]) -> DocumentRows:
        documents, chunks, hashes, vectors = [], [], [], []
        for doc_id in doc_ids:
            t = by_id[doc_id]
            documents.append(
                {
                    "bucket": 0,
                    "doc_id": doc_id,
                    "source_id": t.source,
                    "source_type": "files",
                    "path": t.path,
                    "url": f"{t.source}:{t.path}",
                    "title": t.path,
                    "mime": "text/plain",
                    "charset": "utf-8",
                    "lang": "en",
                    "text": t.text,
                    "text_sha256": ids.sha256_hex(t.text),
                    "blob_sha256": ids.sha256_hex(t.text),
                    "offsets": OffsetMap.of_text(t.text, "utf-8").dumps(),
                    "metadata": "{}",
                    "date": None,
                    "created_at": SINCE,
                    "since": SINCE,
                    "job_id": "",
                    "fingerprint": "",
                }
            )
            for i, (a, b) in enumerate(t.spans):
                row = chunk_row(doc_id, Chunk(i, a, b, t.text[a:b], 0, "", "prose"), "")
                hashes.append(row["sha256"])
                vectors.append(t.vectors[i])
                chunks.append(row)
        flat = pa.array(np.concatenate(vectors).astype(np.float32)) if vectors else pa.array([], pa.float32())
        offsets = pa.array(np.arange(len(vectors) + 1, dtype=np.int32) * space.dimension)
        return DocumentRows(
            pa.Table.from_pylist(documents, schema=tables.DOCUMENTS),
            pa.Table.from_pylist(chunks, schema=tables.CHUNKS),
            pa.table({"sha256": hashes, "vector": pa.ListArray.from_arrays(offsets, flat)}),
            tables.empty("relations"),
            tables.empty("links"),
            tables.empty("title_links"),
        )

    docs = pa.table(
        {
            "doc_id": list(by_id),
            "chunk_count": pa.array([len(t.spans) for t in by_id.values()], pa.int32()),
            "fingerprint": [ids.sha256_hex(t.text) for t in by_id.values()],
        }
    )
    return ShardInput(
        NAMESPACE,
        space,
        docs,
        tables.empty("entities"),
        tables.empty("names"),
        sources,
        "benchmark",
        load,
        load_entities=lambda first, last: tables.empty("entities"),
    )
