"""Deletes, erases and restores documents, retires sources, and purges bytes that no document has any more.

A deletion is set arithmetic on support: it runs the same stages as any other change and calls no model. An
erasure then removes every byte of the document from our files; its receipt names each store and is final when
no store is pending. A purge removes the bytes of files that vanished or were edited, and only when a person
says so: a file that comes back, or an extractor that is to be compared with the one before it, may want them.
What was deleted on purpose and can be restored stays. Holds rules ``complete-enumeration`` and
``deleted-stays-deleted``.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.assertions import STATING
from taboot_pipelines.knowledge.runs import Archive
from taboot_pipelines.knowledge.structured import STATED, raw_paths, record
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import Lifecycle
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.shards.publish import prune
from taboot_pipelines.stages import crawl_graph, documents
from taboot_pipelines.stages.assertions import asserted, handed_in
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import follow
from taboot_pipelines.stages.housekeeping import (
    drop_vectors,
    texts_in_use,
    vacuum,
    vector_tables,
    versions_in_use,
)
from taboot_pipelines.stages.snapshot import SnapshotReader, needed_snapshot, snapshot_pointer
from taboot_pipelines.stages.tiers import TierStage
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.locators import Locator
from taboot_pipelines.stores.replays import Replays
from taboot_pipelines.stores.state.keys import CACHE_QUERY
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion

#: What is derived from documents, so that running the chain deletes from it; servers are added to these.
_DERIVED = ("tables", "vectors", "shards")
#: Every place of ours that may hold bytes of a document, in the order in which an erasure empties them.
STORES = (*_DERIVED, "blobs", "catalog", "answers")


@dataclass(frozen=True)
class Receipt:
    """What a deletion did, with ids only: no names and no content.

    ``stores`` says of each store whether it is ``done`` or ``pending``.
    """

    receipt_id: str
    namespace: str
    doc_ids: tuple[str, ...]
    erase: bool
    stores: dict[str, str]

    @property
    def final(self) -> bool:
        return all(state == "done" for state in self.stores.values())


@dataclass(frozen=True)
class Restored:
    """What a restoration did.

    The documents in ``restored`` are back. Those in ``awaiting_fetch`` were erased, and come back when their
    source is ingested.
    """

    restored: tuple[str, ...]
    awaiting_fetch: tuple[str, ...] = field(default=())


def delete(workspace: Workspace, namespace: str, doc_ids: Collection[str], *, erase: bool = False) -> Receipt:
    """Delete documents for good: a tombstone makes connectors skip them until :func:`restore`.

    Raises ``E_NOT_FOUND`` if an id belongs to no document of the namespace; then nothing is deleted.
    """
    catalog = workspace.catalog
    wanted = tuple(sorted(set(doc_ids)))
    located = catalog.locators.of_documents(namespace, wanted)
    unknown = sorted(set(wanted) - {x.doc_id for _, x in located} - set(catalog.tombstones.all(namespace)))
    if unknown:
        raise TabootError(
            "E_NOT_FOUND",
            f"{len(unknown)} of {len(wanted)} documents are not in namespace {namespace}.",
            doc_ids=unknown[:10],
        )
    return _delete(workspace, namespace, wanted, {source for source, _ in located}, erase=erase)


def expire(workspace: Workspace, namespace: str, documents: Mapping[str, str]) -> Receipt:
    """Delete documents whose retention has ended, {doc_id: SHA-256 of the bytes that expired}.

    A tombstone keeps these bytes away, and other ones bring the document back. Nothing else of it is kept but
    what ``taboot purge`` removes.
    """
    located = workspace.catalog.locators.of_documents(namespace, documents)
    workspace.catalog.tombstones.expire(namespace, documents)
    sources = {source for source, _ in located}
    return _delete(workspace, namespace, tuple(sorted(documents)), sources, expired=True)


def _delete(
    workspace: Workspace,
    namespace: str,
    wanted: tuple[str, ...],
    sources: Collection[str],
    *,
    erase: bool = False,
    expired: bool = False,
) -> Receipt:
    catalog = workspace.catalog
    upgrade_tables(workspace, namespace)
    receipt_id = uuid.uuid4().hex
    # An erasure removes files, vectors and blobs that a run of any source might be about to use.
    with workspace.alone(namespace) if erase else workspace.leases.several(namespace, sources):
        # The receipt comes first: if the process is killed after it, the next run carries the deletion out.
        stores = [
            *(STORES if erase else _DERIVED),
            *(caches(workspace) if erase else ()),
            *servers(workspace),
            *absent_servers(workspace, namespace),
        ]
        pending = dict.fromkeys(stores, "pending")
        catalog.receipts.save(namespace, receipt_id, wanted, erase, pending, [], expired=expired)
        kind = "expire" if expired else "erase" if erase else "delete"
        catalog.audit_log.record(namespace, kind, receipt_id, doc_ids=list(wanted))
        return _carry_out(workspace, namespace, receipt_id, wanted, erase, expired=expired)


def finish_pending(workspace: Workspace, namespace: str) -> list[Receipt]:
    """Carry out the deletions that are still pending, because of a kill or a server that did not answer."""
    done = []
    absent = set(absent_servers(workspace, namespace))
    for receipt_id in [row["receipt_id"] for row in workspace.catalog.receipts.pending(namespace)]:
        with workspace.alone(namespace):
            # Read again under the leases: meanwhile the deletion may have been finished, or
            # its documents restored.
            row = next(
                (r for r in workspace.catalog.receipts.pending(namespace) if r["receipt_id"] == receipt_id),
                None,
            )
            # A receipt that waits only for servers that are not configured at present cannot be carried out.
            if (
                row is not None
                and not {name for name, state in row["stores"].items() if state != "done"} <= absent
            ):
                done.append(
                    _carry_out(
                        workspace,
                        namespace,
                        receipt_id,
                        tuple(row["doc_ids"]),
                        row["erase"],
                        expired=row["expired"],
                    )
                )
    return done


def restore(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> Restored:
    """Take the tombstones away and bring back what is still stored.

    Raises ``E_NOT_FOUND`` for ids without a tombstone.
    """
    catalog = workspace.catalog
    wanted = sorted(set(doc_ids))
    tombstones = catalog.tombstones.all(namespace)
    missing = [d for d in wanted if d not in tombstones]
    if missing:
        raise TabootError(
            "E_NOT_FOUND",
            f"{len(missing)} of {len(wanted)} documents were not deleted.",
            doc_ids=missing[:10],
        )
    upgrade_tables(workspace, namespace)
    located = catalog.locators.of_documents(namespace, wanted)
    stored = [x for _, x in located if workspace.blobs.exists(namespace, x.sha256)]
    with workspace.leases.several(namespace, {source for source, _ in located}):
        catalog.locators.restore(namespace, [x.doc_id for x in stored])
        catalog.tombstones.remove(namespace, wanted)
        # A connector that goes by what changed since would not come past them again.
        catalog.source_states.forget(namespace, {source for source, _ in located})
        _take_out_of_receipts(catalog, namespace, set(wanted))
        catalog.audit_log.record(namespace, "restore", ids.digest(*wanted), doc_ids=wanted)
        failure = follow(workspace, namespace, {source for source, _ in located}).failure
        back = tuple(sorted(x.doc_id for x in stored))
        if failure is not None and not _served(workspace, namespace, back):
            # What was decided stands: the next run that reaches the embedder brings them back.
            raise failure
    return Restored(back, tuple(d for d in wanted if d not in back))


def _served(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> bool:
    """Whether the snapshot holds all of these documents."""
    snapshot = needed_snapshot(workspace, namespace)
    rows = SnapshotReader(workspace, namespace, snapshot).snapshot("doc_state", ["doc_id"])
    return set(doc_ids) <= set(rows.column("doc_id").to_pylist())


def _take_out_of_receipts(catalog: Catalog, namespace: str, doc_ids: Collection[str]) -> None:
    """Keep a receipt that still waits for a server from deleting restored documents once more."""
    for row in catalog.receipts.pending(namespace):
        left = [d for d in row["doc_ids"] if d not in doc_ids]
        if len(left) < len(row["doc_ids"]):
            stores = row["stores"] if left else dict.fromkeys(row["stores"], "done")
            catalog.receipts.save(
                namespace,
                row["receipt_id"],
                left or row["doc_ids"],
                row["erase"],
                stores,
                row["blobs"],
                expired=row["expired"],
            )


def finish_retirement(workspace: Workspace, entry: Entry) -> None:
    """Drop the tables and pointers of a source that has no documents left in the namespace."""
    with workspace.leases.several(entry.namespace, [entry.source_id]):
        # The source may have come back to the sources file since this run began.
        states = {r["source_id"]: r["state"] for r in workspace.catalog.sources.find(entry.namespace)}
        if states.get(entry.source_id) != "retiring" or workspace.catalog.locators.of_source(
            entry.namespace, entry.source_id
        ):
            return
        workspace.catalog.pointers.drop(entry.namespace, entry.source_id)
        workspace.tables.drop_owner(entry.namespace, entry.source_id)
        workspace.catalog.crawls.forget_source(entry.namespace, entry.source_id)
        workspace.catalog.source_states.forget(entry.namespace, [entry.source_id])
        workspace.catalog.sources.set_state(entry.namespace, entry.source_id, "retired")


def _carry_out(
    workspace: Workspace,
    namespace: str,
    receipt_id: str,
    doc_ids: tuple[str, ...],
    erase: bool,
    *,
    expired: bool,
) -> Receipt:
    catalog = workspace.catalog
    if expired:
        # What has other bytes by now has come back, if this is completed late.
        tombstones = catalog.tombstones.all(namespace)
        doc_ids = tuple(d for d in doc_ids if d in tombstones)
    located = catalog.locators.of_documents(namespace, doc_ids)
    # What a page looked like goes with it, without a tombstone: the page's keeps it from being visited.
    captures = catalog.locators.captures_of(namespace, located)
    located += captures
    sources = {source for source, _ in located}
    if not expired:
        catalog.tombstones.add(namespace, doc_ids, "erased" if erase else "deleted")
    for source in sorted(sources):
        present = [x for s, x in located if s == source and x.state == "present"]
        if not expired:
            catalog.locators.change(
                namespace, source, [x.path for x in present], Lifecycle.MANUAL_DELETE, receipt_id
            )
            present = [x._replace(lifecycle=Lifecycle.MANUAL_DELETE.value) for x in present]
        catalog.locators.record_absent(namespace, source, receipt_id, present, "deleted")
    if erase:
        # Before the servers are written: they hold the crawls too.
        for source in sorted(sources):
            keys = {x.path for s, x in located if s == source}
            crawl_graph.forget_urls(workspace, namespace, source, keys)
        gone = [*doc_ids, *(x.doc_id for _, x in captures)]
        blobs = _own_blobs(workspace, namespace, located, gone)
        _take_from_facts(workspace, namespace, blobs)
    stores = dict.fromkeys([*(STORES if erase else _DERIVED), *servers(workspace)], "done")
    stores |= follow(workspace, namespace, sources).pending
    stores |= dict.fromkeys(absent_servers(workspace, namespace), "pending")
    if _still_held(workspace, namespace, doc_ids):
        stores |= {"tables": "pending"} | ({"vectors": "pending"} if erase else {})
    if erase:
        live = texts_in_use(workspace, namespace)
        for name in vector_tables(workspace, namespace):
            drop_vectors(workspace, namespace, name, keep=live)
        # All sources, since an erasure that is completed later finds its documents no more in the catalog.
        for source in sorted(r["source_id"] for r in catalog.sources.find(namespace)):
            places = [x for s, x in located if s == source]
            _erase_from_archives(workspace, namespace, source, places, gone, blobs)
        remove_old_files(workspace, namespace)
        workspace.blobs.delete(namespace, *blobs)
        # A fetch that was killed between a blob and its log entry left bytes that belong to
        # no known document.
        workspace.blobs.sweep(namespace, catalog.blobs.hashes(namespace) - set(blobs))
        catalog.forget(namespace, gone, blobs)
        if not catalog.database.compact():
            stores["catalog"] = "pending"
        stores |= forget_results(workspace, namespace)
    catalog.receipts.save(namespace, receipt_id, doc_ids, erase, stores, [], expired=expired)
    return Receipt(receipt_id, namespace, doc_ids, erase, stores)


def _own_blobs(
    workspace: Workspace, namespace: str, located: Collection[tuple[str, Locator]], gone: Collection[str]
) -> list[str]:
    """Return the blobs of documents that are erased, but for those that are, or may be, another document."""
    catalog = workspace.catalog
    paths = {x.path for s, x in located if s == ids.uploads_source(namespace)}
    uploaded = [(x.sha256, x.path) for x in catalog.uploaded.all(namespace)]
    # What was uploaded is the document of equal texts that were handed in with facts.
    texts = raw_paths(asserted(workspace, namespace))
    for sha256, _ in uploaded:
        texts.pop(sha256, None)
    kept = {b for b, path in (*uploaded, *texts.items()) if path not in paths}
    return [b for b in catalog.locators.hashes_only_of(namespace, gone) if b not in kept]


def _take_from_facts(workspace: Workspace, namespace: str, blobs: Collection[str]) -> None:
    """Take bytes that are erased out of the facts that they were handed in with: the facts stay, without."""
    facts = [
        a
        for a in asserted(workspace, namespace)
        if a.kind in STATING and (raw := a.payload.get("raw")) is not None and raw["sha256"] in blobs
    ]
    if facts:
        # While the rows still name them: the records tell the name and the hash of the bytes.
        records = sorted(record(namespace, a).sha256 for a in facts)
        workspace.blobs.delete(namespace, *records)
        workspace.catalog.forget(namespace, (), records)
        workspace.catalog.assertions.erase_raw(namespace, [a.id for a in facts])


def remove_old_files(workspace: Workspace, namespace: str) -> None:
    """Remove every file of tables and shards that no version in use has. Only while alone in a namespace."""
    owners = sorted(r["source_id"] for r in workspace.catalog.sources.find(namespace))
    with workspace.leases.exclusive(f"{namespace}.vectors"):
        for owner in [*owners, STATED, NAMESPACE]:
            for name in workspace.tables.names(namespace, owner):
                vacuum(workspace, namespace, owner, name)
    workspace.tables.empty_trash(namespace)
    prune(workspace.shards, namespace)


def _erase_from_archives(
    workspace: Workspace,
    namespace: str,
    source: str,
    places: Collection[Locator],
    doc_ids: Collection[str],
    blobs: Collection[str],
) -> None:
    """Take out of the observations of runs that are not active what came from these documents.

    ``places``: those of the source, as far as the catalog knows them.
    """
    paths = {x.path for x in places}
    units = workspace.catalog.runs.touching(namespace, source, paths | {x.doc_id for x in places}, paths)
    for stage in CHAIN.of_source:
        if isinstance(stage, TierStage):
            Archive(workspace.tables, namespace, source, stage.tier).erase(units, doc_ids, blobs)


def _still_held(workspace: Workspace, namespace: str, doc_ids: Collection[str]) -> bool:
    """Whether a version of a documents table that is in use holds one of the documents.

    That is so while another change of its source cannot be completed: the documents beside it are served from
    the same rows.
    """
    wanted = sorted(set(doc_ids))
    for row in workspace.catalog.sources.find(namespace):
        source = row["source_id"]
        in_use = versions_in_use(workspace, namespace, source).get(documents.STAGE, set())
        for version in in_use:
            if workspace.tables.read(
                namespace, source, documents.STAGE, version, columns=["doc_id"], members=("doc_id", wanted)
            ).num_rows:
                return True
    return False


def servers(workspace: Workspace) -> list[str]:
    """Return the configured servers that hold what is derived from documents."""
    return [t.store for t in CHAIN.targets.values() if t.configured(workspace)]


def caches(workspace: Workspace) -> tuple[str, ...]:
    """The store of cached results, where it is one that outlives a process."""
    return ("caches",) if workspace.settings.redis.url is not None else ()


def forget_results(workspace: Workspace, namespace: str) -> dict[str, str]:
    """Drop what is kept of answers and, in Redis, of searches: return the states of these stores.

    It comes after the new manifest: a search that still writes a result of the old one looks once more and
    takes it away itself.
    """
    from taboot_pipelines.stores.state.redis import RedisState

    stores = {"answers": "pending", **dict.fromkeys(caches(workspace), "done")}
    with contextlib.suppress(TabootError):
        manifest = load_manifest(workspace.shards, namespace)
        if Replays(workspace.home, namespace).forget(0 if manifest is None else manifest.version):
            stores["answers"] = "done"
    state = workspace.state
    if isinstance(state, RedisState):
        try:
            state.delete(namespace, [name for name, _ in state.find(namespace, CACHE_QUERY.prefix)])
        except TabootError as error:
            if error.code != "E_REDIS":
                raise
            stores |= dict.fromkeys(caches(workspace), "pending")
    return stores


def absent_servers(workspace: Workspace, namespace: str) -> list[str]:
    """Return servers that the namespace was written to and that are not configured at present.

    They still hold what was written.
    """
    return [
        target.store
        for stage, target in CHAIN.targets.items()
        if not target.configured(workspace)
        and workspace.catalog.pointers.get(namespace, NAMESPACE, stage) is not None
    ]


@dataclass(frozen=True)
class Purged:
    """What a purge of one namespace removed, or would remove: a number of blobs, and their bytes."""

    namespace: str
    blobs: int
    bytes: int
    done: bool


def purge_vanished(workspace: Workspace, namespace: str, *, carry_out: bool = False) -> Purged:
    """Remove the blobs that no present or restorable document holds and no published row was made from.

    Without ``carry_out`` nothing is removed. It holds all leases of the namespace, so no run is half done.
    A purge that is killed is completed by the next one. Raises ``E_BUSY``.
    """
    catalog = workspace.catalog
    with workspace.alone(namespace):
        sources = {r["source_id"] for r in catalog.sources.find(namespace)}
        sizes = {row["content_hash"]: int(row["byte_size"]) for row in catalog.blobs.all(namespace)}
        kept = catalog.locators.held_hashes(namespace) | _published(workspace, namespace, sources)
        # What people handed in stays, undone or not: an undoing can be undone.
        kept |= handed_in(namespace, asserted(workspace, namespace))
        # What was uploaded may still wait for a run.
        kept |= {x.sha256 for x in catalog.uploaded.all(namespace)}
        gone = sorted(sizes.keys() - kept)
        if carry_out and gone:
            catalog.audit_log.record(namespace, "purge", ids.digest(*gone), blobs=len(gone))
            workspace.blobs.delete(namespace, *gone)
            # Last: until then the catalog says what is still to be removed.
            catalog.forget(namespace, (), gone)
    return Purged(namespace, len(gone), sum(sizes[sha256] for sha256 in gone), carry_out)


def _published(workspace: Workspace, namespace: str, sources: set[str]) -> set[str]:
    """Return the hashes that rows in use name: a source whose run failed half way serves older bytes."""
    found = set[str]()

    def read(owner: str, name: str, version: TableVersion | None) -> None:
        rows = workspace.tables.read(namespace, owner, name, version, columns=["blob_sha256"])
        found.update(rows.column("blob_sha256").to_pylist())

    snapshot = snapshot_pointer(workspace, namespace)
    for source in sources | set({} if snapshot is None else snapshot.applied):
        for version in versions_in_use(workspace, namespace, source).get(documents.STAGE, set()):
            read(source, documents.STAGE, version)
    if snapshot is not None:
        read(NAMESPACE, "relations", snapshot.tables["relations"])
    return found
