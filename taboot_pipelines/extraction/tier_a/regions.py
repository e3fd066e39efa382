"""Which parts of a Markdown text are code or headings: fences, inline code, ATX and setext headings.

This finds what decides whether a word is a name; it is no Markdown parser. Fences may be indented, because
they stand in lists and tabs; code indented by four spaces is taken for text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

#: (start, end, ``code`` or ``heading``) in code points.
Region = tuple[int, int, str]

_RUN = re.compile(r"`+|~~~+")
_ATX = re.compile(r"\n {0,3}#{1,6}[ \t]")
_ATX_FIRST = re.compile(r" {0,3}#{1,6}[ \t]")
_SETEXT = re.compile(r"\n(?:=+|--+)[ \t]*(?=\n|\Z)")
#: What may stand on a line before a fence: blanks, quotes, list markers.
_LEAD = frozenset(" \t>*+-0123456789.)")
#: An inline span longer than this is a stray backtick.
_MAX_INLINE = 2000
_MAX_LEAD = 80


def regions(text: str, code: bool = False) -> list[Region]:
    """The code and heading regions of a Markdown text, in order and without overlap; with ``code``, the whole
    text is code (YAML, a conf). Linear in the text."""
    if code:
        return [(0, len(text), "code")] if text else []
    found, fences = _code(text)
    starts = [f[0] for f in fences]

    def fenced(at: int) -> bool:
        i = bisect_right(starts, at) - 1
        return i >= 0 and at < fences[i][1]

    headings: list[Region] = []
    begins = [m.start() + 1 for m in _ATX.finditer(text)]
    if _ATX_FIRST.match(text):
        begins.insert(0, 0)
    for begin in begins:
        if not fenced(begin):
            headings.append((begin, _line_end(text, begin), "heading"))
    for m in _SETEXT.finditer(text):
        begin = text.rfind("\n", 0, m.start()) + 1
        line = text[begin : m.start()].strip() if m.start() - begin < _MAX_INLINE else ""
        if line and line[0] not in "|-*+>#=" and not fenced(begin):
            headings.append((begin, m.start(), "heading"))
    # Inline code within a heading is part of it.
    headings.sort()
    spans = [(h[0], h[1]) for h in headings]
    inside = [h[0] for h in spans]
    for start, end, kind in found:
        i = bisect_right(inside, start) - 1
        if i < 0 or start >= spans[i][1]:
            headings.append((start, end, kind))
    return sorted(headings)


def fences(text: str) -> list[tuple[int, int]]:
    """(start, end) of what stands within each fence of a Markdown text, in order."""
    return [(start, end) for start, end, _ in _code(text)[1]]


class RegionIndex:
    """Looks up the kind of region at an offset."""

    def __init__(self, found: Sequence[tuple[int, int, str]]) -> None:
        self._found = found
        self._starts = [r[0] for r in found]

    def at(self, offset: int) -> str | None:
        i = bisect_right(self._starts, offset) - 1
        return self._found[i][2] if i >= 0 and offset < self._found[i][1] else None


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _leads(text: str, at: int) -> bool:
    """Whether only blanks and markers stand before ``at`` on its line."""
    i = at - 1
    while i >= 0 and text[i] != "\n":
        if text[i] not in _LEAD or at - i > _MAX_LEAD:
            return False
        i -= 1
    return True


def _code(text: str) -> tuple[list[Region], list[Region]]:
    """All code regions, and the fenced ones among them."""
    runs = [(m.start(), m.end()) for m in _RUN.finditer(text)]
    following: list[int] = [-1] * len(runs)
    last: dict[tuple[str, int], int] = {}
    for i in range(len(runs) - 1, -1, -1):
        key = (text[runs[i][0]], runs[i][1] - runs[i][0])
        following[i] = last.get(key, -1)
        last[key] = i
    found: list[Region] = []
    fences: list[Region] = []
    i = 0
    while i < len(runs):
        start, end = runs[i]
        if (
            end - start >= 3
            and _leads(text, start)
            and "`" not in text[end : min(_line_end(text, end), end + _MAX_INLINE)]
        ):
            body = min(_line_end(text, end) + 1, len(text))
            close = i + 1
            while close < len(runs):
                s, e = runs[close]
                if (
                    text[s] == text[start]
                    and e - s >= end - start
                    and s >= body
                    and _leads(text, s)
                    and not text[e : min(_line_end(text, e), e + _MAX_LEAD)].strip()
                ):
                    break
                close += 1
            stop = runs[close][0] if close < len(runs) else len(text)
            if body < stop:
                found.append((body, stop, "code"))
                fences.append((body, stop, "code"))
            i = close + 1
            continue
        j = following[i]
        if (
            j >= 0
            and text[start] == "`"
            and runs[j][0] - end <= _MAX_INLINE
            and "\n\n" not in text[end : runs[j][0]]
        ):
            found.append((end, runs[j][0], "code"))
            i = j + 1
        else:
            i += 1
    return found, fences
