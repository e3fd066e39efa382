"""What a form is given and makes: text and the map to the bytes that say it, made together, piece by piece.

Text that is no Markdown, such as a PDF's, is written so that Markdown takes nothing in it for markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from taboot_pipelines.documents.encoding import byte_ends
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Run, Value
from taboot_pipelines.model.offsets import OffsetMap


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of the bytes: the path that messages name, the media type, the declared charset. The
    text may have ``max_chars`` code points."""

    path: str
    mime: str
    charset: str | None
    max_chars: int


@dataclass(frozen=True, slots=True)
class Formed:
    """Markdown, the map from its code points to the blob's bytes, and what the document states of itself.
    ``charset``: that of the blob, where it is text."""

    text: str
    offsets: OffsetMap
    facts: Facts = field(default_factory=Facts)
    charset: str = "utf-8"


#: Raises ``TabootError`` (``E_PARSE``, ``E_EMPTY``, ``E_TOO_LARGE``, …) for bytes that are not of the format.
Form = Callable[[bytes, Given], Formed]


#: What no text may hold: it becomes U+FFFD, one for one.
_UNREADABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Edit(NamedTuple):
    """Code points ``[start, end)`` of a text are written as ``text``, which no byte says."""

    start: int
    end: int
    text: str


class Writer:
    """A document in the making. Raises ``E_TOO_LARGE`` as soon as it has more than ``max_chars`` code
    points."""

    def __init__(self, max_chars: int) -> None:
        self._max = max_chars
        self._parts: list[str] = []
        self._rows: list[tuple[int, int, int, int, int]] = []
        #: Code points written so far.
        self.length = 0

    @property
    def text(self) -> str:
        """What is written so far."""
        return _UNREADABLE.sub("\ufffd", "".join(self._parts))

    def put(self, text: str) -> None:
        """Write what no byte says: a heading's ``#``, a blank line."""
        self.length += len(text)
        if self.length > self._max:
            raise TabootError("E_TOO_LARGE", f"The document has more than {self._max} characters.")
        self._parts.append(text)

    def block(self, text: str, byte_start: int, byte_end: int) -> None:
        """Write what bytes ``[byte_start, byte_end)`` say as a whole, such as a date in another form."""
        if text:
            self._rows.append((self.length, self.length + len(text), byte_start, byte_end, 0))
            self.put(text)

    def mapped(self, text: str, offsets: OffsetMap) -> None:
        """Write a text that has a map of its own."""
        at = self.length
        columns = (offsets.doc_start, offsets.doc_end, offsets.byte_start, offsets.byte_end, offsets.width)
        for start, end, *rest in zip(*(column.tolist() for column in columns), strict=True):
            self._rows.append((at + start, at + end, *rest))
        self.put(text)

    def exact(self, text: str, charset: str, byte_start: int) -> None:
        """Write a text that stands at ``byte_start`` as it is, in ``charset``."""
        self.mapped(text, OffsetMap.of_text(text, charset, byte_start))

    def offsets(self) -> OffsetMap:
        """The map of what is written."""
        return OffsetMap.of(self._rows)


class SourceWriter(Writer):
    """A document made from pieces of a text."""

    def __init__(self, source: str, max_chars: int, *, charset: str = "utf-8", bom: int = 0) -> None:
        """``source``: the text, which is in ``charset`` behind ``bom`` bytes of a mark."""
        super().__init__(max_chars)
        self._source = source
        narrow = source.isascii() and not charset.startswith(("utf-16", "utf-32"))
        self._bom = bom
        self._ends = None if narrow else byte_ends(source, charset) + bom

    def _byte(self, position: int) -> int:
        return position + self._bom if self._ends is None else int(self._ends[position])

    def piece(self, text: str, start: int, end: int) -> None:
        """Write what ``[start, end)`` of the source (code points) says, as it is or in another form."""
        if text == self._source[start:end]:
            self._verbatim(start, end)
        else:
            self.block(text, self._byte(start), self._byte(end))

    def _verbatim(self, start: int, end: int) -> None:
        text = self._source[start:end]
        at = self.length
        if self._ends is None:
            self._rows.append((at, at + len(text), start + self._bom, end + self._bom, 1))
        else:
            ends = self._ends[start : end + 1]
            widths = np.diff(ends)
            cuts = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(text)]
            for a, b in pairwise(cuts):
                self._rows.append((at + a, at + b, int(ends[a]), int(ends[b]), int(widths[a])))
        self.put(text)


