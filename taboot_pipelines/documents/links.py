"""The hyperlinks of a document, as its format writes them and where they stand in its text.

What a link leads to is not asked here: a target is what the author wrote. Code, images and comments hold no
links. Everything is linear in the text.

Markdown is read by pulldown-cmark (CommonMark 0.31, with tables, footnotes, metadata blocks and wiki links),
which says for every element where it stands: links inline, by reference, in angle brackets, bare, of wikis,
and in raw HTML. Of reStructuredText and Sphinx, embedded links, those by name, anonymous ones, roles, tables
of contents and URLs are read (``reference``: the docutils "reStructuredText Markup Specification", and
Sphinx' cross-referencing roles); of AsciiDoc its macros; of plain text its URLs.

A page's text leaves out the targets within its site, so they are read from the page itself. The map of
offsets says which elements stand in the text, and in which block of it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urljoin

import numpy as np
import pyromark

from taboot_pipelines.documents.encoding import byte_ends, decode
from taboot_pipelines.documents.html_markdown import is_hidden
from taboot_pipelines.documents.html_tree import Element, decoded
from taboot_pipelines.documents.html_tree import parse as parse_html
from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN, reads_as
from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines.model.offsets import OffsetMap

#: ``href``: a URL or a path. ``wiki``: a page by its name. ``doc``: a path without its ending, from the
#: source's root if it begins with a slash. ``ref``: a place by its label, which an ``anchor`` declares.
LinkKind = Literal["href", "wiki", "doc", "ref", "anchor"]

#: Targets with more code points are data.
MAX_TARGET = 2048
MAX_LABEL = 200

_BARE = re.compile(r"(?<![\w/@.-])https?://[^\s<>\"`\[\]{}|\\^]+", re.IGNORECASE)
_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_ENTITY_END = re.compile(r"&[a-zA-Z0-9]{2,31};\Z")


@dataclass(frozen=True, slots=True)
class Hyperlink:
    """A link at code points ``[start, end)`` of the document; ``text`` is what a reader sees of it."""

    kind: LinkKind
    target: str
    start: int
    end: int
    text: str = ""


def hyperlink(kind: LinkKind, target: str, start: int, end: int, text: str = "") -> Hyperlink | None:
    """A link with its text on one line and cut short; None if the target is none."""
    target = _UNSTORABLE.sub("\ufffd", target.strip())
    if not target or len(target) > MAX_TARGET:
        return None
    return Hyperlink(kind, target, start, end, " ".join(_UNSTORABLE.sub("", text).split())[:MAX_LABEL])


def bare_urls(text: str, start: int = 0, end: int | None = None) -> Iterator[Hyperlink]:
    """The URLs of ``text[start:end]`` that begin with their scheme. Punctuation at the end belongs to the
    sentence (GitHub Flavored Markdown 0.29 §6.9), and so does a parenthesis that the URL does not open.
    """
    for match in _BARE.finditer(text, start, len(text) if end is None else end):
        url = match[0]
        while url:
            last = url[-1]
            if last in "?!.,:*_~'" or (last == ")" and url.count(")") > url.count("(")):
                url = url[:-1]
            elif last == ";":
                shorter = _ENTITY_END.sub("", url[-40:])
                url = url[:-1] if len(shorter) == len(url[-40:]) else url[:-40] + shorter
            else:
                break
        target = html.unescape(url) if "&" in url else url
        if target.partition("://")[2]:
            found = hyperlink("href", target, match.start(), match.start() + len(url), target)
            if found is not None:
                yield found


#: Blocks of AsciiDoc between lines of four or more of one of these hold code or comments.
_ASCIIDOC_BLOCK = re.compile(r"^(-{4,}|\.{4,}|/{4,}|`{3,})[ \t]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_ASCIIDOC_CODE = re.compile(r"`\+?[^`\n]+\+?`")
_MACRO = re.compile(r"(?<![\w:])(?:link|xref):([^\s\[\]]+)\[([^\]\n]*)\]")
_CROSS_REFERENCE = re.compile(r"<<([^\s<>,#]+\.adoc(?:#[^<>,\n]*)?|[^\s<>,#]+#[^<>,\n]*)(?:,([^<>\n]*))?>>")


def plain_links(text: str) -> list[Hyperlink]:
    return list(bare_urls(text))


def asciidoc_links(text: str) -> list[Hyperlink]:
    """URLs, the macros ``link:`` and ``xref:``, and cross references to other files."""
    for code in (_ASCIIDOC_BLOCK, _ASCIIDOC_CODE):
        text = code.sub(lambda m: re.sub(r"\S", " ", m[0]), text)
    found: list[Hyperlink | None] = [
        hyperlink("href", m[1], m.start(), m.end(), m[2] or "")
        for pattern in (_MACRO, _CROSS_REFERENCE)
        for m in pattern.finditer(text)
    ]
    made = [link for link in found if link is not None]
    taken = {place for link in made for place in range(link.start, link.end)}
    return made + [link for link in bare_urls(text) if link.start not in taken]


_LITERAL_INLINE = re.compile(r"``[^`\n](?:[^\n]*?[^`\n])??``")
_DIRECTIVE = re.compile(r"([ \t]*)\.\. +([\w:.+-]+)::(?:[ \t]|$)")
_COMMENT = re.compile(r"([ \t]*)\.\.(?:[ \t]+(?![_|\[])(?![\w:.+-]+::)\S|[ \t]*$)")
#: Directives whose content is no text.
_CODE = frozenset(
    (
        "code",
        "code-block",
        "csv-table",
        "graphviz",
        "highlight",
        "literalinclude",
        "math",
        "mermaid",
        "parsed-literal",
        "prompt",
        "raw",
        "sourcecode",
        "testcode",
        "testoutput",
        "tabs-code",
    )
)
_ROLE = re.compile(r":(doc|ref|numref):`(?:([^`<>]*?)\s*<([^`<>]+)>|([^`<>]+))`")
_EMBEDDED = re.compile(r"(?<![\w:`])`([^`<>]*?)\s*<([^`<>]+)>`__?(?![\w_])")
_PHRASE = re.compile(r"(?<![\w:`])`([^`<>\n][^`<>]*)`(__?)(?![\w_`])")
_WORD = re.compile(r"(?<![\w`:|.*/<_-])([A-Za-z0-9](?:[\w.+-]*[A-Za-z0-9])?)(__?)(?![\w`*/>_-])")
_TARGET = re.compile(r"^[ \t]*\.\. _(?:`([^`\n]+)`|((?:\\:|[^:\n`])+)):(?:[ \t]+(\S[^\n]*))?$", re.MULTILINE)
_ANONYMOUS = re.compile(r"^[ \t]*(?:\.\. __:|__)[ \t]+(\S[^\n]*)$", re.MULTILINE)
_TOCTREE = re.compile(r"^([ \t]*)\.\. toctree::[ \t]*\n", re.MULTILINE)
_ENTRY = re.compile(r"(?:([^<>\n]*?)\s*<([^<>\n]+)>|([^<>\s:][^<>\n]*?))\s*")


def restructured_links(text: str) -> list[Hyperlink]:
    """The links of a reStructuredText document, and the labels that it declares (kind ``anchor``)."""
    text = _blanked(text)
    return [link for link in _links(text) if link is not None]


def _links(text: str) -> Iterator[Hyperlink | None]:
    named: dict[str, str] = {}
    anonymous = [_escaped(m[1]) for m in _ANONYMOUS.finditer(text)]
    for m in _TARGET.finditer(text):
        name = _name(m[1] or m[2])
        if m[3]:
            named.setdefault(name, _escaped(m[3]))
        else:
            yield hyperlink("anchor", name, m.start(), m.end())
    text = _TARGET.sub(_spaces, _ANONYMOUS.sub(_spaces, text))
    for m in _TOCTREE.finditer(text):
        yield from _entries(text, m.end(), len(m[1].expandtabs()))
    text = _TOCTREE.sub(_spaces, text)
    for m in _ROLE.finditer(text):
        kind: LinkKind = "doc" if m[1] == "doc" else "ref"
        yield hyperlink(kind, m[3] or m[4], m.start(), m.end(), m[2] or m[4] or "")
    text = _ROLE.sub(_spaces, text)
    for m in _EMBEDDED.finditer(text):
        target = m[2]
        if target.endswith("_") and not target.endswith("\\_"):
            target = named.get(_name(target[:-1]), "")
        yield hyperlink("href", _escaped(target), m.start(), m.end(), m[1] or m[2])
        if m[1]:
            named.setdefault(_name(m[1]), _escaped(target))
    text = _EMBEDDED.sub(_spaces, text)
    references = [*_PHRASE.finditer(text)]
    text = _PHRASE.sub(_spaces, text)
    references += _WORD.finditer(text)
    for m in sorted(references, key=lambda found: found.start()):
        if m[2] == "__":
            target = anonymous.pop(0) if anonymous else ""
        else:
            target = named.get(_name(m[1]), "")
        for _ in range(8):  # a name may stand for another
            if not target.endswith("_") or _name(target[:-1]) not in named:
                break
            target = named[_name(target[:-1])]
        yield hyperlink("href", target, m.start(), m.end(), m[1])
    yield from bare_urls(text)


def _entries(text: str, start: int, indent: int) -> Iterator[Hyperlink | None]:
    """The documents that a table of contents lists."""
    at = start
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        stripped = line.strip()
        if stripped and len(line.expandtabs()) - len(line.expandtabs().lstrip()) <= indent:
            return
        entry = _ENTRY.fullmatch(stripped) if stripped and not stripped.startswith(":") else None
        if entry is not None:
            target = entry[2] or entry[3]
            begin = at + line.index(stripped)
            kind: LinkKind = "href" if "://" in target else "doc"
            if target != "self" and not set("*?[") & set(target):
                yield hyperlink(kind, target, begin, begin + len(stripped), entry[1] or "")
        at = end + 1


def _blanked(text: str) -> str:
    """The text with its code and comments as blanks: literal blocks, directives of code, inline literals."""
    lines = text.split("\n")
    below: int | None = None
    for i, line in enumerate(lines):
        stripped = line.strip()
        indent = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if below is not None:
            if not stripped or indent > below:
                lines[i] = " " * len(line)
                continue
            below = None
        if not stripped:
            continue
        directive, comment = _DIRECTIVE.match(line), _COMMENT.match(line)
        if directive is not None:
            if directive[2] in _CODE:
                below, lines[i] = indent, " " * len(line)
        elif comment is not None:
            below, lines[i] = indent, " " * len(line)
        elif stripped.endswith("::"):
            below = indent
    return _LITERAL_INLINE.sub(_spaces, "\n".join(lines))


def _spaces(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _name(text: str) -> str:
    """The form in which reference names are compared: one blank, any case."""
    return " ".join(text.replace("\\", "").split()).lower()


def _escaped(target: str) -> str:
    return "".join(target.split()).replace("\\_", "_").replace("\\", "")


_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_WIKILINKS
    | pyromark.Options.ENABLE_YAML_STYLE_METADATA_BLOCKS
    | pyromark.Options.ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKDOWN_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ANCHOR = re.compile(
    r"""<a\s(?:[^>"']|"[^"]*"|'[^']*')*?\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
#: An indented block of MkDocs and its kin: a note, or a tab.
_INDENTING = re.compile(r"( *)(?:!!!|\?\?\?\+?|===)[ \t+!]*\S")
_MAY_INDENT = re.compile(r"^ *(?:!!!|\?\?\?|===)[ \t+!]*\S", re.MULTILINE)
_INDENT = 4


def markdown_links(text: str) -> list[Hyperlink]:
    """The links of a Markdown text, in no particular order."""
    source = _SURROGATE.sub("\ufffd", text)
    events = pyromark.events_with_range(_quoted(source), options=_OPTIONS)
    return list(_markdown_links(source, events, _positions(source)))


def _positions(text: str) -> Callable[[int], int]:
    """From bytes of the text in UTF-8 to its code points."""
    if text.isascii():
        return int
    data = np.frombuffer(text.encode(), np.uint8)
    points = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))
    # The first byte of the n-th code point has n - 1 of them before it.
    return lambda at: int(points[at])


