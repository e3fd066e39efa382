"""Removes what no pointer names: old Delta files and old shards.

It is done in passing and never waited for. Files are removed only under the source's and the namespace's
lease, and never those of a version that a pointer names. Old shards stay for a while, for readers that have
just opened the previous manifest.
"""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import prune
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.vacuum import vacuum
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE

#: A table is vacuumed once it has this many files that its newest version does not use.
STALE_FILES = 200
SHARD_GRACE_SECONDS = 600.0


def tidy(workspace: Workspace, namespace: str, source_id: str) -> int:
    """Vacuum the tables of a source and of its namespace if they are due.

    Returns the number of files removed; 0 while a run holds one of the leases.
    """
    try:
        with (
            workspace.leases.source(namespace, source_id, wait=0),
            workspace.leases.namespace(namespace, wait=0),
        ):
            removed = len(prune(workspace.shards, namespace, min_age_seconds=SHARD_GRACE_SECONDS))
            return removed + _vacuum(workspace, namespace, source_id) + _join_vectors(workspace, namespace)
    except TabootError as error:
        if error.code != "E_BUSY":
            raise
        return 0


def _join_vectors(workspace: Workspace, namespace: str) -> int:
    """Join the files of vectors and drop the old ones.

    Vectors are appended a few at a time, and no pointer names a version of their table.
    """
    removed = 0
    with workspace.leases.exclusive(f"{namespace}.vectors"):
        for name in workspace.tables.names(namespace, NAMESPACE):
            if (
                name.startswith("vectors.")
                and workspace.tables.files(namespace, NAMESPACE, name) >= STALE_FILES
            ):
                workspace.tables.compact(namespace, NAMESPACE, name)
                removed += workspace.tables.vacuum(namespace, NAMESPACE, name)
    return removed


def _vacuum(workspace: Workspace, namespace: str, source_id: str) -> int:
    tables = workspace.tables
    snapshot = snapshot_pointer(workspace, namespace)
    if snapshot is None or source_id not in snapshot.applied:
        return 0
    removed = 0
    for owner, published in ((source_id, snapshot.applied[source_id]), (NAMESPACE, snapshot.tables)):
        for name in published:
            if tables.stale_files(namespace, owner, name) >= STALE_FILES:
                removed += vacuum(workspace, namespace, owner, name)
    return removed
