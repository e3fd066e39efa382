"""What each line of a document is, and how good a place to cut its start is.

For Markdown this is a line scanner of CommonMark's block structure. It does not parse: a line's kind is all
that a chunker needs, and a full parser would take longer than all the rest. Where it differs from CommonMark
0.31 it errs toward what technical documents mean: a fence may be indented or quoted, and indented text under
an admonition (``!!! note``) is prose. Lines of reStructuredText, AsciiDoc and CSV are told in the same terms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    PROSE = 0
    CODE = 1
    TABLE = 2
    LIST = 3
    HEADING = 4
    BLANK = 5


class Cut(IntEnum):
    """How good a place to cut is before a line (or before a piece of one)."""

    BLANK = -1
    #: Between a heading and what follows, a table's header and its rows.
    GLUE = 0
    WORD = 1
    #: A line's end inside a sentence.
    WRAP = 2
    SENTENCE = 3
    LINE = 4
    #: A table row, a nested list item, a line of code.
    MINOR = 5
    #: A list item, code after an empty line or at its left edge.
    MAJOR = 6
    #: A top-level statement of a configuration file.
    STATEMENT = 7
    BLOCK = 8
    HEADING = 9


@dataclass(frozen=True, slots=True)
class Outline:
    """Of each line its kind, the cut before it, the number of its section and of its block. ``sections`` are
    heading paths (``A > B``), the first of them empty. ``spans`` are ranges of lines to keep whole where they
    fit: code and tables."""

    kinds: list[Kind]
    cuts: list[Cut]
    section: list[int]
    block: list[int]
    sections: list[str]
    spans: list[tuple[int, int]]


_ATX = re.compile(r"(#{1,6})(?=[ \t]|\Z)")
_ATX_END = re.compile(r"(?:\A|[ \t])#+\Z")
_HTML_HEADING = re.compile(r"<h([1-6])(?:\s[^<>]*)?>([^<>]*)</h[1-6]>\Z", re.I)
_FENCE = re.compile(r"(`{3,}(?=[^`]*\Z)|~{3,})")
_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|\Z)")
_DELIMITER = re.compile(r"[|:\- \t]+\Z")
_SETEXT = re.compile(r"(?:=+|-+)\Z")
_RULE = re.compile(r"(?:\*[ \t]*){3,}\Z|(?:-[ \t]*){3,}\Z|(?:_[ \t]*){3,}\Z")
_HTML_OPEN = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9-]*)|!--|[!?])")
_CONTAINER = re.compile(r"(?:!!!|\?\?\?\+?|===)[ \t]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_ANCHOR = re.compile(r"[ \t]*\{[#:.][^{}]*\}\Z")
_COMMENT = ("#", "//", ";")
#: Raw HTML that runs to its closing tag, blank lines or not (CommonMark 4.6, kind 1).
_RAW_HTML = ("pre", "script", "style", "textarea")
_HTML_KINDS = {"table": Kind.TABLE, "ul": Kind.LIST, "ol": Kind.LIST} | dict.fromkeys(_RAW_HTML, Kind.CODE)
#: Front matter longer than this is none.
_MAX_FRONT_MATTER_LINES = 200
_MAX_TITLE = 200
_MAX_SCANNED_TITLE = 1000


def indent_of(line: str) -> int:
    """Columns of white space before the text; a tab counts to the next multiple of four."""
    column = 0
    for char in line:
        if char == " ":
            column += 1
        elif char == "\t":
            column += 4 - column % 4
        else:
            break
    return column


def scan_code(lines: Sequence[str]) -> Outline:
    """A configuration or source file: one block of code, cut best before what stands at its left edge."""
    count = len(lines)
    outline = Outline([Kind.CODE] * count, [Cut.BLANK] * count, [0] * count, [0] * count, [""], [])
    for i, line in enumerate(lines):
        if not line.strip():
            outline.kinds[i] = Kind.BLANK
    _grade_code(lines, 0, count, outline.cuts, after_blank=Cut.BLOCK, edge=Cut.STATEMENT)
    return outline


def _grade_code(
    lines: Sequence[str], start: int, end: int, cuts: list[Cut], *, after_blank: Cut, edge: Cut
) -> None:
    """Grade the lines of code ``[start, end)``: ``edge`` for one at the left edge, ``after_blank`` if it also
    follows a blank line."""
    texts = [line.strip() for line in lines[start:end]]
    indents = [indent_of(line) if text else -1 for line, text in zip(lines[start:end], texts, strict=True)]
    left = min((n for n in indents if n >= 0), default=0)
    blank, above, above_indent = True, "", -1
    for i, (text, indent) in enumerate(zip(texts, indents, strict=True), start):
        if not text:
            cuts[i] = Cut.BLANK
            blank = True
            continue
        commented = above.startswith(_COMMENT) and above_indent == indent
        if text[0] in ")]}" or above.endswith("\\") or (commented and not blank):
            cuts[i] = Cut.WORD
        elif indent == left:
            cuts[i] = after_blank if blank else edge
        elif blank:
            cuts[i] = Cut.MAJOR
        else:
            cuts[i] = Cut.MINOR if indent <= left + 2 else Cut.LINE
        blank, above, above_indent = False, text, indent


def scan_markdown(lines: Sequence[str]) -> Outline:
    """Markdown, and plain text read as such."""
    scanner = Scanner(lines)
    scanner.run()
    return scanner.out


class Scanner:
    """Marks the lines of Markdown; other markup overrides what its lines begin."""

    def __init__(self, lines: Sequence[str]) -> None:
        count = len(lines)
        self.lines = lines
        self.out = Outline([Kind.PROSE] * count, [Cut.LINE] * count, [0] * count, [0] * count, [""], [])
        self.path: list[tuple[int, str]] = []
        self.current = 0
        self.blocks = 0
        #: The kind that a line without a mark of its own continues; None after a blank line.
        self.open: Kind | None = None
        #: First line of the open paragraph.
        self.paragraph = 0
        #: Inside a list or an admonition: its kind and the column where it begins.
        self.container: tuple[Kind, int] | None = None
        #: The last line that is not blank: its text, and whether it is a heading.
        self.above = ""
        self.heading = False

    def put(self, i: int, kind: Kind, cut: Cut) -> None:
        """Line ``i`` is of this kind. Directly under a heading there is no cut before it."""
        out = self.out
        out.kinds[i] = kind
        out.cuts[i] = Cut.GLUE if self.heading else cut
        out.section[i] = self.current
        out.block[i] = self.blocks
        self.heading = False

    def begin(self, led_in: bool = False) -> Cut:
        """A new block: the cut before it, weaker where the line above leads in to it with a colon."""
        self.blocks += 1
        return Cut.MAJOR if led_in and self.above.endswith(":") else Cut.BLOCK

    def blank(self, i: int) -> None:
        self.out.kinds[i] = Kind.BLANK
        self.out.cuts[i] = Cut.BLANK
        self.out.section[i] = self.current
        self.out.block[i] = self.blocks

    def run(self) -> None:
        lines = self.lines
        i = self.front_matter()
        while i < len(lines):
            line = lines[i]
            text = line.strip()
            if not text:
                self.blank(i)
                self.open = None
                i += 1
                continue
            first = text[0]
            indent = indent_of(line) if line[0] in " \t" else 0
            if first in "#`~|<>=-*+_0123456789!?" or "|" in text:
                after = self.special(i, text, first, indent)
            else:
                after = 0
            if not after:
                after = self.plain(i, text, indent)
            self.above = text
            i = after

    def front_matter(self) -> int:
        """The lines of the front matter, 0 if there is none."""
        lines = self.lines
        mark = lines[0].lstrip("\ufeff").strip() if lines else ""
        if mark not in ("---", "+++"):
            return 0
        for j in range(1, min(len(lines), _MAX_FRONT_MATTER_LINES)):
            if lines[j].strip() == mark or (mark == "---" and lines[j].strip() == "..."):
                self.code(0, j + 1)
                self.open = None
                return j + 1
        return 0

    def special(self, i: int, text: str, first: str, indent: int) -> int:
        """The line after what begins at ``i`` if its first character begins something, else 0."""
        inside = self.container is not None
        if first == "#":
            found = _ATX.match(text)
            if found and (indent < 4 or inside):
                return self.title(i, i + 1, len(found[1]), _ATX_END.sub("", text[found.end() :].strip()))
            return 0
        if first in "`~" or (first == ">" and text.lstrip("> \t")[:3] in ("```", "~~~")):
            return self.fence(i, text, first == ">")
        if (
            first in "=-"
            and self.open is Kind.PROSE
            and not inside
            and _SETEXT.match(text)
            and i - self.paragraph <= 3
        ):
            title = " ".join(line.strip() for line in self.lines[self.paragraph : i])
            return self.title(self.paragraph, i + 1, 1 if first == "=" else 2, title)
        if first in "-*_" and _RULE.match(text):
            self.put(i, Kind.PROSE, self.begin())
            self.open = self.container = None
            return i + 1
        if (first in "-*+" or first.isdigit()) and _ITEM.match(text) and (indent < 4 or inside):
            return self.item(i, indent)
        if "|" in text and i + 1 < len(self.lines):
            below = self.lines[i + 1].strip()
            if "-" in below and ("|" in below or ":" in below) and _DELIMITER.match(below):
                return self.table(i)
        if first == "<" and self.open is None and (indent < 4 or inside):
            return self.html(i, text)
        return 0

    def title(self, start: int, end: int, level: int, title: str) -> int:
        title = _ANCHOR.sub("", _LINK.sub(r"\1", title[:_MAX_SCANNED_TITLE]))
        title = title.replace("`", "").replace("**", "").strip()[:_MAX_TITLE]
        while self.path and self.path[-1][0] >= level:
            self.path.pop()
        self.path.append((level, title))
        self.out.sections.append(" > ".join(name for _, name in self.path if name))
        self.current = len(self.out.sections) - 1
        self.blocks += 1
        # Until its underline came, a setext heading was taken for a paragraph under the heading above.
        glued = self.heading or (start < end - 1 and self.out.cuts[start] == Cut.GLUE)
        for i in range(start, end):
            self.heading = glued if i == start else True
            self.put(i, Kind.HEADING, Cut.HEADING)
        self.heading = True
        self.open = self.container = None
        return end

    def fence(self, i: int, text: str, quoted: bool) -> int:
        body = text.lstrip("> \t") if quoted else text
        found = _FENCE.match(body)
        if not found:
            return 0
        mark = found[1]
        lines = self.lines
        j = i + 1
        while j < len(lines):
            line = lines[j].strip()
            if quoted:
                if not line.startswith(">"):
                    break
                line = line.lstrip("> \t")
            if line.startswith(mark) and not line.strip(mark[0]):
                j += 1
                break
            j += 1
        self.code(i, j)
        # Inside a list what follows may still belong to the item.
        self.open = None
        return j

    def code(self, start: int, end: int, kind: Kind = Kind.CODE) -> None:
        """Lines ``[start, end)`` are one block of code; its first and last line (fences, perhaps) stay with
        the rest."""
        lead = self.begin(led_in=True)
        cuts = self.out.cuts
        _grade_code(self.lines, start, end, cuts, after_blank=Cut.MAJOR, edge=Cut.MINOR)
        grades = cuts[start:end]
        for i, grade in enumerate(grades, start):
            if grade == Cut.BLANK:
                self.blank(i)
            else:
                self.put(i, kind, lead if i == start else grade)
        if end - start > 2:
            for i in (start + 1, end - 1):
                if cuts[i] > Cut.GLUE:
                    cuts[i] = Cut.GLUE
        self.out.spans.append((start, end))

    def item(self, i: int, indent: int) -> int:
        if self.container is not None and self.container[0] is Kind.LIST:
            base = self.container[1]
            if indent < base:
                self.container = (Kind.LIST, indent)
            self.put(i, Kind.LIST, Cut.MAJOR if indent <= base + 1 else Cut.MINOR)
        else:
            self.put(i, Kind.LIST, self.begin(led_in=True))
            self.container = (Kind.LIST, indent)
        self.open = Kind.LIST
        return i + 1

    def table(self, i: int) -> int:
        lines = self.lines
        j = i + 2
        while j < len(lines) and "|" in lines[j]:
            j += 1
        lead = self.begin(led_in=True)
        for k in range(i, j):
            self.put(k, Kind.TABLE, lead if k == i else Cut.GLUE if k <= i + 2 else Cut.MINOR)
        self.out.spans.append((i, j))
        self.open = None
        return j

    def html(self, i: int, text: str) -> int:
        found = _HTML_HEADING.match(text)
        if found:
            return self.title(i, i + 1, int(found[1]), found[2])
        found = _HTML_OPEN.match(text)
        if not found:
            return 0
        tag = (found[2] or "").lower()
        lines = self.lines
        if tag in _RAW_HTML and not found[1]:
            close = f"</{tag}"
        else:
            close = "-->" if text.startswith("<!--") else ""
        j = i
        while j < len(lines) and (close or lines[j].strip()):
            j += 1
            if close and close in lines[j - 1].lower():
                break
        kind = _HTML_KINDS.get(tag, Kind.PROSE)
        if kind is Kind.CODE:
            self.code(i, j)
        else:
            lead = self.begin()
            for k in range(i, j):
                if lines[k].strip():
                    self.put(k, kind, lead if k == i else Cut.MINOR)
                else:
                    self.blank(k)
        self.open = None
        return j

    def plain(self, i: int, text: str, indent: int) -> int:
        if self.open is None and self.container is not None and indent < self.container[1] + 2:
            self.container = None
        if self.open is None and self.container is None and indent >= 4:
            return self.indented(i)
        kind = self.container[0] if self.container is not None else Kind.PROSE
        if self.open is not None:
            self.put(i, kind, Cut.LINE if self.above.endswith((".", "!", "?", ":", "  ")) else Cut.WRAP)
        elif self.container is not None:
            self.put(i, kind, Cut.MINOR)
        else:
            self.put(i, kind, self.begin())
            self.paragraph = i
        if self.container is None and _CONTAINER.match(text):
            self.container = (Kind.PROSE, indent)
        self.open = kind
        return i + 1

    def indented(self, i: int) -> int:
        """Indented code, up to the next line that stands further left, without blank lines at its end."""
        lines = self.lines
        j = end = i
        while j < len(lines):
            if lines[j].strip():
                if indent_of(lines[j]) < 4:
                    break
                end = j + 1
            j += 1
        self.code(i, end)
        self.open = None
        return end


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
