"""What a document says in windows: what is asked about at once, and cached as one.

A window is whole pieces (paragraphs, items of lists, rows of tables, lines of diagrams), as many as the limit
takes; a paragraph that is longer is cut between sentences. Above them it repeats what they are read with: the
headings, the header of a table, the paragraph that introduces a list. A window that is three quarters full
ends where a section does. So windows depend on their own text and on what is repeated alone: an edit changes
the window that it lies in, the windows after it begin where they began, and the same section on two pages
often gives the same window. Code and configuration are left out.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.prose.segments import ARROW, Segment, Text, read_text, segments
from taboot_pipelines.extraction.tier_c.tokens import TokenCounter

#: Raise it when equal text would give other windows.
WINDOWS_VERSION = "3"
#: Tokens of the limit that are kept for marks and for joining lines.
_SPARE_TOKENS = 16
#: A heading, a header or an introduction that is repeated, in code points.
_MAX_REPEATED = 160
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')\]»”]*\s+(?=\S)")
#: How chat templates mark their own turns; a tokenizer may take them for that inside a text too.
_TEMPLATE = re.compile(r"<(?=\||/?s>|/?think>|/?tool_|(?:start|end)_of_turn>)|\[(?=/?INST\])")
_WORD = re.compile(r"[^\W\d_]{2}")
#: Not a place in the document: what is repeated as context, or what parts two lines.
CONTEXT = -1


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a document as it is shown to a model.

    ``offsets[i]`` is where ``text[i]`` stands in the document, :data:`CONTEXT` for what stands there as
    context only. ``above``: (where a line begins, the context that it is read with). ``tokens``: of the text.
    ``over``: one sentence is longer than the limit, so that the window cannot be asked about.
    """

    text: str
    offsets: array[int]
    above: tuple[tuple[int, str], ...]
    tokens: int
    over: bool = False

    @property
    def span(self) -> tuple[int, int]:
        placed = [at for at in self.offsets if at != CONTEXT]
        return min(placed), max(placed) + 1

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Code points of the document for ``text[start:end]``; None if a part of it is context."""
        inside = self.offsets[start:end]
        return None if not inside or CONTEXT in inside else (inside[0], inside[-1] + 1)

    def context(self, at: int) -> str:
        """The headings, header or introduction that the line of ``text[at]`` is read with."""
        number = bisect_right(self.above, at, key=lambda line: line[0]) - 1
        return self.above[number][1] if number >= 0 else ""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line as shown, with what it is read with: the headings, outermost first, and the header or
    introduction."""

    text: str
    offsets: tuple[int, ...]
    headings: tuple[str, ...]
    introduction: str
    tokens: int


def windows(text: str, counter: TokenCounter, limit: int = 512) -> list[Window]:
    """Return the windows of a Markdown text, in order, each of at most ``limit`` tokens unless ``over``.

    Text without two letters in a row gives none.
    """
    room = limit - _SPARE_TOKENS
    result: list[Window] = []
    current = _Filling(counter)
    for piece in _pieces(text, counter, room):
        if piece.tokens > room:
            result += current.closed()
            current = _Filling(counter)
            current.add(piece)
            result += current.closed(over=True)
            current = _Filling(counter)
            continue
        full = current.tokens + current.cost(piece) > room
        if current and (full or (4 * current.tokens >= 3 * room and current.headings != piece.headings)):
            result += current.closed()
            current = _Filling(counter)
        current.add(piece)
    return [*result, *current.closed()]


