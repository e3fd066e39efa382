"""What each line of reStructuredText, AsciiDoc and CSV is, and how good a place to cut its start is, told as
``blocks`` tells it of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taboot_pipelines.documents.blocks import Cut, Kind, Outline, Scanner, indent_of

#: Lines that one record of a table may have: beyond them a quote that nobody closed is no quote.
_MAX_RECORD_LINES = 200
_MAX_HEADER = 200

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_CODE_DIRECTIVE = re.compile(r"\.\. (?:code|code-block|sourcecode|parsed-literal|prompt|highlight)::(?!\S)")
_RST_ITEM = re.compile(r"(?:[-*+\u2022]|(?:[0-9]{1,9}|#|[a-zA-Z])[.)]|\([0-9a-zA-Z]{1,9}\))[ \t]")
_RST_TABLE = re.compile(r"\+(?:-+\+)+|=+(?: +=+)+")

_ADOC_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(?=\S)")
_ADOC_CODE = re.compile(r"-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}")
_ADOC_CONTAINER = re.compile(r"={4,}|\*{4,}|_{4,}|--")
_ADOC_TABLE = re.compile(r"[|,:!]={3,}")
_ADOC_ITEM = re.compile(r"(?:\*{1,5}|-|\.{1,5}|[0-9]{1,9}\.)[ \t]")
_ADOC_ATTRIBUTES = re.compile(r"\[[^\[\]]*\]|\.[^\s.].*")


def scan_restructured(lines: Sequence[str]) -> Outline:
    """reStructuredText: titles by their underlines, literal blocks and directives with code as code."""
    scanner = _Restructured(lines)
    scanner.run()
    return scanner.out


def scan_asciidoc(lines: Sequence[str]) -> Outline:
    """AsciiDoc: titles by their equals signs, delimited listings as code."""
    scanner = _Asciidoc(lines)
    scanner.run()
    return scanner.out


def scan_records(lines: Sequence[str]) -> Outline:
    """Comma-separated values (RFC 4180): records are kept whole, and all are of the section that the first,
    which as a rule names the columns, is called by."""
    count = len(lines)
    head = next((" ".join(line.split()) for line in lines if line.strip()), "")[:_MAX_HEADER]
    out = Outline([Kind.TABLE] * count, [Cut.MINOR] * count, [1] * count, [0] * count, ["", head], [])
    i = 0
    while i < count:
        if not lines[i].strip():
            out.kinds[i], out.cuts[i] = Kind.BLANK, Cut.BLANK
            i += 1
            continue
        end, quotes = i + 1, lines[i].count('"')
        while quotes % 2 and end < min(count, i + _MAX_RECORD_LINES):
            quotes += lines[end].count('"')
            end += 1
        if quotes % 2:
            end = i + 1
        if end > i + 1:
            out.spans.append((i, end))
            out.cuts[i + 1 : end] = [Cut.WORD] * (end - i - 1)
        i = end
    return out


class _Markup(Scanner):
    """Markup whose marks are not those of Markdown."""

    def special(self, i: int, text: str, first: str, indent: int) -> int:
        return 0

    def prose(self, i: int, text: str, indent: int) -> int:
        """A line of running text; what is indented is no code by that alone."""
        return super().plain(i, text, indent if self.container is not None else 0)

    def rows(self, start: int, end: int) -> int:
        """Lines ``[start, end)`` are a table."""
        lead = self.begin(led_in=True)
        for k in range(start, end):
            if self.lines[k].strip():
                self.put(k, Kind.TABLE, lead if k == start else Cut.GLUE if k <= start + 2 else Cut.MINOR)
            else:
                self.blank(k)
        self.out.spans.append((start, end))
        self.open = None
        return end

    def delimited(self, start: int, mark: str) -> int:
        """The line behind the block that ends with ``mark``, as it began at ``start``; the end of all where
        nothing ends it."""
        lines = self.lines
        return next((j + 1 for j in range(start + 1, len(lines)) if lines[j].strip() == mark), len(lines))


class _Restructured(_Markup):
    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines)
        #: The adornments of titles, whose order is that of their levels.
        self.styles: list[str] = []

    def plain(self, i: int, text: str, indent: int) -> int:
        lines = self.lines
        if indent == 0 and (after := self.titled(i, text)):
            return after
        if _RST_TABLE.fullmatch(text):
            end = next((j for j in range(i, len(lines)) if not lines[j].strip()), len(lines))
            return self.rows(i, end)
        if _CODE_DIRECTIVE.match(text):
            end = self.deeper(i + 1, indent)
            self.code(i, end)
            self.open = None
            return end
        if _RST_ITEM.match(text) and self.open is not Kind.PROSE:
            after = self.item(i, indent)
        else:
            after = self.prose(i, text, indent)
        if text.endswith("::") and not text.startswith(".. "):
            begin = next((j for j in range(after, len(lines)) if lines[j].strip()), len(lines))
            end = self.deeper(begin, indent)
            if end > begin > after:
                for k in range(after, begin):
                    self.blank(k)
                self.above = text
                self.code(begin, end)
                self.open = None
                return end
        return after

    def titled(self, i: int, text: str) -> int:
        """The line behind the title that begins at ``i``; 0 where none does."""
        lines = self.lines
        if self.open is not None:
            return 0
        below = lines[i + 1].rstrip() if i + 1 < len(lines) else ""
        if _ADORNMENT.fullmatch(text):
            if below.strip() and i + 2 < len(lines) and lines[i + 2].rstrip() == text:
                return self.title(i, i + 3, self.level(text[0] * 2), below.strip())
            if not below and len(text) > 3:
                self.put(i, Kind.PROSE, self.begin())
                return i + 1
        elif _ADORNMENT.fullmatch(below) and len(below) >= min(len(text), 4):
            return self.title(i, i + 2, self.level(below[0]), text)
        return 0

    def level(self, style: str) -> int:
        if style not in self.styles:
            self.styles.append(style)
        return self.styles.index(style) + 1

    def deeper(self, start: int, indent: int) -> int:
        """The line behind what stands further right than ``indent``, without blank lines at its end."""
        end = start
        for j in range(start, len(self.lines)):
            if self.lines[j].strip():
                if indent_of(self.lines[j]) <= indent:
                    break
                end = j + 1
        return end


class _Asciidoc(_Markup):
    def plain(self, i: int, text: str, indent: int) -> int:
        if indent == 0:
            if found := _ADOC_TITLE.match(text):
                return self.title(i, i + 1, len(found[1]), text[found.end() :])
            if (found := _ADOC_CODE.match(text)) and (found.end() == len(text) or text[0] == "`"):
                end = self.delimited(i, found[0])
                attached = self.open is not None and _ADOC_ATTRIBUTES.fullmatch(self.above)
                self.code(i, end)
                if attached:
                    self.out.cuts[i] = Cut.GLUE
                self.open = None
                return end
            if _ADOC_TABLE.fullmatch(text):
                return self.rows(i, self.delimited(i, text))
            if _ADOC_CONTAINER.fullmatch(text):
                self.put(i, Kind.PROSE, self.begin())
                self.open = None
                return i + 1
        elif self.open is None and self.container is None and not _ADOC_ITEM.match(text):
            lines = self.lines
            end = next((j for j in range(i, len(lines)) if not lines[j].strip()), len(lines))
            self.code(i, end)
            self.open = None
            return end
        if _ADOC_ITEM.match(text):
            return self.item(i, indent)
        return self.prose(i, text, indent)
