"""Texts in pieces: what is marked in them, the passage of a hit that is shown, the lines of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Ranges = Sequence[tuple[int, int]]

#: Characters and lines of a hit that are shown, and by how many characters it may be longer before it is cut.
EXCERPT = 360
_MAX_EXCERPT_LINES = 7
_TOLERATED = 80
#: Lines, and characters, of a document that one page shows, and lines before the first mark.
MAX_LINES = 1500
_MAX_CHARACTERS = 400_000
_BEFORE = 200
#: Characters of one line: the rest of a longer one is left out and counted.
_MAX_LINE = 4000
_FRONT = re.compile(r"---\n.*?\n---\n\s*", re.DOTALL)
_LAST_HEADING = re.compile(r"\n#{1,6} [^\n]*\s*\Z")
_HEADING = re.compile(r"#{1,6} [^\n]*\n\s*")
#: A block of code, whose lines stay; or a line break within running text: what follows is no list, table,
#: heading or quote.
_WRAP = re.compile(
    r"(?P<code>```.*?(?:```|\Z))|(?<=[^\s|#>`])\n(?=[^\W\d_]|[\"'(`*])(?!`{3}|[-*+] )", re.DOTALL
)
_CITED = re.compile(r"\[([0-9]{1,3})\]")


class Piece(NamedTuple):
    """A piece of a text. ``number``: of the citation that it refers to; 0 where it refers to none."""

    text: str
    marked: bool = False
    number: int = 0


@dataclass(frozen=True)
class Line:
    """A line of a document. ``number``: from 1; ``cited``: it has a mark; ``first``: it has the first one;
    ``left_out``: characters of it that are not shown.
    """

    number: int
    pieces: tuple[Piece, ...]
    cited: bool
    first: bool
    left_out: int


@dataclass(frozen=True)
class Window:
    """Lines of a document that stand together, of ``total``. ``before`` and ``after``: the first line of the
    pages before and after these; None where there is none.
    """

    lines: tuple[Line, ...]
    total: int
    before: int | None
    after: int | None


def pieces(text: str, marks: Ranges, offset: int = 0) -> tuple[Piece, ...]:
    """``text`` in pieces, those in ``marks`` marked. ``offset``: where it begins in what the marks count."""
    found, at = [], 0
    for start, end in _joined(marks):
        a, b = max(start - offset, at), min(end - offset, len(text))
        if a >= b:
            continue
        if at < a:
            found.append(Piece(text[at:a]))
        found.append(Piece(text[a:b], True))
        at = b
    if at < len(text):
        found.append(Piece(text[at:]))
    return tuple(found)


def _joined(marks: Ranges) -> Iterable[tuple[int, int]]:
    """The marks in order, those that touch made one."""
    last: tuple[int, int] | None = None
    for start, end in sorted(marks):
        if last is None or start > last[1]:
            if last is not None:
                yield last
            last = start, end
        else:
            last = last[0], max(last[1], end)
    if last is not None:
        yield last


def excerpt(text: str, highlights: Ranges, length: int = EXCERPT, prose: bool = False) -> tuple[Piece, ...]:
    """The part of a hit that shows best why it is one: the lines with most of the query's words, each counted
    once. The heading in front stands above the hit and is left out; front matter is shown only where nothing
    else has any of the words. ``prose``: lines that were broken for their length are joined.
    """
    front = heading = 0
    if (match := _FRONT.match(text)) and match.end() < len(text):
        front = heading = match.end()
    if (match := _HEADING.match(text, front)) and match.end() < len(text):
        heading = match.end()
    marks = [h for h in highlights if h[0] >= heading]
    only_in_front = bool(highlights) and all(h[0] < front for h in highlights)
    body = 0 if only_in_front else heading
    if only_in_front:
        marks = list(highlights)
    elif prose:
        # As long as before, so that the marks stand where they stood.
        text = text[:body] + _WRAP.sub(lambda m: m["code"] or " ", text[body:])
    if len(text) - body <= length + _TOLERATED and text.count("\n", body) < _MAX_EXCERPT_LINES:
        return pieces(text[body:].rstrip(), marks, body)
    start = max(
        (_line_start(text, mark[0], body, length) for mark in marks),
        key=lambda at: (_words(text, marks, at, _end(text, at, length)), -at),
        default=body,
    )
    end = _end(text, start, length)
    if end < len(text) and text[end] != "\n":
        blank = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
        end = blank if blank > start + length * 2 // 3 else end
    # A heading at the end speaks of what is cut off.
    own = _LAST_HEADING.sub("", text[start:end]) if end < len(text) else text[start:end]
    shown = list(pieces(own.rstrip(), [m for m in marks if m[1] <= end], start))
    if start > body:
        shown.insert(0, Piece("… "))
    if end < len(text):
        shown.append(Piece(" …"))
    return tuple(shown)


def _line_start(text: str, at: int, least: int, length: int) -> int:
    """Where the line of ``at`` begins, or where it is long, the word a little before."""
    line = text.rfind("\n", least, at) + 1 or least
    if at - line <= length // 3:
        return line
    blank = text.rfind(" ", line, at - length // 4)
    return blank + 1 if blank > 0 else at


def _end(text: str, start: int, length: int) -> int:
    """Where an excerpt that begins at ``start`` ends: after so many characters or lines."""
    end = min(len(text), start + length)
    at = start
    for _ in range(_MAX_EXCERPT_LINES):
        at = text.find("\n", at, end) + 1
        if not at:
            return end
    return at - 1


def _words(text: str, marks: Ranges, start: int, end: int) -> int:
    return len({text[a:b].casefold() for a, b in marks if start <= a and b <= end})


def cited(text: str) -> tuple[Piece, ...]:
    """The text of an answer, its ``[1]`` apart."""
    found, at = [], 0
    for match in _CITED.finditer(text):
        if at < match.start():
            found.append(Piece(text[at : match.start()]))
        found.append(Piece(match[0], number=int(match[1])))
        at = match.end()
    return (*found, Piece(text[at:])) if at < len(text) else tuple(found)


def window(text: str, marks: Ranges, first: int | None = None, most: int = MAX_LINES) -> Window:
    """The lines of a document from line ``first`` on, by default from before the first mark."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    if starts[-1] == len(text) and len(starts) > 1:
        starts.pop()  # What ends with a line break has no line after it.
    joined = list(_joined(marks))
    begin = 1
    if first is not None:
        begin = min(max(1, first), len(starts))
    elif joined and (line := _line_of(starts, joined[0][0])) > most - _BEFORE:
        begin = line - _BEFORE
    lines: list[Line] = []
    spent = 0
    for number in range(begin, min(len(starts), begin + most - 1) + 1):
        start = starts[number - 1]
        end = starts[number] - 1 if number < len(starts) else len(text.rstrip("\n"))
        made = _line(text, number, start, max(start, end), joined)
        spent += sum(len(p.text) for p in made.pieces)
        if lines and spent > _MAX_CHARACTERS:
            break
        lines.append(made)
    last = begin + len(lines) - 1
    return Window(
        lines=tuple(lines),
        total=len(starts),
        before=max(1, begin - most) if begin > 1 else None,
        after=last + 1 if last < len(starts) else None,
    )


def _line_of(starts: Sequence[int], at: int) -> int:
    from bisect import bisect_right

    return bisect_right(starts, at)


def _line(text: str, number: int, start: int, end: int, marks: Ranges) -> Line:
    # An empty mark is a place between two characters.
    own = [m for m in marks if (m[0] < end and m[1] > start) or (m[0] == m[1] and start <= m[0] <= end)]
    a, b = start, end
    if end - start > _MAX_LINE:
        a = max(start, min(own[0][0] - _MAX_LINE // 4, end - _MAX_LINE)) if own else start
        b = min(end, a + _MAX_LINE)
    shown = text[a:b].rstrip("\r")
    first = bool(marks) and bool(own) and start <= marks[0][0]
    return Line(number, pieces(shown, own, a), bool(own), first, (end - start) - (b - a))
