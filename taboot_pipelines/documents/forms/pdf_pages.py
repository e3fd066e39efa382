"""The process that reads PDFs: files on its standard input, JSON on its standard output.

It is started by ``pdf``, as a script, and imports nothing of this product: what a stranger's file can make a
reader do (time, memory, endless recursion) ends with it. Each file comes with a JSON object: ``seconds`` of
processor time and ``bytes`` of memory that it may use, ``pages`` and ``chars`` that it may find. Each of the
two, and the answer, stands behind its length in 8 bytes, the highest first. The process ends with its input,
and after a file that left it large, whose answer says so by ``"last": true``.

The answer is ``{"pages": [[text, start, end], …], "title", "author", "created"}``, where bytes
``[start, end)`` of the file hold the page's content; or ``{"error": kind}`` with one of ``locked``,
``damaged``, ``pages``, ``chars``, ``memory``.
"""

from __future__ import annotations

import bisect
import json
import logging
import math
import os
import re
import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

_HEAD = re.compile(rb"[\x00\t\n\f\r ]*([0-9]{1,10})[\x00\t\n\f\r ]+[0-9]{1,10}[\x00\t\n\f\r ]+obj")
#: A process that had more is not asked again.
_MAX_KEPT_BYTES = 200_000_000
_SURROGATES = re.compile("[\ud800-\udfff]")


def main() -> None:
    logging.disable(logging.CRITICAL)
    while (asked := _piece()) is not None:
        limits = json.loads(asked)
        data = _piece()
        if data is None:
            return
        _bound(limits["seconds"], limits["bytes"])
        try:
            answer = _read(data, limits["pages"], limits["chars"])
        except MemoryError:
            answer = {"error": "memory"}
        answer["last"] = last = _is_large()
        told = json.dumps(answer).encode()
        sys.stdout.buffer.write(len(told).to_bytes(8, "big") + told)
        sys.stdout.buffer.flush()
        if last:
            return


def _piece() -> bytes | None:
    head = sys.stdin.buffer.read(8)
    return sys.stdin.buffer.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def _bound(seconds: int, memory: int) -> None:
    """Let the system end this process when it takes more; where it cannot, whoever started it does."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = math.ceil(used.ru_utime + used.ru_stime)
    for kind, limit in ((resource.RLIMIT_CPU, spent + seconds), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):
            # The lower of its two limits, which the next file may raise again.
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))


def _is_large() -> bool:
    """Whether the files have left so much that a new process is the better one; where that cannot be told, it
    is. (The most that was ever held says nothing: a process begins with what its parent held.)"""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") > _MAX_KEPT_BYTES
    except (OSError, ValueError, IndexError, AttributeError):
        return True


def _read(data: bytes, max_pages: int, max_chars: int) -> dict[str, Any]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError

    try:
        reader = PdfReader(BytesIO(data))
        if len(reader.pages) > max_pages:
            return {"error": "pages"}
        places = _Places(reader, data)
        pages: list[tuple[str, int, int]] = []
        left, failed = max_chars, 0
        for page in reader.pages:
            try:
                text = _SURROGATES.sub("\ufffd", page.extract_text())
            except (MemoryError, DependencyError, FileNotDecryptedError, WrongPasswordError):
                raise
            except Exception:  # noqa: BLE001  a damaged page does not take the others with it
                text, failed = "", failed + 1
            left -= len(text)
            if left < 0:
                return {"error": "chars"}
            pages.append((text, *places.of(page)))
    except (DependencyError, FileNotDecryptedError, WrongPasswordError):
        return {"error": "locked"}
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  whatever the file provokes
        return {"error": "damaged"}
    if failed and not any(text.strip() for text, _, _ in pages):
        return {"error": "damaged"}
    return {"pages": pages, **_facts(reader)}


def _facts(reader: PdfReader) -> dict[str, str]:
    found = {}
    for name in ("title", "author", "creation_date"):
        with suppress(Exception):  # a document without it, or with something else there
            value = getattr(reader.metadata, name)
            if value:
                text = value.isoformat() if name == "creation_date" else str(value)
                found[name] = _SURROGATES.sub("\ufffd", text[:4000])
    return found


class _Places:
    """Where pages stand in the file."""

    def __init__(self, reader: PdfReader, data: bytes) -> None:
        self._data = data
        self._at = {
            (number, generation): offset
            for generation, table in reader.xref.items()
            for number, offset in table.items()
        }
        self._within = {number: stream for number, (stream, _) in reader.xref_objStm.items()}
        self._starts = sorted({*self._at.values(), len(data)})

    def of(self, page: PageObject) -> tuple[int, int]:
        """The bytes of the page's content stream, the longest of several; else of the page's object; else of
        the file."""
        with suppress(Exception):  # a place that cannot be told
            content = [self._object(reference) for reference in _contents(page)]
            if spans := [span for span in content if span is not None]:
                return max(spans, key=lambda span: span[1] - span[0])
            if page.indirect_reference is not None and (span := self._object(page.indirect_reference)):
                return span
        return 0, len(self._data)

    def _object(self, reference: Any) -> tuple[int, int] | None:
        """The bytes of an object, or of the stream of objects that holds it; None where the table of the
        file does not lead to it."""
        number, generation = reference.idnum, reference.generation
        start = self._at.get((number, generation))
        if start is None or number in self._within:
            number = self._within.get(number, -1)
            start = self._at.get((number, 0))
        if start is None:
            return None
        head = _HEAD.match(self._data, start)
        if head is None or int(head[1]) != number:
            return None
        start = head.start(1)
        behind = self._starts[bisect.bisect_right(self._starts, start)]
        end = self._data.rfind(b"endobj", head.end(), behind)
        return start, behind if end < 0 else end + len(b"endobj")


def _contents(page: PageObject) -> list[Any]:
    from pypdf.generic import ArrayObject, IndirectObject

    raw = page.raw_get("/Contents") if "/Contents" in page else None
    value = raw.get_object() if isinstance(raw, IndirectObject) else raw
    if isinstance(value, ArrayObject):
        return [item for item in value if isinstance(item, IndirectObject)]
    return [raw] if isinstance(raw, IndirectObject) else []


if __name__ == "__main__":
    main()
