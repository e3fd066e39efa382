"""Crawls: their states, the URLs of one with what became of each, and the order in which pages are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from taboot_pipelines.model.ids import canonical_json, doc_id
from taboot_pipelines.model.records import Stored

#: How often a page is tried before it has failed.
MAX_ATTEMPTS = 3
#: Bytes of a URL's id.
ID_BYTES = 16
#: In place of a code: the page was not asked for, since its last answer is fresh (RFC 9111).
FRESH = "fresh"
_PREFERRED = 1 << 62
_DEPTH_BITS = 50
_MAX_DEPTH = (1 << (61 - _DEPTH_BITS)) - 1
_SCORE_BITS = 43
_SCORE_STEPS = (1 << (61 - _SCORE_BITS)) - 1


class Strategy(StrEnum):
    """Which URL is asked for next: of the smallest depth, of the page read last, or of the best score."""

    BFS = "bfs"
    DFS = "dfs"
    BEST_FIRST = "best_first"


class CrawlState(StrEnum):
    """``RUNNING`` also while no process works at it: the next run of its source goes on with it."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


class UrlState(StrEnum):
    """Where a URL of a crawl stands."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN-PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Outcome(StrEnum):
    """What a URL counts as in the ledger: discovered = fetched + not_modified + skipped + failed + open."""

    FETCHED = "fetched"
    NOT_MODIFIED = "not_modified"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """What decides which pages a crawl asks for, and in which order.

    ``requested_depth``: see :mod:`taboot_pipelines.crawl.crawler`. ``configuration`` is a hash of everything
    that decides what is found, ``link_rules`` of what decides which links are seen on given bytes: a crawl
    goes on only under its own configuration, and stored links serve only under equal rules.
    """

    roots: tuple[str, ...]
    requested_depth: int
    max_pages: int
    strategy: Strategy = Strategy.BFS
    score_threshold: float = 0.0
    configuration: str = ""
    link_rules: str = ""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """How many URLs of one depth came to one end. ``outcome`` None: they are waiting or on their way."""

    depth: int
    outcome: str | None
    code: str | None
    urls: int


@dataclass(frozen=True, slots=True)
class Listing:
    """How reading the lists of a crawl went: ``reason`` says why they are not whole (empty: they are),
    ``problems`` are entries that are bad, each a name, a code and a message."""

    reason: str = ""
    problems: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Crawl:
    """The n-th crawl of a source. Times are microseconds since the epoch; ``ended_at`` None: it goes on.

    ``complete``: every page that is known answered (rule ``complete-enumeration``); else ``reason`` says why
    not. ``previous``: the source's last crawl under equal rules for links, whose links hold for pages that
    did not change. ``listing``: what was wrong with the lists, once they were read; None before.
    ``counts``: the ledger at its end, by depth, outcome and code.
    """

    crawl_id: str
    source_id: str
    number: int
    plan: CrawlPlan
    state: CrawlState
    started_at: int
    ended_at: int | None = None
    complete: bool | None = None
    reason: str = ""
    previous: str | None = None
    listing: Listing | None = None
    counts: tuple[LedgerRow, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundUrl:
    """A URL that was listed (no ``parent``) or stood on the page whose id is ``parent``. ``url`` is what is
    asked for, ``key`` what tells it from others, ``host`` whose turn it takes; ``score`` from 0 to 1."""

    url_id: bytes
    key: str
    url: str
    host: str
    parent: bytes | None = None
    score: float = 1.0
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class ClaimedUrl:
    """A URL that this claimant alone is to ask for."""

    url_id: bytes
    key: str
    url: str
    host: str
    depth: int
    attempts: int


class Fresh(NamedTuple):
    """When an answer may be reused: from ``since``, the last time that this was known, until before
    ``until``; microseconds since the epoch. ``max_age``: the seconds that a later answer renews which says
    nothing of it; None: none."""

    since: int
    until: int
    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What a page was when the source's crawl before this one read it: the URL that was asked for, what the
    page said was its own (see :class:`DoneUrl`), and whether its answer may be reused."""

    url: str
    canonical: str | None
    fresh: Fresh | None


