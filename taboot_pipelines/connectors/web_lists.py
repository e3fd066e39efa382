"""The lists of source type ``web``: which pages its URLs and sitemaps name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from taboot_pipelines.crawl.discovery.discover import Discovery
from taboot_pipelines.crawl.discovery.sitemaps import MAX_BYTES, parse_sitemap
from taboot_pipelines.crawl.fetching import Fetching
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError

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
