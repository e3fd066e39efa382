"""Markdown in pieces that may state something: rows, items, lines of diagrams, sentences.

A piece knows where it stands (code points of the document), what it reads as without its marks, and the
context it is read with: headings, the paragraph that introduces a list or table, a table's header.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

#: More than this is no line, cell or paragraph that anybody wrote.
MAX_PIECE = 20_000
_MAX_CELLS = 60
#: How a page holds a drawing that its browser makes: ``<pre class="mermaid">``.
_DRAWING = re.compile(r"[ \t>]*<(pre|div)\b[^>]*\bmermaid\b[^>]*>[ \t]*\Z")
#: The line that begins a flowchart of Mermaid.
_FLOWCHART = re.compile(
    r"[ \t>]*(?:graph|flowchart(?:-elk)?)(?:[ \t]+(?:T[BD]|BT|RL|LR|[<>^v]))?[ \t]*;?[ \t]*\Z"
)
#: A comment in a diagram of Mermaid, and what its text and the brackets around it are told by.
COMMENTED = re.compile(r"[ \t>]*%%")
_SIGNS = re.compile(r"[\"\[\](){}\n]")
#: More than this is no line of a diagram, nor a node of one.
_MAX_DRAWN = 2000
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*([^\s`{]*)")
_HEADING = re.compile(r"[ \t>]{0,12}(#{1,6})[ \t]+(.*?)[ \t#]*\Z")
_ITEM = re.compile(r"([ \t>]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?=\S)")
_DELIMITER = re.compile(r"[ \t>]*\|?[ \t]*:?-{1,}:?[ \t]*(?:\|[ \t]*:?-{1,}:?[ \t]*)*\|?[ \t]*\Z")
_UNDERLINE = re.compile(r"[ \t]{0,3}(?:=+|-{2,})[ \t]*\Z")
_PIPE = re.compile(r"(?<!\\)\|")
_HTML_ROW = re.compile(r"(?is)<tr\b[^>]*>(.*?)(?=</tr|<tr\b|</table|</tbody|\Z)")
_HTML_CELL = re.compile(r"(?is)<(t[dh])\b[^>]*>(.*?)(?=</t[dh]|<t[dh]\b|\Z)")
_COMMENT = re.compile(r"(?s)<!--.*?(?:-->|\Z)")
#: What begins an element that no browser shows: hidden, or without text to read (HTML Living Standard).
_HIDDEN = re.compile(
    r"(?im)^[ \t>]*<(?:(?P<raw>script|style|template)\b|(?P<named>[a-z][a-z0-9]*)\b[^<>]{0,300}?"
    r"(?:\shidden(?=[\s=>])|display:\s*none))[^<>]{0,300}>"
)
#: A link reference definition (CommonMark 0.31, 4.7), which some write as a comment.
_DEFINITION = re.compile(r"[ ]{0,3}\[[^\]^][^\]]{0,200}\]:[ \t]+\S")
_FRONT_MATTER = re.compile(r"\A(?:---|\+\+\+)[ \t]*\n.*?\n(?:---|\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL)
_ADDRESS_START = re.compile(r"[`<\[(]*(?:[a-z][a-z0-9+.-]*://|[`]?\S{1,60}:\d)[^\s|]*\s+[-–—:]\s")
#: A line "key: value" of a paragraph or item; the key is short and no clause.
KEY = re.compile(
    r"(?:[^\w\s<`\[*]{1,3}\s+)?(?P<key>\*\*[^*:\n]{1,60}:?\*\*|__[^_:\n]{1,60}:?__|`[^`\n]{1,60}`"
    r"|\[[^\]\n]{1,60}\]\([^)\s]*\)|[^\s:*`|>][^:\n|`*]{0,48}?)"
    r"(?:\s*\([^()\n]{1,40}\))?(?P<mark>\s*:(?=\s)|(?<=:\*\*)|(?<=:__)|\s+[-–—](?=\s))\s*(?=\S)"
)
_LABELLED = re.compile(
    r"[^\w<`\[*]{0,4}(?:\*\*[^*\n]{1,60}:?\*\*|__[^_\n]{1,60}:?__|[A-Z][\w /-]{0,30})\s*:?\s"
)
#: An arrow of text or of a diagram, with the label that some carry.
ARROW = re.compile(
    r"\s*(?:(?P<left><[-=─━]{1,30}(?![-=>─])|[←◄⟵])"
    r"|(?P<both><[-=]{1,30}>|[↔⇄⟷])"
    r"|(?P<right>--?\s(?P<inner>[\w /.-]{1,30}?)\s--?>|-\.\s?(?P<dotted>[^\n>|]{1,60}?)\s?\.->|[-─]{2,40}\s?"
    r"(?P<drawn>[A-Za-z][\w/ .:]{0,20}?)\s?[-─]{1,40}[>▶►→]"
    r"|[-=+─━.]{1,40}>{1,2}|[─━]*[→➜➔➡⟶▶►⇒]|-\.->)(?:\|(?P<label>[^|\n]{0,60})\|)?)\s*"
)
_BREAK = re.compile(r"(?<=[.!?])[\"')*_`]{0,3}\s+(?=[\"'(*_`\[]{0,3}[A-Z0-9✅❌✓⚠])")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|no|fig|[A-Z])\.|^\s*\d+\.)[\"')*_`]{0,3}\Z", re.I
)
_MARKUP = re.compile(
    r"(?P<code>(?P<ticks>`+)(?P<inner>.{1,1000}?)(?<!`)(?P=ticks)(?!`))"
    r"|(?P<image>!\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\]))"
    r"|(?P<open>\[(?=[^\[\]]{1,300}(?:\]\(|\]\[)))"
    r"|(?P<close>\](?:\((?P<href>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+[\"'][^\n)]*)?\)|\[[^\]"
    r"\n]{0,100}\]))"
    r"|(?P<note>\[\^[^\]\s]{1,40}\])"
    r"|<(?P<auto>[a-z][a-z0-9+.-]*://[^\s<>]+)>"
    r"|(?P<line><br\s*/?>)"
    r"|(?P<tag></?(?:a|abbr|b|big|center|cite|code|del|details|div|em|font|h[1-6]|hr|i|img|ins|"
    r"kbd|li|ol|p|pre|q|"
    r"s|samp|small|span|strike|strong|sub|summary|sup|t[dh]|u|ul|var)\b[^<>]{0,500}>)"
    r"|(?P<bold>\*\*\*?|(?<!\w)__(?=\S)|(?<=\S)__(?!\w))"
    r"|(?P<italic>\*|(?<!\w)_(?=\S)|(?<=[^\s_])_(?!\w))"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<space>\s*\n[ \t>]*)"
    r"|(?P<entity>&(?:amp|lt|gt|nbsp|quot|#\d{1,6});)",
    re.DOTALL,
)
#: What follows an asterisk that begins emphasis (CommonMark 0.31, section 6.2): text, and one that ends it.
_EMPHASIS = re.compile(r"(?=\S)(?:[^*]++|\*{2,}+)*+(?<!\s)\*")
_SPECIAL = re.compile(r"[`*_\[<\\\n&]|\]\(")
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": " ", "&quot;": '"'}


#: What a path or a title calls what is to come. A plan, a design or a specification may as well be of what
#: there is (of addresses, of a recovery); one among plans, or of a day (ISO 8601), was written before.
_PLAN = re.compile(
    r"(?i)roadmap|(?:\A|[\s/])todos?\b(?![/_-])|(?:\A|[/_.-])proposals?(?:[/_.-]|\Z)|(?:\A|/)plans?/"
    r"|(?:\A|\W)(?:19|20)\d\d-[01]\d(?:-[0-3]\d)?\b.*\b(?:plans?|designs?|specs?|specifications?)\b"
    r"|\b(?:plans?|designs?|specs?|specifications?)\b.*\W(?:19|20)\d\d-[01]\d"
)
#: Beneath any plan a value that differs from what is in force is no contradiction.
_TO_COME = re.compile(rf"{_PLAN.pattern}|\b(?:plans?|planned|planning)\b")
_TITLE = re.compile(r"^#[ \t]+(.+)$", re.MULTILINE)


def is_to_come(said: str) -> bool:
    """Whether a path, or a heading, says of what stands beneath it that it is a plan, and so not in force."""
    return _TO_COME.search(said) is not None


def is_plan(path: str, source: str) -> bool:
    """Whether a document says of itself, by its path or its title, that it is a plan."""
    title = _TITLE.search(source)
    return _PLAN.search(path) is not None or (title is not None and _PLAN.search(title[1]) is not None)


@dataclass(slots=True)
class Text:
    """What a stretch of a document reads as. ``marks``: (start, end, ``code``, ``bold`` or ``link``), by
    place in ``plain``."""

    plain: str
    start: int
    end: int
    marks: list[tuple[int, int, str]] = field(default_factory=list)
    _plain_at: list[int] = field(default_factory=list)
    _source_at: list[int] = field(default_factory=list)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Code points of the document behind ``plain[start:end]``, which must not be empty."""
        return self._at(start), self._at(end - 1) + 1

    def offsets(self) -> list[int]:
        """Where each code point of ``plain`` stands in the document."""
        if not self._plain_at:
            return list(range(self.start, self.start + len(self.plain)))
        ends = [*self._plain_at[1:], len(self.plain)]
        runs = zip(self._source_at, self._plain_at, ends, strict=True)
        return [at for source, plain, end in runs for at in range(source, source + end - plain)]

    def _at(self, at: int) -> int:
        if not self._plain_at:
            return self.start + at
        run = bisect_right(self._plain_at, at) - 1
        return self._source_at[run] + at - self._plain_at[run]


