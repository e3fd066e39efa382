"""A tolerant HTML parser whose nodes know where they stand in the source.

Every element and every run of text carries its code point range, so a position is never searched for
afterwards (rule ``offsets-carried``). Tree building follows the parts of the HTML standard that decide which
block holds a text: void elements, raw text, implied end tags, ignored stray end tags. Depth is bounded, so
that recursion over the tree is safe; elements nested deeper are left out of the tree while their text stays.
So is the number of nodes, each of which costs about a kilobyte until the page is a document.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.packaged import word_list

MAX_DEPTH = 100
#: Elements and runs of text; the largest of 233 real pages has 20,000.
MAX_NODES = 200_000
#: Of one tag only so much is read for its attributes.
_MAX_ATTRIBUTE_CHARS = 200_000
#: After so many tags with a quote that never closes, each of which was looked for to the end of the page,
#: quotes are taken for text.
_MAX_OPEN_QUOTES = 100

_MARKUP = re.compile(r"<(?:!--|[!?]|/?[A-Za-z])")
_TAG = re.compile(r"""<(/?)([A-Za-z][^\s/>]{0,64})([^>"']*+(?:"[^"]*+"[^>"']*+|'[^']*+'[^>"']*+|)*+)>""")
_NAME = re.compile(r"</?([A-Za-z][^\s/>]{0,64})")
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]{1,100})(?:\s{0,20}=\s{0,20}(?:"([^"]*)"|'([^']*)'|([^\s"'<>`]*)))?"""
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});?")

_PACKAGE = "taboot_pipelines.documents"
VOID = word_list(_PACKAGE, "html_void_elements.txt")
RAW = word_list(_PACKAGE, "html_raw_elements.txt")
BLOCK = word_list(_PACKAGE, "html_block_elements.txt")
#: Raw elements without an end tag are read past: reading on beats losing the page.
_RAW_IF_CLOSED = frozenset(("title", "textarea", "svg", "math", "template"))
_SELF_CLOSING = frozenset(("svg", "math"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
#: What a table has rows in, and what a row has.
TABLE_SECTIONS = frozenset(("tbody", "thead", "tfoot"))
TABLE_CELLS = frozenset(("td", "th"))
_TABLE_PARTS = TABLE_SECTIONS | TABLE_CELLS | {"tr"}
_TERMS = frozenset(("dt", "dd"))
_TABLE = frozenset(("table",))
_P = frozenset(("p",))

#: Start tags that close an open paragraph.
_CLOSES_P = BLOCK - _TABLE_PARTS - frozenset(("body", "html", "head", "option", "optgroup"))
#: An end tag, or the implied end of a paragraph, does not reach through these.
_BARRIER = frozenset(("table", "td", "th", "html", "body"))
_P_BARRIER = _BARRIER | {"button"}
#: What the end tags of these do not reach through; all others have :data:`_BARRIER`.
_END_BARRIERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_TABLE_PARTS, _TABLE),
    **dict.fromkeys(("table", "body", "html"), frozenset()),
}
#: A start tag of the key closes an open element of the first set, looked for no further up than the second.
_IMPLIED_ENDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu", "dir", "table", "td", "th"))),
    "dt": (_TERMS, frozenset(("dl", "table", "td", "th"))),
    "dd": (_TERMS, frozenset(("dl", "table", "td", "th"))),
    "option": (frozenset(("option",)), frozenset(("select", "datalist"))),
    "td": (TABLE_CELLS, frozenset(("tr", "table"))),
    "th": (TABLE_CELLS, frozenset(("tr", "table"))),
    "tr": (frozenset(("tr",)), _TABLE),
    "tbody": (TABLE_SECTIONS, _TABLE),
    "thead": (TABLE_SECTIONS, _TABLE),
    "tfoot": (TABLE_SECTIONS, _TABLE),
    "body": (frozenset(("head",)), frozenset(("html",))),
}


#: Start tags that may close an open element.
_CLOSES = _CLOSES_P | _HEADINGS | frozenset(_IMPLIED_ENDS) | {"html"}


@dataclass(slots=True)
class Text:
    """A run of character data: code points ``[start, end)`` of the source, entities not yet decoded."""

    start: int
    end: int


_NO_ATTRIBUTES: Mapping[str, str] = {}


