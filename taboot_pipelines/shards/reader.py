"""Reading published shards: a search maps their search files, everything else is in the DuckDB files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.attaching import read_tables
from taboot_pipelines.shards.manifest import Manifest, ShardEntry
from taboot_pipelines.shards.protocol import ShardStore, load_manifest, verified_path
from taboot_pipelines.shards.search_files import SearchFile, check_search_file, search_file


class DocumentShard:
    """One document shard, read on first use."""

    def __init__(self, store: ShardStore, namespace: str, entry: ShardEntry, dimension: int) -> None:
        self._store = store
        self._namespace = namespace
        self.entry = entry
        self.dimension = dimension

    @cached_property
    def mapped(self) -> SearchFile:
        """What a search reads of it."""
        return search_file(self._store, self._namespace, self.entry, self.dimension)

    def prepare(self) -> None:
        """Map everything that a search uses."""
        mapped = self.mapped
        _ = mapped.chunks, mapped.documents, mapped.int8, mapped.float32, mapped.postings

    def database(self) -> Path:
        """A local path of the DuckDB file, verified."""
        return verified_path(self._store, self._namespace, self.entry, layout.DATABASE)


@dataclass(frozen=True)
class Shards:
    """The shards of one manifest; ``documents`` in the order of their ids."""

    store: ShardStore
    manifest: Manifest
    documents: tuple[DocumentShard, ...]

    @classmethod
    def open(
        cls, store: ShardStore, manifest: Manifest, reuse: Mapping[str, DocumentShard] | None = None
    ) -> Shards:
        """Read nothing yet. ``reuse``: shards that are mapped already, by key."""
        documents = []
        for entry in sorted(manifest.of_kind("documents"), key=lambda e: e.first):
            shard = reuse.get(entry.key) if reuse else None
            # Entries are compared whole: a shard that was built again has other bytes under the same key.
            if shard is None or shard.entry != entry:
                shard = DocumentShard(store, manifest.namespace, entry, manifest.space.dimension)
            documents.append(shard)
        return cls(store, manifest, tuple(documents))

    def prepare(self) -> None:
        """Map every document shard. On first use their bytes are hashed, in parallel."""
        with ThreadPoolExecutor(max_workers=8) as pool:
            for _ in pool.map(DocumentShard.prepare, self.documents):
                pass
        self.store.verified.keep()

    def document(self, doc_id: str) -> dict[str, Any] | None:
        """The row of the database's ``documents`` table for one document; None if there is none."""
        at = bisect_right([s.entry.first for s in self.documents], doc_id) - 1
        if at < 0:
            return None
        query = "FROM documents WHERE doc_id = ?"
        (found,) = read_tables(self.documents[at].database(), [query], [doc_id])
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows[0] if rows else None

    def tables(self, kind: str, queries: Sequence[str]) -> list[pa.Table]:
        """The results of SQL ``queries`` over every shard of ``kind`` (``documents`` or ``entities``), each
        concatenated over the shards.

        A query reads the shard's tables by their plain names. Without shards the tables have no columns.
        Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT``.
        """
        parts: list[list[pa.Table]] = [[] for _ in queries]
        for entry in sorted(self.manifest.of_kind(kind), key=lambda e: e.first):
            path = verified_path(self.store, self.manifest.namespace, entry, layout.DATABASE)
            for part, table in zip(parts, read_tables(path, queries), strict=True):
                part.append(table)
        self.store.verified.keep()
        return [pa.concat_tables(part) if part else pa.table({}) for part in parts]


def verify(store: ShardStore, manifest: Manifest) -> None:
    """Hash every file that the manifest names, where the store keeps it, and what is cached of it.

    Raises for the first file that is missing or differs, as :func:`verified_path` does.
    """
    for shard in manifest.shards:
        for f in shard.files:
            path = store.fetch(manifest.namespace, shard, f.name, fresh=True)
            store.verified.forget(path)
            verified_path(store, manifest.namespace, shard, f.name)
        if shard.kind == "documents":
            check_search_file(store, manifest.namespace, shard)
    store.verified.keep()


# --- The vectors of texts in the shards in force: a shard that is built anew takes most of its own from
#     them
#
# The table of vectors is bucketed by text, so the texts of a few documents lie all over it; a shard has
# those of its documents side by side.

_SCHEMA = pa.schema([("sha256", pa.string()), ("vector", pa.list_(pa.float32()))])


def altered_texts(shard: DocumentShard) -> bool:
    """Whether the shard holds a chunk's text that is not that of the hash beside it."""
    chunks = shard.mapped.chunks
    return ids.altered(
        chunks.column("text").to_pylist(), (h.hex() for h in chunks.column("sha256").to_pylist())
    )


class PublishedVectors:
    """The vectors of one namespace's shards, if they are of ``space``. Nothing is read yet."""

    def __init__(self, store: ShardStore, namespace: str, space: Space) -> None:
        try:
            manifest = load_manifest(store, namespace)
        except TabootError:
            manifest = None
        usable = manifest is not None and manifest.space.space() == space
        self._shards: Sequence[DocumentShard] = (
            Shards.open(store, manifest).documents if manifest is not None and usable else ()
        )
        self._firsts = [shard.entry.first for shard in self._shards]

    def of(self, doc_ids: Sequence[str], texts: Collection[str]) -> pa.Table:
        """Return (sha256, vector) of those of the ``texts`` that the shards of these documents hold.

        A shard that is missing or damaged holds none.
        """
        first, last = (bisect_right(self._firsts, d) - 1 for d in (min(doc_ids), max(doc_ids)))
        wanted = pa.array([bytes.fromhex(sha256) for sha256 in sorted(set(texts))], pa.binary(32))
        found = [_SCHEMA.empty_table()]
        for shard in self._shards[max(first, 0) : last + 1]:
            try:
                found.append(_rows(shard, wanted))
            except TabootError:
                continue
        return pa.concat_tables(found)


def _rows(shard: DocumentShard, wanted: pa.Array) -> pa.Table:
    import pyarrow.compute as pc

    held = shard.mapped.chunks.column("sha256").combine_chunks()
    at = pc.index_in(wanted, value_set=held)
    here = pc.is_valid(at)
    vectors = shard.mapped.float32[at.filter(here).to_numpy()]
    offsets = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32())
    return pa.table(
        [
            pa.array([value.hex() for value in wanted.filter(here).to_pylist()], pa.string()),
            pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1), pa.float32())),
        ],
        schema=_SCHEMA,
    )
