"""What a crawl needs of the store that keeps its URLs.

``stores.catalog.frontier`` implements it, and says what each method does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from taboot_pipelines.model.crawls import (
    ClaimedUrl,
    Crawl,
    CrawlState,
    DoneUrl,
    FoundUrl,
    HandedUrl,
    LastAnswer,
    LedgerRow,
    Listing,
    SettledUrl,
    Taken,
    Waiting,
)


class Frontier(Protocol):
    """The URLs of one crawl, for one of those who work at it; ``leads``: the one that takes over what the
    others have read."""

    crawl: Crawl
    leads: bool

    def add_roots(self, roots: Sequence[FoundUrl], listing: Listing) -> None: ...

    def claim(self, limit: int, busy: Collection[str] = ()) -> list[ClaimedUrl]: ...

    def finish(self, done: Sequence[DoneUrl], found: Sequence[FoundUrl]) -> Taken: ...

    def heartbeat(self) -> CrawlState: ...

    def state(self) -> CrawlState: ...

    def waiting(self) -> Waiting: ...

    def release(self) -> int: ...

    def reclaim(self, *, alone: bool = False) -> int: ...

    def settled(self) -> Iterator[list[SettledUrl]]: ...

    def handed(self, limit: int) -> list[HandedUrl]: ...

    def take_over(self, url_ids: Sequence[bytes]) -> None: ...

    def reopen(self, url_ids: Sequence[bytes]) -> None: ...

    def stored_links(self, url_ids: Sequence[bytes]) -> dict[bytes, tuple[str | None, bytes]]: ...

    def last_answers(self, url_ids: Sequence[bytes]) -> dict[bytes, LastAnswer]: ...

    def stored_urls(self, url_ids: Sequence[bytes]) -> list[FoundUrl]: ...

    def ledger(self) -> tuple[LedgerRow, ...]: ...

    def end(self, *, complete: bool, reason: str = "") -> None: ...
