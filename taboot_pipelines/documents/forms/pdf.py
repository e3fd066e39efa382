"""PDF (ISO 32000) as Markdown: each page with text is a section ``Page 7``, counted from 1.

The text is that of the pages' fonts, by pypdf. Text in pictures is not read: a scanned document is
``E_EMPTY``. Each code point of a page leads to the bytes of the page's content stream, which is compressed as
a rule; where that is not known to the page's object, else to the file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taboot_pipelines.documents.forms import plain_text
from taboot_pipelines.documents.forms.form import Formed, Given
from taboot_pipelines.documents.forms.writing import Writer
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


def render(data: bytes, given: Given) -> Formed:
    """The text of a PDF, page by page.

    Raises ``E_EMPTY`` where no page has text, ``E_UNREADABLE`` for a file that needs a password, ``E_BINARY``
    for a damaged one, and ``E_TOO_LARGE`` beyond the limits above.
    """
    found = _read(data, given)
    writer = Writer(given.max_chars)
    for number, (text, start, end) in enumerate(found["pages"], 1):
        lines = [line for line in map(plain_text.line, text.splitlines()) if line]
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
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_READER), json.dumps(limits)],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10 * MAX_SECONDS,
            check=False,
        )
        answer: Mapping[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": "limits"}
    except subprocess.TimeoutExpired:
        answer = {"error": "limits"}
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
