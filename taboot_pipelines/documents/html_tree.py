"""A tolerant HTML parser whose nodes know where they stand in the source.

Every element and every run of text carries its code point range, so a position is never searched for
afterwards (DESIGN rule 5). Tree building follows the parts of the HTML standard that decide which block holds
a text: void elements, raw text, implied end tags, ignored stray end tags. Depth is bounded, so that recursion
over the tree is safe; elements nested deeper are left out of the tree while their text stays.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from taboot_pipelines.packaged import word_list

MAX_DEPTH = 100

_MARKUP = re.compile(r"<(?:!--|[!?]|/?[A-Za-z])")
_TAG = re.compile(r"""<(/?)([A-Za-z][^\s/>]{0,64})([^>"']*+(?:"[^"]*+"[^>"']*+|'[^']*+'[^>"']*+)*+)>""")
_NAME = re.compile(r"</?([A-Za-z][^\s/>]{0,64})")
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]{1,100})(?:\s{0,20}=\s{0,20}(?:"([^"]*)"|'([^']*)'|([^\s"'<>`]*)))?"""
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});?")

VOID = frozenset(
    [
        "area",
        "base",
        "basefont",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "img",
        "input",
        "keygen",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
RAW = frozenset(
    [
        "script",
        "style",
        "textarea",
        "title",
        "xmp",
        "iframe",
        "noembed",
        "noframes",
        "svg",
        "math",
        "template",
    ]
)
BLOCK = word_list("taboot_pipelines.documents", "html_block_elements.txt")
_CLOSES_P = BLOCK - frozenset(
    ("body", "html", "head", "option", "optgroup", "td", "th", "tr", "tbody", "thead", "tfoot")
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
#: A start tag of the key closes an open element of the first set, looked for no further up than the second.
_SECTIONS = frozenset(("tbody", "thead", "tfoot"))
_IMPLIED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu", "dir", "table", "td", "th"))),
    "dt": (frozenset(("dt", "dd")), frozenset(("dl", "table", "td", "th"))),
    "dd": (frozenset(("dt", "dd")), frozenset(("dl", "table", "td", "th"))),
    "option": (frozenset(("option",)), frozenset(("select", "datalist"))),
    "td": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "th": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "tr": (frozenset(("tr",)), frozenset(("table",))),
    "tbody": (_SECTIONS, frozenset(("table",))),
    "thead": (_SECTIONS, frozenset(("table",))),
    "tfoot": (_SECTIONS, frozenset(("table",))),
    "body": (frozenset(("head",)), frozenset(("html",))),
}
#: An end tag does not reach through these.
_BARRIER = frozenset(("table", "td", "th", "html", "body"))
_ENDS_ANYWHERE = frozenset(("table", "tr", "td", "th", "tbody", "thead", "tfoot", "body", "html"))


@dataclass(frozen=True, slots=True)
class Text:
    """A run of character data: code points ``[start, end)`` of the source, entities not yet decoded."""

    start: int
    end: int


class Element:
    """``[start, end)`` runs from the start tag to the end tag (or to where the element was closed)."""

    __slots__ = (
        "_attributes",
        "_raw",
        "children",
        "content_end",
        "content_start",
        "end",
        "parent",
        "start",
        "tag",
    )

    def __init__(self, tag: str, raw: str, start: int, content_start: int, parent: Element | None) -> None:
        self.tag = tag
        self._raw = raw
        self._attributes: dict[str, str] | None = None
        self.start = start
        self.content_start = content_start
        self.content_end = content_start
        self.end = content_start
        self.parent = parent
        self.children: list[Element | Text] = []

    @property
    def attributes(self) -> dict[str, str]:
        """Lower-case names to decoded values; the first of two equal names counts."""
        if self._attributes is None:
            found: dict[str, str] = {}
            if self._raw:
                for m in _ATTRIBUTE.finditer(self._raw[:200_000]):
                    value = m[2] if m[2] is not None else m[3] if m[3] is not None else m[4] or ""
                    found.setdefault(m[1].lower(), html.unescape(value) if "&" in value else value)
            self._attributes = found
        return self._attributes

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default) if self._raw else default

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


def parse(source: str) -> Element:
    """The tree of ``source`` under a root element ``#root``. Never fails; time is linear in the source."""
    root = Element("#root", "", 0, 0, None)
    stack = [root]
    open_tags: Counter[str] = Counter()
    too_deep: Counter[str] = Counter()
    n = len(source)
    comments_close = True
    unclosed: set[str] = set()

    def close_to(index: int, at: int, end: int) -> None:
        """Pop the stack down to ``index`` (that element included); only it owns the end tag ``[at, end)``."""
        while len(stack) > index:
            node = stack.pop()
            open_tags[node.tag] -= 1
            node.content_end, node.end = at, (end if len(stack) == index else at)

    def find_up(tags: frozenset[str], barrier: frozenset[str]) -> int:
        for i in range(len(stack) - 1, 0, -1):
            if stack[i].tag in tags:
                return i
            if stack[i].tag in barrier:
                return -1
        return -1

    def text(start: int, end: int) -> None:
        if start < end:
            stack[-1].children.append(Text(start, end))

    pos = 0
    while pos < n:
        markup = _MARKUP.search(source, pos)
        if markup is None:
            text(pos, n)
            break
        at = markup.start()
        text(pos, at)
        opening = markup[0]
        if opening == "<!--":
            close = source.find("-->", at + 4) if comments_close else -1
            if close < 0:
                comments_close = False
                # `<!-->` and comments without an end: up to the next tag end, not the rest of the page.
                close = source.find(">", at + 4) - 2
                if close < 0:
                    break
            pos = close + 3
            continue
        if opening in ("<!", "<?"):
            if source.startswith("<![CDATA[", at):
                close = source.find("]]>", at)
                pos = close + 3 if close >= 0 else n
                continue
            close = source.find(">", at)
            if close < 0:
                break
            pos = close + 1
            continue
        tag = _TAG.match(source, at)
        if tag:
            ending, name, attributes, pos = bool(tag[1]), tag[2].lower(), tag[3], tag.end()
        else:  # a quote that never closes: the tag ends at the first `>`
            close = source.find(">", at)
            plain = _NAME.match(source, at)
            if close < 0 or plain is None:
                break
            ending, name, attributes, pos = (
                opening.startswith("</"),
                plain[1].lower(),
                source[plain.end() : close],
                close + 1,
            )
        if ending:
            if too_deep[name]:
                too_deep[name] -= 1
            elif name in ("p", "br") and not open_tags[name]:
                pass
            elif open_tags[name]:
                barrier = (
                    frozenset(("table",)) if name in _ENDS_ANYWHERE and name != "table" else _BARRIER - {name}
                )
                if name in ("body", "html", "table"):
                    barrier = frozenset()
                if (index := find_up(frozenset((name,)), barrier)) > 0:
                    close_to(index, at, pos)
            continue
        if name in ("html", "body") and open_tags[name]:
            continue
        if (
            name in _CLOSES_P
            and open_tags["p"]
            and (index := find_up(frozenset(("p",)), _BARRIER | {"button"})) > 0
        ):
            close_to(index, at, at)
        if name in _IMPLIED and (index := find_up(*_IMPLIED[name])) > 0:
            close_to(index, at, at)
        if name in _HEADINGS and stack[-1].tag in _HEADINGS:
            close_to(len(stack) - 1, at, at)
        element = Element(name, attributes, at, pos, stack[-1])
        if name in VOID or (attributes.endswith("/") and name in ("svg", "math")):
            element.content_end = element.end = pos
            stack[-1].children.append(element)
        elif name in RAW:
            close_tag = None if name in unclosed else _raw_end(source, name, pos)
            if close_tag is None:
                unclosed.add(name)  # nor will a later one be: looked for once only
            if close_tag is None and name in ("title", "textarea", "svg", "math", "template"):
                continue  # never closed: reading on beats losing the page
            stop, pos = close_tag or (n, n)
            element.content_end, element.end = stop, pos
            element.children.append(Text(element.content_start, stop))
            stack[-1].children.append(element)
        elif len(stack) > MAX_DEPTH:
            too_deep[name] += 1
        else:
            stack[-1].children.append(element)
            stack.append(element)
            open_tags[name] += 1
    close_to(1, n, n)
    root.content_end = root.end = n
    return root


_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.I) for name in RAW}


def _raw_end(source: str, name: str, start: int) -> tuple[int, int] | None:
    found = _RAW_END[name].search(source, start)
    if found is None:
        return None
    close = source.find(">", found.end())
    return found.start(), close + 1 if close >= 0 else len(source)
