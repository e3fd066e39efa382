"""tier_a_triples: the observations of one interpretation run per unit (DESIGN rules 8, 9 and 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose import ComposeExtractor
from taboot_pipelines.extraction.tier_a.nginx import NginxExtractor
from taboot_pipelines.extraction.tier_a.prose import PROSE_VERSION, find_mentions
from taboot_pipelines.incremental import Difference, batches, replace_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import EDGES, Basis, EdgeSource, check_edge, check_node
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    Problem,
    SourceFacts,
    UnitSpec,
)
from taboot_pipelines.model.tables import OBSERVATIONS, rows_of
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.blobs import UNREADABLE
from taboot_pipelines.stores.catalog import Pointer, now_micros

STAGE = "tier_a_triples"
TIER = EdgeSource.TIER_A
VERSION = "1"


#: What a unit leaves open without being wrong: recorded with its reason, no failure.
NOTES = frozenset({"E_UNRESOLVED", "E_NOT_FOUND"})


class Extractor(Protocol):
    """A Tier A extractor of a structured format; pure, and byte-identical for equal input and version."""

    name: str
    version: str

    def units(self, paths: Sequence[str]) -> list[UnitSpec]: ...

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation: ...


#: Interpretation follows the source's type (rule 8); a type without an entry gives documents and prose only.
EXTRACTORS: dict[str, Callable[[], Extractor]] = {"compose": ComposeExtractor, "swag": NginxExtractor}


def run(workspace: Workspace, entry: Entry, progress: Progress = no_progress) -> StageReport:
    """Interpret the units whose input changed; a unit that left takes its observations along."""
    namespace, source_id = entry.namespace, entry.source_id
    catalog = workspace.catalog
    with reporting(STAGE, source_id, namespace) as report, workspace.leases.source(namespace, source_id):
        raw, documents, chunks = (
            catalog.pointers.get(namespace, source_id, s) for s in ("raw_blobs", "documents", "chunks")
        )
        if raw is None or documents is None or chunks is None:
            raise TabootError(
                "E_NOT_FOUND",
                f"Source {source_id} has no chunks table yet.",
                remedy="Materialize chunks first.",
            )
        facts = SourceFacts(
            namespace,
            source_id,
            **{k: v for k, v in entry.config.interpretation_fields().items() if k in ("host", "proxy")},
        )
        kind = EXTRACTORS.get(entry.config.type)
        extractor = kind() if kind else None
        versions = (VERSION, PROSE_VERSION, extractor and (extractor.name, extractor.version))
        inputs = ids.digest(raw.inputs, documents.tables, chunks.tables, facts.host, facts.proxy, *versions)
        report.data_version = inputs
        old = catalog.pointers.get(namespace, source_id, STAGE)
        if (
            old is not None
            and old.inputs == inputs
            and workspace.tables.exist(namespace, source_id, old.tables)
        ):
            report.tables, report.skipped = dict(old.tables), "unchanged"
            return report
        work = _Work(workspace, entry, facts, extractor, documents.tables["documents"], report)
        version = work.apply(inputs, progress)
        applied = ids.digest(inputs, "incomplete") if work.unread else inputs
        catalog.pointers.publish(
            namespace,
            source_id,
            Pointer(
                stage=STAGE,
                tables={"observations": version},
                inputs=applied,
                txn=inputs,
                applied={"documents": documents.tables["documents"], "chunks": chunks.tables["chunks"]},
            ),
        )
        report.tables = {"observations": version}
    return report


@dataclass
class _Unit:
    """A unit of this source: a project known from the listing, or a document's prose."""

    unit_id: str
    anchor: str  # the doc_id of the main file: what the unit's rows are bucketed by
    spec: UnitSpec | None
    fingerprint: str = ""


@dataclass
class _Outcome:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    nodes: int = 0
    edges: int = 0
    problems: list[Problem] = field(default_factory=list)
    reads: dict[str, str | None] = field(default_factory=dict)
    globs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    subordinates: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()
    transient: bool = False

    def failed(self, path: str, error: TabootError) -> None:
        self.problems.append(Problem(path, error.code, error.message))
        self.transient |= error.code in UNREADABLE


