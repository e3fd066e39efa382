"""Where a page leads, HTML or Markdown, for a crawl to follow: fast, and bounded whatever the page holds.

Lexbor parses the page as a browser does (WHATWG HTML), so that nothing in comments, scripts or templates is
a link. It takes less than half of the time of libxml2 on real documentation (``benchmarks/crawl_links.py``).
The links that a document *shows*, with their places in its text, are another matter: ``documents.links``.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

import ada_url
import numpy as np
import pyromark
from selectolax.lexbor import LexborHTMLParser, LexborNode

from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError

#: Changes with every change of what is found.
LINKS_VERSION = "3"
#: A page's further links are not followed.
MAX_LINKS = 10_000
#: A longer URL is no page.
MAX_URL_LENGTH = 2048
#: Links that stand behind so many bytes are not followed: a tree takes some twenty times as much memory.
MAX_BYTES = 8 * 1024 * 1024
#: Parsing takes a time that grows with the square of the depth; what may be deeper is searched by a pattern.
_MAX_DEPTH = 5_000
_HEAD = 65_536
#: Of the text of a link only so much tells what it is about.
MAX_TEXT = 200

_SELECTOR = "a[href], area[href], base[href], link[rel][href], meta[name][content], meta[http-equiv][content]"
_NO_LINKS = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|template|textarea|title)\b.*?(?:</\1\b|\Z)", re.DOTALL | re.IGNORECASE
)
_ANCHOR = re.compile(
    rb"""<(?:a|area)\s(?:[^>"']|"[^"]*"|'[^']*'){0,500}>""",
    re.IGNORECASE,
)
_REFRESH = re.compile(r"\s*\d*(?:\.\d*)?\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?([^\"'\s][^\"']*)", re.IGNORECASE)
_ROBOTS = frozenset({"robots", "taboot-pipelines"})
_CANONICAL = re.compile(rb"canonical", re.IGNORECASE)
#: A link of the header ``Link`` with its parameters, and one of these (RFC 8288 §3).
_LINK = re.compile(
    r"""<([^<>]*)>((?:[ \t]*;[ \t]*[^\s=",;<>]*(?:[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?)*)"""
)
_PARAMETER = re.compile(r""";[ \t]*([^\s=",;<>]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*))""")
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:+-]{1,40})", re.IGNORECASE
)
_HEAD_BYTES = 1024
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class PageLinks:
    """``links``: each URL once, absolute and without its fragment, in the page's order, with the text that a
    reader sees of it (empty unless it was asked for). ``canonical``: what the page says is its own URL.
    ``more``: it has more links than :data:`MAX_LINKS`."""

    links: dict[str, str]
    canonical: str | None = None
    more: bool = False


def page_links(data: bytes, charset: str | None, url: str, *, texts: bool = False) -> PageLinks:
    """The links of the page that ``url`` gave; ``charset`` as its answer declares it.

    A page that says ``nofollow`` to robots has none, and links with ``rel=nofollow`` are left out. Only HTTP
    and HTTPS are followed: by ``a``, ``area``, and by a page that forwards its readers (``meta refresh``).
    """
    cut = len(data) > MAX_BYTES
    page = _utf8(data[:MAX_BYTES], charset)
    if _is_deep(page):
        # The beginning says the base and what holds for robots; of the rest the tags of links are kept.
        tags = _ANCHOR.findall(_NO_LINKS.sub(b"", page))
        page = page[:_HEAD].rpartition(b"<")[0] + b"</a>".join(tags)
    tree = LexborHTMLParser(page)
    base, canonical, more = url, "", cut
    based = denied = False
    hrefs: list[tuple[str, LexborNode]] = []
    for node in tree.css(_SELECTOR):
        attributes = node.attributes
        tag = node.tag
        if tag == "a" or tag == "area":
            rel = attributes.get("rel")
            if rel is None or "nofollow" not in rel.lower().split():
                hrefs.append((attributes.get("href") or "", node))
        elif tag == "base":
            if not based:
                based, base = True, _joined(url, attributes.get("href") or "") or url
        elif tag == "link":
            if not canonical and "canonical" in (attributes.get("rel") or "").lower().split():
                canonical = (attributes.get("href") or "").strip()
        elif (attributes.get("http-equiv") or "").lower() == "refresh":
            target = _REFRESH.match(attributes.get("content") or "")
            if target is not None:
                hrefs.append((target[1], node))
        elif (attributes.get("name") or "").lower() in _ROBOTS and denies(attributes.get("content") or ""):
            denied = True
    own = _joined(base, canonical) if canonical else None
    if denied:
        return PageLinks({}, own)
    links: dict[str, str] = {}
    joined: dict[str, str | None] = {}
    for href, node in hrefs:
        if href in joined:
            target_url = joined[href]
        else:
            target_url = joined[href] = None if href.startswith("#") else _joined(base, href)
        if target_url is None or (target_url in links and not texts):
            continue
        if target_url not in links and len(links) >= MAX_LINKS:
            more = True
            break
        if not texts:
            links[target_url] = ""
            continue
        seen = links.get(target_url)
        text = " ".join(node.text(deep=True)[: 4 * MAX_TEXT].split())[:MAX_TEXT]
        links[target_url] = text if not seen else seen if text in seen else f"{seen} {text}"[:MAX_TEXT]
    return PageLinks(links, own, more)


