"""A positioned HTML tree to Markdown blocks that remember which range of the source they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from taboot_pipelines.documents.html_tree import (
    BLOCK,
    RAW,
    TABLE_CELLS,
    TABLE_SECTIONS,
    Element,
    Text,
    pieces,
)
from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import word_list

Kind = Literal["heading", "paragraph", "item", "code", "table"]
#: Code points ``[start, end)`` of the block's Markdown, and of the source.
Segment = tuple[int, int, int, int]

#: Elements that show no text of the page.
_SKIPPED = RAW | word_list("taboot_pipelines.documents", "html_skipped_elements.txt")
_INVISIBLE = re.compile("[\u00ad\u200b\u200c\u200d\u2060\ufeff\x00]")
_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
#: Line numbers, permalinks and copy buttons of documentation generators.
_FURNITURE = re.compile(
    r"(?:^|\s)"
    r"(?:headerlink|header-anchor|anchor-link|anchorjs-link|hash-link|linenos|lineno|md-clipboard|copybtn"
    r"|md-content__button|md-source-file|visually-hidden|sr-only|screen-reader-text|clipboard-copy"
    r"|zeroclipboard-container|mw-editsection)"
    r"(?:\s|$)"
)
#: What stands in the attributes of an element that may be hidden, or furniture.
_MAY_BE_HIDDEN = (
    *("hidden", "display", "visibility", "headerlink", "anchor", "hash-link", "lineno", "clipboard"),
    *("copybtn", "md-content__button", "md-source-file", "sr-only", "screen-reader", "mw-editsection"),
)
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight(?:-source)?|brush:|sourceCode)[-\s]?([A-Za-z0-9+#_.-]{1,30})"
)
_NOT_LANGUAGES = frozenset(
    ("none", "plaintext", "text", "default", "highlight", "notranslate", "wrap", "copy")
)
_ESCAPED_START = re.compile(r"^(#{1,6}(?=\s)|`{3,}|~{3,})")
_BACKTICKS = re.compile(r"`+")
#: Lists and quotes nested so deep that their marks take more columns than this show no further marks: each
#: line of a block repeats them.
_MAX_PREFIX = 40
#: Ranges of the source that blocks refer to, most of all lines of code; each costs a third of a kilobyte.
MAX_SEGMENTS = 1_000_000
#: Rows are padded to the widest unless that would give more than so many cells for each that the page has.
_MAX_PADDING, _PADDED_ANYHOW = 4, 1000


@dataclass(slots=True)
class Block:
    """One Markdown block. ``text`` carries the prefixes of lists and quotes; ``plain`` is its words alone;
    ``segments`` cover ``text`` in order. ``start``/``end``: the source range of the whole block."""

    kind: Kind
    text: str
    plain: str
    segments: list[Segment]
    #: The list that an item belongs to: neighbours of one list are joined without a blank line.
    group: int
    #: Share of the words that stand in links.
    linked: float = 0.0
    #: Whether it stands in a list of terms and definitions.
    defines: bool = False

    @property
    def start(self) -> int:
        return min(s[2] for s in self.segments)

    @property
    def end(self) -> int:
        return max(s[3] for s in self.segments)


@dataclass(slots=True)
class _Context:
    """What stands before the lines of a block: ``first`` once (a list marker), ``rest`` on all others."""

    first: str = ""
    rest: str = ""
    group: int = 0

    def take(self) -> str:
        first, self.first = self.first, self.rest
        return first

    def inside(self, first: str, rest: str, group: int) -> _Context:
        """The context of what it holds, whose first line has the marks ``first`` and each further one
        ``rest``; without them below :data:`_MAX_PREFIX`."""
        if len(self.rest) >= _MAX_PREFIX:
            first = rest = ""
        return _Context(self.take() + first, self.rest + rest, group)


@dataclass(slots=True)
class _Run:
    """A piece of inline Markdown; ``start`` < 0 for what stands in no text (marks, URLs)."""

    text: str
    start: int
    end: int
    verbatim: bool = False
    in_link: bool = False


def is_hidden(element: Element) -> bool:
    """Whether a browser would not show it, or it is furniture that no reader means."""
    if element.tag in _SKIPPED or element.tag == "noscript":
        return True
    if not element.may_say(_MAY_BE_HIDDEN):
        return False
    attributes = element.attributes
    if (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or _HIDDEN_STYLE.search(attributes.get("style", "")[:400])
    ):
        return True
    return "class" in attributes and _FURNITURE.search(attributes["class"]) is not None


class _Renderer:
    def __init__(
        self, source: str, skip: Callable[[Element], bool], hidden: Callable[[Element], bool]
    ) -> None:
        self.source = source
        self.skip = skip
        self.hidden = hidden
        self.blocks: list[Block] = []
        self.runs: list[_Run] = []
        self.groups = 0
        self.segments = 0

    # Inline content -----------------------------------------------------------------------------------------

    def add_text(self, start: int, end: int, in_link: bool = False) -> None:
        if not self.runs and self.source[start:end].isspace():
            return  # no line begins with blanks
        for text, a, b in pieces(self.source, start, end):
            self.runs.append(_Run(text, a, b, False, in_link))

    def inline(self, element: Element, context: _Context, in_link: bool = False) -> None:
        """An element inside a line. One that holds blocks is passed through as if it were a block."""
        tag = element.tag
        if tag == "br":
            self.runs.append(_Run("\n", element.start, element.end, True))
            return
        if tag == "img":
            if in_link and (alt := element.get("alt").strip()):
                self.runs.append(_Run(alt[:300], -1, -1, False, True))
            return
        if tag in ("code", "kbd", "samp", "tt") and not any(
            c.tag in BLOCK for c in element.walk() if c is not element
        ):
            self.inline_code(element, in_link)
            return
        if tag == "a":
            href = element.get("href").strip()
            mark = len(self.runs)
            blocks = len(self.blocks)
            self.children(element, context, True)
            if len(self.blocks) != blocks or not any(r.text.strip() for r in self.runs[mark:]):
                return
            label = "".join(r.text for r in self.runs[mark:]).strip()
            if label in ("¶", "#", "§", "🔗", "") and not href.startswith("http"):
                del self.runs[mark:]  # a permalink of a heading
            elif (
                href[:8].lower().startswith(("http://", "https://"))
                and label != href
                and not re.search(r"[\s<>()]", href)
                and not in_link
            ):
                self.runs.insert(mark, _Run("[", -1, -1, True))
                self.runs.append(_Run(f"]({href})", -1, -1, True))
            return
        self.children(element, context, in_link)

    def inline_code(self, element: Element, in_link: bool) -> None:
        runs = [
            _Run(_SPACE.sub(" ", text), a, b, True, in_link)
            for run in element.texts()
            for text, a, b in pieces(self.source, run.start, run.end)
        ]
        content = "".join(r.text for r in runs)
        if not content.strip():
            return
        fence = "`" * (max((len(m[0]) for m in _BACKTICKS.finditer(content)), default=0) + 1)
        pad = " " if content.startswith("`") or content.endswith("`") else ""
        self.runs.append(_Run(fence + pad, -1, -1, True))
        self.runs.extend(runs)
        self.runs.append(_Run(pad + fence, -1, -1, True))

    def take_line(self) -> tuple[str, str, int, int, float]:
        """The collected runs as one text: (Markdown, words alone, source start and end, share in links)."""
        runs, self.runs = self.runs, []
        out: list[str] = []
        plain: list[str] = []
        start, end = -1, -1
        linked = total = 0
        for run in runs:
            text = run.text
            if not run.verbatim:
                text = _SPACE.sub(" ", text)
            text = _INVISIBLE.sub("", text)
            if text and text[0] == " " and (not out or out[-1][-1] in " \n"):
                text = text[1:]
            if not text:
                continue
            if text == "\n" and out:
                out[-1] = out[-1].rstrip(" ")
                if not out[-1]:
                    out.pop()
            out.append(text)
            if run.start >= 0 or not run.verbatim:
                plain.append(text)
            if run.start >= 0 and text.strip():
                start = run.start if start < 0 else min(start, run.start)
                end = max(end, run.end)
                size = len(text.strip())
                total += size
                linked += size if run.in_link else 0
        text = "".join(out).strip()
        text = re.sub(r" ?\n[ \n]*", "\n", text)
        return text, "".join(plain).strip(), start, end, linked / total if total else 0.0

    def expect(self, lines: int) -> None:
        """Raise ``E_TOO_LARGE`` if so many further lines are more than a page may have."""
        if self.segments + lines > MAX_SEGMENTS:
            raise TabootError(
                "E_TOO_LARGE",
                f"The page has more than {MAX_SEGMENTS} lines.",
                remedy="Split the page, or exclude it.",
                lines=self.segments + lines,
            )

    # Blocks -------------------------------------------------------------------------------------------------

    def emit(
        self,
        kind: Kind,
        lines: list[tuple[str, int, int]],
        plain: str,
        context: _Context,
        linked: float = 0.0,
    ) -> None:
        """Add a block of (line, source start, source end); neighbours of equal range share a segment."""
        self.expect(len(lines))
        self.segments += len(lines)
        parts: list[str] = []
        segments: list[Segment] = []
        at = 0
        for i, (line, a, b) in enumerate(lines):
            whole = (context.take() if i == 0 else context.rest) + line
            if not line:
                whole = whole.rstrip()
            whole += "\n" if i + 1 < len(lines) else ""
            if segments and segments[-1][2:] == (a, b):
                segments[-1] = (segments[-1][0], at + len(whole), a, b)
            else:
                segments.append((at, at + len(whole), a, b))
            parts.append(whole)
            at += len(whole)
        if at:
            self.blocks.append(Block(kind, "".join(parts), plain, segments, context.group, linked))

    def flush(
        self, context: _Context, owner: Element | None = None, kind: Kind = "paragraph", prefix: str = ""
    ) -> None:
        """What was collected becomes a block. Its range is the owner's, if it is all that the owner holds."""
        for run in self.runs:
            if run.text and not run.text.isspace():
                break
        else:
            self.runs.clear()
            return
        text, plain, start, end, linked = self.take_line()
        if not text or start < 0:
            return
        if owner is not None:
            start, end = owner.start, owner.end
        if kind == "heading":
            text = prefix + text.replace("\n", " ")
        elif kind == "paragraph":
            text = _ESCAPED_START.sub(r"\\\1", text)
            kind = "item" if context.group else kind
        self.emit(kind, [(line, start, end) for line in text.split("\n")], plain, context, linked)

    def children(self, element: Element, context: _Context, in_link: bool = False) -> None:
        """The children of an inline element or of a container; inline content stays collected."""
        for child in element.children:
            if isinstance(child, Text):
                self.add_text(child.start, child.end, in_link)
            elif self.hidden(child) or self.skip(child):
                continue
            elif child.tag in BLOCK:
                self.flush(context)
                self.block(child, context)
            else:
                self.inline(child, context, in_link)

    def container(self, element: Element, context: _Context) -> None:
        """A block element: what it holds, with its own range where that is a single line of text."""
        blocks = len(self.blocks)
        self.children(element, context)
        self.flush(context, element if len(self.blocks) == blocks else None)

    def block(self, element: Element, context: _Context) -> None:
        tag = element.tag
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            blocks = len(self.blocks)
            self.children(element, context)
            self.flush(
                context, element if len(self.blocks) == blocks else None, "heading", "#" * int(tag[1]) + " "
            )
        elif tag == "pre":
            self.code(element, context)
        elif tag in ("ul", "ol", "menu", "dir"):
            self.listing(element, context)
        elif tag == "table":
            self.table(element, context)
        elif tag == "blockquote":
            self.container(element, context.inside("> ", "> ", 0))
        elif tag in ("dt", "dd"):
            blocks = len(self.blocks)
            self.container(element, context.inside(": ", "  ", context.group) if tag == "dd" else context)
            for block in self.blocks[blocks:]:
                block.defines = True
        elif tag == "hr":
            return
        else:
            self.container(element, context)

    def listing(self, element: Element, context: _Context) -> None:
        if not context.group:
            self.groups += 1
        group = context.group or self.groups
        number = 1
        if element.tag == "ol":
            stated = element.get("start", "1").strip()
            number = int(stated) if re.fullmatch(r"[0-9]{1,6}", stated) else 1
        for child in element.children:
            if isinstance(child, Text):
                self.add_text(child.start, child.end)
            elif self.hidden(child) or self.skip(child):
                continue
            elif child.tag == "li":
                self.flush(context)
                marker = f"{number}. " if element.tag == "ol" else "- "
                blocks = len(self.blocks)
                inner = _Context(context.first, context.rest, group)
                if len(context.rest) < _MAX_PREFIX:
                    inner = _Context(context.first + marker, context.rest + " " * len(marker), group)
                self.container(child, inner)
                if len(self.blocks) > blocks:
                    context.take()
                    number += 1
            elif child.tag in BLOCK:
                self.flush(context)
                self.block(child, _Context(context.take(), context.rest, group))
            else:
                self.inline(child, context)
        self.flush(context)

    def code(self, element: Element, context: _Context) -> None:
        """A fenced block; each of its lines keeps its own range of the source."""
        self.expect(self.source.count("\n", element.start, element.end))
        lines: list[tuple[str, int, int]] = []
        line: list[str] = []
        start, end = -1, -1
        for text, a, b in self.code_pieces(element):
            linear = len(text) == b - a
            at = 0
            while True:
                stop = text.find("\n", at)
                part = text[at:] if stop < 0 else text[at:stop]
                if part:
                    line.append(part)
                    start = (a + at if linear else a) if start < 0 else start
                    end = a + at + len(part) if linear else b
                if stop < 0:
                    break
                where = a + stop if linear else a
                # An empty line is the newline that ends it.
                after = where + 1 if linear else b
                lines.append(("".join(line), start if start >= 0 else where, end if start >= 0 else after))
                line, start, end = [], -1, -1
                at = stop + 1
        if line:
            lines.append(("".join(line), start, end))
        lines = [(_INVISIBLE.sub("", t.replace("\r", "")).rstrip(), a, b) for t, a, b in lines]
        while lines and not lines[0][0]:
            lines.pop(0)
        while lines and not lines[-1][0]:
            lines.pop()
        if not lines:
            return
        longest = max((len(m[0]) for t, _, _ in lines for m in _BACKTICKS.finditer(t)), default=0)
        fence = "`" * max(3, longest + 1)
        plain = "\n".join(t for t, _, _ in lines)
        whole = element.start, element.end
        self.emit("code", [(fence + _language(element), *whole), *lines, (fence, *whole)], plain, context)

    def code_pieces(self, element: Element) -> Iterable[tuple[str, int, int]]:
        stack: list[Element | Text] = list(reversed(element.children))
        while stack:
            node = stack.pop()
            if isinstance(node, Text):
                yield from pieces(self.source, node.start, node.end)
            elif node.tag == "br":
                yield "\n", node.start, node.end
            elif not self.hidden(node) and not self.skip(node):
                stack.extend(reversed(node.children))

    def table(self, element: Element, context: _Context) -> None:
        if _holds_more(self.source, element):
            self.container(element, context)
            return
        rows, captions, data = _rows(element)
        for caption in captions:
            self.container(caption, context)
        if not data:
            for row in rows:
                for cell in _cells(row):
                    if not self.hidden(cell) and not self.skip(cell):
                        self.flush(context)
                        self.container(cell, context)
            return
        table: list[tuple[list[str], Element]] = []
        plain: list[str] = []
        linked = total = 0.0
        for row in rows:
            if self.hidden(row) or self.skip(row):
                continue
            cells = []
            for cell in _cells(row):
                if self.hidden(cell):
                    continue
                text, words, share = self.cell(cell)
                cells.append(text)
                plain.append(words)
                linked += share * len(words)
                total += len(words)
            if any(cells):
                table.append((cells, row))
        if not table:
            return
        width = max(len(cells) for cells, _ in table)
        # GFM reads a row with fewer cells than the first as if they were there.
        pad = width * len(table) <= _MAX_PADDING * sum(len(cells) for cells, _ in table) + _PADDED_ANYHOW
        lines = []
        for i, (cells, row) in enumerate(table):
            if pad or i == 0:
                cells += [""] * (width - len(cells))
            lines.append(("| " + " | ".join(cells) + " |", row.start, row.end))
            if i == 0:
                lines.append(("|" + " --- |" * width, row.start, row.end))
        self.emit("table", lines, " ".join(plain), context, linked / total if total else 0.0)

    def cell(self, cell: Element) -> tuple[str, str, float]:
        """A cell as one line; blocks inside it are joined by spaces."""
        outer, self.blocks = self.blocks, []
        self.children(cell, _Context())
        self.flush(_Context())
        inner, self.blocks = self.blocks, outer
        text = " ".join(" ".join(b.text.split("\n")) for b in inner)
        words = " ".join(b.plain for b in inner)
        linked = sum(b.linked * len(b.plain) for b in inner) / max(1, sum(len(b.plain) for b in inner))
        return _SPACE.sub(" ", text).strip().replace("|", "\\|"), words, linked


