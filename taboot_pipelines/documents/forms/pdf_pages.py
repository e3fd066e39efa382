"""The process that reads one PDF: bytes on its standard input, JSON on its standard output.

It is started by ``pdf``, as a script, and imports nothing of this product: what a stranger's file can make a
reader do (time, memory, endless recursion) ends with it. Its argument is a JSON object: ``seconds`` of
processor time and ``bytes`` of memory that it may use, ``pages`` and ``chars`` that it may find.

The answer is ``{"pages": [[text, start, end], …], "title", "author", "created"}``, where bytes
``[start, end)`` of the file hold the page's content; or ``{"error": kind}`` with one of ``locked``,
``damaged``, ``pages``, ``chars``, ``memory``.
"""

from __future__ import annotations

import bisect
import json
import logging
import re
import sys
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

_HEAD = re.compile(rb"[\x00\t\n\f\r ]*([0-9]{1,10})[\x00\t\n\f\r ]+[0-9]{1,10}[\x00\t\n\f\r ]+obj")
_SURROGATES = re.compile("[\ud800-\udfff]")


def main() -> None:
    limits = json.loads(sys.argv[1])
    _bound(limits["seconds"], limits["bytes"])
    logging.disable(logging.CRITICAL)
    try:
        answer = _read(sys.stdin.buffer.read(), limits["pages"], limits["chars"])
    except MemoryError:
        answer = {"error": "memory"}
    sys.stdout.write(json.dumps(answer))


def _bound(seconds: int, memory: int) -> None:
    """Let the system end this process when it takes more; where it cannot, whoever started it does."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))


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
