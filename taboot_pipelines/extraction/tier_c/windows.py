"""The running text of a document in windows: what is asked about at once, and cached as one.

A window is whole paragraphs and list items, as many as the limit takes; a paragraph that is longer is cut
between sentences. A window that is three quarters full ends where a section does. So windows depend on little
more than their own text: an edit changes the window that it lies in, the windows after it begin where they
began, and the same section on two pages often gives the same window. Code, tables and configuration are left
out.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.prose.finding import find_mentions
from taboot_pipelines.extraction.tier_c.blocks import Block, Heading, blocks
from taboot_pipelines.extraction.tier_c.tokens import TokenCounter

#: Raise it when equal text would give other windows.
WINDOWS_VERSION = "2"
#: Tokens of the limit that are kept for the names.
_NAME_TOKENS = 32
_MAX_NAMES = 8
#: Longer names are addresses with paths, which the text shows anyway.
_MAX_NAME = 40
#: Names of a document that are looked for in its windows.
_MAX_KNOWN = 500
#: A heading's context, in code points.
_MAX_HEADINGS = 160
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')\]»”]*\s+(?=\S)")
#: How chat templates mark their own turns; a tokenizer may take them for that inside a text too.
_TEMPLATE = re.compile(r"<(?=\||/?s>|/?think>|/?tool_|(?:start|end)_of_turn>)|\[(?=/?INST\])")
_WORD = re.compile(r"[^\W\d_]{2}")
_CODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{2,}")
#: Not a place in the document: a heading that is repeated as context, or what parts two paragraphs.
CONTEXT = -1


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a document as it is shown to a model.

    ``offsets[i]`` is where ``text[i]`` stands in the document, :data:`CONTEXT` for what stands there as
    context only. ``names``: known names that the text holds. ``tokens``: of text and names. ``span``: the
    code points of the document that it covers. ``over``: one sentence is longer than the limit, so that the
    window cannot be asked about.
    """

    text: str
    offsets: array[int]
    names: tuple[str, ...]
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """A paragraph, or some sentences of one, as shown."""

    text: str
    offsets: tuple[int, ...]
    headings: tuple[Heading, ...]
    tokens: int


def windows(text: str, counter: TokenCounter, limit: int = 512) -> list[Window]:
    """Return the windows of a Markdown text, in order, each of at most ``limit`` tokens unless ``over``.

    Text without two letters in a row gives none.
    """
    found = list(blocks(text))
    known = _Known(text, found)
    room = limit - _NAME_TOKENS
    result: list[Window] = []
    current = _Filling(counter)
    for piece in _pieces(found, counter, room):
        if piece.tokens > room:
            result += current.closed(known)
            result += _Filling(counter, piece).closed(known, over=True)
            current = _Filling(counter)
            continue
        full = current.tokens + current.cost(piece) > room
        if current and (full or (4 * current.tokens >= 3 * room and current.headings != piece.headings)):
            result += current.closed(known)
            current = _Filling(counter)
        current.add(piece)
    return [*result, *current.closed(known)]


class _Filling:
    """A window that is being filled."""

    def __init__(self, counter: TokenCounter, piece: _Piece | None = None) -> None:
        self._counter = counter
        self._lines: list[str] = []
        self._offsets: list[int] = []
        self.headings: tuple[Heading, ...] = ()
        self.tokens = 0
        if piece is not None:
            self.add(piece)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def cost(self, piece: _Piece) -> int:
        """Return how many tokens a piece adds, with what has to be said of its section."""
        heading = self._heading(piece)
        return piece.tokens + (self._counter.count(heading + "\n") if heading else 0)

    def add(self, piece: _Piece) -> None:
        self.tokens += self.cost(piece)
        heading = self._heading(piece)
        if heading:
            self._line(heading, [CONTEXT] * len(heading))
        self._line(piece.text, piece.offsets)
        self.headings = piece.headings

    def closed(self, known: _Known, *, over: bool = False) -> Iterator[Window]:
        """Yield the window, if it says anything."""
        text = "\n".join(self._lines)
        if not any(at != CONTEXT for at in self._offsets) or _WORD.search(text) is None:
            return
        names = known.within(text, self._counter)
        tokens = self.tokens + (self._counter.count(", ".join(names)) if names else 0)
        yield Window(text, array("i", self._offsets), names, tokens, over)

    def _heading(self, piece: _Piece) -> str:
        """Return the headings above a piece: all of them at first, then those that are new."""
        if self._lines and piece.headings == self.headings:
            return ""
        common = 0
        while self._lines and piece.headings[: common + 1] == self.headings[: common + 1]:
            common += 1
            if common >= len(piece.headings):
                break
        said = " > ".join(_shown(h.text)[0] for h in piece.headings[common:])
        return f"# {said[-_MAX_HEADINGS:]}" if said else ""

    def _line(self, text: str, offsets: Sequence[int]) -> None:
        if self._lines:
            self._offsets.append(CONTEXT)
        self._lines.append(text)
        self._offsets += offsets