class JsonWriter(SourceWriter):
    """A document made from values of a JSON text. Each code point of a string leads to the bytes of its own
    characters, escapes included; what is said in other words leads to its whole value."""

    def said(self, text: str, value: Value) -> None:
        """Write ``text``, which a value says."""
        self.block(text, self._byte(value.start), self._byte(value.end))

    def string(self, value: Value, *, prefix: str = "") -> None:
        """Write a string's content, with ``prefix`` before each of its lines but the first. Line breaks
        become ``\\n``; whoever wants the first line prefixed writes that."""
        for run in pieces(value, self._source):
            self._piece(run, 0, len(run.text))
            if prefix and run.text == "\n" and not run.verbatim:
                self.put(prefix)

    def edited(self, value: Value, edits_of: Callable[[str], Sequence[Edit]]) -> None:
        """Write a string's content with the edits that its text gives; its line breaks become ``\\n``."""
        runs = pieces(value, self._source)
        self.runs(runs, edits_of(text_of(runs)))

    def runs(self, runs: Iterable[Run], edits: Sequence[Edit] = ()) -> None:
        """Write a text that is given in pieces of the source, with ``edits``, which ascend and are disjoint.
        Positions are those of the pieces' text put together. No byte says a piece that is not verbatim and
        has none."""
        waiting = list(reversed(edits))
        begun = False  # of an edit that covers several pieces
        at = 0
        for run in runs:
            end = at + len(run.text)
            position = at
            while waiting and waiting[-1].start < end:
                edit = waiting[-1]
                if not begun:
                    self._piece(run, position - at, edit.start - at)
                    self.put(edit.text)
                position = min(edit.end, end)
                begun = edit.end > end
                if begun:
                    break
                waiting.pop()
            self._piece(run, position - at, end - at)
            at = end
        for edit in reversed(waiting):
            if edit.start >= at:
                self.put(edit.text)

    def _piece(self, run: Run, start: int, end: int) -> None:
        if start >= end:
            return
        if run.verbatim:
            self._verbatim(run.start + start, run.start + end)
        elif run.start == run.end:
            self.put(run.text[start:end])
        else:
            self.block(run.text[start:end], self._byte(run.start), self._byte(run.end))


def text_of(runs: Iterable[Run]) -> str:
    """The text that pieces make together."""
    return "".join([run.text for run in runs])


def cut(runs: Iterable[Run], start: int, end: int) -> list[Run]:
    """The pieces of ``[start, end)`` of the text that pieces make together."""
    made: list[Run] = []
    at = 0
    for run in runs:
        first, last = max(start - at, 0), min(end - at, len(run.text))
        if first < last and run.verbatim:
            made.append(Run(run.text[first:last], run.start + first, run.start + last, True))
        elif first < last:
            made.append(Run(run.text[first:last], run.start, run.end, False))
        at += len(run.text)
    return made


def pieces(value: Value, source: str) -> list[Run]:
    """The content of a string in pieces of the source, with each line break as ``\\n``."""
    runs = value.runs(source)
    if "\r" not in value.data:
        return runs
    made: list[Run] = []
    held: Run | None = None  # a carriage return, which a line feed may follow
    for run in runs:
        if held is not None:
            paired = run.text == "\n" and not run.verbatim
            made.append(Run("\n", held.start, run.end if paired else held.end, False))
            held = None
            if paired:
                continue
        if run.text == "\r":
            held = run
        else:
            made.append(run)
    if held is not None:
        made.append(Run("\n", held.start, held.end, False))
    return made


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
