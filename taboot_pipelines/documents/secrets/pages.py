"""Secrets of HTML pages, which markup hides from a search in the source: highlighted code has tags between a
key and its value, and a table has them between its cells.

A page is read as two texts, which together are all of it: what it shows, written as Markdown would write it,
and what it does not show (attributes, comments, scripts). Both know where they stand in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from html import unescape
from itertools import accumulate

from taboot_pipelines.documents.html_tree import BLOCK, RAW
from taboot_pipelines.documents.mime import HTML, MARKDOWN
from taboot_pipelines.documents.secrets.finding import find_in_text
from taboot_pipelines.documents.secrets.scanner import Scanner
from taboot_pipelines.documents.secrets.values import KEYWORDS, Span, strength

_MARKUP = re.compile(r"<(?:(/?)([A-Za-z][^\s/>]{0,64})|!--|[!?])")
#: A tag with quotes in it, which may hold its sign of the end.
_QUOTED_TAG = re.compile(r"""<[^>"']*+(?:"[^"]*+"[^>"']*+|'[^']*+'[^>"']*+|)*+>""")
_ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});?")
_LINE_BREAK = re.compile(r"[\r\n]")

#: What an element means for the text around it.
_INLINE, _BLOCK, _CODE, _PRE, _ROW, _CELL, _TABLE, _RAW, _NAMED = range(9)
_KINDS = (
    dict.fromkeys(BLOCK | {"br"}, _BLOCK)
    | dict.fromkeys(("code", "kbd", "samp", "tt"), _CODE)
    | dict.fromkeys(RAW, _RAW)
    | dict.fromkeys(("td", "th"), _CELL)
    | dict.fromkeys(("thead", "tbody", "tfoot"), _INLINE)
    | {"pre": _PRE, "tr": _ROW, "table": _TABLE}
)
#: A tag with a quote that closes further on is read to its first `>`.
_MAX_TAG = 4096
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.I) for name in RAW}
#: How long the value of an element may be whose name announces a secret.
_MAX_NAMED = 1000
#: Raw elements that show what they hold when they have no end.
_RAW_IF_CLOSED = frozenset(("title", "textarea", "svg", "math", "template"))


def find_in_page(source: str) -> Iterator[Span]:
    """Spans of the secrets in the source of a page, in no order."""
    page = _Page(source)
    page.read()
    yield from page.named
    shown = page.shown
    code = [(shown.starts[i], shown.starts[j]) for i, j in page.code]
    yield from shown.in_source(find_in_text(shown.text(), MARKDOWN, code))
    yield from page.hidden.in_source(find_in_text(page.hidden.text(), HTML))


class _Reading:
    """A text in pieces, each with where it begins in the source; -1 if it does not stand there.
    ``separator``: what is written between any two."""

    def __init__(self, separator: str = "") -> None:
        self.separator = separator
        self.parts: list[str] = []
        self.places: list[int] = []
        #: Where the pieces end in the source that are written otherwise there, by their index.
        self.ends: dict[int, int] = {}

    def put(self, text: str, place: int = -1) -> None:
        self.parts.append(text)
        self.places.append(place)

    def text(self) -> str:
        return self.separator.join(self.parts)

    @cached_property
    def starts(self) -> list[int]:
        """Where each piece begins in the whole text, and its end; to be asked for when all is read."""
        between = len(self.separator)
        return list(accumulate((len(part) + between for part in self.parts), initial=0))

    def in_source(self, spans: list[Span]) -> Iterator[Span]:
        """Spans of the text as spans of the source, piece by piece."""
        for start, end in spans:
            i = bisect_right(self.starts, start) - 1
            while i < len(self.parts) and (begin := self.starts[i]) < end:
                place, length = self.places[i], len(self.parts[i])
                if i in self.ends:
                    yield place, self.ends[i]
                elif place >= 0 and start < begin + length:
                    yield place + max(0, start - begin), place + min(length, end - begin)
                i += 1


