"""Which version of each source a snapshot applies, and which of its documents are gone since.

A version of a source is taken once all its stages have applied it. Until then, while a run is under way or
a server does not answer, the version before stays in force, without the documents that are gone: a deletion
does not wait for another change of its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.knowledge.structured import STATED
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import TABLES, rows_of
from taboot_pipelines.stages.assertions import stated_version
from taboot_pipelines.stages.snapshot import PROJECTS, WITHDRAWN
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import table_id


@dataclass(frozen=True)
class SourceVersions:
    """What a snapshot has to apply.

    ``versions`` is {source: {table: version}}; a source without some of its documents also has
    ``{WITHDRAWN: digest of their ids}``, and ``withdrawn`` holds these ids. ``in_place`` names sources whose
    observations all lie in the buckets of the documents that they quote, as far as their stages say so. What
    people decided stands among them as the source :data:`STATED`.
    """

    versions: dict[str, dict[str, Any]] = field(default_factory=dict)
    withdrawn: dict[str, frozenset[str]] = field(default_factory=dict)
    in_place: set[str] = field(default_factory=set)


def source_versions(
    workspace: Workspace, namespace: str, applied: Mapping[str, Any], stages: Sequence[str]
) -> SourceVersions:
    """Return the newest version of each source that all ``stages`` have applied.

    For a source with a newer one that they have not all applied, this is the version that ``applied`` (what
    the last snapshot applied) holds, without what is gone since.
    """
    published = workspace.catalog.pointers.of_stages(namespace, stages)
    found = SourceVersions()
    for row in workspace.catalog.sources.find(namespace):
        source = row["source_id"]
        pointers = [published.get((source, stage)) for stage in stages]
        vector = _agreed(pointers)
        if vector is not None:
            found.versions[source] = vector
            if not any(_is_scattered(pointer) for pointer in pointers):
                found.in_place.add(source)
        elif source in applied:
            before = {table: version for table, version in applied[source].items() if table != WITHDRAWN}
            if _made_again(workspace, namespace, source, before):
                # The source was retired and put back: nothing of what it held before is there any more.
                continue
            gone = _gone(workspace, namespace, source, before)
            found.versions[source] = before | ({WITHDRAWN: ids.digest(*sorted(gone))} if gone else {})
            found.withdrawn[source] = gone
    stated = stated_version(workspace, namespace)
    if stated is not None:
        found.versions[STATED] = stated
        found.in_place.add(STATED)
    return found


def _is_scattered(pointer: Pointer | None) -> bool:
    """Whether a stage's observations may lie in other buckets than the documents that they quote."""
    return (
        pointer is not None
        and any(name.partition(".")[0] == "observations" for name in pointer.tables)
        # An earlier release does not say.
        and pointer.applied.get(PROJECTS) is not False
    )


def _agreed(pointers: Sequence[Pointer | None]) -> dict[str, Any] | None:
    """Return the tables that the stages have published, and those that they were made from.

    None if a stage has published nothing yet, or two stages have applied different versions of a table.
    """
    found = [pointer for pointer in pointers if pointer is not None]
    if len(found) < len(pointers):
        return None
    vector: dict[str, Any] = {}
    for pointer in found:
        # Of a stage without tables of its own nothing is taken that is not the same for all.
        noted = pointer.applied if pointer.tables else {}
        # A stage also notes inputs that are not tables.
        vector |= {name: v for name, v in noted.items() if name.partition(".")[0] in TABLES}
    for pointer in found:
        vector |= pointer.tables
    agreed = all(
        pointer.applied.get(table, version) == version
        for pointer in found
        for table, version in vector.items()
    )
    return vector if agreed else None


def _made_again(workspace: Workspace, namespace: str, source: str, version: Mapping[str, Any]) -> bool:
    """Whether the source's table of documents is another one than that of a version."""
    before = version.get("documents")
    now = workspace.tables.version(namespace, source, "documents")
    # A version without an id, as an earlier release wrote it, may be of any table.
    if before is None or now is None or not table_id(before):
        return False
    return table_id(before) != table_id(now)


def _gone(workspace: Workspace, namespace: str, source: str, version: Mapping[str, Any]) -> frozenset[str]:
    """Return the documents of a version that were deleted since, or have vanished from their origin.

    One whose bytes are now at another path of the source has moved: it stays until the new place is served.
    """
    documents = version.get("documents")
    if documents is None or not workspace.tables.exist(namespace, source, {"documents": documents}):
        return frozenset()
    rows = workspace.tables.read(namespace, source, "documents", documents, columns=["doc_id", "blob_sha256"])
    present = workspace.catalog.locators.of_source(namespace, source).values()
    doc_ids, blobs = {x.doc_id for x in present}, {x.sha256 for x in present}
    tombstones = workspace.catalog.tombstones.all(namespace)
    return frozenset(
        doc_id
        for doc_id, sha256 in rows_of(rows, "doc_id", "blob_sha256")
        if doc_id not in doc_ids and (sha256 not in blobs or doc_id in tombstones)
    )
