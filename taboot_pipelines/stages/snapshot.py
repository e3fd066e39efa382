"""The namespace's snapshot: its pointer, which every serving stage starts from, and its documents' rows.

The rows are read at the versions that the snapshot applied, and nothing newer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.retention import Policies
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.shards.inputs import DocumentRows
from taboot_pipelines.shards.reader import PublishedVectors
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE

Said = TypeVar("Said")
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


def policies_of(workspace: Workspace, namespace: str, snapshot: Pointer) -> Policies:
    """Return how long what the snapshot holds is kept: of its sources, and of its documents."""
    policies = workspace.catalog.retention.all(namespace)
    sources = {s: p for s, p in policies.sources.items() if s in snapshot.applied}
    return Policies(sources, _of_live(workspace, namespace, snapshot, policies.documents))


def tags_of(workspace: Workspace, namespace: str, snapshot: Pointer) -> dict[str, tuple[str, ...]]:
    """Return {doc_id: its tags} of the documents of the snapshot that people gave any."""
    return _of_live(workspace, namespace, snapshot, workspace.catalog.tags.all(namespace))


def _of_live(
    workspace: Workspace, namespace: str, snapshot: Pointer, said: Mapping[str, Said]
) -> dict[str, Said]:
    """Return what is said of documents, {doc_id: …}, of those alone that the snapshot holds."""
    if not said:
        return {}
    rows = SnapshotReader(workspace, namespace, snapshot).snapshot("doc_state", ["doc_id"])
    live = set(rows.column("doc_id").to_pylist())
    return {doc_id: what for doc_id, what in said.items() if doc_id in live}


#: What a shard holds of a document follows from these.
_FINGERPRINTS = ("document", "chunks", "links", "relations", "titles")


class SnapshotReader:
    """The rows behind one snapshot of a namespace.

    ``pointer`` is the pointer of entity_snapshots, and ``vectors`` names the table of the
    embedding space in force; without one, nothing may be read that needs vectors.
    """

    def __init__(
        self,
        workspace: Workspace,
        namespace: str,
        pointer: Pointer,
        vectors: str = "",
        published: PublishedVectors | None = None,
    ) -> None:
        """``published``: vectors that need not be looked for in their table."""
        self._namespace, self._pointer, self._vectors = namespace, pointer, vectors
        self._published = published
        self._tables = workspace.tables
        self._owners: pa.Table | None = None

    def snapshot(self, name: str, columns: Sequence[str] | None) -> pa.Table:
        return self._tables.read(
            self._namespace, NAMESPACE, name, self._pointer.tables[name], columns=columns
        )

    def entities(self, first: int, last: int) -> pa.Table:
        """Return what readers see of the entities between two positions, both included."""
        columns = ["label", "key", "name", "scope", "properties", "position"]
        rows = self.snapshot("entities", columns)
        position = rows.column("position")
        return rows.filter(pc.and_(pc.greater_equal(position, first), pc.less_equal(position, last)))

    def docs(self) -> pa.Table:
        """Return doc_id, chunk_count and fingerprint of every live document.

        The fingerprint covers everything that :meth:`load` gives.
        """
        state = self.snapshot(
            "doc_state",
            [
                "doc_id",
                "source_id",
                *(f"{name}_fingerprint" for name in _FINGERPRINTS),
                "chunk_count",
            ],
        )
        self._owners = state.select(["doc_id", "source_id"])
        prints = (state.column(f"{name}_fingerprint") for name in _FINGERPRINTS)
        return pa.table(
            {
                "doc_id": state.column("doc_id"),
                "chunk_count": state.column("chunk_count").cast(pa.int32()),
                "fingerprint": pc.binary_join_element_wise(*prints, "."),
            }
        )

    def load(self, doc_ids: Sequence[str]) -> DocumentRows:
        """Return everything that a shard holds of these documents, which :meth:`docs` has named."""
        buckets = {ids.doc_bucket(d) for d in doc_ids}
        by_source: dict[str, list[str]] = {}
        assert self._owners is not None
        listed = pc.is_in(self._owners.column("doc_id"), pa.array(sorted(doc_ids), pa.string()))
        for d, source in rows_of(self._owners.filter(listed), "doc_id", "source_id"):
            by_source.setdefault(source, []).append(d)
        parts: Mapping[str, list[pa.Table]] = {"documents": [], "chunks": [], "links": []}
        for source, members in by_source.items():
            for name, tables in parts.items():
                tables.append(
                    self._tables.read(
                        self._namespace,
                        source,
                        name,
                        # A version of the source may be older than a table.
                        self._pointer.applied[source].get(name),
                        buckets={ids.doc_bucket(d) for d in members},
                        members=("doc_id", members),
                    )
                )
        documents, chunks, links = (pa.concat_tables(tables) for tables in parts.values())
        relations, titles = (
            self._tables.read(
                self._namespace,
                NAMESPACE,
                name,
                self._pointer.tables[name],
                buckets=buckets,
                members=("doc_id", doc_ids),
            )
            for name in ("relations", "title_links")
        )
        texts = pc.unique(chunks.column("sha256")).to_pylist()
        if self._published is None:
            return DocumentRows(documents, chunks, self.vectors(texts), relations, links, titles)
        held = self._published.of(doc_ids, texts)
        missing = set(texts) - set(held.column("sha256").to_pylist())
        vectors = pa.concat_tables([held, self.vectors(missing).cast(held.schema)])
        return DocumentRows(documents, chunks, vectors, relations, links, titles)

    def rows(self, name: str, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
        """Yield (source, its rows) of ``documents`` or ``chunks`` for each source of the snapshot.

        All rows of the snapshot's documents are given, with only these columns, ``doc_id`` among them.
        """
        for source, versions in sorted(self._pointer.applied.items()):
            rows = self._tables.read(self._namespace, source, name, versions[name], columns=columns)
            if WITHDRAWN in versions:
                state = self.snapshot("doc_state", ["doc_id"])
                rows = rows.filter(pc.is_in(rows.column("doc_id"), state.column("doc_id").combine_chunks()))
            yield source, rows

    def texts(self, where: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Return {hash: text} of chunk texts.

        ``where`` names for each hash a (source, doc_id) that holds the text.
        """
        by_source: dict[str, list[str]] = {}
        for sha256, (source, _) in where.items():
            by_source.setdefault(source, []).append(sha256)
        found: dict[str, str] = {}
        for source, shas in by_source.items():
            rows = self._tables.read(
                self._namespace,
                source,
                "chunks",
                self._pointer.applied[source]["chunks"],
                columns=["sha256", "text"],
                buckets={ids.doc_bucket(where[s][1]) for s in shas},
                members=("sha256", shas),
            )
            found |= zip(rows.column("sha256").to_pylist(), rows.column("text").to_pylist(), strict=True)
        if len(found) != len(where):
            raise TabootError(
                "E_TABLE",
                f"{len(where) - len(found)} chunk texts of the snapshot are not in its chunks tables.",
            )
        return found

    def vectors(self, shas: Collection[str]) -> pa.Table:
        """Return (sha256, vector) of texts; a text may come twice, with equal vectors."""
        wanted = list(shas)
        version = self._tables.version(self._namespace, NAMESPACE, self._vectors)
        return self._tables.read(
            self._namespace,
            NAMESPACE,
            self._vectors,
            version,
            columns=["sha256", "vector"],
            buckets={ids.bucket(s) for s in wanted},
            members=("sha256", wanted),
        )
