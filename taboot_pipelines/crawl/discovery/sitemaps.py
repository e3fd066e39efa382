"""What a sitemap lists (sitemaps.org protocol): urlset, index, plain text, gzip, with Google's extensions for
news and Google's way of naming other languages; RSS 2.0 and 1.0, Atom 0.3 and 1.0; JSON feeds.

XML is read strictly. What fails so is read once more with those mistakes undone that leave no doubt of what
is meant (below). A list that ends too early is an error all the same.

What a site's ``llms.txt`` (llmstxt.org) names.

What a JSON Feed (jsonfeed.org, versions 1 and 1.1) lists; RSS and Atom are XML, and read as sitemaps.

Sitemaps and feeds that are nearly XML, made into XML.

Undone are: space before the declaration, an ``&`` that begins no reference, HTML's names of characters,
characters that XML forbids, prefixes that are not declared, bytes in another encoding than declared.
"""

from __future__ import annotations

import codecs
import html.entities
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import orjson
from lxml import etree

from taboot_pipelines.crawl.inflate import inflate
from taboot_pipelines.crawl.links import markdown_links
from taboot_pipelines.errors import TabootError

_DECLARATION = re.compile(r"<\?xml\b[^>]{0,200}\?>")
_ENCODING = re.compile(rb"<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_AMPERSAND = re.compile(r"&(#\d{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][A-Za-z0-9]{1,30};)?")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PREFIX = re.compile(r"[<\s]/?([A-Za-z_][A-Za-z0-9_.-]{0,40}):[A-Za-z_]")
_ROOT = re.compile(r"<[A-Za-z_][^\s/>]{0,80}")
MAX_PREFIXES = 50
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


def decoded(data: bytes) -> str:
    """The text of a list, as its byte order mark says; UTF-8 without one. What is no text becomes U+FFFD."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def repaired(data: bytes) -> bytes:
    """A document in UTF-8, of the same meaning as far as it has one. What declares entities of its own is
    given back as it is: they stand for what nobody wants expanded."""
    text = _repaired_text(data)
    if "<!ENTITY" in text:
        return data
    text = _FORBIDDEN.sub("", text).lstrip()
    if (declaration := _DECLARATION.match(text)) is not None:
        text = text[declaration.end() :]
    first, *others = text.split(_CDATA)
    parts = [_AMPERSAND.sub(_reference, first)]
    for other in others:
        inside, end, outside = other.partition(_CDATA_END)
        parts += (_CDATA, inside, end, _AMPERSAND.sub(_reference, outside))
    whole = "".join(parts)
    used = sorted(set(_PREFIX.findall(whole)) - {"xml", "xmlns"})[:MAX_PREFIXES]
    declared = "".join(f' xmlns:{p}="undeclared:{p}"' for p in used if f"xmlns:{p}" not in whole)
    return _ROOT.sub(lambda root: root[0] + declared, whole, count=1).encode()


def _repaired_text(data: bytes) -> str:
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return decoded(data)
    said = _ENCODING.search(data[:512])
    for encoding in ([said[1].decode("ascii")] if said else []) + ["utf-8"]:
        try:
            return data.decode(encoding)
        except (LookupError, UnicodeError):
            continue
    # What Windows calls Latin-1 is what is left undeclared in practice.
    return data.decode("windows-1252", "replace")


def _reference(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return "&amp;"
    if name[0] != "#":
        if name in _XML_NAMES:
            return match[0]
        return html.entities.html5.get(name, f"&amp;{name}")
    number = int(name[2:-1], 16) if name[1] in "xX" else int(name[1:-1])
    character = chr(number) if number <= 0x10FFFF else ""
    if not character or _FORBIDDEN.match(character):
        return ""
    return f"&#{number};"


MAX_TITLE = 500


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One page of a list. ``location`` as written; ``title`` what the list calls it, or empty; ``modified``
    as written; ``alternates``: the same page in other languages, as written."""

    location: str
    title: str = ""
    modified: str = ""
    alternates: tuple[str, ...] = ()


def is_json(data: bytes) -> bool:
    """Whether the text is a JSON object, as a JSON Feed is."""
    return data[:512].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def parse_json_feed(data: bytes, name: str) -> list[ListEntry]:
    """The items that have a URL, in order. Raises ``E_PARSE`` for what is no JSON Feed; ``name`` is what the
    message calls it."""
    try:
        feed = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise TabootError("E_PARSE", f"{name} is not valid JSON.", url=name) from None
    items = feed.get("items") if isinstance(feed, dict) else None
    if not isinstance(items, list) or "jsonfeed.org/version/" not in str(feed.get("version")):
        raise TabootError("E_PARSE", f"{name} is JSON, but no feed.", url=name)
    found = []
    for item in items:
        if not isinstance(item, dict):
            continue
        # Version 1 lets a link post name the page it is about; the post's own page comes first.
        location = _text(item, "url") or _text(item, "external_url")
        if location:
            modified = _text(item, "date_modified") or _text(item, "date_published")
            found.append(ListEntry(location, _text(item, "title")[:MAX_TITLE], modified))
    return found


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value.strip() if isinstance(value, str) else ""


#: The protocol's own limit, uncompressed.
MAX_BYTES = 50 * 1024 * 1024
#: Of one page so many other languages are taken.
MAX_ALTERNATES = 200
_ITEMS = {"urlset": "url", "sitemapindex": "sitemap", "rss": "item", "RDF": "item", "feed": "entry"}
_TAGS = tuple(f"{{*}}{name}" for name in {*_ITEMS, *_ITEMS.values()})


@dataclass(frozen=True, slots=True)
class Sitemap:
    """``entries`` in their order: sitemaps if ``is_index``, else pages."""

    is_index: bool
    entries: list[ListEntry]

    @property
    def locations(self) -> list[str]:
        """The locations of the entries, as written."""
        return [entry.location for entry in self.entries]


def parse_sitemap(data: bytes, name: str) -> Sitemap:
    """Raises ``E_PARSE`` for what is no sitemap or lists nothing, ``E_TOO_LARGE`` beyond :data:`MAX_BYTES`;
    ``name`` is what the message calls it. Entities are not expanded and nothing is loaded."""
    if data.startswith(b"\x1f\x8b"):
        data = _gunzip(data, name)
    if len(data) > MAX_BYTES:
        raise TabootError("E_TOO_LARGE", f"The sitemap {name} is larger than {MAX_BYTES} bytes.", url=name)
    if _is_xml(data):
        sitemap = _xml(data, name)
    elif is_json(data):
        sitemap = Sitemap(False, parse_json_feed(data, name))
    else:
        sitemap = Sitemap(False, _lines(data))
    if not sitemap.entries:
        raise TabootError(
            "E_PARSE",
            f"The sitemap {name} lists nothing.",
            remedy="Remove it from the source, or list pages by `urls`.",
            url=name,
        )
    return sitemap


def parse_llms_txt(data: bytes, name: str) -> Sitemap:
    """The pages that a site's ``llms.txt`` names: the links of its Markdown. Raises ``E_PARSE`` for what is
    no such file, as an HTML page that a site answers to everything; ``E_TOO_LARGE`` as above."""
    if len(data) > MAX_BYTES:
        raise TabootError("E_TOO_LARGE", f"The list {name} is larger than {MAX_BYTES} bytes.", url=name)
    links = {} if _is_xml(data) or is_json(data) else markdown_links(data, None, name).links
    if not links:
        raise TabootError("E_PARSE", f"The list {name} names no page.", url=name)
    return Sitemap(False, [ListEntry(url, label) for url, label in links.items()])


def _gunzip(data: bytes, name: str) -> bytes:
    out = bytearray()
    try:
        for piece in inflate([data], gzip=True):
            out += piece
            if len(out) > MAX_BYTES:
                break
    except (zlib.error, EOFError):
        raise TabootError("E_PARSE", f"The sitemap {name} is broken gzip.", url=name) from None
    return bytes(out)


def _is_xml(data: bytes) -> bool:
    return decoded(data[:512]).lstrip().startswith("<")


def _lines(data: bytes) -> list[ListEntry]:
    lines = (line.strip() for line in decoded(data).splitlines())
    return [ListEntry(line) for line in lines if line.lower().startswith(("http://", "https://"))]


def _xml(data: bytes, name: str) -> Sitemap:
    try:
        return _strict_xml(data, name)
    except etree.XMLSyntaxError as error:
        line = error.position[0] if error.position else 0
    try:
        return _strict_xml(repaired(data), name)
    except etree.XMLSyntaxError:
        raise TabootError(
            "E_PARSE", f"The sitemap {name} is not valid XML (line {line}).", url=name, line=line
        ) from None


def _strict_xml(data: bytes, name: str) -> Sitemap:
    kind = item = ""
    entries: list[ListEntry] = []
    not_one = TabootError("E_PARSE", f"{name} is XML or HTML, but no sitemap and no feed.", url=name)
    events = etree.iterparse(
        io.BytesIO(data),
        events=("start", "end"),
        tag=_TAGS,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    for event, element in events:
        local = _local(element)
        if not kind:
            if element.getparent() is not None or local not in _ITEMS:
                raise not_one
            kind, item = local, _ITEMS[local]
        elif event == "end" and local == item:
            entries += _entries(element)
            # What was read is let go, so that memory does not grow with the list.
            element.clear()
            parent = element.getparent()
            while parent is not None and element.getprevious() is not None:
                del parent[0]
    if not kind:
        raise not_one
    return Sitemap(kind == "sitemapindex", entries)


def _entries(element: etree._Element) -> Iterator[ListEntry]:
    """The one entry of an element, with what its extensions say."""
    children = [(c, _local(c)) for c in element if isinstance(c.tag, str)]
    for location in _locations(children):
        title = modified = ""
        alternates: list[str] = []
        for child, local in children:
            if local == "title":
                title = title or _inner(child)
            elif local == "news":
                title = title or next((_inner(c) for c in child if _local(c) == "title"), "")
            elif local in ("lastmod", "updated", "modified", "pubDate", "date"):
                modified = modified or (child.text or "").strip()[:100]
            elif local == "link" and child.get("hreflang") and child.get("rel") == "alternate":
                href = (child.get("href") or "").strip()
                if href and href != location and len(alternates) < MAX_ALTERNATES:
                    alternates.append(href)
        yield ListEntry(location, title, modified, tuple(alternates))


def _inner(element: etree._Element) -> str:
    """The text of an element, without the markup that a title may hold."""
    return " ".join("".join(element.itertext()).split())[:MAX_TITLE]


def _locations(children: list[tuple[etree._Element, str]]) -> Iterator[str]:
    """The one location of an entry: its ``loc``, or its link, or the permanent link that names it."""
    for wanted in ("loc", "link", "guid"):
        for child, local in children:
            if local != wanted:
                continue
            text = _plain(child)
            if local == "link" and not text and _is_alternate(child):
                text = (child.get("href") or "").strip()
            elif local == "guid" and not _is_permanent(child, text):
                continue
            if text:
                # Atom resolves by ``xml:base`` (RFC 4287 §2).
                yield urljoin(child.base, text) if child.base and local == "link" else text
                return


def _plain(element: etree._Element) -> str:
    """The text of an element; nothing if a part of it is an entity, which is not known."""
    parts = [element.text or ""]
    for child in element:
        if child.tag is etree.Entity:
            return ""
        parts.append(child.tail or "")
    return "".join(parts).strip()


def _is_alternate(link: etree._Element) -> bool:
    return (link.get("rel") or "alternate").strip().lower().rpartition("/")[2] == "alternate"


def _is_permanent(guid: etree._Element, text: str) -> bool:
    said = guid.get("isPermaLink", "true").strip().lower()
    return said == "true" and text.lower().startswith(("http://", "https://"))


def _local(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]