def _markdown_links(source: str, events: Any, position: Callable[[int], int]) -> Iterator[Hyperlink]:
    opened: list[tuple[Any, int, int, list[str]]] = []
    #: Of the code, metadata and images around.
    silent = 0
    run: tuple[str, int, int] | None = None
    for event, span in events:
        start, end = position(span["start"]), position(span["end"])
        kind, value = next(iter(event.items())) if isinstance(event, dict) else (event, None)
        if run is not None and (kind != run[0] or start != run[2]):
            yield from _of_run(source, *run)
            run = None
        if kind in ("Text", "Code"):
            if opened:
                opened[-1][3].append(str(value))
            elif kind == "Text" and not silent:
                run = ("Text", run[1] if run else start, end)
        elif kind in ("Html", "InlineHtml") and not silent:
            run = (kind, run[1] if run else start, end)
        elif kind in ("SoftBreak", "HardBreak") and opened:
            opened[-1][3].append(" ")
        elif kind == "Start":
            name, facts = next(iter(value.items())) if isinstance(value, dict) else (value, None)
            if name == "Link" and not silent:
                opened.append((facts, start, end, []))
            elif name in ("CodeBlock", "MetadataBlock", "Image"):
                silent += 1
        elif kind == "End":
            name = next(iter(value)) if isinstance(value, dict) else value
            if name == "Link" and opened and not silent:
                facts, start, end, label = opened.pop()
                found = _link(facts, start, end, "".join(label))
                if found is not None:
                    yield found
            elif name in ("CodeBlock", "MetadataBlock", "Image"):
                silent = max(0, silent - 1)
    if run is not None:
        yield from _of_run(source, *run)


