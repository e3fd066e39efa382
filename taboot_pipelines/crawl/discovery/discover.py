"""The pages that a site's lists name, the most relevant first. No page is fetched: only robots.txt, sitemaps,
feeds, llms.txt and, where asked for, an index of crawled pages.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from taboot_pipelines.crawl.discovery.common_crawl import Get, crawled_urls
from taboot_pipelines.crawl.discovery.relevance import Relevance
from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES, ListEntry, parse_llms_txt, parse_sitemap
from taboot_pipelines.crawl.domains import registrable_domain
from taboot_pipelines.crawl.robots import read_robots
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError

#: Lists of one site, how deep they may lie in indexes, and the URLs taken from all of them.
MAX_LISTS, MAX_DEPTH, MAX_LISTED = 1000, 5, 500_000
#: What is told of bad entries; the rest is counted.
MAX_PROBLEMS = 100
#: Where sites without a word in robots.txt keep them. The first that is there is taken.
SITEMAPS = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.xml.gz", "/sitemap.txt")
FEEDS = ("/feed", "/feed.xml", "/rss.xml", "/atom.xml", "/index.xml", "/feed.json")

#: What a site wrote for language models: a list of its pages in Markdown (llmstxt.org).
LLMS_TXT = ("/llms.txt",)

Source = Literal["sitemap", "feed", "llms_txt", "common_crawl"]
Via = Literal["sitemap", "hreflang", "feed", "llms_txt", "common_crawl"]


@dataclass(frozen=True, slots=True)
class DiscoveredUrl:
    """A page that a list names: the URL to ask for, its key, the list, what the list says of it, and its
    score."""

    url: str
    key: str
    score: float
    via: Via
    listed_in: str
    title: str = ""
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A list, or an entry of one, that could not be read."""

    where: str
    code: str
    message: str


@dataclass(slots=True)
class Discovery:
    """``found``: the best first, then by key. ``listed``: how many pages the lists name, each once;
    ``lists``: those that were read; ``left_out``: what the pattern, the threshold and the limit leave out of
    ``listed``; ``problems_more``: problems beyond those told."""

    found: list[DiscoveredUrl] = field(default_factory=list)
    listed: int = 0
    left_out: int = 0
    lists: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    problems_more: int = 0

    def tell(self, where: str, error: TabootError) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(where, error.code, error.message))
        else:
            self.problems_more += 1


def discover(
    url: WebUrl,
    get: Get,
    *,
    sources: Sequence[Source] = ("sitemap", "feed"),
    user_agent: str = "",
    wanted: Callable[[str], bool] | None = None,
    relevance: Relevance | None = None,
    score_threshold: float = 0.0,
    max_urls: int = 500,
    common_crawl: str = "",
    common_crawl_get: Get | None = None,
) -> Discovery:
    """What the lists of the site of ``url`` name; ``url`` may be a sitemap or feed itself.

    ``wanted`` looks at a key, ``relevance`` scores; the ``max_urls`` best of at least ``score_threshold`` are
    given. ``common_crawl``: the endpoint of the index, asked by ``common_crawl_get`` (default ``get``). What
    cannot be read is told and the rest goes on; nothing is raised for a bad list.
    """
    result = Discovery()
    scores = relevance or Relevance([])
    seen: set[str] = set()
    cut: list[TabootError] = []

    def found() -> Iterator[DiscoveredUrl]:
        for entry, base, via, listed_in in _entries(url, get, sources, user_agent, result):
            yield from _pages(entry, base, via, listed_in)
        if "common_crawl" in sources:
            domain = registrable_domain(url.host) or url.host
            try:
                for text in crawled_urls(common_crawl, domain, common_crawl_get or get, MAX_LISTED):
                    yield from _pages(ListEntry(text), common_crawl, "common_crawl", common_crawl)
                result.lists.append(common_crawl)
            except TabootError as error:
                result.tell(common_crawl, error)

    def _pages(entry: ListEntry, base: str, via: Via, listed_in: str) -> Iterator[DiscoveredUrl]:
        places = [(entry.location, via), *((a, "hreflang") for a in entry.alternates)]
        for text, how in places:
            if len(seen) >= MAX_LISTED:
                if not cut:
                    cut.append(TabootError("E_TOO_LARGE", f"The lists name more than {MAX_LISTED} pages."))
                    result.tell(listed_in, cut[0])
                return
            try:
                page = parse_url(text, base)
            except TabootError as error:
                result.tell(listed_in, error)
                continue
            key = canonical_key(page)
            if key in seen:
                continue
            seen.add(key)
            score = scores.score(page.text, entry.title)
            if (wanted is None or wanted(key)) and score >= score_threshold:
                yield DiscoveredUrl(page.text, key, score, how, listed_in, entry.title, entry.modified)

    # The best of any number in bounded memory.
    result.found = heapq.nsmallest(max_urls, found(), key=lambda page: (-page.score, page.key))
    result.listed = len(seen)
    result.left_out = len(seen) - len(result.found)
    return result