def read_text(source: str, start: int, end: int) -> Text:
    """Return the stretch as it reads: without marks of Markdown, with line breaks as blanks."""
    while start < end and source[start] in " \t\r\n":
        start += 1
    while end > start and source[end - 1] in " \t\r\n":
        end -= 1
    end = min(end, start + MAX_PIECE)
    if _SPECIAL.search(source, start, end) is None:
        return Text(source[start:end], start, end)
    found = Text("", start, end)
    pieces: list[str] = []
    length = 0
    opened: list[int] = []
    bold: int | None = None
    emphasized = False

    def add(text: str, at: int) -> None:
        nonlocal length
        if text:
            found._plain_at.append(length)
            found._source_at.append(at)
            pieces.append(text)
            length += len(text)

    at = start
    for match in _MARKUP.finditer(source, start, end):
        add(source[at : match.start()], at)
        at = match.end()
        match match.lastgroup:
            case "code" | "inner" | "ticks":
                inner, inside = match["inner"], match.start("inner")
                trimmed = inner.strip()
                begin = length
                add(trimmed, inside + len(inner) - len(inner.lstrip()))
                if trimmed:
                    found.marks.append((begin, length, "code"))
            case "open":
                opened.append(length)
            case "close" | "href":
                if opened:
                    begin = opened.pop()
                    if begin < length:
                        found.marks.append((begin, length, "link"))
                # Without an opening it ends a link around an image, whose address says nothing.
            case "auto":
                add(match["auto"], match.start("auto"))
            case "bold":
                if bold is None:
                    bold = length
                else:
                    if bold < length:
                        found.marks.append((bold, length, "bold"))
                    bold = None
            case "italic" if match["italic"] == "*":
                if emphasized and not source[match.start() - 1].isspace():
                    emphasized = False
                elif not emphasized and _EMPHASIS.match(source, match.end(), end):
                    emphasized = True
                else:
                    add("*", match.start())
            case "escaped":
                add(match["escaped"], match.start("escaped"))
            case "space":
                add(" ", match.start())
            case "line":
                add(" \u00b7 ", match.start())
            case "entity":
                add(_ENTITIES.get(match["entity"], "\ufffd"), match.start())
    add(source[at:end], at)
    found.plain = "".join(pieces)
    return found


