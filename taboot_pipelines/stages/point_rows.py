"""Builds the points that a snapshot asks for, text by text, when they are needed.

Everything but the vectors follows from a few light columns: no text is read to know what should be there.
Holds rule ``equal-text-once``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.shards.analyzer import ANALYZER, analyze
from taboot_pipelines.stages.snapshot_reader import SnapshotReader
from taboot_pipelines.stores.vectors.points import BUCKET, Payload, Points, payload, point_id
from taboot_pipelines.stores.vectors.sparse import WEIGHTING, Sparse, chunk_vector

_DOCUMENT = (
    "doc_id",
    "source_type",
    "path",
    "url",
    "title",
    "mime",
    "lang",
    "date",
    "created_at",
    "since",
    "job_id",
)
_CHUNK = ("sha256", "doc_id", "chunk_index", "start", "end", "section", "content_type")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def made_by(space: str) -> str:
    """Return the name of what makes the vectors of points: space, analyzer and weighting."""
    return f"{space}:{ANALYZER}:{WEIGHTING}"


class PointRows:
    """The points that a snapshot asks for.

    ``sources`` is {source id: (type, tags)}, as the sources file has them.
    """

    def __init__(
        self, reader: SnapshotReader, namespace: str, space: str, sources: Mapping[str, tuple[str, list[str]]]
    ) -> None:
        self._reader, self._namespace, self._made_by = reader, namespace, made_by(space)
        self._documents: dict[str, dict[str, Any]] = {}
        #: hash -> (doc_id, chunk_index, start, end, section, content type), ascending
        self._places: dict[str, list[tuple[str, int, int, int, str, str]]] = {}
        for source, rows in reader.rows("documents", _DOCUMENT):
            self._read_documents(source, rows, sources)
        for _, rows in reader.rows("chunks", _CHUNK):
            for sha256, *place in zip(*(rows.column(c).to_pylist() for c in _CHUNK), strict=True):
                self._places.setdefault(sha256, []).append(tuple(place))
        for places in self._places.values():
            places.sort()

    def _read_documents(
        self, source: str, rows: pa.Table, sources: Mapping[str, tuple[str, list[str]]]
    ) -> None:
        columns = {c: rows.column(c) for c in _DOCUMENT}
        columns["moment"] = pc.coalesce(rows.column("date"), rows.column("since"))
        for name in ("created_at", "since", "moment"):
            columns[name] = columns[name].cast(pa.int64())
        values = {name: column.to_pylist() for name, column in columns.items()}
        for i, doc_id in enumerate(values["doc_id"]):
            d = {name: column[i] for name, column in values.items()}
            kind, tags = sources.get(source, (d["source_type"], []))
            since = max(d["since"], d["created_at"], 0)
            self._documents[doc_id] = {
                "doc_id": doc_id,
                "url": d["url"],
                "title": d["title"] or d["path"] or doc_id,
                "source": kind,
                "source_id": source,
                "job_id": d["job_id"],
                "mime": d["mime"],
                "lang": d["lang"],
                "domain": ids.domain_of(d["url"]),
                "tags": sorted(tags),
                "created_at": max(d["created_at"], 0) // 1_000_000,
                "updated_at": since // 1_000_000,
                "crawled_at": _iso(since),
                "moment": d["moment"],
            }

    def __len__(self) -> int:
        return len(self._places)

    def payloads(self, sha256: str) -> list[Payload]:
        """Return the payloads of a text's points, one for every 256 of its occurrences."""
        occurrences = [
            {
                **self._documents[doc_id],
                "chunk_id": ids.chunk_id(doc_id, index),
                "chunk_index": index,
                "start": start,
                "end": end,
                "text_len": end - start,
                "section_header": section,
                "content_type": content_type,
            }
            for doc_id, index, start, end, section, content_type in self._places[sha256]
        ]
        return [
            payload(self._namespace, sha256, occurrences[i : i + BUCKET], self._made_by)
            for i in range(0, len(occurrences), BUCKET)
        ]

    def wanted(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (text hash, the fingerprints of its points in order)."""
        for sha256 in self._places:
            yield sha256, [p["fingerprint"] for p in self.payloads(sha256)]

    def ids(self, sha256: str, start: int, end: int) -> list[str]:
        """Return the ids of a text's points with the numbers ``start`` to ``end``."""
        return [point_id(self._namespace, sha256, b) for b in range(start, end)]

    def points(self, shas: Sequence[str], size: int) -> Iterator[Points]:
        """Yield the points of some texts with their vectors, those of ``size`` texts at a time.

        The tables are read once for all texts. Raises ``E_TABLE`` if a text or its vector is missing.
        """
        if not shas:
            return
        texts = self._reader.texts(
            {s: (self._documents[(doc_id := self._places[s][0][0])]["source_id"], doc_id) for s in shas}
        )
        rows = self._reader.vectors(shas)
        vectors = dict(zip(rows.column("sha256").to_pylist(), range(rows.num_rows), strict=True))
        if not vectors.keys() >= texts.keys():
            raise TabootError(
                "E_TABLE",
                f"{len(texts.keys() - vectors.keys())} chunk texts have no vector in the table of their"
                " space.",
            )
        matrix = np.asarray(rows.column("vector").combine_chunks().flatten(), dtype=np.float32).reshape(
            rows.num_rows, -1
        )
        for start in range(0, len(shas), size):
            made: list[str] = []
            payloads: list[Payload] = []
            dense: list[int] = []
            sparse: list[Sparse] = []
            for sha256 in shas[start : start + size]:
                contents = self.payloads(sha256)
                made += self.ids(sha256, 0, len(contents))
                payloads += contents
                dense += [vectors[sha256]] * len(contents)
                sparse += [chunk_vector(*analyze(texts[sha256]))] * len(contents)
            yield Points(made, payloads, matrix[dense], sparse)


def _iso(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="seconds").replace("+00:00", "Z")
    except OverflowError:
        return "9999-12-31T23:59:59Z"
