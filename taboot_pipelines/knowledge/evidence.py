"""Where a statement stands: the bytes and the line of a span of text, and whether a name is written there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.documents.mime import has_form, is_rendered
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.offsets import OffsetMap


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A span in code points of the text, the bytes of the blob that hold it, and its line there (from 1)."""

    span_start: int
    span_end: int
    byte_start: int
    byte_end: int
    line: int


class QuotedText:
    """A text that statements quote, with what leads from its code points to the bytes of its blob."""

    def __init__(
        self,
        text: str,
        offsets: OffsetMap,
        blob_sha256: str,
        rendered_from: bytes | None = None,
        *,
        lines_of_text: bool = False,
    ) -> None:
        """``rendered_from``: the blob's bytes where the text is not their decoding but was rendered from
        them. Lines are then the blob's (HTML), or with ``lines_of_text`` the text's all the same: those of
        JSON, MIME or a PDF are none that people know."""
        self.text = text
        self.blob_sha256 = blob_sha256
        self._offsets = offsets
        self._blob = rendered_from
        self._lines_of_text = lines_of_text or rendered_from is None
        if rendered_from is None or lines_of_text:
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        else:
            points = np.frombuffer(rendered_from, dtype="u1")
        self._newlines: npt.NDArray[np.int64] = np.flatnonzero(points == ord("\n"))

    def place(self, start: int, end: int) -> SourceSpan:
        """The place of the span ``[start, end)``."""
        low, high = self._offsets.to_bytes(start, end)
        line = int(self._newlines.searchsorted(start if self._lines_of_text else low)) + 1
        return SourceSpan(start, end, low, high, line)

    def places(self, starts: Sequence[int], ends: Sequence[int]) -> list[SourceSpan]:
        """The places of many spans, given as two columns of equal length."""
        first, last = np.array(starts, np.int64), np.array(ends, np.int64)
        lows, highs = self._offsets.to_bytes_many(first, last)
        lines = np.searchsorted(self._newlines, first if self._lines_of_text else lows) + 1
        columns = (starts, ends, lows.tolist(), highs.tolist(), lines.tolist())
        return [SourceSpan(*values) for values in zip(*columns, strict=True)]

    def holds(self, name: str, place: SourceSpan) -> bool:
        """Whether the bytes of a place hold a name that its text holds; in HTML, markup may stand between the
        letters.
        """
        return self._blob is None or name.encode() in self._blob[place.byte_start : place.byte_end]

    def basis(self, claimed: Basis, name: str, place: SourceSpan) -> Basis:
        """The basis of an edge's end: ``bytes`` becomes ``normalized`` where the blob does not hold the name
        as written.
        """
        return Basis.NORMALIZED if claimed == Basis.BYTES and not self.holds(name, place) else claimed


def quoted_document(
    text: str, offsets: bytes, blob_sha256: str, mime: str, read_blob: Callable[[str], bytes]
) -> QuotedText:
    """A document's text as something to quote; only a rendered document's blob is read.

    ``offsets``: as ``OffsetMap.dumps`` gives them. Raises what ``read_blob`` raises.
    """
    return QuotedText(
        text,
        OffsetMap.loads(offsets),
        blob_sha256,
        read_blob(blob_sha256) if is_rendered(mime) else None,
        lines_of_text=has_form(mime),
    )


# --- On which line of its source file a chunk or a link starts, where the document is the file's text


def covers_file(offsets: OffsetMap, length: int) -> bool:
    """Whether a document of ``length`` code points has the lines of its file: all of it mapped, nothing left
    out but what a byte order mark or a line break may lose.
    """
    if length == 0 or len(offsets) == 0 or not offsets.exact:
        return False
    gaps = offsets.byte_start[1:] - offsets.byte_end[:-1]
    whole = (
        offsets.doc_start[0] == 0
        and offsets.doc_end[-1] == length
        and bool((offsets.doc_start[1:] == offsets.doc_end[:-1]).all())
    )
    # At the front a byte order mark (4 bytes), between segments the \r of a line break (2 bytes in UTF-16).
    return bool(whole and offsets.byte_start[0] <= 4 and ((gaps >= 0) & (gaps <= 2)).all())


def chunk_lines(documents: pa.Table, chunks: pa.Table, owners: npt.NDArray[np.int32]) -> pa.Array:
    """The line (from 1) of the source file on which each chunk, or what else has a ``start``, begins; null
    where the document does not cover its file (see :func:`covers_file`).

    ``owners``: of each chunk the row of its document. Chunks of a document stand together.
    """
    texts = documents.column("text")
    starts = chunks.column("start").to_pylist()
    lines: list[int | None] = [None] * len(chunks)
    current, text, faithful, seen, line = -1, "", False, 0, 1
    for row, owner in enumerate(owners.tolist()):
        if owner != current:
            current, text, seen, line = owner, texts[owner].as_py(), 0, 1
            faithful = covers_file(OffsetMap.loads(documents.column("offsets")[owner].as_py()), len(text))
        if faithful:
            start = starts[row]
            # Chunks may overlap, so the next one may start before the last did.
            line += text.count("\n", seen, start) if start >= seen else -text.count("\n", start, seen)
            seen = start
            lines[row] = line
    return pa.array(lines, type=pa.int32())