@dataclass(frozen=True, slots=True)
class DoneUrl:
    """What became of a claimed URL.

    ``retry``: a failure after which it is asked for again, no sooner than in ``wait`` seconds;
    ``attempts``: how many were made for this claim. ``seconds``: how long the answer took,
    ``address``: who gave it. ``children``: the ids of all URLs that the page leads to, :data:`ID_BYTES` each,
    as they stand on the bytes ``content`` (their SHA-256); None if nothing is known of them. ``canonical``:
    the URL that the page says is its own, unless it is; ``fresh``: how long the answer may be reused.
    ``page``: what is stored of it; it is kept only where another process leads the crawl. ``size``: bytes of
    the answer.
    """

    claimed: ClaimedUrl
    outcome: Outcome
    code: str | None = None
    message: str | None = None
    retry: bool = False
    wait: float = 0.0
    attempts: int = 1
    http_status: int | None = None
    seconds: float | None = None
    address: str | None = None
    content: str | None = None
    children: bytes | None = None
    page: Stored | None = None
    canonical: str | None = None
    fresh: Fresh | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class SettledUrl:
    """A URL that has come to its end in a crawl."""

    url_id: bytes
    key: str
    depth: int
    outcome: Outcome
    code: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class HandedUrl:
    """A URL that another process than the crawl's leader has settled, and the page if it has bytes."""

    settled: SettledUrl
    page: Stored | None


@dataclass(frozen=True, slots=True)
class Taken:
    """How a crawl stands after a checkpoint, and how many of the claims were no longer their holder's."""

    state: CrawlState
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is left of a crawl: whether its lists have been read, URLs that wait, those on their way, and in
    how many seconds the first of those that wait may be asked for (None: none waits)."""

    listed: bool
    pending: int
    in_progress: int
    seconds: float | None


def url_id(key: str) -> bytes:
    """The id of a URL within its crawl: the first 128 bits of its key's SHA-256."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]


def crawl_id(namespace: str, source_id: str, number: int) -> str:
    """The id of a source's n-th crawl, in the form of a UUID."""
    return doc_id(namespace, canonical_json([source_id, "crawl", number]))


def rank(strategy: Strategy, *, depth: int, score: float, preferred: bool, order: int) -> int:
    """Where a URL stands in its crawl's queue: a signed 64-bit number, the smallest is asked for first.

    ``order`` grows with every URL that is found (microseconds since the crawl began). Preferred URLs come
    before all others, whatever the strategy.
    """
    if strategy is Strategy.BFS:
        place = min(depth, _MAX_DEPTH) << _DEPTH_BITS | min(order, (1 << _DEPTH_BITS) - 1)
    elif strategy is Strategy.DFS:
        # The links of the page that was read last, in their order on the page: see `orders`.
        place = (1 << 61) - 1 - min(order, (1 << 61) - 1)
    else:
        steps = round((1.0 - min(max(score, 0.0), 1.0)) * _SCORE_STEPS)
        place = steps << _SCORE_BITS | min(order, (1 << _SCORE_BITS) - 1)
    return place - _PREFERRED if preferred else place


def orders(strategy: Strategy, micros: int, count: int) -> range:
    """The ``order`` of URLs that were found together ``micros`` after their crawl began: a page's links are
    asked for from its beginning, also where the page read last comes first.
    """
    first = max(micros, 0)
    return (
        range(first + count - 1, first - 1, -1) if strategy is Strategy.DFS else range(first, first + count)
    )


def totals(rows: tuple[LedgerRow, ...] | list[LedgerRow]) -> Mapping[str, int]:
    """The ledger's sums: ``discovered``, each outcome, and ``open`` for what is waiting or on its way."""
    found = dict.fromkeys(("discovered", *Outcome, "open"), 0)
    for row in rows:
        found["discovered"] += row.urls
        found[row.outcome or "open"] += row.urls
    return {str(k): v for k, v in found.items()}


def fresh_urls(rows: tuple[LedgerRow, ...] | list[LedgerRow]) -> int:
    """How many of the pages that were not modified were not even asked for."""
    return sum(row.urls for row in rows if row.code == FRESH)


def split_ids(joined: bytes) -> list[bytes]:
    """The ids that :attr:`DoneUrl.children` holds."""
    data = bytes(joined)
    return [data[i : i + ID_BYTES] for i in range(0, len(data), ID_BYTES)]
