"""Removes what no pointer names: old Delta files, old shards, vectors of dead texts, jobs of no consequence.

It is done in passing, after every run, and never waited for. Files are removed only under the source's and
the namespace's lease. A reader follows a pointer: that of a stage, to its own tables and to those that they
were made from, or that of the snapshot, to a version of every source. All of these are kept, whichever is
newest: while a source is half done, the snapshot names a version of it that its own stages have left behind.
Old shards stay for a while, for readers that have just opened the previous manifest, and those of kept
publications for as long as the settings say. What is removed here is
derived or says nothing; documents and their bytes are not (see ``deletion.purge_vanished``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import ARCHIVES
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.shards.publish import History, prune
from taboot_pipelines.stages import chunks, embeddings
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.state.keys import JOB
from taboot_pipelines.stores.tables import NAMESPACE, Stale, TableVersion

#: Buckets of vectors rewritten in one commit; bounds the memory.
_TOGETHER = 8


def vacuum(workspace: Workspace, namespace: str, owner: str, name: str) -> int:
    """Remove the files of a table that are of no version in use; return their number.

    Only under the leases of the owner and of the namespace.
    """
    keep = versions_in_use(workspace, namespace, owner).get(name, set())
    return workspace.tables.vacuum(namespace, owner, name, keep)


def versions_in_use(workspace: Workspace, namespace: str, owner: str) -> dict[str, set[TableVersion]]:
    """Return {table: the versions of it that a pointer names} of a source, or of the namespace itself."""
    found: dict[str, set[TableVersion]] = {}

    def note(versions: Mapping[str, object]) -> None:
        for table, version in versions.items():
            # A pointer also notes things that are not tables; they name no version of one.
            if isinstance(version, str) and table in tables:
                found.setdefault(table, set()).add(version)

    tables = set(workspace.tables.names(namespace, owner))
    for (holder, _), pointer in workspace.catalog.pointers.of_stages(namespace).items():
        if holder == owner:
            note(pointer.tables)
            note(pointer.applied)
    snapshot = snapshot_pointer(workspace, namespace)
    if snapshot is not None and owner != NAMESPACE:
        note(snapshot.applied.get(owner, {}))
    return found


def texts_in_use(workspace: Workspace, namespace: str) -> set[str]:
    """Return the hashes of all texts of the namespace that a stage may still ask a vector for.

    These are those of each source's newest chunks, and of every version of its chunks in use.
    """
    tables, found = workspace.tables, set[str]()
    snapshot = snapshot_pointer(workspace, namespace)
    listed = {row["source_id"] for row in workspace.catalog.sources.find(namespace)}
    for source in listed | set({} if snapshot is None else snapshot.applied):
        versions = versions_in_use(workspace, namespace, source).get(chunks.STAGE, set())
        newest = tables.version(namespace, source, chunks.STAGE)
        for version in versions | ({newest} if newest is not None else set()):
            rows = tables.read(namespace, source, chunks.STAGE, version, columns=["sha256"])
            found |= set(rows.column("sha256").to_pylist())
    return found


def vector_tables(workspace: Workspace, namespace: str) -> list[str]:
    """Return the names of the namespace's tables of vectors, one for each embedding space."""
    return [n for n in workspace.tables.names(namespace, NAMESPACE) if n.startswith("vectors.")]


def drop_vectors(workspace: Workspace, namespace: str, name: str, *, keep: Collection[str]) -> int:
    """Delete from a table of vectors all but those of the texts to keep; return their number.

    Only while no source of the namespace is worked on: its texts may just have got their vectors.
    """
    tables, dropped = workspace.tables, 0
    kept_texts = pa.array(sorted(keep), pa.string())
    with workspace.leases.exclusive(f"{namespace}.vectors"):
        for first in range(0, BUCKETS, _TOGETHER):
            buckets = range(first, min(first + _TOGETHER, BUCKETS))
            version = tables.version(namespace, NAMESPACE, name)
            texts = tables.read(
                namespace, NAMESPACE, name, version, columns=["bucket", "sha256"], buckets=buckets
            )
            dead = texts.filter(pc.invert(pc.is_in(texts.column("sha256"), kept_texts)))
            if dead.num_rows:
                touched = set(dead.column("bucket").to_pylist())
                held = tables.read(namespace, NAMESPACE, name, version, buckets=touched)
                kept = held.filter(pc.is_in(held.column("sha256"), kept_texts))
                tables.replace(namespace, NAMESPACE, name, kept, buckets=touched, txn="dead")
                dropped += dead.num_rows
    return dropped


#: A table is vacuumed once it has this many files that its newest version does not use, or once they have
#: more bytes than those that it uses, and more than ``_STALE_BYTES``.
STALE_FILES = 200
_STALE_BYTES = 256 << 10
SHARD_GRACE_SECONDS = 600.0
#: So few vectors of dead texts are not worth a look.
_MIN_DEAD_VECTORS = 1000