def _entries(
    url: WebUrl, get: Get, sources: Sequence[Source], user_agent: str, result: Discovery
) -> Iterator[tuple[ListEntry, str, Via, str]]:
    """Entries of pages in every list of the site, each with the URL that it is relative to."""
    queue: deque[tuple[WebUrl, int, Via, bool]] = deque()
    if url.target != "/":
        queue.append((url, 0, "sitemap", True))
    if "sitemap" in sources:
        queue.extend((u, 0, "sitemap", False) for u in _of_robots(url, get, user_agent, result))
        if not any(place == 0 and not guessed for _, place, _, guessed in queue):
            queue.extend((parse_url(path, url.text), 0, "sitemap", True) for path in SITEMAPS)
    if "feed" in sources:
        queue.extend((parse_url(path, url.text), 0, "feed", True) for path in FEEDS)
    if "llms_txt" in sources:
        queue.extend((parse_url(path, url.text), 0, "llms_txt", True) for path in LLMS_TXT)
    seen: set[str] = set()
    guessed_right: set[Via] = set()
    while queue:
        place, depth, via, guessed = queue.popleft()
        key = canonical_key(place)
        if key in seen or (guessed and via in guessed_right and place != url):
            continue
        seen.add(key)
        if len(seen) > MAX_LISTS or depth > MAX_DEPTH:
            result.tell(
                key, TabootError("E_TOO_LARGE", f"The list {key} is one too many, or too deep.", url=key)
            )
            return
        try:
            answer = get(place, MAX_BYTES)
            listing = (parse_llms_txt if via == "llms_txt" else parse_sitemap)(answer.body, key)
        except TabootError as error:
            # What was only tried may be missing, or a page.
            if not (guessed and error.code in ("E_NOT_FOUND", "E_PARSE", "E_FORBIDDEN", "E_MIME")):
                result.tell(key, error)
            continue
        if guessed and place != url:
            guessed_right.add(via)
        result.lists.append(key)
        if not listing.is_index:
            yield from ((entry, answer.url, via, key) for entry in listing.entries)
            continue
        for entry in listing.entries:
            try:
                queue.append((parse_url(entry.location, answer.url), depth + 1, via, False))
            except TabootError as error:
                result.tell(key, error)


def _of_robots(url: WebUrl, get: Get, user_agent: str, result: Discovery) -> Iterable[WebUrl]:
    """The sitemaps that robots.txt names, which may lie anywhere."""
    place = parse_url("/robots.txt", url.text)
    try:
        robots = read_robots(200, get(place, MAX_BYTES).body, user_agent)
    except TabootError as error:
        if error.code not in ("E_NOT_FOUND", "E_FORBIDDEN", "E_URL_BAD"):
            result.tell(place.text, error)
        return
    result.lists.append(place.text)
    for text in robots.sitemaps[:MAX_LISTS]:
        try:
            yield parse_url(text, place.text)
        except TabootError as error:
            result.tell(place.text, error)
