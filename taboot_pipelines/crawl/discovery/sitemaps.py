"""What a sitemap lists (sitemaps.org protocol): urlset, index, plain text, gzip, with Google's extensions for
news and Google's way of naming other languages; RSS 2.0 and 1.0, Atom 0.3 and 1.0; JSON feeds.

XML is read strictly. What fails so is read once more with those mistakes undone that leave no doubt of what
is meant: :mod:`.repair` says which. A list that ends too early is an error all the same.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin

from lxml import etree

from taboot_pipelines.crawl.discovery.feeds import MAX_TITLE, ListEntry, is_json, parse_json_feed
from taboot_pipelines.crawl.discovery.repair import decoded, repaired
from taboot_pipelines.crawl.inflate import inflate
from taboot_pipelines.errors import TabootError

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