class Element:
    """``[start, end)`` runs from the start tag to the end tag (or to where the element was closed).

    ``raw`` is what the start tag says after the name, as it is written.
    """

    __slots__ = (
        "_attributes",
        "children",
        "content_end",
        "content_start",
        "end",
        "parent",
        "raw",
        "start",
        "tag",
    )

    def __init__(self, tag: str, raw: str, start: int, content_start: int, parent: Element | None) -> None:
        self.tag = tag
        self.raw = raw
        self._attributes: dict[str, str] | None = None
        self.start = start
        self.content_start = content_start
        self.content_end = content_start
        self.end = content_start
        self.parent = parent
        self.children: list[Element | Text] = []

    @property
    def attributes(self) -> Mapping[str, str]:
        """Lower-case names to decoded values; the first of two equal names counts."""
        if self._attributes is None:
            if not self.raw:
                return _NO_ATTRIBUTES
            found: dict[str, str] = {}
            for m in _ATTRIBUTE.finditer(self.raw[:_MAX_ATTRIBUTE_CHARS]):
                value = m[2] if m[2] is not None else m[3] if m[3] is not None else m[4] or ""
                found.setdefault(m[1].lower(), html.unescape(value) if "&" in value else value)
            self._attributes = found
        return self._attributes

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default) if self.raw else default

    def may_say(self, words: tuple[str, ...]) -> bool:
        """Whether one of some words, in lower case, may stand in the attributes: it is written there, or a
        character reference is. Most tags need not be read to know that they do not matter."""
        if not self.raw:
            return False
        written = self.raw.lower()
        for word in words:  # a loop: a pattern of alternatives takes five times as long
            if word in written:
                return True
        return "&" in written

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(c for c in reversed(node.children) if isinstance(c, Element))

    def texts(self) -> Iterator[Text]:
        """All runs of text below, in document order; raw text of scripts and the like is not among them."""
        stack: list[Element | Text] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, Text):
                yield node
            elif node.tag not in RAW:
                stack.extend(reversed(node.children))