def markdown_links(data: bytes, charset: str | None, url: str) -> PageLinks:
    """The links of the Markdown (CommonMark) that ``url`` gave; none of code, images and raw HTML."""
    text = _utf8(data[:MAX_BYTES], charset or "utf-8").decode("utf-8", "replace")
    links: dict[str, str] = {}
    target, label, silent = "", list[str](), 0
    for event in pyromark.events(text):
        kind, value = next(iter(event.items())) if isinstance(event, dict) else (event, None)
        name, facts = next(iter(value.items())) if isinstance(value, dict) else (value, None)
        if kind in ("Start", "End") and name in ("Image", "CodeBlock"):
            silent += 1 if kind == "Start" else -1
        elif kind == "Start" and name == "Link" and isinstance(facts, dict):
            target, label = "" if facts["link_type"] == "Email" else str(facts["dest_url"]), []
        elif kind in ("Text", "Code"):
            label.append(str(value))
        elif kind == "End" and name == "Link" and target and not silent:
            joined = None if target.startswith("#") else _joined(url, target)
            if joined is not None and len(links) >= MAX_LINKS and joined not in links:
                return PageLinks(links, None, True)
            if joined is not None:
                links.setdefault(joined, " ".join("".join(label).split())[:MAX_TEXT])
            target = ""
    return PageLinks(links, None, len(data) > MAX_BYTES)


def page_canonical(data: bytes, charset: str | None, url: str) -> str | None:
    """What the page that ``url`` gave says is its own URL, if it says so near its beginning."""
    page = _utf8(data[:_HEAD], charset)
    if _CANONICAL.search(page) is None:
        return None
    return page_links(page, "utf-8", url).canonical


def header_canonical(value: str, url: str) -> str | None:
    """The URL that the header ``Link`` of an answer to ``url`` says is its own (RFC 8288, RFC 6596)."""
    for link in _LINK.finditer(value[:_HEAD]):
        parameters = [(p[1].lower(), p[2] or p[3] or "") for p in _PARAMETER.finditer(link[2])]
        if any(name == "anchor" for name, _ in parameters):
            continue  # it is about another page
        rel = next((said for name, said in parameters if name == "rel"), "")
        if "canonical" in rel.lower().split():
            found = _joined(url, link[1].strip())
            if found is not None:
                return found
    return None


def other_url(canonical: str | None, key: str) -> str | None:
    """``canonical`` as it is recorded for the page ``key``; None if it is that page, or no URL to record."""
    if canonical is None:
        return None
    try:
        url = parse_url(canonical)
    except TabootError:
        return None
    return None if canonical_key(url) == key else url.text


def _is_deep(page: bytes) -> bool:
    """Whether the elements of a page may lie deeper in each other than parsing bears: as if none ended by
    itself.
    """
    if page.count(b"<") <= _MAX_DEPTH:
        return False
    data = np.frombuffer(page, np.uint8)
    tags = np.flatnonzero(data[:-1] == ord("<")) + 1
    following = data[tags]
    letters = ((following | 0x20) >= ord("a")) & ((following | 0x20) <= ord("z"))
    steps = letters.astype(np.int32) - (following == ord("/"))
    return bool(np.cumsum(steps).max(initial=0) > _MAX_DEPTH)


def denies(directives: str) -> bool:
    """Whether the directives of ``meta robots`` or ``X-Robots-Tag`` forbid following links. Those that name
    another robot are not meant for us.
    """
    ours = True
    for part in directives.lower().split(","):
        agent, colon, said = part.rpartition(":")
        if colon:
            ours = agent.strip() in _ROBOTS
        if ours and said.strip() in ("nofollow", "none"):
            return True
    return False


def _joined(base: str, href: str) -> str | None:
    """``href`` seen from ``base``, without fragment; None unless it is HTTP or HTTPS, and not too long."""
    if len(href) > MAX_URL_LENGTH:
        return None
    try:
        joined: str = ada_url.join_url(base, href)
    except (ValueError, UnicodeError):
        return None
    joined = joined.partition("#")[0]
    return joined if joined.startswith(("http://", "https://")) and len(joined) <= MAX_URL_LENGTH else None


def _utf8(data: bytes, charset: str | None) -> bytes:
    """The page in UTF-8, which the parser reads. The marks at its beginning win over what the answer
    declares, and that over what the page does (WHATWG HTML §13.2.3.2, short of guessing).
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], name)
    if charset is None:
        declared = _META_CHARSET.search(data, 0, _HEAD_BYTES)
        charset = declared[1].decode("ascii") if declared is not None else "utf-8"
    return _decoded(data, charset)


def _decoded(data: bytes, charset: str) -> bytes:
    try:
        name = codecs.lookup(charset).name
        if name in ("utf-8", "ascii"):
            return data
        return data.decode("cp1252" if name == "iso8859-1" else name, "replace").encode("utf-8", "replace")
    except (LookupError, ValueError, TypeError):
        return data
