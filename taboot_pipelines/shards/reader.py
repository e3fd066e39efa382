"""Reading published shards: the search files by memory mapping, everything else out of the DuckDB files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.attaching import attached
from taboot_pipelines.shards.manifest import Manifest, ShardEntry
from taboot_pipelines.shards.postings import Postings, TermLookup, TermMatches
from taboot_pipelines.shards.protocol import ShardStore, load_manifest, map_file, verified_path


class DocumentShard:
    """One document shard, its files mapped on first use. Rows of ``chunks`` ascend by (doc_id,
    chunk_index).
    """

    def __init__(self, store: ShardStore, namespace: str, entry: ShardEntry, dimension: int) -> None:
        self._store = store
        self._namespace = namespace
        self.entry = entry
        self.dimension = dimension

    @cached_property
    def chunks(self) -> pa.Table:
        """chunk_index, start, end, text, section, content_type, tokens, document (row of ``documents``),
        line, sha256, length (words), scale, error, radius (see ``quantize``)."""
        return self._table(layout.CHUNKS, self.entry.chunks)

    @cached_property
    def documents(self) -> pa.Table:
        """doc_id, source_id, path, url, title, lang, date, since, blob_sha256."""
        return self._table(layout.DOCUMENTS, self.entry.documents)

    @cached_property
    def links(self) -> pa.Table:
        """``links.LINKS``: the links of the shard's documents as observed, in the order of the documents."""
        return self._table(layout.LINKS, None)

    @cached_property
    def names(self) -> pa.Table:
        """``links.NAMES``: by what the shard's documents are led to, in their order."""
        return self._table(layout.NAMES, None)

    @cached_property
    def int8(self) -> npt.NDArray[np.int8]:
        """(chunks, dimension)"""
        return np.frombuffer(self._map(layout.VECTORS_INT8), dtype=np.int8).reshape(-1, self.dimension)

    @cached_property
    def float32(self) -> npt.NDArray[np.float32]:
        """(chunks, dimension)"""
        return np.frombuffer(self._map(layout.VECTORS_FLOAT32), dtype="<f4").reshape(-1, self.dimension)

    @cached_property
    def _postings(self) -> Postings:
        return Postings(self._table(layout.POSTINGS, None))

    def postings(self, wanted: TermLookup) -> list[tuple[int, TermMatches]]:
        """Where the wanted terms stand that any row holds, by their number, without a copy."""
        return self._postings.find(wanted)

    def prepare(self) -> None:
        """Verify and map everything that a search uses."""
        _ = self.chunks, self.documents, self.int8, self.float32, self._postings

    def database(self) -> Path:
        """A local path of the DuckDB file, verified."""
        return verified_path(self._store, self._namespace, self.entry, layout.DATABASE)

    def _map(self, name: str) -> memoryview:
        return map_file(self._store, self._namespace, self.entry, name)

    def _table(self, name: str, rows: int | None) -> pa.Table:
        data = self._map(name)
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        if rows is not None and table.num_rows != rows:
            raise TabootError(
                "E_SHARD_CORRUPT",
                f"Shard {self.entry.key[:16]} holds another number of rows in {name} than the manifest says.",
                shard=self.entry.key,
                file=name,
            )
        return table


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
        import duckdb

        at = bisect_right([s.entry.first for s in self.documents], doc_id) - 1
        if at < 0:
            return None
        path = self.documents[at].database()
        try:
            with attached(path, "READ_ONLY") as connection:
                rows: list[dict[str, Any]] = (
                    connection.sql("FROM documents WHERE doc_id = ?", params=[doc_id])
                    .to_arrow_table()
                    .to_pylist()
                )
        except duckdb.Error as error:
            raise TabootError(
                "E_SHARD_CORRUPT",
                f"A shard's database cannot be read ({type(error).__name__}).",
                file=str(path),
            ) from error
        return rows[0] if rows else None

    def tables(self, kind: str, queries: Sequence[str]) -> list[pa.Table]:
        """The results of SQL ``queries`` over every shard of ``kind`` (``documents`` or ``entities``), each
        concatenated over the shards.

        A query reads the shard's tables by their plain names. Without shards the tables have no columns.
        Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT``.
        """
        import duckdb

        parts: list[list[pa.Table]] = [[] for _ in queries]
        try:
            for entry in sorted(self.manifest.of_kind(kind), key=lambda e: e.first):
                path = verified_path(self.store, self.manifest.namespace, entry, layout.DATABASE)
                with attached(path, "READ_ONLY") as connection:
                    for part, query in zip(parts, queries, strict=True):
                        part.append(connection.sql(query).to_arrow_table())
        except duckdb.IOException as error:
            raise TabootError(
                "E_SHARD_MISSING", "A shard's database cannot be opened.", namespace=self.manifest.namespace
            ) from error
        except duckdb.Error as error:
            raise TabootError(
                "E_SHARD_CORRUPT",
                f"A shard's database cannot be read ({type(error).__name__}).",
                namespace=self.manifest.namespace,
            ) from error
        self.store.verified.keep()
        return [pa.concat_tables(part) if part else pa.table({}) for part in parts]


# --- The vectors of texts in the shards in force: a shard that is built anew takes most of its own from
#     them
#
# The table of vectors is bucketed by text, so the texts of a few documents lie all over it; a shard has
# those of its documents side by side.

_SCHEMA = pa.schema([("sha256", pa.string()), ("vector", pa.list_(pa.float32()))])


def altered_texts(shard: DocumentShard) -> bool:
    """Whether the shard holds a chunk's text that is not that of the hash beside it."""
    chunks = shard.chunks
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

    held = shard.chunks.column("sha256").combine_chunks()
    at = pc.index_in(wanted, value_set=held)
    here = pc.is_valid(at)
    vectors = shard.float32[at.filter(here).to_numpy()]
    offsets = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32())
    return pa.table(
        [
            pa.array([value.hex() for value in wanted.filter(here).to_pylist()], pa.string()),
            pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1), pa.float32())),
        ],
        schema=_SCHEMA,
    )