class _Filling:
    """A window that is being filled."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lines: list[str] = []
        self._offsets: list[int] = []
        self._above: list[tuple[int, str]] = []
        self._introduction = ""
        self.headings: tuple[str, ...] = ()
        self.tokens = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def cost(self, piece: _Piece) -> int:
        """Return how many tokens a piece adds, with what has to be repeated above it."""
        return self._tokens(piece, self._repeated(piece))

    def _tokens(self, piece: _Piece, repeated: Sequence[str]) -> int:
        return piece.tokens + sum(self._counter.count(line + "\n") for line in repeated)

    def add(self, piece: _Piece) -> None:
        repeated = self._repeated(piece)
        self.tokens += self._tokens(piece, repeated)
        for line in repeated:
            self._line(line, [CONTEXT] * len(line))
        begin = len(self._offsets) + bool(self._lines)
        self._above.append((begin, "\n".join((*piece.headings, piece.introduction))))
        self._line(piece.text, piece.offsets)
        self.headings, self._introduction = piece.headings, piece.introduction

    def closed(self, *, over: bool = False) -> Iterator[Window]:
        """Yield the window, if it says anything."""
        text = "\n".join(self._lines)
        if any(at != CONTEXT for at in self._offsets) and _WORD.search(text):
            yield Window(text, array("i", self._offsets), tuple(self._above), self.tokens, over)

    def _repeated(self, piece: _Piece) -> list[str]:
        """Return the context of a piece as far as it does not stand above it: of the headings all at first,
        then those that are new."""
        found = []
        if not self._lines or piece.headings != self.headings:
            common = 0
            while self._lines and piece.headings[: common + 1] == self.headings[: common + 1]:
                common += 1
                if common >= len(piece.headings):
                    break
            if said := " > ".join(piece.headings[common:]):
                found.append(f"# {said[-_MAX_REPEATED:]}")
        new = piece.introduction != self._introduction or not self._lines
        if new and piece.introduction and piece.introduction not in self._lines:
            found.append(piece.introduction)
        return found

    def _line(self, text: str, offsets: Sequence[int]) -> None:
        if self._lines:
            self._offsets.append(CONTEXT)
        self._lines.append(text)
        self._offsets += offsets


def _pieces(source: str, counter: TokenCounter, room: int) -> Iterator[_Piece]:
    read_with: tuple[object, ...] = ()
    headings: tuple[str, ...] = ()
    introduction, left = "", room
    for line in _lines(source):
        first = line[0]
        text, offsets = _shown(*_joined(line))
        if not text.strip():
            continue
        if read_with != (first.headings, first.group, first.intro, first.item[:1]):
            # Rows and items that are read with the same come one after the other.
            read_with = first.headings, first.group, first.intro, first.item[:1]
            headings = tuple(_shown(heading, ())[0] for heading in first.headings)
            introduction = _shown(_introduction(first), ())[0]
            left = room - min(counter.count("\n".join((*headings, introduction))), room // 2)
        tokens = counter.count(text + "\n")
        piece = _Piece(text, offsets, headings, introduction, tokens)
        if tokens <= left:
            yield piece
        else:
            yield from _parts(piece, counter, left)


def _lines(source: str) -> Iterator[list[Segment]]:
    """Yield what is shown as one line: the sentences of a paragraph or item, else a single piece."""
    line: list[Segment] = []
    for piece in segments(source):
        # Lines that are read one by one as well; a line of a fence that draws no arrow.
        draws = piece.fence in (None, "mermaid") or ARROW.search(piece.text.plain)
        if piece.item == "lines" or not draws:
            continue
        if line and not _goes_on(source, line[-1], piece):
            yield line
            line = []
        line.append(piece)
    if line:
        yield line


def _goes_on(source: str, last: Segment, piece: Segment) -> bool:
    """Whether a piece is a further sentence of the paragraph or item that the last one belongs to."""
    if piece.item or piece.cells or last.cells or last.fence is not None or piece.fence is not None:
        return False
    between = source[last.text.end : piece.text.start]
    return last.headings == piece.headings and re.search(r"\n[ \t\r>]*\n", between) is None


def _joined(line: Sequence[Segment]) -> tuple[str, list[int]]:
    """Return what a line reads as, and where each of its code points stands."""
    first = line[0]
    texts = first.cells or [piece.text for piece in line]
    between = " | " if first.cells else " "
    said: list[str] = []
    offsets: list[int] = []
    last: Text | None = None
    for text in texts:
        if last is not None:
            said.append(between)
            # What parts two texts stands behind the first of them.
            offsets += [min(last.end, text.start)] * len(between)
        said.append(text.plain)
        offsets += text.offsets()
        last = text
    return "".join(said), offsets


def _introduction(piece: Segment) -> str:
    if piece.table is not None:
        return " | ".join(cell.plain for cell in piece.table.header)[:_MAX_REPEATED]
    return read_text(piece.intro, 0, len(piece.intro)).plain[-_MAX_REPEATED:] if piece.item else ""


def _parts(piece: _Piece, counter: TokenCounter, room: int) -> Iterator[_Piece]:
    """Yield the sentences of a long line, as many together as there is room for."""
    text, offsets = piece.text, piece.offsets
    ends = [*(m.end() for m in _SENTENCE_END.finditer(text)), len(text)]
    begin = last = tokens = 0

    def part(until: int) -> _Piece:
        said = text[begin:until].rstrip()
        return _Piece(said, offsets[begin : begin + len(said)], piece.headings, piece.introduction, tokens)

    for end in ends:
        more = counter.count(text[last:end])
        if last > begin and tokens + more > room:
            yield part(last)
            begin, tokens = last, 0
        tokens, last = tokens + more, end
    if last > begin:
        yield part(last)


def _shown(text: str, offsets: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """Return a text as a reader of the page sees it, with the offset of each code point.

    Characters without width are left out, and a blank is put into what a chat template would take for one of
    its marks. Without ``offsets`` those of the text itself.
    """
    places = offsets or range(len(text))
    breaks = {m.end() for m in _TEMPLATE.finditer(text)}
    if not breaks and text.isascii() and text.isprintable():
        return text, tuple(places)
    shown: list[str] = []
    kept: list[int] = []
    for number, (character, at) in enumerate(zip(text, places, strict=True)):
        if number in breaks:
            shown.append(" ")
            kept.append(at)
        if character in "\n\t":
            shown.append(" ")
        elif unicodedata.category(character) in ("Cf", "Cc", "Cs", "Co"):
            continue
        else:
            shown.append(character)
        kept.append(at)
    return "".join(shown), tuple(kept)
