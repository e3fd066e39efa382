"""A crawl: URLs are claimed, asked for, read for links, and settled, in one thread and any number at once.

**What holds when the process dies.** A page's bytes go out as an event before anything else is recorded. At a
checkpoint the consumer makes what it was given durable, and only then are the pages settled and what was
found on them taken in, in one transaction. So what was on its way is asked for again, and nothing else:
pages that were settled before are told as unchanged.

**Depth.** What is listed has depth 0 and is asked for. A page found on it has depth 1, and so on: the length
of the shortest way by links. A page at the limit (``requested_depth``) is a leaf of the graph: it is recorded
as COMPLETED without being asked for. So with a limit of 1 nothing more is read than
with 0, but it is recorded where the listed pages lead; a limit of 2 reads what they link to. With 0 links are
not looked at.

**Links of what did not change.** A page whose bytes are those of the last crawl (304, or equal bytes) leads
where it led then: neither fetched nor parsed again. A page that cannot be read now (refused, broken, deleted
here on purpose) leads where it last did, so that what lies behind it is still seen.

**Several processes.** One of them leads a crawl: it reads the lists, takes the events of all and says at the
end whether the crawl is complete. The others claim, read and settle pages as it does. What they have settled
waits in the frontier, with all that is to be known of a page but its bytes, which they have stored, until the
leader has told it (:class:`~taboot_pipelines.model.records.Stored`) and it is durable.

**What is fresh.** A page whose last answer may still be reused (``crawl.freshness``) is not asked for: it
counts as not modified, with the code ``fresh``.

**Completeness.** Unless it follows links, a crawl is as complete as its lists. Else it also needs that it was
not cut (by ``max_pages``, or cancelled) and that every page answered or does not exist (rule
``complete-enumeration``). What robots.txt disallows is skipped: such a page stays as it is if it was read
once, and what lay behind it is seen by the links it had then; one that never was has told of nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Protocol

from taboot_pipelines.crawl.following import Flight, Following, StoredPage
from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.crawl.outcomes import Answer, Settling, handed, told
from taboot_pipelines.crawl.targets import Targets
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import CrawlState, FoundUrl, Listing, Outcome, Strategy
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)

#: A checkpoint comes after so many pages, or so many seconds after the first of them; sooner where nothing
#: else is left to do until it has come.
CHECKPOINT_PAGES = 64
CHECKPOINT_SECONDS = 0.25
_STARVING_SECONDS = 0.02
#: URLs that one claim takes where the order allows it.
_CLAIMED_AHEAD = 100
_HEARTBEAT_SECONDS = 60.0
#: How often it is looked whether the crawl was cancelled, and whether others left something to do.
_LOOK_SECONDS = 1.0
#: Pages of others that are taken over at once.
_HANDED_PAGES = 256


class Fetching(Protocol):
    """Pages on their way. An error's details may say in how many ``attempts`` it came."""

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        """Never blocks."""

    def finished(self, timeout: float) -> Sequence[tuple[int, Answer | TabootError]]:
        """Those that came to their end; waits at most ``timeout`` seconds for the next."""