class Root(Element):
    """The page: the parent of all."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        super().__init__("#root", "", 0, 0, None)
        #: All elements of the page in document order.
        self.elements: list[Element] = []


def pieces(source: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """``source[start:end]`` cut at its character references: (decoded text, start, end) of each piece."""
    if source.find("&", start, end) < 0:
        yield source[start:end], start, end
        return
    at = start
    for m in _ENTITY.finditer(source, start, end):
        decoded = html.unescape(m[0])
        if decoded == m[0]:
            continue
        if m.start() > at:
            yield source[at : m.start()], at, m.start()
        yield decoded, m.start(), m.end()
        at = m.end()
    if at < end:
        yield source[at:end], at, end


def decoded(source: str, start: int, end: int) -> str:
    return "".join(p[0] for p in pieces(source, start, end))


def parse(source: str) -> Root:
    """The tree of ``source`` under a root element ``#root``. Time is linear in the source.

    Raises ``E_TOO_LARGE`` for one of more than :data:`MAX_NODES` nodes, and for nothing else.
    """
    return _TreeBuilder(source).build()


class _TreeBuilder:
    """Builds the tree of one source. Methods that read a piece of markup return the position after it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.root = Root()
        #: The root and the open elements, outermost first.
        self.stack: list[Element] = [self.root]
        self.open_tags: Counter[str] = Counter()
        #: Start tags that were left out for their depth, whose end tags close nothing.
        self.too_deep: Counter[str] = Counter()
        #: Raw elements known to have no end tag further on: it is looked for once only.
        self.unclosed: set[str] = set()
        self.comments_close = True
        #: Tags whose quotes did not close, so far.
        self.open_quotes = 0

    def build(self) -> Root:
        source, stack, open_tags, too_deep = self.source, self.stack, self.open_tags, self.too_deep
        find, match = source.find, _TAG.match
        n = len(source)
        pos = nodes = 0
        while pos < n:
            at = find("<", pos)
            tag = match(source, at) if at >= 0 and self.open_quotes <= _MAX_OPEN_QUOTES else None
            if tag is None:
                markup = _MARKUP.search(source, at) if at >= 0 else None
                at = markup.start() if markup is not None else n
            if pos < at:
                stack[-1].children.append(Text(pos, at))
                nodes += 1
            # A piece of markup is one node at most.
            nodes += 1
            if nodes > MAX_NODES:
                raise TabootError(
                    "E_TOO_LARGE",
                    f"The page has more than {MAX_NODES} elements and runs of text.",
                    remedy="Split the page, or exclude it.",
                    nodes=nodes,
                )
            if tag is not None:
                closes, name, attributes = tag.groups()
                name, pos = name.lower(), tag.end()
                if not closes:
                    pos = self._start_tag(name, attributes, at, pos)
                elif (node := stack[-1]).tag == name and not too_deep:
                    stack.pop()
                    open_tags[name] -= 1
                    node.content_end, node.end = at, pos
                else:
                    self._end_tag(name, at, pos)
            elif at == n:
                break
            elif source.startswith("<!--", at):
                pos = self._comment(at)
            elif source.startswith(("<!", "<?"), at):
                pos = self._declaration(at)
            else:
                pos = self._tag(at)
        self._close_to(1, n, n)
        self.root.content_end = self.root.end = n
        return self.root

    # Markup -------------------------------------------------------------------------------------------------

    def _comment(self, at: int) -> int:
        close = self.source.find("-->", at + 4) if self.comments_close else -1
        if close >= 0:
            return close + 3
        self.comments_close = False
        # `<!-->` and comments without an end reach to the next tag end, not over the rest of the page.
        return self._after(">", at + 4)

    def _declaration(self, at: int) -> int:
        """A doctype or a processing instruction; and the mark of a CDATA section, of which HTML has none
        outside of SVG and MathML, so that a browser shows what follows it (WHATWG HTML §13.2.5.42)."""
        return self._after(">", at)

    def _after(self, mark: str, at: int) -> int:
        """The position after the next ``mark``, or the end of the source."""
        found = self.source.find(mark, at)
        return found + len(mark) if found >= 0 else len(self.source)

    def _tag(self, at: int) -> int:
        is_end, name, attributes, after = self._read_tag(at)
        if is_end:
            self._end_tag(name, at, after)
        elif name:
            return self._start_tag(name, attributes, at, after)
        return after

    def _read_tag(self, at: int) -> tuple[object, str, str, int]:
        """(what is true of an end tag, its name in lower case, what follows the name, the position after it);
        without a name if nothing closes it."""
        source = self.source
        if self.open_quotes <= _MAX_OPEN_QUOTES and (tag := _TAG.match(source, at)) is not None:
            closes, name, attributes = tag.groups()
            return closes, name.lower(), attributes, tag.end()
        # A quote that never closes: the tag ends at the first `>`.
        self.open_quotes += 1
        close = source.find(">", at)
        plain = _NAME.match(source, at)
        if close < 0 or plain is None:
            return False, "", "", len(source)
        return source.startswith("</", at), plain[1].lower(), source[plain.end() : close], close + 1

    def _end_tag(self, name: str, at: int, after: int) -> None:
        if self.too_deep and self.too_deep[name]:
            self.too_deep[name] -= 1
        elif self.open_tags[name]:
            barrier = _END_BARRIERS.get(name)
            if barrier is None:
                barrier = _BARRIER
            if (index := self._find_up(frozenset((name,)), barrier)) > 0:
                self._close_to(index, at, after)

    def _start_tag(self, name: str, attributes: str, at: int, after: int) -> int:
        if name in _CLOSES:
            if (name == "html" or name == "body") and self.open_tags[name]:
                return after
            self._close_implied(name, at)
        stack = self.stack
        parent = stack[-1]
        element = Element(name, attributes, at, after, parent)
        self.root.elements.append(element)
        if name in VOID or (name in _SELF_CLOSING and attributes.endswith("/")):
            element.content_end = element.end = after
            parent.children.append(element)
        elif name in RAW:
            return self._raw(element)
        elif len(stack) > MAX_DEPTH:
            self.root.elements.pop()
            self.too_deep[name] += 1
        else:
            parent.children.append(element)
            stack.append(element)
            self.open_tags[name] += 1
        return after

    def _close_implied(self, name: str, at: int) -> None:
        """Close the elements whose end a start tag of ``name`` implies."""
        open_tags = self.open_tags
        if open_tags["p"] and name in _CLOSES_P and (index := self._find_up(_P, _P_BARRIER)) > 0:
            self._close_to(index, at, at)
        if name in _IMPLIED_ENDS and (index := self._find_up(*_IMPLIED_ENDS[name])) > 0:
            self._close_to(index, at, at)
        if name in _HEADINGS and self.stack[-1].tag in _HEADINGS:
            self._close_to(len(self.stack) - 1, at, at)

    def _raw(self, element: Element) -> int:
        """An element whose content is one text, up to its end tag."""
        name, n = element.tag, len(self.source)
        found = None if name in self.unclosed else _raw_end(self.source, name, element.content_start)
        if found is None:
            self.unclosed.add(name)
            if name in _RAW_IF_CLOSED:
                self.root.elements.pop()
                return element.content_start
        element.content_end, element.end = found or (n, n)
        element.children.append(Text(element.content_start, element.content_end))
        self.stack[-1].children.append(element)
        return element.end

    # Open elements ------------------------------------------------------------------------------------------

    def _find_up(self, tags: frozenset[str], barrier: frozenset[str]) -> int:
        """The index of the innermost open element of ``tags`` that no ``barrier`` hides, or -1."""
        stack = self.stack
        for i in range(len(stack) - 1, 0, -1):
            tag = stack[i].tag
            if tag in tags:
                return i
            if tag in barrier:
                return -1
        return -1

    def _close_to(self, index: int, at: int, end: int) -> None:
        """Close the open elements from ``index`` on; only that one owns the end tag ``[at, end)``."""
        stack, open_tags = self.stack, self.open_tags
        while len(stack) > index:
            node = stack.pop()
            open_tags[node.tag] -= 1
            node.content_end = at
            node.end = end if len(stack) == index else at


_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.I) for name in RAW}


def _raw_end(source: str, name: str, start: int) -> tuple[int, int] | None:
    """The range of the end tag of a raw element; None if there is none."""
    found = _RAW_END[name].search(source, start)
    if found is None:
        return None
    close = source.find(">", found.end())
    return found.start(), close + 1 if close >= 0 else len(source)