class _File:
    """A decoded file of the enumeration, with what leads from its code points to bytes and lines."""

    def __init__(self, text: str, offsets: OffsetMap, sha256: str, data: bytes | None = None) -> None:
        self.text, self.offsets, self.sha256 = text, offsets, sha256
        # A document that was rendered from its blob has the blob's line numbers, not its own.
        self._newlines = (
            _newlines(text.encode("utf-32-le", "surrogatepass"), 4) if data is None else _newlines(data, 1)
        )
        self._data = data

    def holds(self, start: int, end: int, name: str) -> bool:
        """Whether a name stands in the bytes of a span as written; in HTML, markup may stand between its
        letters.
        """
        if self._data is None:
            return True
        lo, hi = self.offsets.to_bytes(start, end)
        return name.encode() in self._data[lo:hi]

    def place(self, start: int, end: int) -> tuple[int, int, int]:
        """(byte_start, byte_end, line) of a span."""
        lo, hi = self.offsets.to_bytes(start, end)
        return lo, hi, int(np.searchsorted(self._newlines, start if self._data is None else lo)) + 1


def _newlines(data: bytes, width: int) -> Any:
    return np.flatnonzero(np.frombuffer(data, dtype="<u4" if width == 4 else "u1") == 10)


class _Work:
    def __init__(
        self,
        workspace: Workspace,
        entry: Entry,
        facts: SourceFacts,
        extractor: Extractor | None,
        documents: int | None,
        report: StageReport,
    ) -> None:
        self.workspace, self.entry, self.facts, self.extractor, self.report = (
            workspace,
            entry,
            facts,
            extractor,
            report,
        )
        self.namespace, self.source_id = entry.namespace, entry.source_id
        self.documents_version = documents
        self.locators = workspace.catalog.locators.of_source(self.namespace, self.source_id)
        listing = workspace.tables.read(
            self.namespace,
            self.source_id,
            "documents",
            documents,
            columns=["doc_id", "path", "text_sha256", "blob_sha256", "mime"],
        )
        self.documents = {d: (p, t, b, m) for d, p, t, b, m in rows_of(listing)}
        self.documented = {p: d for d, (p, *_rest) in self.documents.items()}
        self.paths = frozenset(self.locators)
        self.batch = workspace.settings.limits.batch_documents
        #: Units that the store kept from being read: their fingerprint and problems.
        self.unread: dict[str, tuple[str, list[Problem]]] = {}

    # --- which units, and which of them changed -------------------------------------------------------------

    def _units(self) -> dict[str, _Unit]:
        units = {}
        for doc_id, (_path, text_sha, blob_sha, mime) in self.documents.items():
            unit = f"document:{doc_id}"
            units[unit] = _Unit(
                unit,
                doc_id,
                None,
                ids.digest("prose", PROSE_VERSION, VERSION, PARSING, text_sha, blob_sha, mime),
            )
        if self.extractor is not None:
            for spec in self.extractor.units(
                sorted(p for p, x in self.locators.items() if x.role == "document")
            ):
                unit = f"{self.extractor.name}:{spec.name}"
                units[unit] = _Unit(
                    unit, ids.doc_id(self.namespace, ids.locator(self.source_id, spec.files[0])), spec
                )
        return units

    def _seen(self, path: str) -> str | None:
        """What a unit sees of a path: its bytes, and whether it is a document; None if absent."""
        x = self.locators.get(path)
        return (
            None
            if x is None
            else f"{x.sha256}:{x.charset or ''}{':document' if path in self.documented else ''}"
        )

    def _fingerprint(
        self, spec: UnitSpec, reads: Mapping[str, str | None], globs: Mapping[str, Sequence[str]]
    ) -> str:
        assert self.extractor is not None
        return ids.digest(
            self.extractor.name,
            self.extractor.version,
            VERSION,
            spec.files,
            self.facts.namespace,
            self.facts.source_id,
            self.facts.host,
            self.facts.proxy,
            sorted(reads.items()),
            sorted((g, list(found)) for g, found in globs.items()),
        )

    def apply(self, txn: str, progress: Progress) -> int | None:
        catalog, tables = self.workspace.catalog, self.workspace.tables
        version = tables.version(self.namespace, self.source_id, "observations")
        # Without the table, what the catalog remembers of it is worth nothing.
        pointer = catalog.pointers.get(self.namespace, self.source_id, STAGE)
        wordless = pointer is not None and pointer.tables["observations"] is None
        states = (
            catalog.runs.unit_states(self.namespace, self.source_id, TIER)
            if version is not None or wordless
            else {}
        )
        units = self._units()
        for unit in units.values():
            if unit.spec is not None and (state := states.get(unit.unit_id)):
                view = FileView(self.paths, None)
                reads, globs = state["reads"]["files"], state["reads"]["globs"]
                unit.fingerprint = self._fingerprint(
                    unit.spec, {p: self._seen(p) for p in reads}, {g: view.glob(g) for g in globs}
                )
        stale = {u for u in units if u not in states or states[u]["fingerprint"] != units[u].fingerprint}
        homes = self._homes(version)
        remembered = catalog.runs.unit_states(self.namespace, self.source_id, TIER).keys()
        gone = (homes.keys() | remembered) - units.keys()
        self.report.counts |= {
            "units": len(units),
            "interpreted": len(stale),
            "reused": len(units) - len(stale),
            "removed": len(gone),
            "observations": 0,
        }
        buckets_of = {
            u: ids.doc_bucket(units[u].anchor) if u in units else homes.get(u, 0) for u in stale | gone
        }
        done = 0
        for buckets, changed, removed in batches(
            Difference(tuple(sorted(stale)), tuple(sorted(gone))), self.batch, buckets_of.__getitem__
        ):
            outcomes = self._interpret_all([units[u] for u in changed], buckets)
            rows = [r for u in changed for r in outcomes[u].rows]
            # Forgotten before the rows change: a kill in between must not leave a memory that fits other
            # rows.
            catalog.runs.record(
                self.namespace, self.source_id, TIER, [], [], sorted(remembered & {*changed, *removed})
            )
            version = self._write(version, buckets, [*changed, *removed], rows, txn)
            self._record([units[u] for u in changed], outcomes, removed)
            self.report.add("observations", len(rows))
            done += len(changed)
            progress(STAGE, done, len(stale))
        return self._suppress(units, version, txn)

    def _homes(self, version: int | None) -> dict[str, int]:
        """{unit: bucket} of the units that have rows."""
        rows = self.workspace.tables.read(
            self.namespace, self.source_id, "observations", version, columns=["bucket", "unit_id"]
        )
        distinct = rows.group_by(["unit_id", "bucket"]).aggregate([])
        return dict(
            zip(distinct.column("unit_id").to_pylist(), distinct.column("bucket").to_pylist(), strict=True)
        )

    def _write(
        self,
        version: int | None,
        buckets: Iterable[int],
        drop: Sequence[str],
        rows: list[tuple[Any, ...]],
        txn: str,
    ) -> int | None:
        return replace_keys(
            self.workspace.tables,
            self.namespace,
            self.source_id,
            "observations",
            version,
            key="unit_id",
            buckets=buckets,
            drop=drop,
            rows=_table(rows),
            txn=txn,
        )

    def _suppress(self, units: Mapping[str, _Unit], version: int | None, txn: str) -> int | None:
        """A file that another unit takes in by `extends` or `include` is no unit of its own (rule 8).

        Which ones are taken in depends on all units, so it is decided over their remembered outcomes.
        """
        catalog = self.workspace.catalog
        states = catalog.runs.unit_states(self.namespace, self.source_id, TIER)
        takers: dict[str, set[str]] = {}
        for unit_id, state in states.items():
            for path in state["subordinates"]:
                takers.setdefault(f"{unit_id.split(':', 1)[0]}:{path}", set()).add(unit_id)
        # Of two files that take in each other, the first by name stays a unit.
        suppressed = {
            u
            for u in states
            if any(v != u and not (u < v and v in takers and u in takers[v]) for v in takers.get(u, ()))
        }
        flagged = {u for u, s in states.items() if s["suppressed"]}
        if suppressed or flagged:
            # The flag is set before rows go and cleared after they are back: after a kill it is never wrong
            # about missing rows.
            catalog.runs.set_suppressed(
                self.namespace, self.source_id, TIER, dict.fromkeys(sorted(suppressed - flagged), True)
            )
            back, drop = (
                tuple(sorted(flagged - suppressed)),
                tuple(sorted(suppressed & self._homes(version).keys())),
            )
            for buckets, changed, removed in batches(
                Difference(back, drop), self.batch, lambda u: ids.doc_bucket(units[u].anchor)
            ):
                outcomes = self._interpret_all([units[u] for u in changed], buckets)
                version = self._write(
                    version,
                    buckets,
                    [*changed, *removed],
                    [r for o in outcomes.values() for r in o.rows],
                    txn,
                )
            catalog.runs.set_suppressed(self.namespace, self.source_id, TIER, dict.fromkeys(back, False))
            catalog.runs.record(
                self.namespace, self.source_id, TIER, [], [], sorted(self.unread.keys() & set(back))
            )
        self._letters(states, suppressed)
        return version

    # --- interpreting ---------------------------------------------------------------------------------------

    def _interpret_all(self, units: Sequence[_Unit], buckets: Iterable[int]) -> dict[str, _Outcome]:
        wanted = {u.anchor for u in units if u.spec is None}
        texts: dict[str, tuple[str, bytes]] = {}
        if wanted:
            rows = self.workspace.tables.read(
                self.namespace,
                self.source_id,
                "documents",
                self.documents_version,
                columns=["doc_id", "text", "offsets"],
                buckets=frozenset(buckets),
            )
            texts = {d: (x, o) for d, x, o in rows_of(rows) if d in wanted}
        outcomes = {
            u.unit_id: self._prose(u, *texts[u.anchor]) if u.spec is None else self._structured(u)
            for u in units
        }
        for u in units:
            outcome = outcomes[u.unit_id]
            stamp = (ids.doc_bucket(u.anchor), ids.run_id(u.unit_id, TIER, u.fingerprint))
            # What was read in part says nothing: the unit is interpreted again at the next run.
            outcome.rows = [] if outcome.transient else [(*stamp, *row) for row in outcome.rows]
            self.unread.pop(u.unit_id, None)
            if outcome.transient:
                self.unread[u.unit_id] = (u.fingerprint, outcome.problems)
        return outcomes

    def _prose(self, unit: _Unit, text: str, offsets: bytes) -> _Outcome:
        path, _text_sha, blob_sha, mime = self.documents[unit.anchor]
        outcome = _Outcome()
        mentions = find_mentions(text, code=is_code(mime))
        if not mentions:
            return outcome
        try:
            # Lines of a rendered document are those of its blob.
            data = self.workspace.blobs.get(self.namespace, blob_sha) if "html" in mime else None
        except TabootError as error:
            outcome.failed(path, error)
            return outcome
        file = _File(text, OffsetMap.loads(offsets), blob_sha, data)
        document = NodeRef("Document", (unit.anchor,), path)
        for m in mentions:
            basis = (
                Basis.NORMALIZED
                if m.basis == Basis.BYTES and not file.holds(m.start, m.end, m.node.name)
                else m.basis
            )
            claim = EdgeClaim(
                "MENTIONS",
                document,
                m.node,
                Evidence(path, m.start, m.end),
                f"prose_{m.kind}",
                Basis.DERIVED,
                basis,
                {"span": [m.start, m.end]},
                0.95,
            )
            self._edge(outcome, unit, claim, {path: file})
        return outcome

    def _structured(self, unit: _Unit) -> _Outcome:
        assert self.extractor is not None and unit.spec is not None
        outcome = _Outcome()
        files: dict[str, _File] = {}

        def load(path: str) -> str | None:
            if path not in files:
                x = self.locators[path]
                try:
                    data = self.workspace.blobs.get(self.namespace, x.sha256)
                    text, charset, bom = decode(data, x.charset)
                except TabootError as error:
                    outcome.failed(path, error)
                    return None
                files[path] = _File(text, OffsetMap.of_text(text, charset, bom), x.sha256)
            return files[path].text

        view = FileView(self.paths, load)
        result = self.extractor.interpret(unit.spec, view, self.facts)
        outcome.reads = {p: self._seen(p) for p in sorted(view.reads)}
        outcome.globs = dict(view.globs)
        outcome.subordinates, outcome.environment = result.subordinates, result.environment
        outcome.problems += result.problems
        for claim in result.nodes:
            self._node(outcome, unit, claim, files)
        for edge in result.edges:
            self._edge(outcome, unit, edge, files)
        unit.fingerprint = self._fingerprint(unit.spec, outcome.reads, outcome.globs)
        return outcome

    def _node(self, outcome: _Outcome, unit: _Unit, claim: NodeClaim, files: Mapping[str, _File]) -> None:
        doc_id = self.documented.get(claim.evidence.path)
        if doc_id is None:
            return
        node = claim.node
        properties = {k: v for k, v in claim.properties.items() if v is not None}
        try:
            check_node(node.label, node.key, properties)
        except TabootError as error:
            outcome.problems.append(Problem(claim.evidence.path, error.code, error.message))
            return
        outcome.nodes += 1
        outcome.rows.append(
            (
                doc_id,
                unit.unit_id,
                "node",
                node.label,
                node.label,
                ids.node_key(node.key),
                node.name,
                None,
                None,
                None,
                "",
                canonical_json(properties),
                claim.confidence,
                TIER.value,
                "declaration",
                None,
                None,
                claim.declared,
                list(claim.aliases),
                *self._place(claim.evidence, files),
            )
        )

    def _edge(self, outcome: _Outcome, unit: _Unit, claim: EdgeClaim, files: Mapping[str, _File]) -> None:
        doc_id = self.documented.get(claim.evidence.path)
        if doc_id is None:
            return
        properties = {k: v for k, v in claim.properties.items() if v is not None}
        try:
            for end in (claim.start, claim.end):
                check_node(end.label, end.key, {})
            check_edge(claim.type, claim.start.label, claim.end.label, properties, claim.confidence)
        except TabootError as error:
            outcome.problems.append(Problem(claim.evidence.path, error.code, error.message))
            return
        outcome.edges += 1
        outcome.rows.append(
            (
                doc_id,
                unit.unit_id,
                "edge",
                claim.type,
                claim.start.label,
                ids.node_key(claim.start.key),
                claim.start.name,
                claim.end.label,
                ids.node_key(claim.end.key),
                claim.end.name,
                discriminator(claim.type, properties),
                canonical_json(properties),
                claim.confidence,
                TIER.value,
                claim.method,
                claim.start_basis.value,
                claim.end_basis.value,
                False,
                [],
                *self._place(claim.evidence, files),
            )
        )

    def _place(self, evidence: Evidence, files: Mapping[str, _File]) -> tuple[Any, ...]:
        file = files[evidence.path]
        return (evidence.start, evidence.end, file.sha256, *file.place(evidence.start, evidence.end))

    # --- remembering ----------------------------------------------------------------------------------------

    def _record(self, units: Sequence[_Unit], outcomes: Mapping[str, _Outcome], gone: Sequence[str]) -> None:
        now = now_micros()
        runs, states = [], []
        for unit in units:
            outcome = outcomes[unit.unit_id]
            if outcome.transient:
                continue
            name, version = (
                ("prose", PROSE_VERSION)
                if unit.spec is None or self.extractor is None
                else (self.extractor.name, self.extractor.version)
            )
            run_id = ids.run_id(unit.unit_id, TIER, unit.fingerprint)
            runs.append(
                {
                    "run_id": run_id,
                    "unit_id": unit.unit_id,
                    "input_fingerprint": unit.fingerprint,
                    "status": RunState.COMPLETED.value,
                    "interpretation_config": canonical_json(
                        {
                            "extractor_type": "rule_based",
                            "extractor": name,
                            "extractor_version": version,
                            "schema_version": VERSION,
                        }
                    ),
                    "error_message": None,
                    "extracted_nodes": outcome.nodes,
                    "extracted_edges": outcome.edges,
                    "confidence": None,
                    "unknown_field_count": 0,
                    "extraction_completeness": "partial" if outcome.problems else "complete",
                    "started_at": now,
                    "completed_at": now,
                    "heartbeat_at": now,
                    "timeout_at": None,
                }
            )
            states.append(
                {
                    "unit_id": unit.unit_id,
                    "run_id": run_id,
                    "reads": canonical_json({"files": outcome.reads, "globs": outcome.globs}),
                    "fingerprint": unit.fingerprint,
                    "subordinates": canonical_json(sorted(outcome.subordinates)),
                    "environment": canonical_json(sorted(outcome.environment)),
                    "problems": canonical_json([[p.path, p.code, p.message] for p in outcome.problems]),
                    "suppressed": False,
                }
            )
        self.workspace.catalog.runs.record(
            self.namespace,
            self.source_id,
            TIER,
            runs,
            states,
            [*gone, *(u.unit_id for u in units if u.unit_id in self.unread)],
        )

    def _letters(self, states: Mapping[str, Any], suppressed: set[str]) -> None:
        letters = []
        found = {u: (s["fingerprint"], s["problems"]) for u, s in states.items() if u not in suppressed}
        found |= {
            u: (fingerprint, [[p.path, p.code, p.message] for p in problems])
            for u, (fingerprint, problems) in self.unread.items()
        }
        for unit_id, (fingerprint, problems) in found.items():
            if not problems:
                continue
            path, code, message = min(problems, key=lambda p: (p[1] not in UNREADABLE, p[1] in NOTES))
            message = message if message.startswith(path) else f"{path}: {message}"
            if len(problems) > 1:
                message += f" ({len(problems) - 1} more in this unit)"
            kind = "skipped" if code in NOTES else "failed"
            letters.append(
                {"item": unit_id, "code": code, "message": message, "fingerprint": fingerprint, "kind": kind}
            )
            if kind == "failed":
                self.report.problem(code, unit_id, message)
        known = {
            d["item"] for d in self.workspace.catalog.dead_letters.find(self.namespace, self.source_id, STAGE)
        }
        self.workspace.catalog.dead_letters.record(
            self.namespace, self.source_id, STAGE, letters, known - {x["item"] for x in letters}
        )
        self.report.counts["failed"] = sum(x["kind"] == "failed" for x in letters)
        self.report.counts["noted"] = len(letters) - self.report.counts["failed"]