class Crawler:
    """Works at the crawl of ``frontier``.

    ``known`` and ``tombstoned`` as for a connector; ``stored`` reads a known page by its key. At most
    ``window`` URLs are on their way at once. ``freshness`` says which answers may be reused; None: none.
    """

    def __init__(
        self,
        frontier: Frontier,
        fetching: Fetching,
        targets: Targets,
        *,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        stored: Callable[[str], StoredPage | None] = lambda _: None,
        window: int = 16,
        freshness: Freshness | None = None,
    ) -> None:
        self._frontier = frontier
        self._fetching = fetching
        self._targets = targets
        self._known = known
        self._tombstoned = tombstoned
        self._window = window
        self._leads = frontier.leads
        self._following = Following(frontier, targets, known=known, tombstoned=tombstoned, stored=stored)
        self._settling = Settling(
            self._following, known=known, freshness=freshness, hands_over=not frontier.leads
        )
        # What comes next by depth is known ahead; what was found last, or scores best, is not.
        self._ahead = _CLAIMED_AHEAD if frontier.crawl.plan.strategy is Strategy.BFS else 0
        self._flights: dict[int, Flight] = {}
        self._tickets = 0
        self._queue: deque[Flight] = deque()
        self._dry_until = 0.0
        self._beat = self._look = self._took_over = time.monotonic()

    def events(self, roots: Callable[[], tuple[list[FoundUrl], Listing]]) -> Iterator[Event]:
        """Go on with the crawl to its end; ``roots`` reads the lists, unless that was done by an earlier run.

        Whoever stops early leaves the crawl as if what was on its way had never been claimed. Whoever does
        not lead the crawl tells pages to be stored, and no ``Enumerated``.
        """
        frontier = self._frontier
        frontier.reclaim(alone=frontier.leads)
        if not frontier.leads:
            yield from self._work()
            return
        listing = frontier.crawl.listing
        if listing is None:
            found, listing = roots()
            frontier.add_roots(found, listing)
        else:
            yield from self._before()
        for name, code, message in listing.problems:
            yield Failed(name, TabootError(code, message))
        yield from self._work()
        while (yield from self._take_over()):
            yield from self._work()
        yield from self._ended(listing)

    def _work(self) -> Iterator[Event]:
        """Work at the crawl until nothing is left of it, and give back what is on its way in any case."""
        try:
            yield from self._run()
        finally:
            with contextlib.suppress(TabootError):
                self._frontier.release()

    # --- the loop -------------------------------------------------------------------------------------------

    def _run(self) -> Iterator[Event]:
        while True:
            yield from self._fill()
            if self._leads and time.monotonic() >= self._took_over + _LOOK_SECONDS:
                self._took_over = time.monotonic()
                yield from self._take_over()
            if not self._flights and not self._settling.done:
                if not self._wait():
                    return
                continue
            if self._flights:
                for ticket, answer in self._fetching.finished(self._patience()):
                    yield from self._answered(self._flights.pop(ticket), answer)
            if self._is_due():
                yield Checkpoint()
                if not self._settle():
                    return
            elif time.monotonic() >= self._look + _LOOK_SECONDS and not self._alive():
                return

    def _fill(self) -> Iterator[Event]:
        """Claim and start as much as there is room for."""
        now = time.monotonic()
        room = self._window - len(self._flights)
        if not self._queue and now >= self._dry_until and (room >= self._window / 2 or not self._flights):
            claimed = self._frontier.claim(max(room, self._ahead), self._busy())
            if not claimed:
                # More turns up at a checkpoint, or with others who work at the crawl.
                self._dry_until = now + _LOOK_SECONDS
            ids = [c.url_id for c in claimed]
            links = self._frontier.stored_links(ids) if self._following.follows else {}
            last = self._frontier.last_answers(ids)
            self._queue.extend(Flight(c, links.get(c.url_id), last.get(c.url_id)) for c in claimed)
        while self._queue and len(self._flights) < self._window:
            flight = self._queue.popleft()
            key = flight.claimed.key
            if self._tombstoned(key):
                yield self._settling.skipped(flight, "E_TOMBSTONED", f"{key} was deleted on purpose.")
                continue
            if self._settling.reuses(flight):
                yield NotModified(key)
                continue
            try:
                url = self._targets.parsed(flight.claimed.url)
            except TabootError as error:
                event = self._settling.failed(flight, error)
                if event is not None:
                    yield event
                continue
            self._start(flight, url, self._known.get(key))

    def _start(self, flight: Flight, url: WebUrl, known: Known | None) -> None:
        self._tickets += 1
        self._flights[self._tickets] = flight
        self._fetching.start(self._tickets, url, known=known)

    def _answered(self, flight: Flight, answer: Answer | TabootError) -> Iterator[Event]:
        settled = len(self._settling.done)
        event = self._settling.answered(flight, answer)
        if event is not None:
            yield event
        elif len(self._settling.done) == settled:  # nothing of it holds any more
            self._start(flight, parse_url(flight.claimed.url), None)

    def _busy(self) -> list[str]:
        """Hosts that hold half of the places: others have their turn first."""
        hosts = Counter(f.claimed.host for f in self._flights.values())
        return [h for h, n in hosts.items() if n >= self._window / 2]

    def _wait(self) -> bool:
        """Nothing is on its way: wait for what may be asked for later, or for others; False at the end."""
        if self._queue:
            return True
        waiting = self._frontier.waiting()
        left = waiting.pending + waiting.in_progress or not waiting.listed
        if not left or not self._alive():
            return False
        rest = _LOOK_SECONDS if waiting.seconds is None else waiting.seconds
        time.sleep(min(max(rest, _STARVING_SECONDS), _LOOK_SECONDS))
        if waiting.in_progress:
            self._frontier.reclaim()
        self._dry_until = 0.0
        return True

    def _alive(self) -> bool:
        """Say that this process is at work where it is time for it; False once the crawl was cancelled."""
        now = self._look = time.monotonic()
        if now >= self._beat + _HEARTBEAT_SECONDS:
            self._beat = now
            return self._frontier.heartbeat() is CrawlState.RUNNING
        return self._frontier.state() is CrawlState.RUNNING

    def _patience(self) -> float:
        if not self._settling.done:
            return _LOOK_SECONDS
        rest = _STARVING_SECONDS if self._starves() else CHECKPOINT_SECONDS
        return max(self._settling.first_done + rest - time.monotonic(), 0.0)

    def _starves(self) -> bool:
        return not self._queue and len(self._flights) <= self._window / 2

    def _is_due(self) -> bool:
        if not self._settling.done:
            return False
        if len(self._settling.done) >= CHECKPOINT_PAGES or not (self._flights or self._queue):
            return True
        rest = _STARVING_SECONDS if self._starves() else CHECKPOINT_SECONDS
        return time.monotonic() >= self._settling.first_done + rest

    def _settle(self) -> bool:
        """What was told is durable: record it. False once the crawl was cancelled."""
        taken = self._frontier.finish(self._settling.take(), self._following.take())
        if taken.lost:
            self._following.forget()
        self._dry_until = 0.0
        return taken.state is CrawlState.RUNNING

    # --- before and after -----------------------------------------------------------------------------------

    def _before(self) -> Iterator[Event]:
        """Tell what an earlier run of this crawl has settled."""
        for some in self._frontier.settled():
            known: list[str] = []
            lost: list[bytes] = []
            for url in some:
                if url.outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
                    if url.key in self._known:
                        known.append(url.key)
                    else:
                        # Stored, but not there any more, such as after a repair.
                        lost.append(url.url_id)
                else:
                    event = told(url)
                    if event is not None:
                        yield event
            if lost:
                self._frontier.reopen(lost)
            if known:
                yield Unchanged(dict.fromkeys(known, "document"))

    def _take_over(self) -> Generator[Event, None, bool]:
        """Tell what others have settled; whether there was anything."""
        waiting = self._frontier.handed(_HANDED_PAGES)
        if not waiting:
            return False
        lost: list[bytes] = []
        for url in waiting:
            event = handed(url, self._known, self._tombstoned)
            if event is None:
                lost.append(url.settled.url_id)
            else:
                yield event
        yield Checkpoint()
        self._frontier.take_over([url.settled.url_id for url in waiting])
        if lost:
            self._frontier.reopen(lost)
        return True

    def _ended(self, listing: Listing) -> Iterator[Event]:
        frontier = self._frontier
        if frontier.state() is not CrawlState.RUNNING:
            yield Enumerated(False, "the crawl was cancelled")
            return
        ledger = frontier.ledger()
        reason = listing.reason
        cut = any(row.code == "E_PAGES" for row in ledger)
        if self._following.follows:
            unknown = sorted(
                {str(r.code) for r in ledger if r.outcome == Outcome.FAILED and r.code != "E_NOT_FOUND"}
            )
            if unknown:
                reason = reason or f"pages did not answer: {', '.join(unknown)}"
            if cut:
                reason = reason or f"it was cut at {frontier.crawl.plan.max_pages} pages"
        elif cut:
            limit = frontier.crawl.plan.max_pages
            for some in frontier.settled():
                for url in some:
                    if url.code == "E_PAGES":
                        message = f"{url.key} lies beyond max_pages ({limit})."
                        yield Skipped(url.key, "E_PAGES", message, outside=True)
        yield Enumerated(not reason, reason)
        # Only now has the enumeration been applied: a run that dies before it goes on with this crawl.
        frontier.end(complete=not reason, reason=reason)