class _Page:
    """Reads a page once, from its start to its end; the time is linear in the source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.shown = _Reading()
        self.hidden = _Reading("\n")
        #: Values of elements whose own names announce secrets (``<password>…``).
        self.named: list[Span] = []
        #: Which pieces of the shown text are code.
        self.code: list[Span] = []
        self._kinds: dict[str, int] = {}
        self._in_pre = False
        self._pre_start = 0
        self._in_table = False
        self._in_cell = False
        #: The cells of the row so far, and how many rows the table has.
        self._cells = 0
        self._rows = 0
        #: Marks known not to stand further on: each is looked for once only.
        self._missing: set[str] = set()

    def read(self) -> None:
        source, hidden, kinds = self.source, self.hidden, self._kinds
        parts, places = self.shown.parts, self.shown.places
        search = _MARKUP.search
        n = len(source)
        at = 0
        while at < n:
            markup = search(source, at)
            start = markup.start() if markup is not None else n
            if at < start:
                text = source[at:start]
                if self._in_table or "&" in text:
                    self._text(text, at)
                else:
                    parts.append(text)
                    places.append(at)
            if markup is None:
                break
            is_end, written = markup.groups()
            if written is None:
                end = self._after("-->" if markup[0] == "<!--" else ">", start, n)
                hidden.put(source[start:end], start)
            else:
                end = source.find(">", start) + 1 or n
                if end - markup.end() > 1:
                    end = self._attributes(start, end)
                kind = kinds.get(written)
                if kind is None:
                    kind = kinds[written] = _kind(written)
                if kind:
                    end = self._element(written.lower(), kind, bool(is_end), end)
            at = end
        self._pre(False)

    def _after(self, mark: str, at: int, default: int) -> int:
        """The position after the next ``mark``."""
        found = self.source.find(mark, at) if mark not in self._missing else -1
        if found < 0:
            self._missing.add(mark)
            return self.source.find(">", at) + 1 or default
        return found + len(mark)

    def _attributes(self, start: int, end: int) -> int:
        """Put a tag among what is hidden; where it really ends."""
        tag = self.source[start:end]
        if (tag.count('"') & 1 or tag.count("'") & 1) and (
            quoted := _QUOTED_TAG.match(self.source, start, start + _MAX_TAG)
        ):
            end = quoted.end()
            tag = self.source[start:end]
        self.hidden.put(tag, start)
        return end

    def _text(self, text: str, start: int) -> None:
        """Put a text at ``start``, its character references decoded."""
        shown = self.shown
        if self._in_table and not self._in_cell and text.isspace():
            return
        if self._in_cell and ("\n" in text or "\r" in text):
            text = _LINE_BREAK.sub(" ", text)
        at = 0
        if "&" in text:
            for m in _ENTITY.finditer(text):
                decoded = unescape(m[0])
                if decoded != m[0]:
                    if m.start() > at:
                        shown.put(text[at : m.start()], start + at)
                    at = m.end()
                    shown.ends[len(shown.parts)] = start + at
                    shown.put(decoded, start + m.start())
        if at < len(text):
            shown.put(text[at:], start + at)

    def _element(self, name: str, kind: int, closes: bool, at: int) -> int:
        """Write what a tag means that ends at ``at``; the position to read on at."""
        if kind == _RAW:
            return at if closes else self._raw(name, at)
        if kind == _NAMED:
            if not closes:
                self._named_value(name, at)
        elif kind == _CODE:
            if not self._in_pre:
                self.shown.put("`")
        elif kind == _PRE:
            self._pre(not closes)
        elif kind == _CELL:
            if not closes:
                self.shown.put(" | ")
                self._in_cell = True
                self._cells += 1
        elif kind == _BLOCK:
            self.shown.put(" " if self._in_cell else "\n")
        else:
            self._end_row()
            if kind == _TABLE:
                self.shown.put("\n")
                self._in_table = not closes
                self._rows = 0
        return at

    def _named_value(self, name: str, at: int) -> None:
        """Add the text at ``at`` if it is all that an element of this name holds."""
        stop = self.source.find("<", at, at + _MAX_NAMED)
        if stop > at and self.source[stop : stop + 2 + len(name)].lower() == f"</{name}":
            scan = Scanner(self.source[at:stop], HTML)
            scan.add_value(0, stop - at, strong=True, literal=True)
            self.named.extend((at + start, at + end) for start, end in scan.spans)

    def _end_row(self) -> None:
        """End the row, if one is open. After the first of a table comes the line that Markdown has there."""
        if self._in_cell:
            self.shown.put(" |\n")
            self._rows += 1
            if self._rows == 1:
                self.shown.put("|" + "---|" * min(self._cells, 100) + "\n")
        self._in_cell = False
        self._cells = 0

    def _pre(self, opens: bool) -> None:
        """Begin or end a ``pre`` element, which is code; in a cell it is part of its row."""
        if opens and not self._in_pre and not self._in_cell:
            self.shown.put("\n")
            self._pre_start = len(self.shown.parts)
        elif not opens and self._in_pre:
            self.code.append((self._pre_start, len(self.shown.parts)))
            self.shown.put("\n")
        self._in_pre = opens and not self._in_cell

    def _raw(self, name: str, at: int) -> int:
        """An element without markup in it, whose content is hidden."""
        end = -1
        if name not in self._missing:
            found = _RAW_END[name].search(self.source, at)
            end = found.start() if found else -1
        if end < 0:
            self._missing.add(name)
            if name in _RAW_IF_CLOSED:
                return at
            end = len(self.source)
        self.hidden.put(self.source[at:end], at)
        return end


def _kind(tag: str) -> int:
    """What an element of this name means; a name may be one of a secret."""
    kind = _KINDS.get(tag.lower())
    if kind is None:
        kind = _NAMED if any(k in tag.lower() for k in KEYWORDS) and strength(tag) == "strong" else _INLINE
    return kind
