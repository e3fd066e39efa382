"""Web pages (type ``web``): what ``urls`` and ``sitemaps`` list, and what the pages link to, over HTTP(S).

A page's locator is the canonical key of the URL as listed or linked; URLs with one key are one item. What the
entry's globs leave out is absent. Every list must have been read and not be empty, or the enumeration is
incomplete (rule ``complete-enumeration``). Which links are followed is said in ``crawl.targets``, and how far
in ``crawl.crawler``.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from taboot_pipelines.connectors.access import Access, FetchRules
from taboot_pipelines.connectors.entries import Name, SourceEntry, unique
from taboot_pipelines.connectors.globs import UrlGlobs
from taboot_pipelines.crawl.addresses import Network
from taboot_pipelines.crawl.captures import Capture, Capturer, missing, path_of
from taboot_pipelines.crawl.captures import events as capture_events
from taboot_pipelines.crawl.client import Answer, Client
from taboot_pipelines.crawl.crawler import Crawler
from taboot_pipelines.crawl.discovery.discover import Discovery, Source
from taboot_pipelines.crawl.discovery.discover import discover as discover_pages
from taboot_pipelines.crawl.discovery.relevance import Relevance
from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES, parse_sitemap
from taboot_pipelines.crawl.domains import Headers
from taboot_pipelines.crawl.fetching import Fetching
from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.crawl.links import LINKS_VERSION
from taboot_pipelines.crawl.outcomes import TRANSIENT, UNSPECIFIC, media_type
from taboot_pipelines.crawl.targets import TARGETS_VERSION, Folder, Targets, Test
from taboot_pipelines.crawl.urls import KEY_VERSION, MAX_LENGTH, WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import MAX_ATTEMPTS, CrawlPlan, FoundUrl, Listing, Strategy
from taboot_pipelines.model.ids import digest
from taboot_pipelines.model.records import (
    Event,
    Extraction,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)
from taboot_pipelines.stores.catalog.crawls import crawls_in_memory

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
        "application/pdf",
        "application/x-pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    }
)
_TEXT_NAME = re.compile(r"(?i).*\.(?:md|markdown|txt|rst|ya?ml|json|html?|xhtml|conf|pdf|docx)", re.DOTALL)


def _url_globs(value: list[str]) -> list[str]:
    UrlGlobs(value)
    return value


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError("is not a network such as 192.168.1.0/24 (host bits must be zero)") from None


UrlGlobList = Annotated[list[str], AfterValidator(_url_globs)]
Keyword = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"[^\W_]")]
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
    discover: Annotated[list[Source], AfterValidator(unique)] = Field(
        default_factory=list,
        description=(
            "Where the sites of `urls` are looked up: `sitemap` (those that robots.txt names, else the usual"
            " places), `feed`, `llms_txt` (what the site's `llms.txt` names), `common_crawl`. What is found"
            " counts as listed where a link could lead to it."
        ),
    )
    max_depth: int = Field(
        0,
        ge=0,
        le=1000,
        description=(
            "How far links are followed. 0: only what is listed; 1: also recorded where it leads, but that is"
            " not read; 2: also what it links to; and so on: pages at this depth are known, but not read."
        ),
    )
    max_pages: int = Field(
        10_000, ge=1, le=1_000_000, description="Pages beyond it, in the crawl's order, are skipped."
    )
    strategy: Literal["bfs", "dfs", "best_first"] = Field(
        "bfs",
        description=(
            "Which page comes next: the least deep, one linked on the page read last, or the best score."
        ),
    )
    keywords: Annotated[list[Keyword], Field(max_length=100)] = Field(
        default_factory=list, description="What links are scored by: words in their text and URL."
    )
    score_threshold: float = Field(
        0.0, ge=0, le=1, description="Links that score lower are not followed; 1: every keyword is shown."
    )
    priority: UrlGlobList = Field(
        default_factory=list, description="Globs of the URLs that are read before all others."
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
    prefer_markdown: bool = Field(
        False,
        description=(
            "Asks for each page as Markdown first (`Accept: text/markdown`), which some sites have beside"
            " HTML."
        ),
    )
    capture: Capture | None = Field(
        None, description="What is captured of each page that is rendered, beside its text."
    )
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
    headers: Headers = Field(
        default_factory=dict,
        description=(
            "Sent to the origins of the listed URLs, and nowhere else. `${NAME}` is the environment variable"
            " of that name."
        ),
    )
    page_timeout: float | None = Field(
        None,
        gt=0,
        le=3600,
        description="Seconds for one page with all of it; default TABOOT_HTTP__TOTAL_TIMEOUT_SECONDS.",
    )
    fresh_hours: float = Field(
        24.0,
        ge=0,
        le=8760,
        description=(
            "A page is not asked for again as long as its server says that its answer may be reused"
            " (Cache-Control, Expires), and at most so many hours; 0: always ask. Pages that are rendered are"
            " always asked for."
        ),
    )
    max_page_bytes: int | None = Field(
        None, ge=1, description="A larger page is skipped; TABOOT_LIMITS__MAX_BLOB_BYTES holds besides."
    )
    respect_robots: bool = Field(
        True, description="Whether robots.txt is heeded. False only for sites of your own."
    )

    @model_validator(mode="after")
    def _listed(self) -> WebSource:
        if not self.urls and not self.sitemaps:
            raise ValueError("needs urls or sitemaps")
        if self.discover and not self.urls:
            raise ValueError("needs urls whose sites discover looks up")
        if not self.keywords and (self.strategy == "best_first" or self.score_threshold > 0):
            raise ValueError("needs keywords for best_first or score_threshold")
        if self.capture is not None and not self.render:
            raise ValueError("needs render: true for capture")
        if self.prefer_markdown and self.render:
            raise ValueError("needs render: false for prefer_markdown: Markdown is not rendered")
        return self


MAX_SITEMAPS = 1000
MAX_SITEMAP_DEPTH = 5
MAX_LISTED = 1_000_000


class Lists:
    """Reads the lists. ``pages``: the URL to fetch by key; ``problems``: lists and entries that are bad,
    under names that no key can be (a key holds no ``#``); ``reason``: why the enumeration is incomplete, or
    empty."""

    def __init__(self, fetcher: Fetching, wanted: Callable[[str], bool]) -> None:
        self._fetcher = fetcher
        self._wanted = wanted
        self.pages: dict[str, WebUrl] = {}
        self.problems: list[tuple[str, str, str]] = []
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

    def take(self, found: Discovery, follows: Callable[[str], bool]) -> None:
        """Count the pages of ``found`` that ``follows`` takes as listed; what could not be read leaves the
        enumeration incomplete."""
        for page in found.found:
            if follows(page.url):
                self._page(page.url, None, f"{page.listed_in}#{page.key}")
        for problem in found.problems:
            self._fail(f"{problem.where}#discovery", TabootError(problem.code, problem.message))

    def _page(self, text: str, base: str | None, name: str) -> None:
        try:
            url = parse_url(text, base)
        except TabootError as error:
            self.problems.append((name, error.code, error.message))
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
        self.problems.append((name, error.code, error.message))
        self.reason = self.reason or f"the list {name} could not be read"


def readable_urls(texts: list[str]) -> dict[str, WebUrl]:
    """The URLs among ``texts`` by their normal form; the others are told as problems of the lists."""
    found: dict[str, WebUrl] = {}
    for text in texts:
        try:
            url = parse_url(text)
        except TabootError:
            continue
        found[url.text] = url
    return found


class PageCaptures:
    """What is captured of pages, told beside the pages."""

    def __init__(self, capture: Capture, known: Mapping[str, Known]) -> None:
        self._capture, self._known = capture, known
        self._capturer: Capturer | None = None

    def of(self, client: Client) -> Capturer:
        """``client`` with every page captured that was not before, or has other bytes by now."""
        self._capturer = Capturer(client, self._capture, self._unless)
        return self._capturer

    def _unless(self, url: WebUrl) -> str | None:
        key = canonical_key(url)
        if key not in self._known or missing(self._capture, key, self._known):
            return None
        return self._known[key].sha256

    def beside(self, events: Iterator[Event]) -> Iterator[Event]:
        """``events``, and after each that tells of a page what is told of its captures. Those of a page that
        was not read stand as they are, those of one that does not exist any more go with it.
        """
        for event in events:
            yield event
            match event:
                case Fetched(path=key):
                    known = self._known.get(key)
                    same = known is not None and known.sha256 == hashlib.sha256(event.data).hexdigest()
                    final = event.final_url or key
                    yield from capture_events(
                        self._capture,
                        key,
                        self._known,
                        self._capturer.taken(final) if self._capturer is not None else (),
                        url=event.url or key,
                        final_url=final,
                        page_is_known=same,
                    )
                case Unchanged(roles=roles):
                    kept = [path for key in roles for path in self._of(key)]
                    if kept:
                        yield Unchanged(dict.fromkeys(kept, "input"))
                case Gone(path=key):
                    for path in self._of(key):
                        yield Gone(path, event.code, event.message)
                case NotModified(path=key) | Failed(path=key) | Skipped(path=key, outside=False):
                    kept = self._of(key)
                    if kept:
                        yield Unchanged(dict.fromkeys(kept, "input"))
                case _:
                    pass

    def _of(self, key: str) -> list[str]:
        """The captures of a page that are asked for and stored."""
        paths = (path_of(key, name) for name in self._capture.names())
        return [path for path in paths if path in self._known]


class WebConnector:
    """Reads the pages that ``urls`` and ``sitemaps`` of ``entry`` list, and those that links lead to."""

    def __init__(self, entry: WebSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._include = UrlGlobs(entry.include)
        self._exclude = UrlGlobs(entry.exclude)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Problems of the lists first, then the pages as they answer, at most ``max_concurrency`` at once."""
        access, targets = self._access, self._targets()
        allowed = [ipaddress.ip_network(c) for c in self._entry.allow_cidrs]
        captures = PageCaptures(self._entry.capture, known) if self._entry.capture is not None else None
        pages = access.renderer(allowed, captures=captures is not None) if self._entry.render else None
        if captures is not None and pages is not None:
            pages = captures.of(pages)
        with access.fetcher(self._rules(allowed), pages) as fetching:

            def roots() -> tuple[list[FoundUrl], Listing]:
                lists = Lists(fetching, self._wanted)
                lists.read(self._entry.urls, self._entry.sitemaps)
                for site in self._sites():
                    lists.take(self._discovered(site, fetching), lambda url: targets.link(url) is not None)
                listed = [targets.listed(lists.pages[key], key) for key in sorted(lists.pages)]
                return (
                    [FoundUrl(x.url_id, x.key, x.url, x.host, preferred=x.preferred) for x in listed],
                    Listing(lists.reason, tuple(lists.problems)),
                )

            crawler = Crawler(
                self._frontier(),
                _Pages(fetching),
                targets,
                known=known,
                tombstoned=tombstoned,
                stored=access.stored_page,
                window=access.http.settings.max_concurrency,
                freshness=(
                    Freshness(access.clock, self._entry.fresh_hours * 3600)
                    if self._entry.fresh_hours and not self._entry.render
                    else None
                ),
            )
            events = crawler.events(roots)
            yield from events if captures is None else captures.beside(events)

    def _rules(self, allowed: Sequence[Network]) -> FetchRules:
        entry = self._entry
        listed = readable_urls([*entry.urls, *entry.sitemaps]).values()
        return FetchRules(
            allowed=allowed,
            admit=_admit,
            proxies=entry.proxies,
            headers=entry.headers,
            origins={url.origin for url in listed},
            timeout_seconds=entry.page_timeout,
            max_bytes=entry.max_page_bytes,
            robots=entry.respect_robots,
            prefer_markdown=entry.prefer_markdown,
        )

    def _sites(self) -> list[WebUrl]:
        """The roots of the sites that are looked up."""
        entry = self._entry
        urls = readable_urls(entry.urls).values() if entry.discover else ()
        return [parse_url(f"{origin}/") for origin in dict.fromkeys(url.origin for url in urls)]

    def _discovered(self, site: WebUrl, fetching: Fetching) -> Discovery:
        entry, settings = self._entry, self._access.http.settings
        return discover_pages(
            site,
            lambda url, limit: fetching.get(url, max_bytes=limit, purpose="sitemap"),
            sources=entry.discover,
            user_agent=settings.user_agent,
            wanted=self._wanted,
            relevance=Relevance(entry.keywords),
            score_threshold=entry.score_threshold,
            max_urls=entry.max_pages,
            common_crawl=settings.common_crawl_url,
        )

    def _wanted(self, key: str) -> bool:
        return (not self._include or self._include.matches(key)) and not self._exclude.matches(key)

    def _targets(self) -> Targets:
        entry = self._entry
        return Targets(
            [Folder.of(url) for url in readable_urls([*entry.urls, *entry.sitemaps]).values()],
            included=_test(entry.include),
            elsewhere=_test([p for p in entry.include if "://" in p]),
            excluded=_test(entry.exclude),
            preferred=_test(entry.priority),
            keywords=entry.keywords,
        )

    def _frontier(self) -> Frontier:
        entry = self._entry
        listed = (entry.urls, entry.sitemaps)
        rules = (entry.include, entry.exclude, entry.priority, entry.keywords)
        links = digest(KEY_VERSION, LINKS_VERSION, TARGETS_VERSION, *listed, *rules)
        limits = (entry.max_depth, entry.max_pages, entry.strategy, entry.score_threshold)
        # What answers depend on, and how long they are reused: a page is asked for anew where it is set anew.
        capture = None if entry.capture is None else entry.capture.model_dump()
        user_agent = self._access.http.settings.user_agent
        answers = (user_agent, entry.headers, entry.proxies, entry.extraction, capture, entry.fresh_hours)
        form = ("markdown",) if entry.prefer_markdown else ()
        plan = CrawlPlan(
            roots=tuple(readable_urls([*entry.urls, *entry.sitemaps])),
            requested_depth=entry.max_depth,
            max_pages=entry.max_pages,
            strategy=Strategy(entry.strategy),
            score_threshold=entry.score_threshold,
            configuration=digest(
                *(links, *limits, entry.allow_cidrs, entry.discover, entry.render, entry.respect_robots),
                *answers,
                *form,
            ),
            link_rules=links,
        )
        if self._access.frontier is not None:
            return self._access.frontier(plan)
        crawls = crawls_in_memory()
        return crawls.frontier(entry.namespace, crawls.begin(entry.namespace, entry.id, plan))


class _Pages:
    """The engine as a crawl asks for pages. It tries again by itself what may pass by, so that what it gives
    up is given up."""

    def __init__(self, fetching: Fetching) -> None:
        self._fetching = fetching

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        self._fetching.start(ticket, url, known=known)

    def finished(self, timeout: float) -> list[tuple[int, Answer | TabootError]]:
        ended = self._fetching.finished(timeout)
        for _, result in ended:
            if isinstance(result, TabootError) and result.code in TRANSIENT:
                result.details["attempts"] = max(MAX_ATTEMPTS, result.details["attempts"])
        return ended


def _test(globs: list[str]) -> Test | None:
    return UrlGlobs(globs).matches if globs else None


def _admit(headers: dict[str, str], url: str) -> None:
    mime = media_type(headers.get("content-type", ""))
    if mime in _MIMES:
        return
    if mime in UNSPECIFIC and (not mime or _TEXT_NAME.fullmatch(url.partition("?")[0])):
        return
    raise TabootError("E_MIME", f"{url} has a content type that is not read.", url=url)