def _link(facts: Any, start: int, end: int, label: str) -> Hyperlink | None:
    kind = facts["link_type"]
    if kind == "Email":
        return None
    wiki = isinstance(kind, dict) and "WikiLink" in kind
    return hyperlink("wiki" if wiki else "href", facts["dest_url"], start, end, label)


def _of_run(source: str, kind: str, start: int, end: int) -> Iterator[Hyperlink]:
    """The links of a run of text or of raw HTML."""
    if kind == "Text":
        yield from bare_urls(source, start, end)
        return
    raw = _MARKDOWN_COMMENT.sub(lambda m: " " * len(m[0]), source[start:end])
    for match in _ANCHOR.finditer(raw):
        target = html.unescape(match[1] or match[2] or match[3] or "")
        found = hyperlink("href", target, start + match.start(), start + match.end())
        if found is not None:
            yield found


def _quoted(text: str) -> str:
    """The text with the indented blocks of MkDocs as quotations, which Markdown would take for code. No code
    point moves.
    """
    if not _MAY_INDENT.search(text):
        return text
    lines = text.split("\n")
    levels: list[int] = []
    for i, line in enumerate(lines):
        blanks = len(line) - len(line.lstrip(" "))
        if blanks < len(line):
            while levels and blanks < levels[-1]:
                levels.pop()
        marker = _INDENTING.match(line)
        for level in levels:
            if len(line) >= level:
                lines[i] = lines[i][: level - _INDENT] + ">" + lines[i][level - _INDENT + 1 :]
        if marker is not None and (not levels or len(marker[1]) >= levels[-1]):
            levels.append(len(marker[1]) + _INDENT)
    return "\n".join(lines)