def _language(element: Element) -> str:
    """The language that the block's classes name, of its own, its ``code`` or the two elements around."""
    candidates: list[Element] = [
        element,
        *(c for c in element.children if isinstance(c, Element) and c.tag == "code"),
    ]
    parent = element.parent
    for _ in range(3):
        if parent is None or parent.tag not in ("div", "figure", "td", "span"):
            break
        candidates.append(parent)
        parent = parent.parent
    for each in candidates:
        stated = each.get("data-lang") or each.get("data-language")
        if not stated and (found := _LANGUAGE.search(each.get("class")[:400])):
            stated = found[1]
        if (
            stated
            and stated.lower() not in _NOT_LANGUAGES
            and re.fullmatch(r"[A-Za-z0-9+#_.-]{1,30}", stated)
        ):
            return stated.lower()
    return ""


#: What may stand in a table, a section of one and a row (HTML, "Tables"), beside elements of scripts.
_PARTS = {
    "table": TABLE_SECTIONS | {"caption", "colgroup", "col", "tr"},
    **dict.fromkeys(TABLE_SECTIONS, frozenset(("tr",))),
    "tr": TABLE_CELLS,
}
_SCRIPTS = frozenset(("script", "style", "template"))


def _holds_more(source: str, table: Element) -> bool:
    """Whether text stands in a table where none may: a browser shows it, beside the table."""
    waiting = [table]
    while waiting:
        part = waiting.pop()
        for child in part.children:
            if isinstance(child, Text):
                if source[child.start : child.end].strip():
                    return True
            elif child.tag not in _PARTS[part.tag]:
                if child.tag not in _SCRIPTS and any(
                    isinstance(c, Text) and source[c.start : c.end].strip()
                    for e in child.walk()
                    for c in e.children
                ):
                    return True
            elif child.tag in _PARTS:
                waiting.append(child)
    return False