def tidy(workspace: Workspace, namespace: str, source_id: str, *, changed: bool = True) -> int:
    """Remove what is due of a source and of its namespace; tables only if the run ``changed`` something.

    Returns the number of files removed; 0 while a run holds one of the leases.
    """
    jobs = workspace.catalog.jobs.forget_old(namespace, source_id, workspace.settings.retention.jobs)
    if jobs:
        workspace.hints.ask(lambda state: state.delete(namespace, [JOB(job) for job in jobs]), 0)
    if not changed:
        return 0
    removed = 0
    with (
        _unless_busy(),
        workspace.leases.source(namespace, source_id, wait=0),
        workspace.leases.namespace(namespace, wait=0),
    ):
        removed = (
            _vacuum(workspace, namespace, source_id)
            + _join_vectors(workspace, namespace)
            + _join_archives(workspace, namespace, source_id)
            + _drop_dead_vectors(workspace, namespace)
        )
    return removed


def tidy_shards(workspace: Workspace, namespace: str) -> int:
    """Remove the shards of a namespace that nobody reads any more; return how many, 0 while a run holds its
    lease.
    """
    removed: list[str] = []
    with _unless_busy(), workspace.leases.namespace(namespace, wait=0):
        removed = prune(
            workspace.shards,
            namespace,
            min_age_seconds=SHARD_GRACE_SECONDS,
            max_bytes=workspace.settings.retention.shard_mb << 20,
            history=History(
                workspace.settings.retention.publication_days,
                workspace.settings.retention.publication_mb << 20,
            ),
        )
    return len(removed)


@contextlib.contextmanager
def _unless_busy() -> Iterator[None]:
    """End the block where another run holds a lease that it wants: the next run tidies."""
    try:
        yield
    except TabootError as error:
        if error.code != "E_BUSY":
            raise


def _is_due(stale: Stale) -> bool:
    return stale.files >= STALE_FILES or stale.bytes > max(stale.used_bytes, _STALE_BYTES)


def _join_vectors(workspace: Workspace, namespace: str) -> int:
    """Join the files of vectors and drop the old ones.

    Vectors are appended a few at a time, and no pointer names a version of their table.
    """
    removed = 0
    with workspace.leases.exclusive(f"{namespace}.vectors"):
        for name in vector_tables(workspace, namespace):
            if workspace.tables.files(namespace, NAMESPACE, name) >= STALE_FILES:
                workspace.tables.compact(namespace, NAMESPACE, name)
                removed += workspace.tables.vacuum(namespace, NAMESPACE, name)
    return removed


def _join_archives(workspace: Workspace, namespace: str, source_id: str) -> int:
    """Join the files of the archives of a source's runs and drop the old ones.

    Rows come in a few at a time, and all of them stay. Returns the number of files removed.
    """
    tables, removed = workspace.tables, 0
    for name in tables.names(namespace, source_id):
        if name.startswith(ARCHIVES) and tables.files(namespace, source_id, name) >= STALE_FILES:
            tables.compact(namespace, source_id, name)
            removed += vacuum(workspace, namespace, source_id, name)
    return removed


def _drop_dead_vectors(workspace: Workspace, namespace: str) -> int:
    """Drop the vectors of texts that no document holds any more, where they have become many.

    Whether they may be many is told without reading them: a shard of documents counts its chunks. Returns the
    number of vectors dropped. Raises ``E_BUSY`` while another source of the namespace is being worked on: its
    texts may just have got their vectors.
    """
    manifest = load_manifest(workspace.shards, namespace)
    if manifest is None:
        return 0
    most = max(_MIN_DEAD_VECTORS, int(manifest.chunks * workspace.settings.retention.vector_share))
    tables, dropped = workspace.tables, 0
    # Of another space every vector may be dead: it is the one that a person may go back to.
    name = embeddings.table_name(manifest.space.space().id)
    held = tables.count(namespace, NAMESPACE, name, tables.version(namespace, NAMESPACE, name))
    if held - manifest.chunks <= most:
        return 0
    # A table that cannot be read is not for housekeeping to mend, nor to fail by.
    with contextlib.ExitStack() as others, _passing_over("E_TABLE"):
        for row in workspace.catalog.sources.find(namespace):
            others.enter_context(workspace.leases.source(namespace, row["source_id"], wait=0))
        dropped = drop_vectors(workspace, namespace, name, keep=texts_in_use(workspace, namespace))
        if dropped:
            with workspace.leases.exclusive(f"{namespace}.vectors"):
                tables.vacuum(namespace, NAMESPACE, name)
    return dropped


@contextlib.contextmanager
def _passing_over(code: str) -> Iterator[None]:
    try:
        yield
    except TabootError as error:
        if error.code != code:
            raise


def _vacuum(workspace: Workspace, namespace: str, source_id: str) -> int:
    tables = workspace.tables
    snapshot = snapshot_pointer(workspace, namespace)
    if snapshot is None or source_id not in snapshot.applied:
        return 0
    removed = 0
    for owner, published in ((source_id, snapshot.applied[source_id]), (NAMESPACE, snapshot.tables)):
        for name in published:
            if _is_due(tables.stale(namespace, owner, name)):
                removed += vacuum(workspace, namespace, owner, name)
    return removed
