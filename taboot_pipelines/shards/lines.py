"""On which line of its source file a chunk or a link starts, where the document is the file's text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taboot_pipelines.model.offsets import OffsetMap


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