def _rows(table: Element) -> tuple[list[Element], list[Element], bool]:
    """(rows, captions, whether it holds data). A table whose cells hold blocks only lays out the page."""
    rows: list[Element] = []
    captions: list[Element] = []
    for child in table.children:
        if isinstance(child, Element):
            if child.tag == "tr":
                rows.append(child)
            elif child.tag == "caption":
                captions.append(child)
            elif child.tag in TABLE_SECTIONS:
                rows.extend(c for c in child.children if isinstance(c, Element) and c.tag == "tr")
    layout = any(e.tag in ("pre", "table", "h1", "h2", "h3") for e in table.walk() if e is not table)
    columns = max((sum(1 for _ in _cells(r)) for r in rows), default=0)
    long_cells = columns == 1 and any(e.tag == "p" for e in table.walk())
    return rows, captions, not layout and not long_cells and columns > 0


def _cells(row: Element) -> Iterable[Element]:
    return (c for c in row.children if isinstance(c, Element) and c.tag in TABLE_CELLS)


def shows_no_text(element: Element) -> bool:
    """Whether an element has no text of the page, shown or hidden."""
    return element.tag in _SKIPPED


def render(
    source: str,
    content: Element,
    skip: Callable[[Element], bool] = lambda _: False,
    hidden: Callable[[Element], bool] = is_hidden,
) -> list[Block]:
    """The Markdown blocks of ``content`` in document order; ``skip`` says which elements to leave out besides
    those that are ``hidden``."""
    renderer = _Renderer(source, skip, hidden)
    if content.tag in BLOCK and content.tag not in ("body", "html", "main", "article", "div", "section"):
        renderer.block(content, _Context())
    else:
        renderer.container(content, _Context())
    return renderer.blocks


def join(blocks: Iterable[Block]) -> tuple[str, list[Segment]]:
    """One Markdown text and its segments. Blank lines between blocks belong to the block before them, so that
    every code point of the text lies in a segment."""
    parts: list[str] = []
    segments: list[Segment] = []
    at = 0
    previous: Block | None = None
    for block in blocks:
        if previous is not None:
            gap = (
                "\n"
                if block.group and block.group == previous.group and block.kind == previous.kind == "item"
                else "\n\n"
            )
            a, b, c, d = segments[-1]
            segments[-1] = (a, b + len(gap), c, d)
            parts.append(gap)
            at += len(gap)
        segments.extend((at + a, at + b, c, d) for a, b, c, d in block.segments)
        parts.append(block.text)
        at += len(block.text)
        previous = block
    if parts:
        parts.append("\n")
        a, b, c, d = segments[-1]
        segments[-1] = (a, b + 1, c, d)
    return "".join(parts), segments
