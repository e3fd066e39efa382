"""Removes the files of tables that no reader is told to read.

A reader follows a pointer: that of a stage, to its own tables and to those that they were made from, or that
of the snapshot, to a version of every source. All of these are kept, whichever is newest: while a source is
half done, the snapshot names a version of it that its own stages have left behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion


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