def page_links(data: bytes, charset: str, offsets: OffsetMap) -> list[Hyperlink]:
    """The links of the page in ``data`` that stand in its text, in their order. A link's place is the block
    of the text that holds it. ``charset``: in which the page was read; ``offsets``: of its text.

    Targets are relative to the page's URL; a ``<base>`` of the page is applied. Secrets are masked.
    """
    if not len(offsets):
        return []
    source, codec, bom = decode(data, charset, html=True)
    root = parse_html(source)
    base, anchors = "", []
    stack: list[Element] = [root]
    while stack:
        element = stack.pop()
        if element.tag == "base" and not base:
            base = element.get("href").strip()
        if element.tag == "a" and element.get("href"):
            anchors.append(element)
        stack.extend(
            child
            for child in reversed(element.children)
            if isinstance(child, Element) and (child.tag in ("head", "base") or not is_hidden(child))
        )
    if not anchors:
        return []
    ends = byte_ends(source, codec) + bom
    # Of blocks that hold one another the smallest counts.
    order = np.argsort(offsets.byte_end - offsets.byte_start, kind="stable")
    starts, stops = offsets.byte_start[order], offsets.byte_end[order]
    places: list[tuple[int, str, str]] = []
    for element in anchors:
        href = element.get("href").strip()
        label = "".join(decoded(source, t.start, t.end) for t in element.texts())
        if len(href) > MAX_TARGET or _is_permalink(href, label):
            continue
        begin, finish = int(ends[element.start]), int(ends[element.end])
        holding = (starts <= begin) & (finish <= stops)
        at = int(holding.argmax())
        if not holding[at]:
            # An element around several blocks stands where the first of them does.
            within = np.flatnonzero((begin <= starts) & (starts < finish))
            if not len(within):
                continue
            at = int(within[starts[within].argmin()])
        places.append((int(order[at]), " ".join(_joined(base, href).split()), " ".join(label.split())))
    if not places:
        return []
    places.sort(key=lambda place: place[0])
    # One a line, so that they are masked at once.
    targets = mask("\n".join(target for _, target, _ in places), PLAIN).split("\n")
    labels = mask("\n".join(label for _, _, label in places), PLAIN).split("\n")
    found = [
        hyperlink("href", target, int(offsets.doc_start[i]), int(offsets.doc_end[i]), label)
        for (i, _, _), target, label in zip(places, targets, labels, strict=True)
    ]
    return [link for link in found if link is not None]


def _is_permalink(href: str, label: str) -> bool:
    return href.startswith("#") or (label.strip() in ("¶", "#", "§", "🔗") and not href.startswith("http"))


def _joined(base: str, href: str) -> str:
    if not base:
        return href
    try:
        return urljoin(base, href)
    except ValueError:
        return href


__all__ = ["LINKS_VERSION", "Hyperlink", "LinkKind", "page_links", "read_from_blob", "text_links"]

#: Changes with every change of what is found.
LINKS_VERSION = "1"

_READERS: dict[str, Callable[[str], list[Hyperlink]]] = {
    MARKDOWN: markdown_links,
    PLAIN: plain_links,
    "text/x-rst": restructured_links,
    "text/asciidoc": asciidoc_links,
}


def read_from_blob(mime: str) -> bool:
    """Whether the links of such a document stand in its blob alone, where :func:`page_links` finds them: a
    page's text leaves out the targets within its site.
    """
    return mime == HTML


def text_links(text: str, mime: str) -> list[Hyperlink]:
    """The links that a document's text holds, in their order; configuration and code have none."""
    reader = _READERS.get(reads_as(mime))
    return [] if reader is None else sorted(reader(text), key=lambda link: (link.start, link.end))