@dataclass(slots=True)
class Table:
    """What the rows of a table share: its header, and the cells of all of them."""

    header: list[Text]
    rows: list[list[Text]] = field(default_factory=list)
    #: Column of the files that the rows are about, or -1; None until the reader of tables looked for it.
    files: int | None = None


@dataclass(slots=True)
class Segment:
    """A piece of a document. ``form``: ``table``, ``arrow``, ``key-value``, ``list item``, ``sentence`` or
    ``code``."""

    form: str
    text: Text
    headings: tuple[str, ...]
    intro: str = ""
    table: Table | None = None
    cells: list[Text] = field(default_factory=list)
    #: The language of the fence that a line of a diagram stands in; None outside fences.
    fence: str | None = None
    #: Whether it is, or begins, an item of a list, and which number an ordered one has.
    item: str = ""
    #: Number of the fence or table in the document, so that its lines are read together.
    group: int = 0


def segments(source: str, *, code: bool = False) -> list[Segment]:
    """Return the pieces of a Markdown text, in order; with ``code`` also the lines of other fences."""
    return list(_Reader(source, code).read())


class _Reader:
    def __init__(self, source: str, code: bool) -> None:
        self._source, self._code = source, code
        self._headings: list[tuple[int, str]] = []
        self._intro = ""
        self._group = 0
        self._comments = [m.span() for m in _COMMENT.finditer(source)] if "<!--" in source else []
        if "<" in source:
            self._comments = sorted([*self._comments, *_hidden_elements(source)])
        self._html = list(_html_tables(source))

    def read(self) -> Iterator[Segment]:
        source = self._source
        front = _FRONT_MATTER.match(source)
        at = front.end() if front else 0
        fence = ""
        language = ""
        flowchart = False
        block: list[tuple[int, int]] = []  # lines of the paragraph or item that is being read
        item = ""
        size = len(source)
        while at < size:
            end = source.find("\n", at)
            end = size if end < 0 else end
            start, after = at, end + 1
            at = after
            line = source[start : min(end, start + MAX_PIECE)].rstrip("\r")
            skipped = self._skipped(start) if self._comments or self._html else None
            if skipped is not None and not fence:
                yield from self._block(block, item)
                block, item = [], ""
                if skipped[1] == "table":
                    yield from self._html_table(start, skipped[0])
                at = max(after, skipped[0])
                continue
            opened = _FENCE.match(line) if "``" in line or "~~" in line else None
            drawing = _DRAWING.match(line) if not fence and "mermaid" in line else None
            if drawing is not None:
                yield from self._block(block, item)
                block, item = [], ""
                fence, language, flowchart = f"</{drawing[1]}>", "mermaid", False
                self._group += 1
                continue
            if fence:
                if line.strip() == fence or (
                    opened and opened[1].startswith(fence) and not line[opened.end(1) :].strip()
                ):
                    fence = ""
                else:
                    stop = self._statement(start, start + len(line), fence) if flowchart else None
                    # What does not end is no flowchart, and its lines are read as they stand.
                    flowchart = stop is not None or (language in DRAWN and _FLOWCHART.match(line) is not None)
                    stop = stop or start + len(line)
                    at = max(after, stop + 1)
                    yield from self._drawn(start, stop, language)
                continue
            if opened:
                yield from self._block(block, item)
                block, item = [], ""
                fence, language, flowchart = opened[1], opened[2].lower(), False
                self._group += 1
                continue
            if not line.strip(" \t>") or (not block and "]:" in line and _DEFINITION.match(line)):
                yield from self._block(block, item)
                block, item = [], ""
                continue
            heading = _HEADING.match(line) if "#" in line else None
            if heading:
                yield from self._block(block, item)
                block, item = [], ""
                self._heading(len(heading[1]), heading[2])
                continue
            if (
                block
                and len(block) == 1
                and not item
                and _UNDERLINE.match(line)
                and "|" not in source[slice(*block[0])]
            ):
                self._heading(1 if "=" in line else 2, source[slice(*block[0])])
                block = []
                continue
            if ("|" in line and not block) or ("|" in line and line.lstrip(" >").startswith("|")):
                begin = after
                next_end = source.find("\n", begin)
                following = source[begin : size if next_end < 0 else min(next_end, begin + 2000)].rstrip("\r")
                if "-" in following and "|" in following and _DELIMITER.match(following):
                    yield from self._block(block, item)
                    block, item = [], ""
                    rows, at = self._table(start, start + len(line), size if next_end < 0 else next_end + 1)
                    yield from rows
                    continue
            started = _ITEM.match(line)
            if started and not (started[1].count(" ") > 200):
                yield from self._block(block, item)
                marker = line[len(started[1]) : started.end()].split()[0]
                block, item = [(start + started.end(), start + len(line))], marker
                continue
            block.append((start, start + len(line)))
        yield from self._block(block, item)

    def _skipped(self, at: int) -> tuple[int, str] | None:
        for spans, kind in ((self._comments, "comment"), (self._html, "table")):
            while spans and spans[0][1] <= at:
                spans.pop(0)
            if spans and spans[0][0] <= at + 20 and not self._source[at : spans[0][0]].strip(" \t>"):
                return spans[0][1], kind
        return None

    def _heading(self, level: int, text: str) -> None:
        said = read_text(text, 0, len(text)).plain.strip(" :")
        self._headings = [h for h in self._headings if h[0] < level]
        if said:
            self._headings.append((level, said[:200]))
        self._intro = ""

    def _above(self) -> tuple[str, ...]:
        return tuple(said for _, said in self._headings)

    def _block(self, lines: list[tuple[int, int]], item: str) -> Iterator[Segment]:
        """The segments of a paragraph or item."""
        if not lines:
            return
        source = self._source
        start, end = lines[0][0], min(lines[-1][1], lines[0][0] + MAX_PIECE)
        # A paragraph of labelled lines is a list that has no marks.
        if len(lines) > 1 and not item and all(_labelled(source, one) for one in lines):
            for one in lines:
                yield from self._piece(*one, "-")
            if len(lines) < 5 and _names_subject(source[slice(*lines[0])]):
                yield Segment(
                    "key-value", read_text(source, start, end), self._above(), self._intro, item="lines"
                )
            return
        yield from self._piece(start, end, item)
        if not item:
            self._intro = source[max(start, end - 300) : end].strip()

    def _piece(self, start: int, end: int, item: str) -> Iterator[Segment]:
        source = self._source
        while start < end and source[start] in " \t>":
            start += 1
        key = KEY.match(source, start, end)
        bounds = list(_sentences(source, start, end))
        for number, (begin, finish) in enumerate(bounds):
            text = read_text(source, begin, finish)
            if not any(c.isalnum() for c in text.plain):
                continue
            form = "sentence"
            if number == 0 and (key or _ADDRESS_START.match(source, begin, finish)) and (item or key):
                form = "key-value"
            elif item and len(bounds) == 1:
                form = "list item"
            if ("->" in text.plain or ARROW_SIGN.search(text.plain)) and ARROW.search(text.plain):
                form = "arrow"
            yield Segment(
                form, text, self._above(), self._intro if item else "", item=item if number == 0 else ""
            )

    def _statement(self, start: int, end: int, fence: str) -> int | None:
        """Where a statement of a flowchart ends whose first line is ``[start, end)``: text in quotes or in
        the brackets of a node goes on over lines (Mermaid, ``flow.jison``). None if it does not end."""
        source = self._source
        if COMMENTED.match(source, start) or end - start >= _MAX_DRAWN:
            return end
        quoted, depth = False, 0
        for sign in _SIGNS.finditer(source, start, start + _MAX_DRAWN):
            match sign[0]:
                case '"':
                    quoted = not quoted
                case "\n" if not quoted and depth == 0:
                    return end + len(source[end : sign.start()].rstrip("\r"))
                case "\n" if source[sign.end() : sign.end() + 80].lstrip(" \t>").startswith(fence):
                    break
                case "[" | "(" | "{" if not quoted:
                    depth += 1
                case "]" | ")" | "}" if not quoted:
                    depth = max(0, depth - 1)
        return None

    def _drawn(self, start: int, end: int, language: str) -> Iterator[Segment]:
        """A line of a fence, if it may be one of a diagram."""
        line = self._source[start:end]
        if (language in DRAWN or self._code) and line.strip() and len(line) < _MAX_DRAWN:
            form = "arrow" if language in DRAWN else "code"
            text = Text(line, start, end)
            yield Segment(form, text, self._above(), self._intro, fence=language, group=self._group)

    def _table(self, start: int, end: int, at: int) -> tuple[list[Segment], int]:
        """The rows of a table whose header stands at ``[start, end)``, and where to read on."""
        source, size = self._source, len(self._source)
        table = Table([read_text(source, *cell) for cell in _cells(source, start, end)])
        self._group += 1
        group = self._group
        rows: list[Segment] = []
        while at < size:
            finish = source.find("\n", at)
            finish = size if finish < 0 else finish
            if "|" not in source[at:finish] or not source[at:finish].strip():
                break
            cells = [read_text(source, *cell) for cell in _cells(source, at, finish)]
            row_start = at
            while row_start < finish and source[row_start] in " \t>":
                row_start += 1
            rows.append(
                Segment(
                    "table",
                    Text("", row_start, max(row_start + 1, _rstrip(source, row_start, finish))),
                    self._above(),
                    self._intro,
                    table,
                    cells,
                    group=group,
                )
            )
            at = finish + 1
        table.rows = [row.cells for row in rows]
        return rows, at

    def _html_table(self, start: int, end: int) -> Iterator[Segment]:
        source = self._source
        table = Table([])
        self._group += 1
        rows: list[Segment] = []
        for row in _HTML_ROW.finditer(source, start, end):
            found = [
                (c[1].lower(), read_text(source, *c.span(2)))
                for c in _HTML_CELL.finditer(source, *row.span(1))
            ]
            cells = [text for _, text in found[:_MAX_CELLS]]
            if not table.header and cells and (found[0][0] == "th" or not rows):
                table.header = cells
            elif cells:
                rows.append(
                    Segment(
                        "table",
                        Text("", cells[0].start, max(c.end for c in cells)),
                        self._above(),
                        self._intro,
                        table,
                        cells,
                        group=self._group,
                    )
                )
        table.rows = [row.cells for row in rows]
        yield from rows


