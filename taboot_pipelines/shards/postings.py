"""The postings of a shard: which chunks hold a term and how often, as they are built, stored and looked up.

Terms are those of both fields of ``analyzer``. A postings table has a row for each: the ``term``, the
``rows`` of the chunks that hold it (ascending) and, beside each, its frequency (``tfs``). Most stems are
written in one way in all of a shard: the row of such a stem has that word as ``form``, and the word no row of
its own. In a shard's database the rows ascend by term; a search looks terms up by hash (:func:`by_hash`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.shards.analyzer import QueryTerm, analyze_fields, form_stem
from taboot_pipelines.shards.layout import numbers

_made = tuple.__new__
Unsigned = npt.NDArray[np.unsignedinteger[Any]]

_UNSIGNED = {"uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32}


def term_hash(term: str) -> int:
    """Where a term stands in the postings: 64 bits of BLAKE2b, never 0. The reader also compares the term."""
    return int.from_bytes(hashlib.blake2b(_encoded(term), digest_size=8).digest(), "little") or 1


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
        terms, lengths[row] = analyze_fields(text)
        distinct[row] = len(terms)
        for term, tf in terms.items():
            ids.append(vocabulary.setdefault(term, len(vocabulary)))
            tfs.append(tf)
    forms = _only_forms(vocabulary)
    alone = set(forms.values())
    words = sorted(word for word in vocabulary if word not in alone)
    place = np.full(len(vocabulary), -1, dtype=np.int64)
    place[[vocabulary[word] for word in words]] = np.arange(len(words))
    term_of = np.array(ids, dtype=np.int64)
    owner = place[term_of]
    held = owner >= 0
    owner = owner[held]
    by_term = np.argsort(owner, kind="stable")
    rows = np.repeat(np.arange(len(texts), dtype=np.min_scalar_type(len(texts))), distinct)[held][by_term]
    counts = np.array(tfs, dtype=np.min_scalar_type(max(tfs, default=0)))[held][by_term]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(words))))).astype(np.int32)
    table = pa.table(
        {
            "term": pa.array(words, pa.string()),
            "form": pa.array(map(forms.get, words), pa.string()),
            "rows": pa.ListArray.from_arrays(pa.array(offsets), pa.array(rows)),
            "tfs": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
        }
    )
    return table, lengths


def _only_forms(vocabulary: Iterable[str]) -> dict[str, str]:
    """The words that are the only ones with their stem, by the stem."""
    by_stem: dict[str, list[str]] = {}
    for term in vocabulary:
        if stem := form_stem(term):
            by_stem.setdefault(stem, []).append(term)
    return {stem: own[0] for stem, own in by_stem.items() if len(own) == 1}


def by_hash(postings: pa.Table, documents: npt.NDArray[np.int32]) -> pa.Table:
    """A postings table as a search maps it. ``documents``: the document of each row, ascending.

    Its rows ascend by the ``hash`` (uint64) of their term, and ``form`` is the hash of the word, 0 where
    there is none. Beside the lists of ``rows`` and ``tfs`` stand those of the ``documents`` that hold the
    term and of how often each does (``counts``).
    """
    terms, forms = (postings.column(name).to_pylist() for name in ("term", "form"))
    hashes = np.fromiter(map(term_hash, terms), dtype=np.uint64, count=len(terms))
    only = np.fromiter((term_hash(f) if f else 0 for f in forms), dtype=np.uint64, count=len(forms))
    order = np.argsort(hashes, kind="stable")
    found = postings.take(pa.array(order)).combine_chunks()
    rows, tfs = (found.column(name).combine_chunks() for name in ("rows", "tfs"))
    starts = numbers(rows.offsets, np.int32) - rows.offsets[0].as_py() if len(rows) else np.zeros(1, np.int32)
    held = documents[_flat(rows.flatten())]
    # Rows ascend, so those of one document stand side by side in the list of a term.
    first = np.ones(len(held), dtype=bool)
    np.not_equal(held[1:], held[:-1], out=first[1:])
    first[starts[:-1]] = True
    begins = first.nonzero()[0]
    counts = np.add.reduceat(_flat(tfs.flatten()).astype(np.int64), begins) if len(held) else held
    offsets = pa.array(np.searchsorted(begins, starts).astype(np.int32))
    return pa.table(
        {
            "hash": pa.array(hashes[order]),
            "term": found.column("term"),
            "form": pa.array(only[order]),
            "rows": rows,
            "tfs": tfs,
            "documents": pa.ListArray.from_arrays(offsets, pa.array(_narrow(held[begins]))),
            "counts": pa.ListArray.from_arrays(offsets, pa.array(_narrow(counts))),
        }
    )


def _narrow(values: npt.NDArray[np.integer[Any]]) -> Unsigned:
    """Numbers in the narrowest unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


