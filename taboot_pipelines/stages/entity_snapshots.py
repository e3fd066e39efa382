"""entity_snapshots: the namespace's current truth, and the mentions of the names it declares (DESIGN rules 8
to 13).

Any source's run brings in everything pending in the namespace: what changed in each source, and what that
touches elsewhere (a shared entity, a name that now means something). The work is in proportion to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import Difference, batches
from taboot_pipelines.knowledge.mentions import MATCHER_VERSION, NameMatcher, name_tokens, regions, tokens
from taboot_pipelines.knowledge.names import NAMED, Meaning, meanings, names_table, resolutions
from taboot_pipelines.knowledge.reducer import REDUCER_VERSION, Claim, load_claims, reduce_entity, resolve_key
from taboot_pipelines.knowledge.relations import (
    RELATIONS_VERSION,
    ChunkIndex,
    Statement,
    mention,
    relation_rows,
)
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis, EdgeSource
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.tables import DECLARATIONS, DOC_STATE, ENTITIES, RELATIONS, rows_of
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

STAGE = "entity_snapshots"
VERSION = "1"
TABLES = ("relations", "entities", "names", "declarations", "doc_state")

#: Mentions that the reducer derives carry a lower confidence than what a source declares.
_EXACT, _FOLDED = 0.9, 0.8


def run(
    workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress
) -> StageReport:
    """Apply everything pending in the namespace; publishes one pointer with the vector of source versions."""
    with reporting(STAGE, source_id, namespace) as report:
        try:
            with workspace.leases.namespace(namespace):
                _Snapshot(workspace, namespace, report, progress).apply()
                # Another source may have finished meanwhile: its waiter then finds its work applied.
                while _pending(workspace, namespace, None):
                    _Snapshot(workspace, namespace, report, progress).apply()
        except TabootError as error:
            if error.code != "E_BUSY" or _pending(workspace, namespace, source_id):
                raise
            report.skipped = "applied by another run"
    return report


def _pending(workspace: Workspace, namespace: str, source_id: str | None) -> bool:
    """Whether a source (None: any) has a version that the snapshot has not applied."""
    pointer = workspace.catalog.pointers.get(namespace, NAMESPACE, STAGE)
    if pointer is None:
        return True
    versions = source_versions(workspace, namespace, pointer.applied)
    return (
        versions != dict(pointer.applied)
        if source_id is None
        else versions.get(source_id) != pointer.applied.get(source_id)
    )


def source_versions(
    workspace: Workspace, namespace: str, applied: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """For each source the newest version that all its stages have applied; while a run of it is under way,
    the last one.
    """
    stages = ("chunks", "embeddings", "tier_a_triples")
    published = workspace.catalog.pointers.of_stages(namespace, stages)
    versions = {}
    for row in workspace.catalog.sources.find(namespace):
        source = row["source_id"]
        chunks, embeddings, observations = (published.get((source, stage)) for stage in stages)
        if chunks is not None and embeddings is not None and observations is not None:
            version = {"documents": chunks.applied["documents"], "chunks": chunks.tables["chunks"]}
            if {k: observations.applied[k] for k in version} == version and embeddings.applied[
                "chunks"
            ] == version["chunks"]:
                versions[source] = {**version, "observations": observations.tables["observations"]}
                continue
        if source in applied:
            versions[source] = applied[source]
    return versions


@dataclass
class _Source:
    """The fingerprints of one source's documents at its version."""

    documents: dict[str, str] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    #: doc_id -> buckets of the observations table that hold something of it
    buckets: dict[str, frozenset[int]] = field(default_factory=dict)