def _html_tables(source: str) -> Iterator[tuple[int, int]]:
    lower = source.lower()
    start = lower.find("<table")
    while start >= 0:
        end = lower.find("</table", start)
        if end < 0 or len(lower) != len(source):
            return
        yield start, end + len("</table>")
        start = lower.find("<table", end)


def _hidden_elements(source: str) -> Iterator[tuple[int, int]]:
    """Where elements stand that no browser shows; one that does not end is none."""
    lower, unclosed, last = source.lower(), set[str](), 0
    if len(lower) != len(source):
        return
    for match in _HIDDEN.finditer(source):
        name = (match["raw"] or match["named"]).lower()
        if match.start() < last or name in unclosed:
            continue
        end = lower.find(f"</{name}", match.end())
        if end < 0:
            unclosed.add(name)
            continue
        last = end + len(name) + 3
        yield match.start(), last


ARROW_SIGN = re.compile(r"=>|[→➜➔➡⟶▶►⇒←◄⟵↔⇄⟷]|<-|─>|-\.-")
#: Languages of fences that hold drawings or plain text.
DRAWN = frozenset(
    ("", "text", "txt", "plain", "plaintext", "mermaid", "ascii", "diagram", "none", "console-diagram")
)


def _names_subject(line: str) -> bool:
    """Whether a labelled line tells what the ones behind it are about: "Service: ledger"."""
    return (
        re.match(r"(?i)\W*(?:service|container|component|app|application|name|host)(?: name)?\W*:", line)
        is not None
    )


def _labelled(source: str, line: tuple[int, int]) -> bool:
    return KEY.match(source, *line) is not None and _LABELLED.match(source, *line) is not None


def _rstrip(source: str, start: int, end: int) -> int:
    while end > start and source[end - 1] in " \t\r":
        end -= 1
    return end


def _cells(source: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the cells of a row stand; a bar inside inline code parts cells as well, as in GFM."""
    while start < end and source[start] in " \t>":
        start += 1
    end = _rstrip(source, start, end)
    if start < end and source[start] == "|":
        start += 1
    if start < end and source[end - 1] == "|" and source[end - 2 : end - 1] != "\\":
        end -= 1
    found = []
    for bar in _PIPE.finditer(source, start, end):
        found.append((start, bar.start()))
        start = bar.end()
        if len(found) >= _MAX_CELLS:
            return found
    return [*found, (start, end)]


def _sentences(source: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for match in _BREAK.finditer(source, start, end):
        if _ABBREVIATED.search(source, max(begin, match.start() - 12), match.start()):
            continue
        if source.count("`", begin, match.start()) % 2:
            continue
        yield begin, match.start()
        begin = match.end()
    if begin < end:
        yield begin, end
