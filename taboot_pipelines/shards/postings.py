"""The postings of a shard: which chunks hold a term and how often, as they are built, stored and looked up.

A postings table has a row for each term: its ``hash`` (uint64), the ``term``, the ``rows`` of the chunks that
hold it (ascending) and, beside each, its frequency (``tfs``). Rows of the table ascend by hash.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.shards.analyzer import analyze
from taboot_pipelines.shards.columns import numbers

Unsigned = npt.NDArray[np.unsignedinteger[Any]]

_UNSIGNED = {"uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32}


def term_hash(term: str) -> int:
    """Where a term stands in the postings: 64 bits of BLAKE2b. The reader also compares the term itself."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def inverted_lists(texts: list[str]) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """The postings table of ``texts``, and the length of each text in words.

    Rows and frequencies are stored in the narrowest unsigned types that hold them.
    """
    vocabulary: dict[str, int] = {}
    ids: list[int] = []
    tfs: list[int] = []
    distinct = np.zeros(len(texts), dtype=np.int64)
    lengths = np.zeros(len(texts), dtype=np.int32)
    for row, text in enumerate(texts):
        terms, lengths[row] = analyze(text)
        distinct[row] = len(terms)
        for term, tf in terms.items():
            ids.append(vocabulary.setdefault(term, len(vocabulary)))
            tfs.append(tf)
    words = list(vocabulary)
    hashes = np.fromiter((term_hash(w) for w in words), dtype=np.uint64, count=len(words))
    order = np.argsort(hashes, kind="stable")
    place = np.empty(len(words), dtype=np.int64)
    place[order] = np.arange(len(words))
    owner = place[np.array(ids, dtype=np.int64)] if ids else np.zeros(0, dtype=np.int64)
    by_term = np.argsort(owner, kind="stable")
    rows = np.repeat(np.arange(len(texts), dtype=np.min_scalar_type(len(texts))), distinct)[by_term]
    counts = np.array(tfs, dtype=np.min_scalar_type(max(tfs, default=0)))[by_term]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(words))))).astype(np.int32)
    table = pa.table(
        {
            "hash": pa.array(hashes[order]),
            "term": pa.array([words[i] for i in order], type=pa.string()),
            "rows": pa.ListArray.from_arrays(pa.array(offsets), pa.array(rows)),
            "tfs": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
        }
    )
    return table, lengths


def portable(postings: pa.Table) -> pa.Table:
    """A postings table in the form of DuckDB's ``postings``, ascending by term: of each term its document
    frequency ``df`` and a blob of little-endian int32 pairs (row, frequency).
    """
    rows, tfs = postings.column("rows").combine_chunks(), postings.column("tfs").combine_chunks()
    if len(rows):
        pairs = np.stack(
            [rows.flatten().to_numpy().astype("<i4"), tfs.flatten().to_numpy().astype("<i4")], axis=1
        )
        # Each pair is 8 bytes, so the offsets of the lists times 8 are those of the blobs.
        starts = pa.array(rows.offsets.to_numpy() * np.int32(8)).buffers()[1]
        blobs = pa.Array.from_buffers(pa.binary(), len(rows), [None, starts, pa.py_buffer(pairs.tobytes())])
    else:
        blobs = pa.array([], type=pa.binary())
    return pa.table(
        {"term": postings.column("term"), "df": pc.list_value_length(rows), "postings": blobs}
    ).sort_by("term")


class Postings:
    """A mapped postings table, looked up by term without a copy of its lists."""

    def __init__(self, table: pa.Table) -> None:
        table = table.combine_chunks()
        self._hashes: npt.NDArray[np.uint64] = numbers(table.column("hash"), np.uint64)
        #: The lists of all terms behind one another; ``_starts`` says where each begins, and the end.
        self._terms: Any = ()
        self._starts: npt.NDArray[np.int32] = np.zeros(1, dtype=np.int32)
        self._rows: Unsigned = np.zeros(0, dtype=np.uint8)
        self._tfs: Unsigned = np.zeros(0, dtype=np.uint8)
        if table.num_rows:
            rows, tfs = table.column("rows").chunk(0), table.column("tfs").chunk(0)
            self._terms = table.column("term").chunk(0)
            self._starts = numbers(rows.offsets, np.int32)
            self._rows = _flat(rows)
            self._tfs = _flat(tfs)

    def find(self, term: str) -> tuple[Unsigned, Unsigned] | None:
        """The rows that hold ``term`` (ascending) and how often each does; None if there are none."""
        wanted = np.uint64(term_hash(term))
        i = int(np.searchsorted(self._hashes, wanted))
        while i < len(self._hashes) and self._hashes[i] == wanted:
            if self._terms[i].as_py() == term:
                own = slice(self._starts[i], self._starts[i + 1])
                return self._rows[own], self._tfs[own]
            i += 1
        return None


def _flat(lists: pa.ListArray) -> Unsigned:
    """The elements of all lists behind one another, without a copy."""
    flat: Unsigned = numbers(lists.values, _UNSIGNED[str(lists.type.value_type)])
    return flat