class _Snapshot:
    def __init__(self, workspace: Workspace, namespace: str, report: StageReport, progress: Progress) -> None:
        self.workspace, self.namespace, self.report, self.progress = workspace, namespace, report, progress
        self.catalog, self.tables = workspace.catalog, workspace.tables
        #: Documents whose blob is damaged: looked at again at every run.
        self.unread: set[str] = set()

    def apply(self) -> None:
        pointer = self.catalog.pointers.get(self.namespace, NAMESPACE, STAGE)
        self.applied: Mapping[str, Any] = pointer.applied if pointer else {}
        self.versions = source_versions(self.workspace, self.namespace, self.applied)
        inputs = ids.digest(self.versions, VERSION, REDUCER_VERSION, MATCHER_VERSION, RELATIONS_VERSION)
        self.report.data_version = inputs
        whole = pointer is not None and self.tables.exist(self.namespace, NAMESPACE, pointer.tables)
        if pointer is not None and pointer.inputs == inputs and whole:
            self.report.tables, self.report.skipped = dict(pointer.tables), "unchanged"
            return
        self.txn = inputs
        # What a killed run left ahead of the pointer is taken back; the tables then hold what was published.
        # If one is lost, all are made again.
        self.version: dict[str, int | None] = {
            name: self.tables.rollback(
                self.namespace, NAMESPACE, name, pointer.tables[name] if pointer and whole else None
            )
            for name in TABLES
        }
        # A new version of the reducer looks at every document again; fingerprints of the old one are void.
        self.salt = ids.digest(VERSION, REDUCER_VERSION, MATCHER_VERSION, RELATIONS_VERSION)
        self._compare()
        self._name()
        self._relate()
        self._reduce()
        self.catalog.pointers.publish(
            self.namespace,
            NAMESPACE,
            Pointer(
                stage=STAGE,
                tables=self.version,
                inputs=ids.digest(inputs, "incomplete") if self.unread else inputs,
                txn=inputs,
                applied=self.versions,
            ),
        )
        self.report.tables = dict(self.version)

    def _read(self, name: str, **options: Any) -> pa.Table:
        return self.tables.read(self.namespace, NAMESPACE, name, self.version[name], **options)

    # --- 1. which documents changed -------------------------------------------------------------------------

    def _source(self, source: str) -> _Source:
        found, version = _Source(), self.versions[source]
        listing = self.tables.read(
            self.namespace, source, "documents", version["documents"], columns=["doc_id", "fingerprint"]
        )
        found.documents = {d: ids.digest(f, self.salt) for d, f in rows_of(listing)}
        chunks = self.tables.read(
            self.namespace, source, "chunks", version["chunks"], columns=["doc_id", "fingerprint"]
        )
        grouped = chunks.group_by("doc_id").aggregate([("fingerprint", "min"), ("fingerprint", "count")])
        for d, f, n in rows_of(grouped, "doc_id", "fingerprint_min", "fingerprint_count"):
            found.chunks[d], found.counts[d] = f, n
        rows = self.tables.read(
            self.namespace,
            source,
            "observations",
            version["observations"],
            columns=["doc_id", "bucket", "run_id"],
        )
        runs: dict[str, set[str]] = {}
        buckets: dict[str, set[int]] = {}
        distinct = rows.group_by(["doc_id", "bucket", "run_id"]).aggregate([])
        for d, b, r in rows_of(distinct, "doc_id", "bucket", "run_id"):
            runs.setdefault(d, set()).add(r)
            buckets.setdefault(d, set()).add(b)
        found.runs = {d: ids.digest(*sorted(r)) for d, r in runs.items()}
        found.buckets = {d: frozenset(b) for d, b in buckets.items()}
        return found

    def _compare(self) -> None:
        state = self._read("doc_state", columns=[f.name for f in DOC_STATE if f.name != "tokens"])
        rows = {r["doc_id"]: r for r in state.to_pylist()}
        moved = {
            s for s in set(self.versions) | set(self.applied) if self.versions.get(s) != self.applied.get(s)
        }
        moved |= {r["source_id"] for r in rows.values() if not r["document_fingerprint"]}
        known = {r["source_id"] for r in rows.values()}
        # After a change of this stage's own version every source is compared.
        everything = any(not r["relations_fingerprint"].startswith(self.salt[:8]) for r in rows.values())
        self.sources: dict[str, _Source] = {
            s: self._source(s) for s in self.versions if s in moved or everything or s not in known
        }
        wanted, current = {}, {}
        self.owner = {d: r["source_id"] for d, r in rows.items()}
        for source, found in self.sources.items():
            for d, f in found.documents.items():
                wanted[d] = ids.digest(f, found.chunks.get(d, ""), found.runs.get(d, ""))
                self.owner[d] = source
        for d, r in rows.items():
            if r["source_id"] in self.sources or r["source_id"] not in self.versions:
                current[d] = ids.digest(
                    r["document_fingerprint"], r["chunks_fingerprint"], r["runs_fingerprint"]
                )
        self.changed = {d for d, f in wanted.items() if current.get(d) != f}
        self.removed = {d for d in current if d not in wanted}
        self.report.counts |= {
            "documents": len(rows) - len(self.removed) + len(self.changed - rows.keys()),
            "changed": len(self.changed),
            "removed": len(self.removed),
        }

    # --- 2. what names mean ---------------------------------------------------------------------------------

    def _name(self) -> None:
        """Compare the dictionary of declared names before and after; find the documents that hold a name that
        changed.
        """
        before = self._read("declarations")
        kept = before.filter(
            pc.invert(
                pc.is_in(before.column("doc_id"), pa.array(sorted(self.changed | self.removed), pa.string()))
            )
        )
        new: list[dict[str, Any]] = []
        for source in self.sources:
            rows = self.tables.read(
                self.namespace,
                source,
                "observations",
                self.versions[source]["observations"],
                columns=["doc_id", "kind", "start_label", "start_key", "start_name", "declared", "aliases"],
            )
            rows = rows.filter(pc.and_(rows.column("declared"), pc.equal(rows.column("kind"), "node")))
            for r in rows.to_pylist():
                if r["doc_id"] in self.changed and r["start_label"] in NAMED:
                    for name, kind in [(r["start_name"], "name"), *((a, "alias") for a in r["aliases"])]:
                        new.append(
                            {
                                "bucket": ids.doc_bucket(r["doc_id"]),
                                "doc_id": r["doc_id"],
                                "label": r["start_label"],
                                "key": r["start_key"],
                                "name": name,
                                "kind": kind,
                            }
                        )
        unique = {tuple(r.values()): r for r in new}
        after = pa.concat_tables(
            [kept, pa.Table.from_pylist([unique[k] for k in sorted(unique)], schema=DECLARATIONS)]
        )
        known_before, self.known = meanings(before), meanings(after)
        self.resolved_before, self.resolved = resolutions(known_before), resolutions(self.known)
        self.matcher = NameMatcher(self.known)

        # A document's rows depend on a name only by what its mention points to.
        def pointed(known: Mapping[str, Meaning], name: str) -> Any:
            return known[name].targets(name) if name in known else ()

        moved = sorted(
            n
            for n in set(known_before) | set(self.known)
            if pointed(known_before, n) != pointed(self.known, n)
        )
        self.rescan = self._holding(moved) - self.changed - self.removed
        self.report.counts |= {
            "names": len(self.known),
            "names_changed": len(moved),
            "rescanned": len(self.rescan),
        }
        touched = {ids.doc_bucket(d) for d in self.changed | self.removed}
        if unique or kept.num_rows != before.num_rows:
            rows = after.filter(pc.is_in(after.column("bucket"), pa.array(sorted(touched), pa.int32())))
            self.version["declarations"] = self.tables.replace(
                self.namespace,
                NAMESPACE,
                "declarations",
                rows.sort_by([(c, "ascending") for c in DECLARATIONS.names]),
                buckets=touched,
                txn=self.txn,
            )
        table = names_table(self.known)
        if not table.equals(self._read("names").sort_by("name")):
            self.version["names"] = self.tables.replace(
                self.namespace, NAMESPACE, "names", table, buckets=None, txn=self.txn
            )

    def _holding(self, names: Collection[str]) -> set[str]:
        """Documents whose token index holds all tokens of one of the names."""
        if not names:
            return set()
        index = self._read("doc_state", columns=["doc_id", "tokens"])
        if index.num_rows == 0:
            return set()
        column = index.column("tokens").combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(column)), np.diff(column.offsets.to_numpy()))
        wanted = {n: name_tokens(n) for n in names}
        hits = np.isin(flat, np.unique(np.concatenate(list(wanted.values()))))
        by_token: dict[int, set[int]] = {}
        for token, row in zip(flat[hits].tolist(), rows[hits].tolist(), strict=True):
            by_token.setdefault(token, set()).add(row)
        found: set[int] = set()
        for needed in wanted.values():
            holders = [by_token.get(int(t), set()) for t in needed]
            if holders:
                found |= set.intersection(*holders)
        doc_ids = index.column("doc_id").to_pylist()
        return {doc_ids[i] for i in found}

    # --- 3. the edges of the documents concerned ------------------------------------------------------------

    def _relate(self) -> None:
        todo = self.changed | self.rescan
        for source in {self.owner[d] for d in self.rescan} - set(self.sources):
            self.sources[source] = self._source(source)
        self.touched: set[tuple[str, str]] = set()
        self.claims: dict[tuple[str, str], list[Claim]] = {}
        self.report.counts |= {"edges_written": 0, "entities_written": 0}
        done = 0
        for buckets, changed, removed in batches(
            Difference(tuple(sorted(todo)), tuple(sorted(self.removed))),
            self.workspace.settings.limits.batch_documents,
        ):
            gone = pa.array(sorted({*changed, *removed}), pa.string())
            old = self._read("relations", buckets=buckets)
            leaving = pc.is_in(old.column("doc_id"), gone)
            for end in ("start", "end"):
                ends = old.filter(leaving).select([f"{end}_label", f"{end}_key"])
                self.touched.update(rows_of(ends))
            relations: list[dict[str, Any]] = []
            states: list[dict[str, Any]] = []
            for document in self._load(changed, buckets):
                rows = self._document(document)
                relations += rows
                states.append(self._state(document, rows))
            for name, key, rows_new, schema, current in (
                ("relations", "doc_id", relations, RELATIONS, old),
                ("doc_state", "doc_id", states, DOC_STATE, self._read("doc_state", buckets=buckets)),
            ):
                kept = current.filter(pc.invert(pc.is_in(current.column(key), gone)))
                if kept.num_rows == current.num_rows and not rows_new:
                    continue
                table = pa.concat_tables([kept, pa.Table.from_pylist(rows_new, schema=schema)]).sort_by(
                    "doc_id"
                )
                self.version[name] = self.tables.replace(
                    self.namespace, NAMESPACE, name, table, buckets=buckets, txn=self.txn
                )
            self.report.add("edges_written", len(relations))
            done += len(changed)
            self.progress(STAGE, done, len(todo))

    def _load(self, doc_ids: Collection[str], buckets: Collection[int]) -> Iterator[dict[str, Any]]:
        """The documents with their chunks and observations, source by source."""
        by_source: dict[str, set[str]] = {}
        for d in doc_ids:
            by_source.setdefault(self.owner[d], set()).add(d)
        for source, wanted in sorted(by_source.items()):
            version = self.versions[source]
            members = pa.array(sorted(wanted), pa.string())

            def pick(
                name: str,
                at: Collection[int],
                columns: list[str] | None = None,
                source: str = source,
                version: Any = version,
                members: Any = members,
            ) -> list[dict[str, Any]]:
                rows = self.tables.read(
                    self.namespace, source, name, version[name], buckets=at, columns=columns
                )
                found: list[dict[str, Any]] = rows.filter(
                    pc.is_in(rows.column("doc_id"), members)
                ).to_pylist()
                return found

            chunks: dict[str, list[dict[str, Any]]] = {}
            for c in pick(
                "chunks", buckets, ["doc_id", "chunk_id", "chunk_index", "start", "end", "sha256", "section"]
            ):
                chunks.setdefault(c["doc_id"], []).append(c)
            at = set().union(*(self.sources[source].buckets.get(d, frozenset()) for d in wanted))
            observations: dict[str, list[dict[str, Any]]] = {}
            for o in pick("observations", at):
                observations.setdefault(o["doc_id"], []).append(o)
            for document in pick("documents", buckets):
                d = document["doc_id"]
                yield {
                    **document,
                    "chunks": sorted(chunks.get(d, ()), key=lambda c: c["chunk_index"]),
                    "observations": observations.get(d, []),
                }

    def _document(self, document: dict[str, Any]) -> list[dict[str, Any]]:
        """The relation rows of a document; its claims about nodes are kept for the reducer."""
        doc_id, text, title = document["doc_id"], document["text"], document["title"]
        parts = document["chunks"]
        chunks = ChunkIndex(
            *([c[k] for c in parts] for k in ("chunk_id", "start", "end", "sha256", "section"))
        )
        recency = int((document["date"] or document["since"]).timestamp() * 1_000_000)
        statements: list[Statement] = []
        claims: set[tuple[str, str, str, str, float, str]] = set()
        first: dict[tuple[str, str], dict[str, Any]] = {}
        for o in document["observations"]:
            if o["kind"] == "node":
                claims.add(
                    (
                        o["type"],
                        o["start_key"],
                        o["start_name"],
                        o["source"],
                        o["confidence"],
                        o["properties"],
                    )
                )
                node = (o["type"], o["start_key"])
                if node not in first or (o["span_start"], o["span_end"]) < (
                    first[node]["span_start"],
                    first[node]["span_end"],
                ):
                    first[node] = o
                continue
            span = (o["span_start"], o["span_end"])
            place = (o["byte_start"], o["byte_end"], o["line"])
            if o["type"] == "MENTIONS":
                statements.append(
                    mention(
                        doc_id,
                        title,
                        (o["end_label"], o["end_key"], o["end_name"]),
                        span,
                        place,
                        chunks,
                        blob_sha256=o["blob_sha256"],
                        confidence=o["confidence"],
                        source=o["source"],
                        method=o["method"],
                        end_basis=o["end_basis"],
                        run_id=o["run_id"],
                    )
                )
            else:
                statements.append(
                    Statement(
                        o["type"],
                        o["start_label"],
                        o["start_key"],
                        o["start_name"],
                        o["end_label"],
                        o["end_key"],
                        o["end_name"],
                        o["discriminator"],
                        o["properties"],
                        o["confidence"],
                        o["source"],
                        o["method"],
                        o["start_basis"],
                        o["end_basis"],
                        o["run_id"],
                        o["blob_sha256"],
                        *place,
                        *span,
                    )
                )
        # The declaring document mentions every node that it declares, so none is an orphan.
        for (label, key), o in sorted(first.items()):
            span = (o["span_start"], o["span_end"])
            basis = Basis.BYTES if o["start_name"] in text[span[0] : span[1]] else Basis.DERIVED
            statements.append(
                mention(
                    doc_id,
                    title,
                    (label, key, o["start_name"]),
                    span,
                    (o["byte_start"], o["byte_end"], o["line"]),
                    chunks,
                    blob_sha256=o["blob_sha256"],
                    confidence=o["confidence"],
                    source=o["source"],
                    method="declaration",
                    end_basis=basis.value,
                    run_id=o["run_id"],
                )
            )
        statements += self._mentions(document, chunks)
        for s in statements:
            for label, key, name in (
                (s.start_label, s.start_key, s.start_name),
                (s.end_label, s.end_key, s.end_name),
            ):
                if label != "Document" and (label, key) not in first:
                    claims.add((label, key, name, s.source, s.confidence, "{}"))
        for label, key, name, source, confidence, properties in claims:
            self.claims.setdefault((label, key), []).append(
                Claim(doc_id, key, name, source, confidence, recency, properties)
            )
        return relation_rows(doc_id, statements)

    def _mentions(self, document: dict[str, Any], chunks: ChunkIndex) -> list[Statement]:
        """Names that are declared somewhere in the namespace and stand in this document's text."""
        text = document["text"]
        hits = self.matcher.find(text, regions(text, code=is_code(document["mime"])))
        if not hits:
            return []
        starts, ends = np.array([h[0] for h in hits]), np.array([h[1] for h in hits])
        byte_starts, byte_ends = OffsetMap.loads(document["offsets"]).to_bytes_many(starts, ends)
        lines, blob = self._lines(document, starts, byte_starts)
        run = ids.run_id(
            f"document:{document['doc_id']}",
            "mentions",
            ids.digest(document["text_sha256"], document["blob_sha256"], MATCHER_VERSION),
        )
        found = []
        for i, (start, end, name, exact) in enumerate(hits):
            # In HTML, markup may stand between the letters of a name.
            exact = exact and (blob is None or name.encode() in blob[int(byte_starts[i]) : int(byte_ends[i])])
            for target in self.known[name].targets(name):
                found.append(
                    mention(
                        document["doc_id"],
                        document["title"],
                        (target.label, ids.node_key(target.key), target.name),
                        (start, end),
                        (int(byte_starts[i]), int(byte_ends[i]), int(lines[i])),
                        chunks,
                        blob_sha256=document["blob_sha256"],
                        confidence=_EXACT if exact else _FOLDED,
                        source=EdgeSource.TIER_A.value,
                        method="declared_name",
                        end_basis=(Basis.BYTES if exact else Basis.NORMALIZED).value,
                        run_id=run,
                    )
                )
        return found

    def _lines(self, document: dict[str, Any], starts: Any, byte_starts: Any) -> tuple[Any, bytes | None]:
        """The lines of mentions; for a rendered document those of its blob, which is returned as well."""
        if "html" in document["mime"]:
            try:
                data = self.workspace.blobs.get(self.namespace, document["blob_sha256"])
            except TabootError as error:
                # The statement stands; only its line is unknown, and looked for again when the blob is whole.
                self.report.problem(error.code, document["doc_id"], error.message)
                self.unread.add(document["doc_id"])
                return np.ones(len(starts), dtype=np.int64), b""
            return (
                np.searchsorted(np.flatnonzero(np.frombuffer(data, dtype="u1") == 10), byte_starts) + 1,
                data,
            )
        points = np.frombuffer(document["text"].encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return np.searchsorted(np.flatnonzero(points == 10), starts) + 1, None

    def _state(self, document: dict[str, Any], rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
        d = document["doc_id"]
        source = self.sources[self.owner[d]]
        return {
            "bucket": ids.doc_bucket(d),
            "doc_id": d,
            "source_id": self.owner[d],
            "document_fingerprint": "" if d in self.unread else source.documents[d],
            "chunks_fingerprint": source.chunks.get(d, ""),
            "runs_fingerprint": source.runs.get(d, ""),
            "relations_fingerprint": self.salt[:8] + ids.digest(*(list(r.values()) for r in rows)),
            "chunk_count": source.counts.get(d, 0),
            "tokens": tokens(document["text"]),
        }

    # --- 4. the entities they speak of ----------------------------------------------------------------------

    def _reduce(self) -> None:
        """Take the old claims of the documents concerned out of their entities, put the new ones in, reduce
        again.
        """
        gone = self.changed | self.rescan | self.removed
        touched = {node for node in self.touched if node[0] != "Document"} | set(self.claims)
        for bare in set(self.resolved) | set(self.resolved_before):
            if self.resolved.get(bare) != self.resolved_before.get(bare):
                touched.add(("Service", bare))
        for label, key in list(touched):
            touched |= {
                (label, resolve_key(label, key, self.resolved_before)),
                (label, resolve_key(label, key, self.resolved)),
            }
        buckets = sorted({ids.bucket(key) for _, key in touched})
        claims: dict[tuple[str, str], list[Claim]] = {}

        def assign(label: str, claim: Claim) -> None:
            claims.setdefault((label, resolve_key(label, claim.observed_key, self.resolved)), []).append(
                claim
            )

        old = self._read("entities", buckets=buckets)
        keys = list(zip(old.column("label").to_pylist(), old.column("key").to_pylist(), strict=True))
        mask = pa.array([k in touched for k in keys], pa.bool_())
        for row in old.filter(mask).select(["label", "claims"]).to_pylist():
            for claim in load_claims(row["claims"]):
                if claim.doc_id not in gone:
                    assign(row["label"], claim)
        for (label, _), new in self.claims.items():
            for claim in new:
                assign(label, claim)
        rows = [
            {"bucket": ids.bucket(key), **reduce_entity(label, key, claims[label, key])}
            for label, key in sorted(claims)
        ]
        before = {(r["label"], r["key"]): r for r in old.filter(mask).to_pylist()}
        differing = {r["bucket"] for r in rows if before.get((r["label"], r["key"])) != r} | {
            r["bucket"] for k, r in before.items() if k not in claims
        }
        if differing:
            at = pa.array(sorted(differing), pa.int32())
            kept = old.filter(pc.invert(mask))
            table = pa.concat_tables(
                [
                    kept.filter(pc.is_in(kept.column("bucket"), at)),
                    pa.Table.from_pylist([r for r in rows if r["bucket"] in differing], schema=ENTITIES),
                ]
            )
            self.version["entities"] = self.tables.replace(
                self.namespace,
                NAMESPACE,
                "entities",
                table.sort_by([("label", "ascending"), ("key", "ascending")]),
                buckets=differing,
                txn=self.txn,
            )
        self.report.counts["entities_written"] = len(rows)