class _Known:
    """The names that a document shows somewhere: code words, addresses and images."""

    def __init__(self, text: str, found: Sequence[Block]) -> None:
        names: dict[str, None] = {}
        for block in found:
            for start, end in block.code:
                names.setdefault(block.text[start:end].strip())
            for heading in block.headings:
                for name in heading.code:
                    names.setdefault(name)
        mentions = [text[m.start : m.end] for m in find_mentions(text)]
        shown = [n for n in (*names, *mentions) if _CODE_NAME.fullmatch(n) and len(n) <= _MAX_NAME]
        wanted = [*dict.fromkeys(shown)][:_MAX_KNOWN]
        self._own = _whole_names(wanted)

    def within(self, text: str, counter: TokenCounter) -> tuple[str, ...]:
        """Return the names that a text holds as it writes them, in its order, as many as there is room."""
        spots: dict[str, int] = {}
        for match in self._own.finditer(text) if self._own is not None else ():
            spots.setdefault(match.group(), match.start())
        names = sorted(spots, key=lambda name: (spots[name], name))[:_MAX_NAMES]
        # The words around the names cost a few tokens too.
        while names and counter.count(", ".join(names)) > _NAME_TOKENS - 4:
            names.pop()
        return tuple(names)


def _whole_names(names: Sequence[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    joined = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<![\w.-])(?:{joined})(?![\w-])")


def _pieces(found: Sequence[Block], counter: TokenCounter, room: int) -> Iterator[_Piece]:
    for block in found:
        text, offsets = _shown(block.text, block.offsets)
        tokens = counter.count(text + "\n")
        if tokens <= room - _heading_room(block, counter, room):
            yield _Piece(text, offsets, block.headings, tokens)
        else:
            yield from _parts(text, offsets, block, counter, room)


def _heading_room(block: Block, counter: TokenCounter, room: int) -> int:
    """Return the tokens that the headings of a block may take in a window of its own."""
    said = " > ".join(h.text for h in block.headings)[-_MAX_HEADINGS:]
    return min(counter.count(f"# {said}\n"), room // 2)


def _parts(
    text: str, offsets: tuple[int, ...], block: Block, counter: TokenCounter, room: int
) -> Iterator[_Piece]:
    """Yield the sentences of a long paragraph, as many together as there is room for."""
    room -= _heading_room(block, counter, room)
    ends = [*(m.end() for m in _SENTENCE_END.finditer(text)), len(text)]
    begin = last = tokens = 0
    for end in ends:
        more = counter.count(text[last:end])
        if last > begin and tokens + more > room:
            yield _Piece(text[begin:last].rstrip(), offsets[begin:last], block.headings, tokens)
            begin, tokens = last, 0
        tokens, last = tokens + more, end
    if last > begin:
        yield _Piece(text[begin:last], offsets[begin:last], block.headings, tokens)


def _shown(text: str, offsets: Sequence[int] | None = None) -> tuple[str, tuple[int, ...]]:
    """Return a text as a reader of the page sees it, with the offset of each code point.

    Characters without width are left out, and a blank is put into what a chat template would take for one of
    its marks.
    """
    places = range(len(text)) if offsets is None else offsets
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
