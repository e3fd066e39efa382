"""PDF (ISO 32000) as Markdown: each page with text is a section ``Page 7``, counted from 1.

The text is that of the pages' fonts, by pypdf. Text in pictures is not read: a scanned document is
``E_EMPTY``. Each code point of a page leads to the bytes of the page's content stream, which is compressed as
a rule; where that is not known to the page's object, else to the file.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taboot_pipelines.documents.forms import writing
from taboot_pipelines.documents.forms.writing import Formed, Given, Writer
from taboot_pipelines.documents.metadata import Facts, parse_date
from taboot_pipelines.errors import TabootError

#: Seconds of processor time, bytes of memory and pages that one file may take. A thousand full pages take
#: 7 seconds and 150 MiB.
MAX_SECONDS = 60
MAX_MEMORY = 1 << 30
MAX_PAGES = 5000
#: What programs write where nobody gave a title.
_NO_TITLES = ("untitled", "untitled document", "(anonymous)")
_OBJECT = re.compile(rb"[0-9][\x00\t\n\f\r ]+obj\b")
_READER = Path(__file__).with_name("pdf_pages.py")


class _Process:
    """The process that reads PDFs, one after the other: starting it takes longer than most files. It ends
    itself when it has grown, and is ended where a file takes too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        running, self._running = self._running, None
        if running is not None and self._owner == os.getpid():
            running.kill()
            running.communicate()

    def ask(self, data: bytes, limits: Mapping[str, int]) -> Mapping[str, Any]:
        """What it answers about a file; ``{"error": "limits"}`` where it ended over it."""
        with self._lock:
            running = self._running
            if running is None or running.poll() is not None or self._owner != os.getpid():
                self.close()
                running = self._start()
            assert running.stdin is not None and running.stdout is not None
            late = threading.Timer(10 * MAX_SECONDS, running.kill)
            late.daemon = True
            late.start()
            try:
                asked = json.dumps(limits).encode()
                running.stdin.write(len(asked).to_bytes(8) + asked + len(data).to_bytes(8))
                running.stdin.write(data)
                running.stdin.flush()
                size = int.from_bytes(running.stdout.read(8))
                answer = running.stdout.read(size)
            except OSError:
                size, answer = 0, b""
            finally:
                late.cancel()
            if size == 0 or len(answer) < size:
                self.close()
                return {"error": "limits"}
            found: Mapping[str, Any] = json.loads(answer)
            if found["last"]:
                self.close()
            return found

    def _start(self) -> subprocess.Popen[bytes]:
        self._running = subprocess.Popen(
            [sys.executable, "-P", str(_READER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._owner = os.getpid()
        return self._running


_PROCESS = _Process()


def render(data: bytes, given: Given) -> Formed:
    """The text of a PDF, page by page.

    Raises ``E_EMPTY`` where no page has text, ``E_UNREADABLE`` for a file that needs a password, ``E_BINARY``
    for a damaged one, and ``E_TOO_LARGE`` beyond the limits above.
    """
    found = _read(data, given)
    writer = Writer(given.max_chars)
    for number, (text, start, end) in enumerate(found["pages"], 1):
        lines = [line for line in map(writing.line, text.splitlines()) if line]
        if lines:
            writer.put(f"{'' if writer.length == 0 else chr(10)}## Page {number}\n\n")
            writer.block("\n".join(lines), start, end)
            writer.put("\n")
    if writer.length == 0:
        raise TabootError(
            "E_EMPTY",
            f"{given.path} has {len(found['pages'])} pages and no text: they are pictures.",
            path=given.path,
            remedy="Run it through character recognition, or exclude it in the sources file.",
        )
    facts = Facts(date=parse_date(found.get("creation_date")))
    facts.put("title", found.get("title"))
    title = facts.metadata.pop("title", "")
    facts.title = "" if title.lower() in _NO_TITLES else title
    facts.put("author", found.get("author"))
    return Formed(writer.text, writer.offsets(), facts)


def _read(data: bytes, given: Given) -> Mapping[str, Any]:
    """What the process that reads the file answers, if it does so in time."""
    if not _OBJECT.search(data):
        raise _error("damaged", given)
    limits = {"seconds": MAX_SECONDS, "bytes": MAX_MEMORY, "pages": MAX_PAGES, "chars": given.max_chars}
    answer = _PROCESS.ask(data, limits)
    error = answer.get("error")
    if error is None:
        return answer
    raise _error(error, given)


def _error(kind: str, given: Given) -> TabootError:
    path = given.path
    if kind == "locked":
        return TabootError(
            "E_UNREADABLE",
            f"{path} is encrypted, and opens with a password only.",
            path=path,
            remedy="Save it without a password, or exclude it in the sources file.",
        )
    if kind == "damaged":
        return TabootError(
            "E_BINARY",
            f"{path} is a PDF that is damaged, or only begins as one.",
            path=path,
            remedy="Save it anew, or exclude it in the sources file.",
        )
    beyond = {
        "pages": f"has more than {MAX_PAGES} pages",
        "chars": f"has more than {given.max_chars} characters",
    }.get(kind, f"takes more than {MAX_SECONDS} seconds or {MAX_MEMORY >> 20} MiB to read")
    return TabootError(
        "E_TOO_LARGE", f"{path} {beyond}.", path=path, remedy="Split it, or exclude it in the sources file."
    )
