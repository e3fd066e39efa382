"""Reading published shards: the search files by memory mapping, everything else out of the DuckDB files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.build import term_hash
from taboot_pipelines.shards.columns import numbers
from taboot_pipelines.shards.files import map_file, verified_path
from taboot_pipelines.shards.manifest import Manifest, ShardEntry
from taboot_pipelines.shards.store import ShardStore, shards_at

_UNSIGNED = {"uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32}


class DocumentShard:
    """One document shard, mapped on first use. Rows of ``chunks`` ascend by (doc_id, chunk_index)."""

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
    def int8(self) -> npt.NDArray[np.int8]:
        """(chunks, dimension)"""
        return np.frombuffer(self._map(layout.VECTORS_INT8), dtype=np.int8).reshape(-1, self.dimension)

    @cached_property
    def float32(self) -> npt.NDArray[np.float32]:
        """(chunks, dimension)"""
        return np.frombuffer(self._map(layout.VECTORS_FLOAT32), dtype="<f4").reshape(-1, self.dimension)

    @cached_property
    def _postings(self) -> tuple[npt.NDArray[np.uint64], pa.Array, npt.NDArray[np.int32], Any, Any]:
        """Hashes, terms, where each term's list starts, and the flat lists of rows and frequencies."""
        table = self._table(layout.POSTINGS, None).combine_chunks()
        if not table.num_rows:
            return np.zeros(0, dtype=np.uint64), None, np.zeros(1, dtype=np.int32), None, None
        rows, tfs = table.column("rows").chunk(0), table.column("tfs").chunk(0)
        flat = [numbers(c.values, _UNSIGNED[str(c.type.value_type)]) for c in (rows, tfs)]
        return (
            numbers(table.column("hash"), np.uint64),
            table.column("term").chunk(0),
            numbers(rows.offsets, np.int32),
            *flat,
        )

    def postings(
        self, term: str
    ) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.unsignedinteger[Any]]] | None:
        """The rows that hold ``term`` (ascending) and how often, without a copy; None if there are none."""
        hashes, terms, starts, rows, tfs = self._postings
        wanted = np.uint64(term_hash(term))
        i = int(np.searchsorted(hashes, wanted))
        while i < len(hashes) and hashes[i] == wanted:
            if terms[i].as_py() == term:
                return rows[starts[i] : starts[i + 1]], tfs[starts[i] : starts[i + 1]]
            i += 1
        return None

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
    """The shards of one manifest, in the order of their ids."""

    store: ShardStore
    manifest: Manifest
    documents: tuple[DocumentShard, ...]

    @classmethod
    def open(
        cls, where: Path | ShardStore, manifest: Manifest, reuse: Mapping[str, DocumentShard] | None = None
    ) -> Shards:
        """Nothing is read yet. ``reuse``: shards that are mapped already, by key."""
        store = shards_at(where)
        known = reuse or {}
        dimension = manifest.space.dimension
        return cls(
            store,
            manifest,
            tuple(
                # The manifest's entry decides: a shard that was built again has other bytes under the same
                # key.
                (
                    known[e.key]
                    if e.key in known and known[e.key].entry == e
                    else DocumentShard(store, manifest.namespace, e, dimension)
                )
                for e in sorted(manifest.of_kind("documents"), key=lambda e: e.first)
            ),
        )

    def prepare(self) -> None:
        """Map every document shard; on first use in a process their bytes are hashed, in parallel."""
        with ThreadPoolExecutor(max_workers=8) as pool:
            for _ in pool.map(DocumentShard.prepare, self.documents):
                pass

    def document(self, doc_id: str) -> dict[str, Any] | None:
        """The row of the database's ``documents`` table for one document, if there is one."""
        import duckdb

        at = bisect_right([s.entry.first for s in self.documents], doc_id) - 1
        if at < 0:
            return None
        path = self.documents[at].database()
        try:
            with duckdb.connect(str(path), read_only=True) as connection:
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
        """The results of SQL ``queries`` over every shard of ``kind`` (``documents`` or ``entities``),
        concatenated.

        A query reads the shard's tables by their plain names. An empty list of shards gives tables without
        columns.
        """
        import duckdb

        parts: list[list[pa.Table]] = [[] for _ in queries]
        connection = duckdb.connect()
        try:
            for entry in sorted(self.manifest.of_kind(kind), key=lambda e: e.first):
                path = verified_path(self.store, self.manifest.namespace, entry, layout.DATABASE)
                connection.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS shard (READ_ONLY)")
                connection.execute("USE shard")
                for part, query in zip(parts, queries, strict=True):
                    part.append(connection.sql(query).to_arrow_table())
                connection.execute("USE memory")
                connection.execute("DETACH shard")
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
        finally:
            connection.close()
        return [pa.concat_tables(part) if part else pa.table({}) for part in parts]