#: Order of the values of a row while it is built.
_COLUMNS = (
    "bucket",
    "run_id",
    "doc_id",
    "unit_id",
    "kind",
    "type",
    "start_label",
    "start_key",
    "start_name",
    "end_label",
    "end_key",
    "end_name",
    "discriminator",
    "properties",
    "confidence",
    "source",
    "method",
    "start_basis",
    "end_basis",
    "declared",
    "aliases",
    "span_start",
    "span_end",
    "blob_sha256",
    "byte_start",
    "byte_end",
    "line",
)


def discriminator(type_: str, properties: Mapping[str, Any]) -> str:
    """The text of what makes two edges of one type between the same ends different facts (graph-mapping)."""
    values = {**properties, "spanStart": (properties.get("span") or [None])[0]}
    return ids.composite(*(values.get(name) for name in EDGES[type_].discriminator))


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows of one batch as a table: sorted, so that equal input gives equal bytes, without repeated
    claims.
    """
    unique = {repr(r): r for r in rows}
    columns = list(zip(*(unique[k] for k in sorted(unique)), strict=True)) if unique else [()] * len(_COLUMNS)
    by_name = {
        name: pa.array(values, OBSERVATIONS.field(name).type)
        for name, values in zip(_COLUMNS, columns, strict=True)
    }
    return pa.table(by_name).select(OBSERVATIONS.names).cast(OBSERVATIONS)
