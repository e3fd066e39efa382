"""Web pages (type ``web``): what ``urls`` and ``sitemaps`` list, fetched over HTTP(S).

A page's locator is the canonical key of the URL as listed; two listed URLs with one key are one item. What
the entry's globs leave out is absent. Every list must have been read and not be empty, or the enumeration is
incomplete (rule ``complete-enumeration``).
"""

from __future__ import annotations

import ipaddress
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import Name, SourceEntry
from taboot_pipelines.connectors.globs import UrlGlobs
from taboot_pipelines.connectors.protocol import SourceKind
from taboot_pipelines.crawl.answers import Answer
from taboot_pipelines.crawl.captures import Capture
from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES, parse_sitemap
from taboot_pipelines.crawl.fetching import Fetching
from taboot_pipelines.crawl.urls import MAX_LENGTH, WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Enumerated,
    Event,
    Extraction,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
)

MAX_SITEMAPS = 1000
MAX_SITEMAP_DEPTH = 5
MAX_LISTED = 1_000_000
_MIMES = frozenset(
    {
        "text/html",
        "application/xhtml+xml",
        "text/markdown",
        "text/x-markdown",
        "text/plain",
        "application/json",
        "application/yaml",
        "application/x-yaml",
        "text/yaml",
        "text/x-yaml",
    }
)
#: What servers without a better word say; then the name decides.
_UNSPECIFIC = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/x-unknown"})
_TEXT_NAME = re.compile(r"(?i).*\.(?:md|markdown|txt|rst|ya?ml|json|html?|xhtml|conf)", re.DOTALL)
_CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([A-Za-z0-9_.:+-]{1,40})")


def _url_globs(value: list[str]) -> list[str]:
    UrlGlobs(value)
    return value


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError("is not a network such as 192.168.1.0/24 (host bits must be zero)") from None


def _depth(value: int) -> int:
    if value > 0:
        raise ValueError("a depth above 0 (following links) is not available in this version")
    return value


UrlGlobList = Annotated[list[str], AfterValidator(_url_globs)]
UrlText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH)]


class WebSource(SourceEntry):
    """Pages over HTTP(S). ``include`` and ``exclude`` are globs too: matched against the whole canonical URL
    if they hold ``://``, against path and query if they begin with ``/``, else against host, path and
    query."""

    type: Literal["web"]
    urls: list[UrlText] = Field(default_factory=list, description="Pages to fetch.")
    sitemaps: list[UrlText] = Field(
        default_factory=list, description="Sitemaps (XML, index, gzip, text, RSS, Atom) that list pages."
    )
    max_depth: Annotated[int, Field(ge=0), AfterValidator(_depth)] = Field(
        0, description="0: only what is listed."
    )
    max_pages: int = Field(
        10_000, ge=1, le=1_000_000, description="Pages beyond it, in the order of their keys, are skipped."
    )
    include: UrlGlobList = Field(
        default_factory=list, description="Globs of the URLs that are taken; default all."
    )
    exclude: UrlGlobList = Field(default_factory=list, description="Globs of the URLs that are left out.")
    allow_cidrs: list[Annotated[str, AfterValidator(_cidr)]] = Field(
        default_factory=list, description="Private networks that may be connected to."
    )
    render: bool = Field(
        False, description="Pages are rendered by headless Chromium, or by Crawl4AI where its URL is set."
    )
    capture: Capture | None = Field(None, description="What is captured of each page, beside its text.")
    extraction: Extraction = Field(
        "markdown",
        description=(
            "What becomes of a page: its main content, its structured data (JSON-LD, microdata, Open Graph),"
            " or its source as it is."
        ),
    )
    proxies: Name | None = Field(
        None, description="The list under `proxies` that its requests go by; default: no proxy."
    )

    @model_validator(mode="after")
    def _listed(self) -> WebSource:
        if not self.urls and not self.sitemaps:
            raise ValueError("needs urls or sitemaps")
        return self


