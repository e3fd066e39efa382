"""Purges, on demand, the bytes of files that vanished or were edited.

Blobs are what everything is derived from, so nothing removes them by age: a file that comes back, or an
extractor that is to be compared with the one before it, may want them. A person who knows better says so.
What is removed is named nowhere any more; what was deleted on purpose and can be restored stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from taboot_pipelines.model import ids
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.snapshot import snapshot_pointer
from taboot_pipelines.stages.stated import asserted, handed_in
from taboot_pipelines.stages.vacuum import versions_in_use
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.tables import NAMESPACE, TableVersion


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
