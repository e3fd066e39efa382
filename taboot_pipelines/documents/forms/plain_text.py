"""Text that is no Markdown, such as a PDF's, in a Markdown document."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What would make a line of plain text a heading, a fence, a front matter or the underline of a heading.
_STRUCTURE = re.compile(r"#{1,6}(?=[ \t]|$)|`{3}|~{3}|[-=]+[ \t]*$")
_TICKS = re.compile(r"`+")


def line(text: str) -> str:
    """One line, so written that Markdown sees no structure in it."""
    text = text.strip()
    return "\\" + text if _STRUCTURE.match(text) else text


def fence(texts: Iterable[str]) -> str:
    """The fence for code of these lines: longer than any row of backticks in it."""
    longest = max((len(ticks) for text in texts for ticks in _TICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)