class WebConnector:
    """Reads the pages that ``urls`` and ``sitemaps`` of ``entry`` list and its globs do not leave out."""

    def __init__(self, entry: WebSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._include = UrlGlobs(entry.include)
        self._exclude = UrlGlobs(entry.exclude)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Problems of the lists first, then the pages in the order of their keys, at most ``max_concurrency``
        held at once.
        """
        allowed = [ipaddress.ip_network(c) for c in self._entry.allow_cidrs]
        with self._access.fetcher(allowed, _admit, self._entry.proxies) as fetcher:
            lists = _Lists(fetcher, self._wanted)
            lists.read(self._entry.urls, self._entry.sitemaps)
            yield from lists.problems
            yield from self._pages(fetcher, lists.pages, known, tombstoned)
        yield Enumerated(not lists.reason, lists.reason)

    def _wanted(self, key: str) -> bool:
        return (not self._include or self._include.matches(key)) and not self._exclude.matches(key)

    def _pages(
        self,
        fetcher: Fetching,
        pages: Mapping[str, WebUrl],
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
    ) -> Iterator[Event]:
        keys = sorted(pages)
        #: In the order of the keys: what is known of a page already, or its ticket.
        pending: deque[Event | int] = deque()
        arrived: dict[int, Event] = {}

        def first() -> Event:
            head = pending.popleft()
            if not isinstance(head, int):
                return head
            while head not in arrived:
                arrived.update((i, _event(keys[i], pages[keys[i]], r)) for i, r in fetcher.finished(60))
            return arrived.pop(head)

        taken = 0
        for ticket, key in enumerate(keys):
            if tombstoned(key):
                pending.append(Skipped(key, "E_TOMBSTONED", f"{key} was deleted on purpose."))
            elif taken >= self._entry.max_pages:
                message = f"{key} lies beyond max_pages ({self._entry.max_pages})."
                pending.append(Skipped(key, "E_TOO_LARGE", message, outside=True))
            else:
                taken += 1
                fetcher.start(ticket, pages[key], known=known.get(key))
                pending.append(ticket)
            if len(pending) >= self._access.http.settings.max_concurrency:
                yield first()
        while pending:
            yield first()


class _Lists:
    """Reads the lists. ``pages``: the URL to fetch by key; ``problems``: lists and entries that are bad,
    under names that no key can be (a key holds no ``#``); ``reason``: why the enumeration is incomplete, or
    empty."""

    def __init__(self, fetcher: Fetching, wanted: Callable[[str], bool]) -> None:
        self._fetcher = fetcher
        self._wanted = wanted
        self.pages: dict[str, WebUrl] = {}
        self.problems: list[Failed] = []
        self.reason = ""

    def read(self, urls: list[str], sitemaps: list[str]) -> None:
        for i, text in enumerate(urls):
            self._page(text, None, f"urls[{i}]")
        queue: deque[tuple[WebUrl, int]] = deque()
        for i, text in enumerate(sitemaps):
            try:
                queue.append((parse_url(text), 0))
            except TabootError as error:
                self._fail(f"sitemaps[{i}]", error)
        seen: set[str] = set()
        while queue:
            url, depth = queue.popleft()
            key = canonical_key(url)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > MAX_SITEMAPS or depth > MAX_SITEMAP_DEPTH or len(self.pages) > MAX_LISTED:
                self._fail(
                    f"{key}#sitemap",
                    TabootError("E_TOO_LARGE", f"The sitemap {key} is one too many, or too deep.", url=key),
                )
                return
            try:
                answer = self._fetcher.get(url, max_bytes=MAX_BYTES, purpose="sitemap")
                sitemap = parse_sitemap(answer.body, key)
            except TabootError as error:
                self._fail(f"{key}#sitemap", error)
                continue
            for i, text in enumerate(sitemap.locations):
                if not sitemap.is_index:
                    self._page(text, answer.url, f"{key}#{i}")
                    continue
                try:
                    queue.append((parse_url(text, answer.url), depth + 1))
                except TabootError as error:
                    self._fail(f"{key}#{i}", error)

    def _page(self, text: str, base: str | None, name: str) -> None:
        try:
            url = parse_url(text, base)
        except TabootError as error:
            self.problems.append(Failed(name, error))
            return
        key = canonical_key(url)
        if not self._wanted(key):
            return
        # Whatever the order of the lists, the same URL stands for a key: the key itself if it is listed, else
        # the smallest.
        have = self.pages.get(key)
        if have is None or (url.text != key, url.text) < (have.text != key, have.text):
            self.pages[key] = url

    def _fail(self, name: str, error: TabootError) -> None:
        self.problems.append(Failed(name, error))
        self.reason = self.reason or f"the list {name} could not be read"


def _event(key: str, url: WebUrl, answer: Answer | TabootError) -> Event:
    """What became of the page ``key``, fetched from ``url``."""
    if isinstance(answer, TabootError):
        if answer.code == "E_NOT_FOUND":
            return Gone(key, answer.code, answer.message)
        if answer.code in ("E_TOO_LARGE", "E_MIME"):
            return Skipped(key, answer.code, answer.message)
        return Failed(key, answer)
    if answer.status == 304:
        return NotModified(key)
    content_type = answer.headers.get("content-type", "")
    mime, charset = _mime(content_type), _CHARSET.search(content_type)
    return Fetched(
        key,
        answer.body,
        mime=None if mime in _UNSPECIFIC else mime,
        charset=charset[1].lower() if charset else None,
        url=url.text,
        final_url=answer.url,
        etag=answer.headers.get("etag"),
        last_modified=answer.headers.get("last-modified"),
    )


def _mime(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _admit(headers: dict[str, str], url: str) -> None:
    mime = _mime(headers.get("content-type", ""))
    if mime in _MIMES:
        return
    if mime in _UNSPECIFIC and (not mime or _TEXT_NAME.fullmatch(url.partition("?")[0])):
        return
    raise TabootError("E_MIME", f"{url} has a content type that is not read.", url=url)


SOURCE = SourceKind(WebSource, WebConnector)
