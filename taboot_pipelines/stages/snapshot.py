"""Finds the namespace's snapshot: the pointer that every serving stage starts from."""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

#: The stage that makes it.
SNAPSHOT = "entity_snapshots"
#: Stands beside the tables of a source that is applied without some of its documents.
WITHDRAWN = "withdrawn"
#: Says in what a tier has applied whether the source has units that read several files: their observations
#: lie in the bucket of the main one, those of any other unit in that of its only document.
PROJECTS = "projects"


def snapshot_pointer(workspace: Workspace, namespace: str) -> Pointer | None:
    """Return the pointer of the newest snapshot; None if there is none yet.

    Its ``tables`` are the snapshot's own; its ``applied`` is {source: {table: version}} of
    what it was made of. A source with the key :data:`WITHDRAWN` was applied without documents that its tables
    still hold.
    """
    return workspace.catalog.pointers.get(namespace, NAMESPACE, SNAPSHOT)


def needed_snapshot(workspace: Workspace, namespace: str) -> Pointer:
    """Return the pointer of the newest snapshot. Raises ``E_NOT_FOUND`` if there is none yet."""
    pointer = snapshot_pointer(workspace, namespace)
    if pointer is None:
        raise TabootError(
            "E_NOT_FOUND",
            f"Namespace {namespace} has no snapshot yet.",
            remedy=f"Materialize {SNAPSHOT} first.",
        )
    return pointer
