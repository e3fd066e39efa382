"""Removes the files of tables that no reader is told to read, and vectors of texts that no reader can meet.

A reader follows a pointer: that of a stage, to its own tables and to those that they were made from, or that
of the snapshot, to a version of every source. All of these are kept, whichever is newest: while a source is
half done, the snapshot names a version of it that its own stages have left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.stages import chunks
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion

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
