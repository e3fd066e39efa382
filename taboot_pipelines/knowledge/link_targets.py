"""What a hyperlink leads to as it was observed, and by what names a document is led to.

Both are functions of one document alone. Whoever knows all documents joins a link's ``target`` with the
documents' names of the same kind; if there is none, its ``page`` with their pages.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import orjson

from taboot_pipelines.crawl.urls import KEY_VERSION, canonical_key, parse_url
from taboot_pipelines.documents.links import Hyperlink
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.titles import normalize, title_keys

#: Changes with every change of what a link leads to, or a document is called.
TARGETS_VERSION = f"1.{KEY_VERSION}"

#: ``url``: the canonical key of a URL. ``path``: ``{source id}:{path}`` of a file. ``page``: either of them
#: as a site shows it, without its ending. ``wiki``: ``{source id}:{name}`` of a page of a wiki. ``anchor``:
#: ``{source id}:{label}``. ``title``: a title in its normal form.
NameKind = Literal["url", "path", "page", "wiki", "anchor", "title"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
#: Templates of site generators, whose values are not known here.
_TEMPLATE = re.compile(r"\{\{|\{%|\$\{|<%|%\}|\}\}")
#: The endings that a site leaves out, or gives as the first of them.
_PAGE_ENDING = re.compile(r"\.(?:html?|xhtml)\Z", re.IGNORECASE)
_DOCUMENT_ENDING = re.compile(
    r"\.(?:md|markdown|mdown|mkd|mdx|rst|adoc|asciidoc|html?|xhtml|txt)\Z", re.IGNORECASE
)
#: The rank of a page by the URL that it calls its canonical one.
_CANONICAL = 3
_INDEX = re.compile(r"(?:\A|(?<=[/:]))(?:index|_index|readme)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a link leads to. ``page`` is empty where ``target`` names one file and no page of a site."""

    kind: NameKind
    target: str
    page: str = ""
    fragment: str = ""


class Name(NamedTuple):
    """By what a document is led to; of documents of one name that of the smallest ``rank`` is meant."""

    kind: NameKind
    key: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document stands: what its links are relative to. ``url`` is None for a file."""

    source_id: str
    path: str
    url: str | None


def origin_of(document: Mapping[str, Any]) -> Origin:
    """The origin of a row of ``tables.DOCUMENTS`` (source_id, path, url, metadata): for a page, the URL that
    answered in the end.
    """
    source_id, path, url = document["source_id"], document["path"], document["url"]
    if not _is_web(url):
        return Origin(source_id, path, None)
    return Origin(source_id, path, _stated(document, "final_url") or url)


def observed(link: Hyperlink, origin: Origin) -> Observed | None:
    """What a link leads to; None if that is no other document: a place of its own, a mail address, a script,
    a template of a site generator.
    """
    target = link.target
    if _TEMPLATE.search(target):
        return None
    if link.kind in ("ref", "anchor"):
        return Observed("anchor", f"{origin.source_id}:{normalize(target)}")
    base, _, fragment = target.partition("#")
    if link.kind == "wiki":
        name = normalize(base.replace("_", " "))
        return Observed("wiki", f"{origin.source_id}:{name}", fragment=fragment) if name else None
    if link.kind == "doc":
        path = _path(base, origin)
        return None if path is None else Observed("path", path + _ending(origin), path, fragment)
    if not base:
        return None
    scheme = _SCHEME.match(base)
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        return None
    if scheme is not None or base.startswith("//") or origin.url is not None:
        return _web(base, origin.url, fragment)
    path = _path(unquote(base.partition("?")[0]), origin)
    return None if path is None else Observed("path", path, _page(path), fragment)


def _web(target: str, base: str | None, fragment: str) -> Observed | None:
    if target.startswith("//") and base is None:
        target = f"https:{target}"
    try:
        key = canonical_key(parse_url(target, base))
    except TabootError:
        return None
    return Observed("url", key, _page(key), fragment)


def _path(target: str, origin: Origin) -> str | None:
    """``{source id}:{path}`` of a file, as seen from the document's folder or, with a slash, from the
    source's root.
    """
    if "\0" in target or not target:
        return None
    folder = "" if target.startswith("/") else posixpath.dirname(origin.path)
    path = posixpath.normpath(posixpath.join(folder, target.lstrip("/") or "."))
    return f"{origin.source_id}:{unicodedata.normalize('NFC', '' if path == '.' else path)}"


def _ending(origin: Origin) -> str:
    """The ending of the document's own name, which Sphinx leaves out of the names of its documents."""
    return posixpath.splitext(origin.path)[1]


def _page(key: str) -> str:
    """A URL or ``{source id}:{path}`` as a site shows it: without scheme, ending, ``index`` and the slash at
    the end. Empty where it names a file that is no page.
    """
    head, mark, query = key.partition("?")
    if mark and query:
        return ""
    if not _PAGE_ENDING.search(head) and _DOCUMENT_ENDING.search(head):
        return ""
    return _shown(head)


def _shown(key: str) -> str:
    key = _DOCUMENT_ENDING.sub("", key.partition("://")[2] or key)
    return _INDEX.sub("", key.rstrip("/")).rstrip("/")


def document_names(document: Mapping[str, Any]) -> list[Name]:
    """By what a document is led to, each name once; a row of ``tables.DOCUMENTS`` (source_id, path, url,
    title, metadata).
    """
    source_id, path, title = document["source_id"], document["path"], document["title"]
    found: list[Name] = []
    if _is_web(document["url"]):
        for url in (document["url"], _stated(document, "final_url")):
            found += _web_names(url)
    else:
        key = f"{source_id}:{unicodedata.normalize('NFC', path)}"
        found.append(Name("path", key))
        if _DOCUMENT_ENDING.search(path):
            found.append(Name("page", _shown(key), _rank(path)))
    # What the page says of itself comes after what was seen of others.
    found += [name._replace(rank=_CANONICAL) for name in _web_names(_stated(document, "canonical_url"))]
    bare = _DOCUMENT_ENDING.sub("", path)
    for rank, name in enumerate((bare, posixpath.basename(bare), title)):
        found.append(Name("wiki", f"{source_id}:{normalize(name.replace('_', ' '))}", rank))
    found += [Name("title", key) for key in title_keys(title)]
    first: dict[tuple[str, str], Name] = {}
    for each in found:
        first.setdefault((each.kind, each.key), each)
    return list(first.values())


def _web_names(url: str) -> Iterable[Name]:
    if not url:
        return []
    try:
        key = canonical_key(parse_url(url))
    except TabootError:
        return []
    if "?" in key:
        return [Name("url", key)]
    return [Name("url", key), Name("page", _shown(key), _rank(key))]


def _rank(path: str) -> int:
    """Of files that a site shows as one page, ``foo.md`` comes before ``foo/index.md``, and that before
    ``foo/README.md``.
    """
    stem = posixpath.basename(_DOCUMENT_ENDING.sub("", path)).lower()
    return {"index": 1, "_index": 1, "readme": 2}.get(stem, 0)


def _is_web(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _stated(document: Mapping[str, Any], field: str) -> str:
    """A field of the document's metadata; empty if there is none."""
    metadata = document["metadata"]
    if f'"{field}"' not in metadata:
        return ""
    found = orjson.loads(metadata).get(field)
    return found if isinstance(found, str) else ""
