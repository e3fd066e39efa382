"""The map that leads from code points of a document to byte ranges of its raw blob (rule
``offsets-carried``).

A map is a list of segments in document order. A *linear* segment has a constant number of bytes per code
point, so any span in it maps exactly; a *block* segment (an extracted HTML block) maps every span in it to
the whole byte range. Code points of the document that no segment covers (separators that the parser put in)
map to the nearest segment.

Beside it stand the places of passages in the document's URL, such as the second of a video at which words are
said.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from taboot_pipelines.errors import TabootError

Array = npt.NDArray[np.int64]

_WESTERN = frozenset(("latin-1", "iso-8859-1", "windows-1252", "cp1252"))
_ASCII_SUPERSETS = _WESTERN | {"utf-8", "ascii", "us-ascii"}
#: The field of a document's metadata that holds them.
PLACES = "places"
_QUERY = re.compile(r"[A-Za-z0-9_.~-]{1,40}=[A-Za-z0-9_.~-]{0,40}\{\}[A-Za-z0-9_.~-]{0,40}")


@dataclass(frozen=True)
class OffsetMap:
    """Columns of equal length n: ``doc_start``/``doc_end`` in code points, ``byte_start``/``byte_end`` in
    bytes, ``width`` bytes per code point (0: a block). ``doc_start`` ascends and segments do not overlap."""

    doc_start: Array
    doc_end: Array
    byte_start: Array
    byte_end: Array
    width: Array

    @classmethod
    def of(cls, segments: Iterable[tuple[int, int, int, int, int]]) -> OffsetMap:
        """From rows of (doc_start, doc_end, byte_start, byte_end, width)."""
        rows = np.array(sorted(segments), dtype=np.int64).reshape(-1, 5)
        return cls(*(np.ascontiguousarray(rows[:, i]) for i in range(5)))

    @classmethod
    def of_text(cls, text: str, charset: str, bom: int = 0) -> OffsetMap:
        """The exact map of a text whose blob is ``bom`` bytes followed by ``text.encode(charset)``.

        Raises ``E_ENCODING`` where a character has bytes only together with the next one, as a letter and its
        mark have in JIS X 0213.
        """
        n = len(text)
        if n == 0:
            return cls.of([])
        codec = charset.lower().replace("_", "-")
        if text.isascii() and codec in _ASCII_SUPERSETS:
            return cls.of([(0, n, bom, bom + n, 1)])
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        if codec in {"utf-8", "utf8", "utf-8-sig"}:
            widths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
        elif codec.startswith(("utf-16", "utf16")):
            widths = 2 + 2 * (points > 0xFFFF).astype(np.int64)
        elif codec.startswith(("utf-32", "utf32")):
            widths = np.full(n, 4, dtype=np.int64)
        else:
            try:
                widths = np.array([len(c.encode(charset)) for c in text], dtype=np.int64)
            except UnicodeEncodeError:
                raise TabootError(
                    "E_ENCODING", f"The characters of {charset} have no bytes of their own.", charset=charset
                ) from None
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(widths)) + 1, [n]))
        ends = np.concatenate(([0], np.cumsum(widths))) + bom
        starts, stops = cuts[:-1], cuts[1:]
        return cls(starts, stops, ends[starts], ends[stops], widths[starts])

    def __len__(self) -> int:
        return len(self.doc_start)

    @property
    def exact(self) -> bool:
        """True if every segment is linear."""
        return bool((self.width > 0).all())

    def to_bytes(self, start: int, end: int) -> tuple[int, int]:
        """The byte range that holds the document's ``[start, end)``; empty for an empty span where it is
        exact."""
        if len(self) == 0:
            return 0, 0
        # By single numbers: arrays of one cost fifty times as much, for each claim of a file.
        last = len(self) - 1
        i = min(int(self.doc_end.searchsorted(start, "right")), last)
        j = max(i, int(self.doc_start.searchsorted(max(end - 1, start), "right")) - 1)
        low, high = int(self.byte_start[i]), int(self.byte_end[j])
        if width := int(self.width[i]):
            low += max(start - int(self.doc_start[i]), 0) * width
        if width := int(self.width[j]):
            reach = min(end, int(self.doc_end[j])) - int(self.doc_start[j])
            high = int(self.byte_start[j]) + max(reach, 0) * width
        low = min(low, int(self.byte_end[i]))
        return low, max(low, high)

    def to_bytes_many(self, start: Array, end: Array) -> tuple[Array, Array]:
        """Vectorized :meth:`to_bytes` for arrays of spans."""
        if len(self) == 0:
            return np.zeros_like(start), np.zeros_like(end)
        last = len(self) - 1
        # The segment that holds the first code point, or the next one when it falls between two.
        i = np.searchsorted(self.doc_end, start, side="right").clip(0, last)
        j = (np.searchsorted(self.doc_start, np.maximum(end - 1, start), side="right") - 1).clip(0, last)
        j = np.maximum(i, j)
        lo = np.where(
            self.width[i] > 0,
            self.byte_start[i] + (np.maximum(start, self.doc_start[i]) - self.doc_start[i]) * self.width[i],
            self.byte_start[i],
        )
        hi = np.where(
            self.width[j] > 0,
            self.byte_start[j]
            + (np.minimum(end, self.doc_end[j]) - self.doc_start[j]).clip(0) * self.width[j],
            self.byte_end[j],
        )
        lo = np.minimum(lo, self.byte_end[i])
        return lo.astype(np.int64), np.maximum(lo, hi).astype(np.int64)

    def to_document(self, byte_start: int, byte_end: int) -> tuple[int, int]:
        """The code points that bytes ``[byte_start, byte_end)`` became, from the first to the last of them;
        none for bytes that became no text."""
        held = np.flatnonzero((self.byte_start < byte_end) & (self.byte_end > byte_start))
        if not len(held):
            return 0, 0
        starts, ends = self.doc_start[held].copy(), self.doc_end[held].copy()
        width = self.width[held]
        linear = width > 0
        lead = np.maximum(byte_start - self.byte_start[held], 0)
        rest = np.maximum(self.byte_end[held] - byte_end, 0)
        starts[linear] += lead[linear] // width[linear]
        ends[linear] -= rest[linear] // width[linear]
        return int(starts.min()), int(ends.max())

    def dumps(self) -> bytes:
        """Little-endian int64 columns, as stored in the documents table."""
        return (
            np.stack([self.doc_start, self.doc_end, self.byte_start, self.byte_end, self.width])
            .astype("<i8")
            .tobytes()
        )

    @classmethod
    def loads(cls, data: bytes) -> OffsetMap:
        if len(data) % 40:
            raise TabootError("E_TABLE", "An offset map has the wrong length.", bytes=len(data))
        rows = np.frombuffer(data, dtype="<i8").reshape(5, -1).astype(np.int64)
        return cls(*(rows[i] for i in range(5)))


@dataclass(frozen=True, slots=True)
class Places:
    """From ``starts[i]`` (code points, ascending) to the next one, a document is where ``query`` with
    ``values[i]`` in place of its ``{}`` leads to, as a part of the URL's query. Before ``starts[0]`` it has
    no place of its own.
    """

    query: str
    starts: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def of(cls, query: str, places: Iterable[tuple[int, int]]) -> Places:
        """From (start, value) in order, of which those that repeat the value before are left out."""
        kept: list[tuple[int, int]] = []
        for start, value in places:
            if not kept or kept[-1][1] != value:
                kept.append((start, value))
        return cls(query, tuple(s for s, _ in kept), tuple(v for _, v in kept))

    def stored(self) -> dict[str, Any]:
        """For the metadata: the first start and value, then what each is more than the one before."""
        columns = ([b - a for a, b in pairwise((0, *column))] for column in (self.starts, self.values))
        return {"query": self.query, **dict(zip(("starts", "values"), columns, strict=True))}

    def nearest(self, start: int, marks: Iterable[tuple[int, str]]) -> int:
        """Where in a passage that begins at ``start`` to lead: to the place that has the most of the words
        ``marks`` (position, word), together with the next place, since words that belong together may be
        parted; to ``start`` where no place has as many as what lies before all of them.
        """
        found: dict[int, set[str]] = {}
        for position, word in marks:
            found.setdefault(bisect_right(self.starts, position) - 1, set()).add(word)
        before = len(found.pop(-1, ()))
        if not found:
            return start
        # Of two places that join the same words, the one with more of them itself, else the first.
        best = max(found, key=lambda n: (len(found[n] | found.get(n + 1, set())), len(found[n]), -n))
        return (
            max(start, self.starts[best])
            if len(found[best] | found.get(best + 1, set())) >= before
            else start
        )

    def url(self, url: str, position: int) -> str:
        """The URL of the passage that begins at ``position``; only URLs of the web have places."""
        at = bisect_right(self.starts, position) - 1
        if at < 0 or not url.startswith(("https://", "http://")):
            return url
        base, mark, fragment = url.partition("#")
        joint = "&" if "?" in base else "?"
        return f"{base}{joint}{self.query.replace('{}', str(self.values[at]))}{mark}{fragment}"

    def leads_into(self, asked: str, url: str) -> bool:
        """Whether ``asked`` is the URL of a passage of the document at ``url``, or between two of them."""
        base, mark, fragment = url.partition("#")
        joint = "&" if "?" in base else "?"
        before, _, after = self.query.partition("{}")
        start, end = f"{base}{joint}{before}", f"{after}{mark}{fragment}"
        value = asked[len(start) : len(asked) - len(end)]
        return asked == f"{start}{value}{end}" and value.isascii() and value.isdigit()


def stored_places(metadata: str) -> str | None:
    """The places in a document's metadata (JSON), as JSON; None where it has none."""
    if f'"{PLACES}"' not in metadata:
        return None
    found = orjson.loads(metadata).get(PLACES)
    return None if found is None else orjson.dumps(found).decode()


def read_places(stored: str) -> Places | None:
    """The places that :func:`stored_places` gave; None for what is none."""
    found = orjson.loads(stored)
    if not isinstance(found, Mapping) or not _QUERY.fullmatch(str(found.get("query"))):
        return None
    starts, values = (tuple(accumulate(found.get(name, ()))) for name in ("starts", "values"))
    return Places(str(found["query"]), starts, values) if len(starts) == len(values) else None