class TermLookup(NamedTuple):
    """Terms to look up, made ready once for all shards: their UTF-8 bytes and their hashes, and of each term
    those of its forms.
    """

    terms: list[bytes]
    hashes: npt.NDArray[np.uint64]
    forms: list[tuple[tuple[bytes, int], ...]]

    @classmethod
    def of(cls, terms: Sequence[QueryTerm]) -> TermLookup:
        return cls(
            [_encoded(t.term) for t in terms],
            np.array([term_hash(t.term) for t in terms], dtype=np.uint64),
            [tuple((_encoded(f), term_hash(f)) for f in t.forms) for t in terms],
        )


class TermPlaces(NamedTuple):
    """The rows that hold a term, ascending, and how often each does; the same of the documents."""

    rows: Unsigned
    tfs: Unsigned
    documents: Unsigned
    counts: Unsigned


class TermMatches(NamedTuple):
    """Where a wanted term stands, and in which places each of its forms; ``forms`` is None where every form
    that is wanted stands wherever the term does.
    """

    places: TermPlaces
    forms: tuple[TermPlaces | None, ...] | None


class Postings:
    """A postings table as :func:`by_hash` gives it, looked up by term without a copy of its lists."""

    def __init__(self, table: pa.Table) -> None:
        table = table.combine_chunks()
        self._hashes: npt.NDArray[np.uint64] = numbers(table.column("hash"), np.uint64)
        self._size = table.num_rows
        if table.num_rows:
            terms, rows, tfs = (table.column(c).chunk(0) for c in ("term", "rows", "tfs"))
            documents, counts = (table.column(c).chunk(0) for c in ("documents", "counts"))
            # Single numbers are read out of these, which takes a memoryview a third of the time.
            self._forms = memoryview(numbers(table.column("form"), np.uint64))
            #: The UTF-8 bytes of all terms, and their lists, behind one another; ``_cuts``, ``_starts`` and
            #: ``_begins`` say where each begins, and the end.
            self._texts = memoryview(terms.buffers()[2] or b"").cast("B")
            self._cuts = memoryview(numbers(_offsets(terms), np.int32))
            self._starts = memoryview(numbers(rows.offsets, np.int32))
            self._begins = memoryview(numbers(documents.offsets, np.int32))
            self._rows, self._tfs = _flat(rows.values), _flat(tfs.values)
            self._documents, self._counts = _flat(documents.values), _flat(counts.values)

    def find(self, wanted: TermLookup) -> list[tuple[int, TermMatches]]:
        """Where the wanted terms stand that any row holds, by their number, without a copy."""
        if not self._size:
            return []
        near = self._hashes.searchsorted(wanted.hashes)
        hit = self._hashes.take(near, mode="clip") == wanted.hashes
        found = []
        at = near.tolist()
        # A term that no query asked for yet is looked up in every shard, so what stands in this loop is
        # written for speed.
        texts, cuts, only = self._texts, self._cuts, self._forms
        for number in hit.nonzero()[0].tolist():
            i = at[number]
            if texts[cuts[i] : cuts[i + 1]] != wanted.terms[number]:
                i = self._row(i + 1, wanted.terms[number], wanted.hashes[number])
                if i is None:
                    continue
            places = self._places(i)
            forms = wanted.forms[number]
            if not forms or (len(forms) == 1 and forms[0][1] == only[i] != 0):
                own = None
            elif only[i]:
                own = tuple([places if hashed == only[i] else None for _, hashed in forms])
            else:
                own = tuple([self._form(form, hashed) for form, hashed in forms])
            found.append((number, _made(TermMatches, (places, own))))
        return found

    def _form(self, form: bytes, hashed: int) -> TermPlaces | None:
        wanted = np.uint64(hashed)
        i = self._row(int(self._hashes.searchsorted(wanted)), form, wanted)
        return None if i is None else self._places(i)

    def _row(self, i: int, term: bytes, hashed: np.uint64) -> int | None:
        """The row of a term, which is ``i`` or, where others have its hash, one of the next."""
        while i < self._size and self._hashes[i] == hashed:
            if self._texts[self._cuts[i] : self._cuts[i + 1]] == term:
                return i
            i += 1
        return None

    def _places(self, i: int) -> TermPlaces:
        start, end = self._starts[i], self._starts[i + 1]
        begin, stop = self._begins[i], self._begins[i + 1]
        lists = (
            self._rows[start:end],
            self._tfs[start:end],
            self._documents[begin:stop],
            self._counts[begin:stop],
        )
        return _made(TermPlaces, lists)


def _encoded(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _offsets(texts: pa.StringArray) -> pa.Array:
    """Where each of the texts begins among the bytes of all, and the end."""
    return pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, texts.buffers()[1]], offset=texts.offset)


def _flat(values: pa.Array) -> Unsigned:
    """The elements of lists behind one another, without a copy."""
    flat: Unsigned = numbers(values, _UNSIGNED[str(values.type)])
    return flat
