"""Where the pages of a crawl lead: their links, read from their bytes or carried over from the crawl before.

What is found is remembered until the next checkpoint, when the frontier takes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.crawl.links import (
    header_canonical,
    markdown_links,
    other_url,
    page_canonical,
    page_links,
)
from taboot_pipelines.crawl.targets import Targets
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.model.crawls import ClaimedUrl, FoundUrl, LastAnswer, split_ids
from taboot_pipelines.model.records import Known

#: Of so many URLs it is remembered that they are known; of others the frontier is asked.
_MAX_SEEN = 200_000
_MARKDOWN = frozenset({"text/markdown", "text/x-markdown"})
_HTML = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(frozen=True, slots=True)
class StoredPage:
    """What is stored of a page, as it was declared when it was fetched."""

    data: bytes
    mime: str | None
    charset: str | None


@dataclass(slots=True)
class Flight:
    """A claimed URL, and where it led and what it was in the crawl before. ``canonical``: what its bytes say
    is its own URL, once they were read for links."""

    claimed: ClaimedUrl
    links: tuple[str | None, bytes] | None
    last: LastAnswer | None
    read: bool = False
    canonical: str | None = None


class Following:
    """``known``, ``tombstoned`` and ``stored`` as for a :class:`~taboot_pipelines.crawl.crawler.Crawler`."""

    def __init__(
        self,
        frontier: Frontier,
        targets: Targets,
        *,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        stored: Callable[[str], StoredPage | None],
    ) -> None:
        self._frontier = frontier
        self._targets = targets
        self._known = known
        self._tombstoned = tombstoned
        self._stored = stored
        #: An earlier run may have stored bytes of which the frontier has not heard.
        self._resumed = frontier.crawl.listing is not None
        #: Whether links are looked at.
        self.follows = frontier.crawl.plan.requested_depth > 0
        self._found: list[FoundUrl] = []
        #: (page, ids it leads to, as the crawl before had them), looked up at the checkpoint.
        self._carried: list[tuple[ClaimedUrl, list[bytes]]] = []
        #: The smallest depth, and the best score, with which a URL has been told to the frontier.
        self._seen: dict[bytes, tuple[int, float]] = {}

    def take(self) -> list[FoundUrl]:
        """What was found since the last time, for the frontier to take in."""
        self._look_up_carried()
        while len(self._seen) > _MAX_SEEN:
            self._seen.pop(next(iter(self._seen)))
        found, self._found = self._found, []
        return found

    def forget(self) -> None:
        """What was taken was not taken in: it may have to be found again."""
        self._seen.clear()

    # --- links ----------------------------------------------------------------------------------------------

    def old_links(self, flight: Flight, content: str | None) -> list[bytes] | None:
        """Where a page leads that did not change: as the crawl before has it for these bytes, else as the
        stored bytes say."""
        if not self.follows or content is None:
            return None
        if flight.links is not None and flight.links[0] == content:
            return self.carry(flight)
        page = self._stored(flight.claimed.key)
        if page is None:
            return None
        known = self._known[flight.claimed.key]
        return self.read(flight, page, known.url or flight.claimed.url)

    def carry(self, flight: Flight) -> list[bytes] | None:
        """Where a page leads as the crawl before has it; None if it knows nothing of it."""
        if flight.links is None or not self.follows:
            return None
        children = split_ids(flight.links[1])
        self._carried.append((flight.claimed, children))
        return children

    def _look_up_carried(self) -> None:
        """Find the URLs behind the ids that were carried over, those alone that the frontier may not know."""
        wanted: dict[bytes, list[ClaimedUrl]] = {}
        for page, children in self._carried:
            for child in children:
                seen = self._seen.get(child)
                if seen is None or page.depth + 1 < seen[0]:
                    wanted.setdefault(child, []).append(page)
        self._carried = []
        for url in self._frontier.stored_urls(sorted(wanted)) if wanted else ():
            page = min(wanted[url.url_id], key=lambda p: p.depth)
            self._discover(page, replace(url, parent=page.url_id))

    def read(self, flight: Flight, page: StoredPage, url: str) -> list[bytes]:
        """Take the links of a page that came from ``url``, and give the ids of where it leads."""
        claimed, flight.read = flight.claimed, True
        scoring = self._targets.scoring
        children: dict[bytes, None] = {}
        if _is_html(page.data, page.mime):
            found = page_links(page.data, page.charset, url, texts=scoring)
        elif page.mime in _MARKDOWN:
            found = markdown_links(page.data, page.charset, url)
        else:
            return []
        flight.canonical = found.canonical
        for text, label in found.links.items():
            target = self._targets.link(text)
            if target is None:
                continue
            children[target.url_id] = None
            score = self._targets.score(text, label) if scoring else 1.0
            seen = self._seen.get(target.url_id)
            if seen is None or claimed.depth + 1 < seen[0] or score > seen[1]:
                self._discover(
                    claimed,
                    FoundUrl(
                        target.url_id,
                        target.key,
                        target.url,
                        target.host,
                        claimed.url_id,
                        score,
                        target.preferred,
                    ),
                )
        return list(children)

    def _discover(self, page: ClaimedUrl, url: FoundUrl) -> None:
        depth, score = self._seen.get(url.url_id, (page.depth + 1, url.score))
        self._seen[url.url_id] = (min(depth, page.depth + 1), max(score, url.score))
        self._found.append(url)

    # --- a page's own URL -----------------------------------------------------------------------------------

    def canonical(self, flight: Flight, page: StoredPage, headers: Mapping[str, str], url: str) -> str | None:
        """What a page that came from ``url`` says is its own URL, in its bytes or in its answer's header."""
        key = flight.claimed.key
        if not flight.read and _is_html(page.data, page.mime):
            flight.canonical = page_canonical(page.data, page.charset, url)
        return self._other(flight.canonical, key) or self.said_by_header(headers, url, key)

    def old_canonical(self, flight: Flight) -> str | None:
        """What a page that did not change says is its own URL: as its bytes say that were read for links, as
        the crawl before has it, else as the stored bytes say."""
        key = flight.claimed.key
        if not flight.read and flight.last is not None and (self.follows or not self._resumed):
            return self._other(flight.last.canonical, key)
        page = None if flight.read else self._stored(key)
        if page is not None and _is_html(page.data, page.mime):
            url = self._known[key].url or flight.claimed.url
            flight.canonical = page_canonical(page.data, page.charset, url)
        return self._other(flight.canonical, key)

    def said_by_header(self, headers: Mapping[str, str], url: str, key: str) -> str | None:
        """What the header of a page's answer says is its own URL."""
        link = headers.get("link")
        return self._other(header_canonical(link, url), key) if link else None

    def _other(self, canonical: str | None, key: str) -> str | None:
        """What the page ``key`` says is its own URL, unless it is, or was deleted here on purpose."""
        url = other_url(canonical, key) if canonical is not None else None
        return None if url is None or self._tombstoned(canonical_key(parse_url(url))) else url


def _is_html(data: bytes, mime: str | None) -> bool:
    return mime in _HTML or (mime is None and data[:1024].lstrip()[:1] == b"<")
