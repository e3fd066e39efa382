"""qdrant_points: the points in Qdrant equal the live chunks.

The points that a snapshot asks for are built text by text, when they are needed: everything but the vectors
follows from a few light columns, so no text is read to know what should be there. A table of ours says what
has been applied, so that a run asks the server for nothing and sends what differs. Texts whose points are to
be sent or deleted are marked there before the first request: a kill leaves no unrecorded point, and a text
that changes back meanwhile is sent again. If that table cannot be trusted (it is gone, or the settings name
another server), the server itself is asked what it holds. Namespaces whose points could not be written are
queued for a retry; the queue is a hint and may be lost, since the watermark says what is missing.

Holds rules ``equal-text-once``, ``watermark``, ``incremental-equals-scratch``, ``kill-anywhere`` and
``spaces-never-mix``.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.embedding.remembered import SpaceChanged
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import batches, difference, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.model.tables import declare
from taboot_pipelines.shards.analyzer import ANALYZER, analyze
from taboot_pipelines.stages import embeddings
from taboot_pipelines.stages.housekeeping import STALE_FILES
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.snapshot import SnapshotReader, needed_snapshot
from taboot_pipelines.stages.stage import ServerTarget
from taboot_pipelines.stages.workspace import Progress, Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.state import keys
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion
from taboot_pipelines.stores.vectors import open_vectors
from taboot_pipelines.stores.vectors.points import (
    BUCKET,
    WEIGHTING,
    Payload,
    Points,
    Sparse,
    chunk_vector,
    payload,
    point_id,
    sources_digest,
)
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints

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
#: What has been applied to Qdrant, per namespace and embedding space: for each chunk text how many points it
#: has, and the hash of their fingerprints. Empty while a change of them is under way: what the server then
#: holds is not known.
POINTS = declare(
    "points",
    pa.schema(
        [
            pa.field("bucket", pa.int32(), False),
            pa.field("sha256", pa.string(), False),
            pa.field("points", pa.int32(), False),
            pa.field("fingerprint", pa.string(), False),
        ]
    ),
    key="sha256",
)
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


#: Namespaces whose last run failed at the server, each as the one member of its queue.
QUEUE = keys.QUEUE_QDRANT_RETRY()
_ATTEMPTS = f"{QUEUE}:attempts"
_FIRST_WAIT_SECONDS = 30.0
_MAX_WAIT_SECONDS = 3600.0
_ATTEMPTS_TTL_SECONDS = 86_400.0


def enqueue(workspace: Workspace, namespace: str) -> None:
    """Schedule a retry of the namespace after 30 s, doubled with each further failure up to an hour.

    Up to half of the wait is taken off at random (jitter), so that namespaces do not all come at once.
    """
    state = workspace.state
    known = state.get(namespace, _ATTEMPTS)
    attempts = int(known) if known is not None and known.isdigit() else 0
    wait = min(_FIRST_WAIT_SECONDS * 2 ** min(attempts, 20), _MAX_WAIT_SECONDS) * random.uniform(0.5, 1.0)
    state.enqueue(namespace, QUEUE, {namespace: time.time() + wait})
    state.set(namespace, _ATTEMPTS, str(attempts + 1).encode(), _ATTEMPTS_TTL_SECONDS)


def dequeue(workspace: Workspace, namespace: str) -> None:
    """Cancel the retry of a namespace that needs none. A state that does not answer fails nothing."""
    with contextlib.suppress(TabootError):
        if workspace.state.queued(namespace, QUEUE):
            workspace.state.dequeue(namespace, QUEUE, [namespace])
            workspace.state.delete(namespace, [_ATTEMPTS])


STAGE = "qdrant_points"
VERSION = "1"
CIRCUIT = keys.CIRCUIT("qdrant")
#: Texts whose points are sent between two commits; the most that a kill may cost.
_COMMIT_TEXTS = 8192
#: Texts whose points are in memory at once.
_SLICE_TEXTS = 1024
_UNKNOWN = ""


class _PointsWriter:
    """Writes the points of one namespace in the space in force, so that they equal the snapshot."""

    def __init__(
        self,
        workspace: Workspace,
        points: QdrantPoints,
        namespace: str,
        report: StageReport,
        progress: Progress,
    ) -> None:
        self.workspace = workspace
        self.points = points
        self.namespace = namespace
        self.report = report
        self.progress = progress
        self.catalog = workspace.catalog
        self.tables = workspace.tables
        self.snapshot = snapshot = needed_snapshot(workspace, namespace)
        self.sources = {
            e.source_id: (e.config.type, sorted(e.config.tags))
            for e in workspace.entries_in(namespace, snapshot.applied)
        }
        self.space: Space = workspace.embedder.space
        self.table = f"points.{self.space.id}"
        settings = workspace.settings.qdrant
        #: Identifies the server and the collection that the table of what has been applied is about.
        self.place = ids.digest(settings.url, settings.collection)
        self.inputs = ids.digest(
            snapshot.applied,
            snapshot.inputs,
            sources_digest(self.sources),
            made_by(self.space.id),
            self.place,
            VERSION,
        )
        report.data_version = self.inputs
        self.pointer = self.catalog.pointers.get(namespace, NAMESPACE, STAGE)

    def unchanged(self) -> bool:
        return self.pointer is not None and self.pointer.inputs == self.inputs

    def apply(self, *, ask: bool = False) -> None:
        """Write what differs from the snapshot.

        With ``ask`` the table of what has been applied is not trusted, and the server is asked what it holds.
        """
        space = self.space.id
        filled = embeddings.fill(
            self.workspace,
            self.namespace,
            {s: v["chunks"] for s, v in self.snapshot.applied.items()},
            self.progress,
        )
        if filled != self.space:
            raise SpaceChanged(
                "E_EMBEDDER",
                f"The embedding server serves {filled.id} by now; the points are of {space}.",
                remedy="Run the ingest again: everything is embedded anew.",
            )
        rows = self._rows()
        wanted = {sha256: (len(prints), _joined(prints)) for sha256, prints in rows.wanted()}
        self.points.prepare(space, self.space.dimension)
        applied = None if ask else self._believed()
        asked = applied is None
        if applied is None:
            # If this process is killed, the next run finds the work undone.
            self._publish("")
            self._adopt(rows)
            applied = self._applied()
        diff = difference({s: f for s, (_, f) in wanted.items()}, {s: f for s, (_, f) in applied.items()})
        self.report.counts |= {
            "new": 0,
            "reused": len(wanted) - len(diff.changed),
            "removed": len(diff.removed),
            "points": sum(n for n, _ in wanted.values()),
        }
        if diff:
            # From here on readers turn to the shards: while the points are being changed they
            # are of no snapshot.
            self._mark("")
        for buckets, changed, removed in batches(diff, _COMMIT_TEXTS, ids.bucket):
            self._batch(rows, buckets, changed, removed, wanted, applied)
        if self.points.count(self.namespace, space) != self.report.counts["points"]:
            if asked:
                raise TabootError(
                    "E_QDRANT", "Qdrant does not hold the points that it confirmed.", namespace=self.namespace
                )
            # The server lost some points, or has some that are not recorded; only the server can say which.
            self.apply(ask=True)
            return
        self.points.switch_alias(space)
        self._drop_other_spaces()
        self._mark(self.snapshot.inputs)
        if self.tables.stale_files(self.namespace, NAMESPACE, self.table) >= STALE_FILES:
            self.tables.vacuum(self.namespace, NAMESPACE, self.table)
        self._publish(self.inputs)

    def _publish(self, inputs: str) -> None:
        applied = {
            "place": self.place,
            "space": self.space.id,
            "snapshot": self.snapshot.inputs if inputs else "",
        }
        self.catalog.pointers.publish(
            self.namespace,
            NAMESPACE,
            Pointer(stage=STAGE, tables={}, inputs=inputs, txn=inputs, applied=applied),
        )

    def _rows(self) -> PointRows:
        reader = SnapshotReader(
            self.workspace, self.namespace, self.snapshot, embeddings.table_name(self.space.id)
        )
        return PointRows(reader, self.namespace, self.space.id, self.sources)

    def _believed(self) -> dict[str, tuple[int, str]] | None:
        """Return what the table says; None if it cannot be trusted.

        That is so if it is lost, if it is about another server or space, or if the run that asked the server
        what it holds has not finished.
        """
        if (
            self.pointer is None
            or not self.pointer.inputs
            or self.pointer.applied != {"place": self.place, "space": self.space.id}
        ):
            return None
        if self._version() is None:
            return None
        try:
            return self._applied()
        except TabootError as error:
            if error.code != "E_TABLE":
                raise
            self.tables.drop(self.namespace, NAMESPACE, self.table)
            return None

    def _version(self) -> TableVersion | None:
        return self.tables.version(self.namespace, NAMESPACE, self.table)

    def _applied(self) -> dict[str, tuple[int, str]]:
        """Return {text hash: (points, joined fingerprint)} as the table has it."""
        rows = self.tables.read(
            self.namespace,
            NAMESPACE,
            self.table,
            self._version(),
            columns=["sha256", "points", "fingerprint"],
        )
        shas, counts, prints = (rows.column(i).to_pylist() for i in range(3))
        return dict(zip(shas, zip(counts, prints, strict=True), strict=True))

    def _adopt(self, rows: PointRows) -> None:
        """Make the table say what the server holds, and delete points that the snapshot does not ask for.

        A text whose points are not as they should be is entered as unknown, so that it is sent again.
        """
        held = dict(self.points.scan(self.namespace, self.space.id, made_by(self.space.id)))
        table: list[dict[str, object]] = []
        for sha256, prints in rows.wanted():
            present = [held.pop(point, None) for point in rows.ids(sha256, 0, len(prints))]
            if any(p is not None for p in present):
                joined = _joined(prints) if present == prints else _UNKNOWN
                table.append(
                    {
                        "bucket": ids.bucket(sha256),
                        "sha256": sha256,
                        "points": len(prints),
                        "fingerprint": joined,
                    }
                )
        if held:
            self._mark("")
            self.points.delete(self.namespace, self.space.id, held)
            self.report.add("surplus", len(held))
        self.tables.replace(
            self.namespace,
            NAMESPACE,
            self.table,
            pa.Table.from_pylist(table, schema=POINTS),
            buckets=None,
            txn=self.inputs,
        )

    def _batch(
        self,
        rows: PointRows,
        buckets: frozenset[int],
        changed: Sequence[str],
        removed: Sequence[str],
        wanted: dict[str, tuple[int, str]],
        applied: dict[str, tuple[int, str]],
    ) -> None:
        """Mark, send and record one batch: the table never says less than the server may hold."""
        # Texts that an earlier run marked and did not finish may have more points than either table row says,
        # so the larger number is kept.
        most = {s: max(applied.get(s, (0, ""))[0], wanted.get(s, (0, ""))[0]) for s in (*changed, *removed)}
        self._record(buckets, {s: (n, _UNKNOWN) for s, n in most.items()})
        space = self.space.id
        for points in rows.points(changed, _SLICE_TEXTS):
            self.points.upsert(self.namespace, space, points)
            self.progress(STAGE, self.report.counts["new"] + len(points), 0)
        self.report.add("new", len(changed))
        gone = [point for s in most for point in rows.ids(s, wanted.get(s, (0, ""))[0], most[s])]
        if gone:
            self.points.delete(self.namespace, space, gone)
        self._record(buckets, {s: wanted[s] for s in changed}, drop=removed)

    def _record(
        self, buckets: frozenset[int], texts: dict[str, tuple[int, str]], drop: Sequence[str] = ()
    ) -> None:
        table = pa.Table.from_pylist(
            [
                {"bucket": ids.bucket(s), "sha256": s, "points": n, "fingerprint": f}
                for s, (n, f) in texts.items()
            ],
            schema=POINTS,
        )
        replace_keys(
            self.tables,
            self.namespace,
            NAMESPACE,
            self.table,
            self._version(),
            key="sha256",
            buckets=buckets,
            drop=[*texts, *drop],
            rows=table,
            txn=self.inputs,
            order=("sha256",),
        )

    def _drop_other_spaces(self) -> None:
        """Drop the points of spaces that are not in force, and the tables of what was applied there."""
        tables = [
            n
            for n in self.tables.names(self.namespace, NAMESPACE)
            if n.startswith("points.") and n != self.table
        ]
        for other in {
            *self.points.other_spaces(self.namespace, self.space.id),
            *(n.removeprefix("points.") for n in tables),
        }:
            self.points.drop(self.namespace, other)
        for name in tables:
            self.tables.drop(self.namespace, NAMESPACE, name)

    def _mark(self, snapshot: str) -> None:
        self.points.set_watermark(self.namespace, self.space.id, snapshot, sources_digest(self.sources))

    def audit(self) -> Iterator[Discrepancy]:
        space = self.space.id
        for message, repairable in self.points.problems(space, self.space.dimension):
            yield Discrepancy("qdrant", "different", self.points.collection(space), message, repairable)
        held = dict(self.points.scan(self.namespace, space, made_by(space)))
        rows = self._rows()
        for sha256, prints in rows.wanted():
            for point, wanted in zip(rows.ids(sha256, 0, len(prints)), prints, strict=True):
                found = held.pop(point, None)
                if found is None:
                    yield Discrepancy("qdrant", "missing", point, "A chunk's point is not in Qdrant.", True)
                elif found != wanted:
                    yield Discrepancy(
                        "qdrant",
                        "different",
                        point,
                        "A point in Qdrant is not what its chunk and documents ask for.",
                        True,
                    )
        for point in sorted(held):
            yield Discrepancy(
                "qdrant",
                "surplus",
                point,
                "Qdrant has a point whose text no document of the snapshot holds.",
                True,
            )
        for other in self.points.other_spaces(self.namespace, space):
            yield Discrepancy(
                "qdrant",
                "surplus",
                self.points.collection(other),
                "Qdrant holds points of an embedding space that is no longer in force.",
                True,
            )
        mark = self.points.watermark(self.namespace, space)
        if (
            mark is None
            or mark.snapshot != self.snapshot.inputs
            or mark.sources != sources_digest(self.sources)
        ):
            yield Discrepancy(
                "qdrant",
                "different",
                self.namespace,
                "The watermark of the points does not name the present snapshot.",
                True,
            )


def _joined(prints: Sequence[str]) -> str:
    return prints[0] if len(prints) == 1 else ids.digest(*prints)


TARGET = ServerTarget(
    stage=STAGE,
    store="qdrant",
    part="vectors",
    setting="TABOOT_QDRANT__URL",
    open=open_vectors,
    code="E_QDRANT",
    circuit=CIRCUIT,
    writer=_PointsWriter,
    failed=enqueue,
    settled=dequeue,
)
