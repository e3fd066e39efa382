"""storage_audit: compares catalog, blobs, tables, shards, Qdrant and Neo4j of a namespace, by id.

What one store holds must follow from the store before it, in the order of the chain. The audit holds all
leases of the namespace, so it sees what runs have left and not what one is doing. A repair derives again
whatever can be derived from the blobs and the catalog; anything else (a lost blob, a catalog row) is named
and left to a backup or the next ingest. Of a lost blob that a source still has it leaves a dead letter, by
which that ingest asks for its bytes again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import ARCHIVES
from taboot_pipelines.knowledge.structured import STATED
from taboot_pipelines.model import ids
from taboot_pipelines.model.audit import Discrepancy, Kind
from taboot_pipelines.model.tables import TABLES
from taboot_pipelines.stages import documents, embeddings, entity_snapshots, raw_blobs
from taboot_pipelines.stages.chain import AGREEING, CHAIN
from taboot_pipelines.stages.deriving import derive
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.source_versions import source_versions
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion

_log = logging.getLogger(__name__)
#: The columns that are read of a source's tables, by schema; of any other the key that its buckets are of.
_COLUMNS = {
    "documents": ["doc_id", "blob_sha256"],
    "chunks": ["doc_id", "sha256"],
    "observations": ["run_id"],
}
#: Bytes up to which a deep audit reads a table in one piece: to open 32 buckets costs more than few rows.
_READ_WHOLE = 16 * 2**20
_UNREADABLE = "cannot be read, or holds a text that is not that of its hash"


def _columns(schema: str) -> list[str]:
    fields, key = TABLES[schema]
    return _COLUMNS.get(schema, [key or fields.names[0]])


@dataclass
class AuditReport:
    """What an audit of one namespace found.

    ``checked`` counts by store; ``found`` lists the discrepancies before a repair and
    ``left`` those after it.
    """

    namespace: str
    checked: dict[str, int] = field(default_factory=dict)
    found: list[Discrepancy] = field(default_factory=list)
    left: list[Discrepancy] = field(default_factory=list)
    repaired: bool = False


def run(workspace: Workspace, namespace: str, *, repair: bool = False, deep: bool = False) -> AuditReport:
    """Compare all stores of a namespace; with ``repair`` derive again what differs and compare once more.

    ``deep`` reads and hashes every blob, every file of a table and every shard file, and reads every column
    of every table, texts against their hashes; otherwise only sizes, presence and ids are checked. Raises
    ``E_BUSY`` while runs of the namespace do not end, and the failure of a store that cannot be asked at all.
    """
    report = AuditReport(namespace)
    if repair:
        upgrade_tables(workspace, namespace)
    # No source is added meanwhile: its first bytes would be taken for those that no fetch recorded.
    with workspace.alone(namespace):
        workspace.tables.read_anew()
        if workspace.catalog.blobs.reconcile(namespace):
            _log.warning("the bytes of namespace %s were counted anew", namespace)
        first = _Audit(workspace, namespace, deep, report.checked)
        report.found = report.left = first.all()
        if repair and any(d.repairable for d in report.found):
            _repair(workspace, namespace, report.found, first.owners)
            report.repaired = True
            report.left = _Audit(workspace, namespace, deep, {}).all()
    return report


class _Audit:
    def __init__(self, workspace: Workspace, namespace: str, deep: bool, checked: dict[str, int]) -> None:
        self.workspace, self.namespace, self.deep, self.checked = workspace, namespace, deep, checked
        self.catalog, self.tables = workspace.catalog, workspace.tables
        self.sources = [r["source_id"] for r in self.catalog.sources.find(namespace)]
        #: Hashes of all live chunk texts, each with a source that holds it.
        self.texts: dict[str, str] = {}
        #: Documents of each source as its tables have them.
        self.documents: dict[str, set[str]] = {}
        #: Owners of tables that do not hold what they should: source ids, and ``_`` for the namespace.
        self.owners: set[str] = set()
        self.broken = False

    def all(self) -> list[Discrepancy]:
        found = [*self._blobs()]
        for source in self.sources:
            found += self._source(source)
        found += self._namespace()
        # The stores behind the tables are compared with them, so the tables must be readable.
        if not self.broken and snapshot_pointer(self.workspace, self.namespace) is not None:
            for serving in CHAIN.serving.values():
                found += serving.audit(self.workspace, self.namespace, deep=self.deep)
        return found

    def _blobs(self) -> Iterator[Discrepancy]:
        rows = {r["content_hash"]: r for r in self.catalog.blobs.all(self.namespace)}
        listed = dict(self.workspace.blobs.list(self.namespace))
        waiting = self.workspace.blobs.waiting
        queued = {} if waiting is None else dict(waiting.list(self.namespace))
        self.checked["blobs"] = len(rows)
        holders: dict[str, list[tuple[str, str]]] = {}
        for source in self.sources:
            for x in self.catalog.locators.of_source(self.namespace, source).values():
                holders.setdefault(x.sha256, []).append((source, x.path))
        letters: dict[str, list[dict[str, Any]]] = {}
        for sha256, row in rows.items():
            size = listed.get(sha256, queued.get(sha256))
            kind: Kind
            if size is None:
                kind, what = "missing", "The catalog names a blob that the store does not have"
            elif size != row["byte_size"] or (self.deep and not self._intact(sha256)):
                kind, what = "different", "The blob's bytes are not those of its name"
            else:
                continue
            remedy = (
                "ingest its source again."
                if sha256 in holders
                else "no file has it any more; restore a backup, or forget it by `taboot purge --vanished`."
            )
            yield Discrepancy("blobs", kind, sha256, f"{what}; {remedy}", False)
            code = "E_BLOB_MISSING" if kind == "missing" else "E_BLOB_CORRUPT"
            for source, path in holders.get(sha256, ()):
                letters.setdefault(source, []).append(
                    {"item": path, "code": code, "message": f"{what}.", "fingerprint": "", "kind": "failed"}
                )
        # The next run of these sources asks for every byte, and puts right what is still there.
        for source, told in letters.items():
            self.catalog.dead_letters.record(self.namespace, source, raw_blobs.STAGE, told, ())
        for sha256 in sorted(listed.keys() - rows.keys()):
            yield Discrepancy(
                "blobs", "surplus", sha256, "The store has a blob that no fetch recorded.", True
            )
        for sha256 in sorted(holders.keys() - rows.keys()):
            yield Discrepancy(
                "catalog",
                "missing",
                sha256,
                "A document's blob is not in the catalog's list of blobs.",
                False,
            )

    def _intact(self, sha256: str) -> bool:
        try:
            self.workspace.blobs.get(self.namespace, sha256)
        except TabootError as error:
            return error.code not in raw_blobs.DAMAGED
        return True

    def _read(
        self, owner: str, name: str, version: TableVersion | None, columns: list[str]
    ) -> dict[str, list[Any]] | None:
        """Return columns of a table as lists; None if the table cannot be read."""
        if version is None:
            return {c: [] for c in columns}
        if not self.tables.exist(self.namespace, owner, {name: version}):
            return None
        held: dict[str, list[Any]] = {c: [] for c in columns}
        try:
            for rows in self._parts(owner, name, version, columns):
                for column, values in held.items():
                    values += rows.column(column).to_pylist()
        except TabootError as error:
            if error.code != "E_TABLE":
                raise
            return None
        return held

    def _parts(
        self, owner: str, name: str, version: TableVersion | None, columns: list[str]
    ) -> Iterator[pa.Table]:
        """Yield the rows of a table with these columns; in a deep audit its files are hashed, and all its
        columns read, bucket by bucket where they are many.
        """
        _, key = TABLES[name.partition(".")[0]]
        if not self.deep:
            yield self.tables.read(self.namespace, owner, name, version, columns=columns)
            return
        if version is not None and (altered := self.tables.altered(self.namespace, owner, name, version)):
            raise TabootError("E_TABLE", f"Table {name} of {owner} is altered.", files=altered)
        small = self.tables.size(self.namespace, owner, name, version).bytes <= _READ_WHOLE
        for at in [None] if key is None or small else ({b} for b in range(ids.BUCKETS)):
            yield self.tables.read(self.namespace, owner, name, version, buckets=at)

    def _table(self, owner: str, kind: Kind, item: object, message: str) -> Discrepancy:
        self.owners.add(owner)
        self.broken |= kind == "unreadable"
        return Discrepancy("tables", kind, str(item), message, True)

    def _source(self, source: str) -> Iterator[Discrepancy]:
        """Compare the tables of one source with its present locators, document by document."""
        tables = [(stage.name, t) for stage in CHAIN.derived for t in stage.tables if t.owner == "source"]
        published = {name: self.catalog.pointers.get(self.namespace, source, name) for name, _ in tables}
        read: dict[str, dict[str, list[Any]]] = {}
        readable = True
        for stage, table in tables:
            name, pointer = table.name, published[stage]
            version = None if pointer is None else pointer.tables.get(name)
            rows = self._read(source, name, version, _columns(table.schema))
            if rows is None:
                yield self._table(
                    source,
                    "unreadable",
                    f"{source}/{name}",
                    f"Version {version} of the table {_UNREADABLE}.",
                )
                readable = False
                continue
            for column, values in rows.items():
                read.setdefault(table.schema, {}).setdefault(column, []).extend(values)
            if not self.tables.holds(self.namespace, source, name, version):
                newest = self.tables.version(self.namespace, source, name)
                yield self._table(
                    source,
                    "different",
                    f"{source}/{name}",
                    f"The table is at version {newest}, the catalog published {version}.",
                )
        if not readable or all(p is None for p in published.values()):
            return
        letters = {d["item"] for d in self.catalog.dead_letters.find(self.namespace, source, documents.STAGE)}
        located = {
            x.doc_id: x
            for x in self.catalog.locators.of_source(self.namespace, source).values()
            if x.role == "document"
        }
        held = dict(zip(read["documents"]["doc_id"], read["documents"]["blob_sha256"], strict=True))
        self.documents[source] = set(held)
        self.checked["documents"] = self.checked.get("documents", 0) + len(held)
        for doc_id in sorted(located.keys() - held.keys()):
            if located[doc_id].path not in letters:
                yield self._table(
                    source,
                    "missing",
                    doc_id,
                    f"The document is in the catalog and not in the documents table of {source}.",
                )
        for doc_id, sha256 in held.items():
            x = located.get(doc_id)
            if x is None:
                yield self._table(
                    source,
                    "surplus",
                    doc_id,
                    f"The documents table of {source} has a document that the catalog does not.",
                )
            elif x.sha256 != sha256:
                yield self._table(
                    source,
                    "different",
                    doc_id,
                    f"The documents table of {source} holds other bytes of it than the catalog.",
                )
        chunked = set(read["chunks"]["doc_id"])
        self.texts |= dict.fromkeys(read["chunks"]["sha256"], source)
        self.checked["chunks"] = self.checked.get("chunks", 0) + len(read["chunks"]["doc_id"])
        for doc_id in sorted(self.documents[source] ^ chunked):
            yield self._table(
                source,
                "surplus" if doc_id in chunked else "missing",
                doc_id,
                f"The chunks of {source} do not follow from its documents.",
            )
        for schema in sorted(read.keys() - _COLUMNS.keys()):
            keys = read[schema].get("doc_id", [])
            self.checked[schema] = self.checked.get(schema, 0) + len(keys)
            for doc_id in sorted(set(keys) - self.documents[source]):
                yield self._table(
                    source, "surplus", doc_id, f"The {schema} of {source} hold a document that is gone."
                )
        active = {
            r["run_id"]
            for r in self.catalog.runs.find(self.namespace, active=True)
            if r["source_id"] == source
        }
        observed = set(read["observations"]["run_id"])
        self.checked["runs"] = self.checked.get("runs", 0) + len(active)
        for run_id in sorted(observed - active):
            yield self._table(
                source, "surplus", run_id, f"The observations of {source} hold a run that is not active."
            )
        yield from self._archives(source)

    def _archives(self, source: str) -> Iterator[Discrepancy]:
        """Check that what runs of the past said can be read.

        No stage makes that again, and until it can be read or is gone, no run of the source can be archived.
        """
        for name in self.tables.names(self.namespace, source):
            if not name.startswith(ARCHIVES):
                continue
            try:
                version = self.tables.version(self.namespace, source, name)
                runs = {
                    run
                    for rows in self._parts(source, name, version, ["run_id"])
                    for run in rows.column("run_id").to_pylist()
                }
            except TabootError as error:
                if error.code != "E_TABLE":
                    raise
                yield Discrepancy(
                    "tables",
                    "unreadable",
                    f"{source}/{name}",
                    "What runs of the past said cannot be read. A backup of the table brings it back; a "
                    "repair drops it, and then these runs can be neither compared nor promoted.",
                    True,
                )
            else:
                self.checked["archived_runs"] = self.checked.get("archived_runs", 0) + len(runs)

    def _namespace(self) -> Iterator[Discrepancy]:
        """Check that live texts have vectors, and that the snapshot holds what the sources have applied."""
        snapshot = snapshot_pointer(self.workspace, self.namespace)
        if snapshot is None:
            if any(self.documents.values()):
                yield self._table(
                    NAMESPACE, "missing", self.namespace, "There is no snapshot of the namespace yet."
                )
            return
        space = self.workspace.embedder.space
        name = embeddings.table_name(space.id)
        vectors = self._read(
            NAMESPACE, name, self.tables.version(self.namespace, NAMESPACE, name), ["sha256"]
        )
        if vectors is None:
            yield self._table(NAMESPACE, "unreadable", f"{NAMESPACE}/{name}", "The vectors cannot be read.")
        else:
            self.checked["vectors"] = len(vectors["sha256"])
            for sha256 in sorted(self.texts.keys() - set(vectors["sha256"])):
                yield self._table(self.texts[sha256], "missing", sha256, "A chunk's text has no vector.")
        versions = source_versions(self.workspace, self.namespace, snapshot.applied, AGREEING).versions
        # A source that has retired stays in the snapshot's list until the next run; rows of it
        # would be found below.
        for source in sorted(
            s
            for s in set(versions) | (set(snapshot.applied) & set(self.sources))
            if versions.get(s) != snapshot.applied.get(s)
        ):
            yield self._table(
                NAMESPACE,
                "different",
                source,
                "The snapshot has not applied the newest version of the source.",
            )
        if STATED in snapshot.applied:
            held_records = self._read(STATED, "documents", snapshot.applied[STATED]["documents"], ["doc_id"])
            if held_records is None:
                yield self._table(
                    STATED, "unreadable", f"{STATED}/documents", "The table of records cannot be read."
                )
            self.documents[STATED] = set((held_records or {"doc_id": []})["doc_id"])
        for table in entity_snapshots.TABLES:
            version = snapshot.tables.get(table)
            columns = (
                ["doc_id"]
                if table in {"relations", "doc_state", "declarations", "reaches", "title_links"}
                else ["key"]
                if table == "entities"
                else ["id"]
                if table == "decisions"
                else ["name"]
            )
            rows = self._read(NAMESPACE, table, version, columns)
            if rows is None:
                yield self._table(
                    NAMESPACE,
                    "unreadable",
                    f"{NAMESPACE}/{table}",
                    f"Version {version} of the table {_UNREADABLE}.",
                )
                continue
            if not self.tables.holds(self.namespace, NAMESPACE, table, version):
                yield self._table(
                    NAMESPACE,
                    "different",
                    f"{NAMESPACE}/{table}",
                    f"The table is not at version {version}, which the catalog published.",
                )
            live = {d for s, owned in self.documents.items() if s in snapshot.applied for d in owned}
            held = set(rows.get("doc_id", ()))
            self.checked[table] = len(next(iter(rows.values())))
            if table == "doc_state":
                for doc_id in sorted(live - held):
                    yield self._table(
                        NAMESPACE, "missing", doc_id, "The snapshot does not hold the document."
                    )
            for doc_id in sorted(held - live):
                yield self._table(
                    NAMESPACE, "surplus", doc_id, f"The snapshot's {table} hold a document that is gone."
                )


def _repair(workspace: Workspace, namespace: str, found: list[Discrepancy], owners: set[str]) -> None:
    """Derive again what differs, in the order of the chain.

    A stage whose pointer is gone compares row by row and takes nothing for unchanged. A table that cannot be
    read is dropped first, so that its stage makes it anew.
    """
    catalog = workspace.catalog
    for d in found:
        if d.store == "tables" and d.kind == "unreadable":
            owner, name = d.item.split("/", 1)
            workspace.tables.drop(namespace, owner, name)
    derive_again(workspace, namespace, owners, ask={d.store for d in found})
    if any(d.store == "blobs" and d.kind == "surplus" for d in found):
        workspace.blobs.sweep(namespace, catalog.blobs.hashes(namespace))


def derive_again(
    workspace: Workspace, namespace: str, owners: Collection[str], *, ask: Collection[str]
) -> None:
    """Let the stages of these owners (``_``: the namespace) compare row by row, and all behind them follow.

    What the stores in ``ask`` hold is compared too, and not our own record of it. Only while alone in the
    namespace.
    """
    forget_progress(workspace, namespace, owners)
    if owners:
        derive(workspace, namespace, [e.source_id for e in workspace.entries_of(namespace)])
    for stage in CHAIN.of_namespace:
        if stage.serving is not None and stage.serving.store in ask:
            stage.serving.repair(workspace, namespace)
        elif owners:
            stage.run(workspace, namespace, "")


def forget_progress(workspace: Workspace, namespace: str, owners: Collection[str]) -> None:
    """Let the next run of these owners take nothing for unchanged."""
    for owner in owners:
        stages = _repaired(workspace) if owner == NAMESPACE else None
        workspace.catalog.pointers.drop(namespace, owner, stages)


def _repaired(workspace: Workspace) -> list[str]:
    """The stages of the namespace that a repair runs again.

    A server that is not configured keeps its pointer: it is how deletions know that it still holds something.
    """
    return [s.name for s in CHAIN.of_namespace if s.target is None or s.target.configured(workspace)]
