"""The chunks of one manifest as one numbered list, with what every query needs of each row in memory.

Row numbers ascend by (doc_id, chunk_index), so comparing rows compares ids, whatever the shards. Vectors,
texts and postings stay in the mapped files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.model.ids import domain_of
from taboot_pipelines.model.retention import moment_of
from taboot_pipelines.retrieval.filters import Filter, as_micros, read_filter
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.shards.layout import MAPPED, numbers
from taboot_pipelines.shards.manifest import Manifest
from taboot_pipelines.shards.reader import Shards

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.fast_scan import FastScan
    from taboot_pipelines.shards.search_files import SearchFile

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


_KEPT_BYTES = 24 * 1024 * 1024


class _Encoded(NamedTuple):
    """A column as numbers: row i has ``values[codes[i]]``."""

    values: list[str]
    codes: Rows


class ChunkText(NamedTuple):
    """A chunk's text and where it stands in its document."""

    chunk_index: int
    start: int
    end: int
    line: int | None
    content_type: str
    text: str


class Index:
    """``len(index)`` chunks; arrays have one element a row unless they say otherwise."""

    def __init__(self, shards: Shards) -> None:
        shards.prepare()
        self.manifest: Manifest = shards.manifest
        self.shards = tuple(s.mapped for s in shards.documents)
        counts = [len(s.chunks) for s in self.shards]
        #: Row at which each shard starts, and the end.
        self.starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        #: One row a document; see ``SearchFile.documents``.
        self.documents = _concat([s.documents for s in self.shards])
        #: The chunk's document, as a row of ``documents``.
        self.document = self._column("document", np.int32, np.int64)
        #: Row of ``documents`` at which those of each shard start, and the end.
        self.document_starts = np.concatenate(([0], np.cumsum([len(s.documents) for s in self.shards])))
        for i, base in enumerate(self.document_starts[:-1]):
            self.document[self.starts[i] : self.starts[i + 1]] += base
        #: Words of the chunk, and of all chunks together.
        self.length = self._column("length", np.int32, np.float64)
        self.total_length = sum(s.entry.length for s in shards.documents)
        #: What the codes of a vector stand for, and how far they are from it: see ``quantize``.
        self.scale = self._column("scale", np.float32, np.float32)
        self.error = self._column("error", np.float32, np.float32)
        self.radius = self._column("radius", np.float32, np.float32)
        #: How long the longest vector can be, and how far the codes are from theirs at most.
        self.longest = float((self.radius + self.error).max(initial=0.0))
        self.widest = float(self.error.max(initial=0.0))

        #: Number of the chunk's text: equal texts have equal numbers.
        self.group = _groups(self._hashes())
        #: Chunks of each text (one element a text).
        self.sizes = np.bincount(self.group)
        self.repeats = len(self.sizes) < len(self)
        self._first = self._smallest(np.arange(len(self), dtype=np.int64)) if self.repeats else None

        self._held: dict[str, range] = {}
        self._asked = False
        # Nothing of it refers to the index, so that both go with the view.
        self._fast_scan = Lazy(partial(_open_fast_scan, self.shards, self.manifest.space.dimension))

        # The arrays of a query are larger than what glibc keeps for the next: it would return them to the
        # system and fetch them again page by page, a fifth of a query's time. It keeps as much as the
        # largest array, up to 32 MiB, that came and went.
        np.empty(_KEPT_BYTES, dtype=np.uint8)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _column(self, name: str, stored: Any, wanted: Any) -> Any:
        parts = [numbers(s.chunks.column(name), stored) for s in self.shards]
        return np.concatenate(parts).astype(wanted) if parts else np.zeros(0, dtype=wanted)

    def hashes(self) -> list[bytes]:
        """The SHA-256 of each row's text."""
        found: list[bytes] = self._hashes().to_pylist()
        return found

    def _hashes(self) -> pa.Array:
        return pa.chunked_array(
            [c for s in self.shards for c in s.chunks.column("sha256").chunks], type=pa.binary(32)
        ).combine_chunks()

    def _smallest(self, rows: Rows) -> Rows:
        """Of ascending ``rows``, those that are the smallest with their text."""
        first = np.full(len(self.sizes), -1, dtype=np.int64)
        first[self.group[rows[::-1]]] = rows[::-1]  # of equal indices the last assignment stands
        return np.sort(first[first >= 0])

    def passing(self, wanted: Filter) -> Mask | None:
        """Which rows pass; None: all of them."""
        if wanted.empty:
            return None
        mask: Mask = self.documents_passing(wanted)[self.document]
        if wanted.content_types is not None:
            kinds = [kind in wanted.content_types for kind in self.content_types.values]
            mask &= np.array(kinds, dtype=bool)[self.content_types.codes]
        return mask

    def documents_passing(self, wanted: Filter) -> Mask:
        """Which documents pass, whatever the content types of their chunks."""
        sources = self.manifest.sources
        allowed = [
            (wanted.sources is None or s in wanted.sources)
            and (wanted.types is None or (s in sources and sources[s].type in wanted.types))
            for s in self._sources.values
        ]
        keep: Mask = np.array(allowed, dtype=bool)[self._sources.codes]
        if wanted.tags is not None:
            keep &= self._tagged(wanted.tags)
        if wanted.collections is not None:
            keep &= self._collected(wanted.collections)
        if wanted.languages is not None:
            spoken = [language in wanted.languages for language in self._languages.values]
            keep &= np.array(spoken, dtype=bool)[self._languages.codes]
        if wanted.date_from is not None:
            keep &= self._moments >= as_micros(wanted.date_from)
        if wanted.date_to is not None:
            keep &= self._moments < as_micros(wanted.date_to)
        if wanted.domains is not None:
            hosts = [host in wanted.domains for host in self.domains.values]
            keep &= np.array(hosts, dtype=bool)[self.domains.codes]
        if wanted.paths is not None:
            prefixes = tuple(wanted.paths)
            paths = self.documents.column("path").to_pylist() if self.documents.num_rows else []
            keep &= np.array([path.startswith(prefixes) for path in paths], dtype=bool)
        return keep

    def _collected(self, names: frozenset[str]) -> Mask:
        """Which documents are in one of these collections: what a saved filter of the name passes, else what
        is of the source or has the tag. Raises ``E_QUERY`` for a name that is none of these.
        """
        saved, sources = self.manifest.collections, self.manifest.sources
        known = {*saved, *sources, *self.manifest.all_tags()}
        for name in sorted(names - known):
            told = f" There are {', '.join(sorted(saved))}." if saved else ""
            raise TabootError(
                "E_QUERY",
                f"No collection or source is called, and no document has the tag, {name[:80]!r}."
                + (or_near(name, known) or told),
                remedy="`taboot collections` lists the collections; tags and sources are collections too.",
                collections=sorted(saved),
            )
        others = names - saved.keys()
        named = [s in others for s in self._sources.values]
        mask: Mask = np.array(named, dtype=bool)[self._sources.codes] | self._tagged(others)
        for name in names & saved.keys():
            mask |= self.documents_passing(read_filter(**saved[name].filters()))
        return mask

    def _tagged(self, tags: frozenset[str]) -> Mask:
        """Which documents have one of these tags, or are of a source that has."""
        sources = self.manifest.sources
        have = [s in sources and not tags.isdisjoint(sources[s].tags) for s in self._sources.values]
        mask: Mask = np.array(have, dtype=bool)[self._sources.codes]
        own = self.manifest.tagged(tags)
        if own:
            mask = mask | np.isin(self._doc_ids, sorted(own))
        return mask

    # What filters ask of each document, made for the first query that has such a filter.

    @cached_property
    def _sources(self) -> _Encoded:
        return _encode(self.documents, "source_id")

    @cached_property
    def _doc_ids(self) -> np.ndarray[Any, Any]:
        return np.array(self.documents.column("doc_id").to_pylist(), dtype=str)

    @cached_property
    def _languages(self) -> _Encoded:
        return _encode(self.documents, "lang")

    @cached_property
    def _moments(self) -> Rows:
        return _moments(self.documents)

    @cached_property
    def domains(self) -> _Encoded:
        """The host of each document; empty where it has none."""
        if not self.documents.num_rows:
            return _Encoded([], np.zeros(0, dtype=np.int64))
        urls = self.documents.column("url").to_pylist()
        hosts, codes = np.unique([domain_of(url) for url in urls], return_inverse=True)
        return _Encoded([str(host) for host in hosts], codes.astype(np.int64))

    @cached_property
    def content_types(self) -> _Encoded:
        """What each row's chunk is."""
        parts = [c for s in self.shards for c in s.chunks.column("content_type").chunks]
        if not parts:
            return _Encoded([], np.zeros(0, dtype=np.int64))
        encoded = pa.chunked_array(parts).combine_chunks().dictionary_encode()
        return _Encoded(encoded.dictionary.to_pylist(), numbers(encoded.indices, np.int32).astype(np.int64))

    def candidates(self, mask: Mask | None) -> Rows | None:
        """The rows to rank: of each text the smallest row that passes. None: every row."""
        if mask is None:
            return self._first
        rows = np.flatnonzero(mask)
        return self._smallest(rows) if self.repeats else rows

    def others(self, row: int, mask: Mask | None) -> list[int]:
        """The other rows with the same text that pass."""
        group = self.group[row]
        if self.sizes[group] == 1:
            return []
        rows = np.flatnonzero(self.group == group)
        return [int(r) for r in rows if r != row and (mask is None or mask[r])]

    def locate(self, row: int) -> tuple[int, int]:
        """The shard that holds a row, and the row's number in it."""
        shard = bisect_right(self._first_rows, row) - 1
        return shard, row - self._first_rows[shard]

    @cached_property
    def _first_rows(self) -> list[int]:
        """The first row of each shard, and the end."""
        first: list[int] = self.starts.tolist()
        return first

    def chunk(self, row: int) -> dict[str, Any]:
        """The chunk's columns, and ``chunk_id``, with its document's as ``doc``."""
        shard, local = self.locate(row)
        doc = int(self.document[row])
        chunk: dict[str, Any] = {name: own[local].as_py() for name, own in self._shown[shard].items()}
        chunk["doc"] = self.document_fields(doc)
        chunk["chunk_id"] = f"{chunk['doc']['doc_id']}:{chunk['chunk_index']}"
        return chunk

    def text(self, row: int) -> str:
        """The text of a row's chunk."""
        shard, local = self.locate(row)
        text: str = self._shown[shard]["text"][local].as_py()
        return text

    def document_fields(self, row: int) -> dict[str, Any]:
        """What a hit shows of a document, which is a row of ``documents``."""
        fields = {name: own[row].as_py() for name, own in self._shown_documents.items()}
        return {**fields, "since": moment_of(fields["since"])}

    def chunk_id(self, row: int) -> str:
        """The id of a row's chunk."""
        shard, local = self.locate(row)
        number = self._shown[shard]["chunk_index"][local]
        return f"{self._shown_documents['doc_id'][int(self.document[row])]}:{number}"

    # A table makes an object of a column each time it is asked for one; these are made once.

    @cached_property
    def _shown(self) -> list[dict[str, pa.Array]]:
        """What a hit shows of a chunk, by shard."""
        # A publication of an earlier release lacks columns that were added since.
        return [
            {name: _whole(s.chunks, name) for name in (*MAPPED, "line") if name in s.chunks.column_names}
            for s in self.shards
        ]

    @cached_property
    def _shown_documents(self) -> dict[str, pa.Array]:
        """What a hit shows of a document."""
        names = ("doc_id", "source_id", "path", "url", "title", "lang", "since", "places")
        shown = {name: _whole(self.documents, name) for name in names}
        # Of a moment Arrow makes an object by way of pandas, which takes longer to load than to search.
        return {**shown, "since": shown["since"].cast(pa.int64())}

    def chunk_texts(self, first: int, last: int) -> list[ChunkText]:
        """The chunks of the rows ``[first, last)``."""
        found: list[ChunkText] = []
        for shard, start in zip(self.shards, self.starts.tolist(), strict=False):
            low, high = max(first - start, 0), min(last - start, len(shard.chunks))
            if low < high:
                table = shard.chunks.slice(low, high - low)
                columns = [table.column(name).to_pylist() for name in ChunkText._fields]
                found += map(ChunkText._make, zip(*columns, strict=True))
        return found

    def row_of(self, doc_id: str, chunk_index: int) -> int | None:
        """The row of a chunk, if there is one."""
        at = self.document_row(doc_id)
        if at is None:
            return None
        # A document's chunks stand together.
        first, behind = np.searchsorted(self.document, (at, at + 1)).tolist()
        for row in range(first, behind):
            shard, local = self.locate(row)
            if self.shards[shard].chunks.column("chunk_index")[local].as_py() == chunk_index:
                return row
        return None

    def row_at(self, doc_id: str, start: int) -> int | None:
        """The row of the chunk that holds code point ``start`` of a document; of several the last that begins
        before it. None if there is no such document."""
        held = self._rows_of(doc_id)
        if len(held) < 2:
            return held[0] if held else None
        return held[max(bisect_right(held, start, key=self._start_of) - 1, 0)]

    def _rows_of(self, doc_id: str) -> range:
        """The rows of a document's chunks, which stand together, in the order of their beginnings. Who cites
        a thousand lines asks for the same documents again."""
        known = self._held.get(doc_id)
        if known is None:
            at = self.document_row(doc_id)
            cuts = (0, 0) if at is None else np.searchsorted(self.document, (at, at + 1)).tolist()
            known = self._held[doc_id] = range(*cuts)
        return known

    def _start_of(self, row: int) -> int:
        shard, local = self.locate(row)
        start: int = self._shown[shard]["start"][local].as_py()
        return start

    def section_at(self, doc_id: str, start: int) -> str:
        """The section in which a code point of a document stands; empty if there is none."""
        row = self.row_at(doc_id, start)
        return "" if row is None else str(self.chunk(row)["section"])

    def document_row(self, doc_id: str) -> int | None:
        """The row of ``documents`` of a document, if it is one of the manifest's."""
        ids = self.documents.column("doc_id")
        at = bisect_left(range(len(ids)), doc_id, key=lambda i: ids[i].as_py())
        return at if at < len(ids) and ids[at].as_py() == doc_id else None

    def gather(self, rows: Rows, parts: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
        """Those of ascending ``rows``, of which there are some, out of what each shard has of its own: of its
        vectors or their codes, (len(rows), dimension).
        """
        gathered = np.empty((len(rows), self.manifest.space.dimension), dtype=parts[0].dtype)
        cuts = np.searchsorted(rows, self.starts)
        local = rows - np.repeat(self.starts[:-1], np.diff(cuts))
        for part, (start, end) in zip(parts, pairwise(cuts.tolist()), strict=True):
            if start < end:
                # Every row is there; the other mode would copy to a buffer first, to leave ``out`` whole.
                part.take(local[start:end], 0, gathered[start:end], "clip")
        return gathered

    def fast_scan(self) -> FastScan | None:
        """The scan of all rows' two-bit codes; None where its library is not installed, and the first time it
        is asked for: who searches once has the answer before the codes would be in place.
        """
        if not self._asked:
            self._asked = True
            return None
        return self._fast_scan()


def _open_fast_scan(shards: Sequence[SearchFile], dimension: int) -> FastScan | None:
    if find_spec("faiss") is None:
        return None
    from taboot_pipelines.retrieval.fast_scan import FastScan

    return FastScan([shard.two_bit for shard in shards], dimension)


def _concat(parts: Sequence[pa.Table]) -> pa.Table:
    return (
        pa.concat_tables(parts).combine_chunks()
        if parts
        else pa.schema([("doc_id", pa.string())]).empty_table()
    )


def _whole(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece, without a copy where it is one."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _encode(table: pa.Table, name: str) -> _Encoded:
    if not table.num_rows:
        return _Encoded([], np.zeros(0, dtype=np.int64))
    encoded = table.column(name).combine_chunks().dictionary_encode()
    return _Encoded(encoded.dictionary.to_pylist(), numbers(encoded.indices, np.int32).astype(np.int64))


def _groups(hashes: pa.Array) -> Rows:
    """A number for each SHA-256, the same for equal ones, from 0 on without gaps, in the order in which they
    come first.
    """
    words = np.frombuffer(
        hashes.buffers()[1] or b"", dtype=np.uint64, count=4 * len(hashes), offset=32 * hashes.offset
    ).reshape(-1, 4)
    # Most hashes come once, and sorting numbers takes a tenth of sorting their places.
    ordered = np.sort(words[:, 0])
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    first = np.arange(len(words), dtype=np.int64)
    if not len(repeated):
        return first
    near = np.searchsorted(repeated, words[:, 0]).clip(max=len(repeated) - 1)
    rows = np.flatnonzero(repeated[near] == words[:, 0])
    _, begins, of = np.unique(words[rows], axis=0, return_index=True, return_inverse=True)
    first[rows] = rows[begins[of.reshape(-1)]]
    numbered: Rows = np.cumsum(first == np.arange(len(words))) - 1
    return numbered[first]


def _moments(documents: pa.Table) -> Rows:
    """Of each document its own date, else when its bytes were first seen, in microseconds since the epoch."""
    if not documents.num_rows:
        return np.zeros(0, dtype=np.int64)
    import pyarrow.compute as pc

    moments: Rows = numbers(pc.coalesce(documents.column("date"), documents.column("since")), np.int64)
    return moments
