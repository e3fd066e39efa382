"""A crawl: URLs are claimed, asked for, read for links, and settled, in one thread and any number at once.

**What holds when the process dies.** A page's bytes go out as an event before anything else is recorded. At a
checkpoint the consumer makes what it was given durable, and only then are the pages settled and what was
found on them taken in, in one transaction. So what was on its way is asked for again, and nothing else:
pages that were settled before are told as unchanged.

**Depth.** What is listed has depth 0 and is asked for. A page found on it has depth 1, and so on: the length
of the shortest way by links. A page at the limit (``requested_depth``) is a leaf of the graph: it is recorded
as COMPLETED without being asked for (seed 002, special cases). So with a limit of 1 nothing more is read than
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
import hashlib
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.crawl.links import denies, header_canonical, other_url, page_canonical, page_links
from taboot_pipelines.crawl.targets import Targets
from taboot_pipelines.crawl.urls import WebUrl, canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import (
    FRESH,
    MAX_ATTEMPTS,
    ClaimedUrl,
    CrawlState,
    DoneUrl,
    FoundUrl,
    HandedPage,
    HandedUrl,
    LastAnswer,
    Listing,
    Outcome,
    SettledUrl,
    Strategy,
    split_ids,
)
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Stored,
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
#: Of so many URLs it is remembered that they are known; of others the frontier is asked.
_MAX_SEEN = 200_000
_HTML = frozenset({"text/html", "application/xhtml+xml"})
#: What servers without a better word say; then the name decides.
UNSPECIFIC = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/x-unknown"})
_CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([A-Za-z0-9_.:+-]{1,40})")
#: May pass while the crawl goes on. Other refusals are a server's word, and stand.
TRANSIENT = frozenset({"E_NETWORK", "E_TIMEOUT", "E_5XX_ORIGIN", "E_429_RATE"})
_RETRY_SECONDS = (1.0, 2.0, 4.0)


class Answer(Protocol):
    """A 2xx (with its body) or a 304; header names are in lower case. ``seconds``: how long it took,
    ``address``: who gave it."""

    @property
    def status(self) -> int: ...
    @property
    def url(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def address(self) -> str | None: ...


class Fetching(Protocol):
    """Pages on their way. An error's details may say in how many ``attempts`` it came."""

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        """Never blocks."""

    def finished(self, timeout: float) -> Sequence[tuple[int, Answer | TabootError]]:
        """Those that came to their end; waits at most ``timeout`` seconds for the next."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """What is stored of a page, as it was declared when it was fetched."""

    data: bytes
    mime: str | None
    charset: str | None


@dataclass(slots=True)
class _Flight:
    """A claimed URL, and where it led and what it was in the crawl before. ``canonical``: what its bytes say
    is its own URL, once they were read for links."""

    claimed: ClaimedUrl
    links: tuple[str | None, bytes] | None
    last: LastAnswer | None
    read: bool = False
    canonical: str | None = None


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
        self._stored = stored
        self._window = window
        self._leads = frontier.leads
        self._freshness = freshness
        #: An earlier run may have stored bytes of which the frontier has not heard.
        self._resumed = frontier.crawl.listing is not None
        self._follows = frontier.crawl.plan.requested_depth > 0
        # What comes next by depth is known ahead; what was found last, or scores best, is not.
        self._ahead = _CLAIMED_AHEAD if frontier.crawl.plan.strategy is Strategy.BFS else 0
        self._flights: dict[int, _Flight] = {}
        self._tickets = 0
        self._queue: deque[_Flight] = deque()
        self._done: list[DoneUrl] = []
        self._found: list[FoundUrl] = []
        #: (page, ids it leads to, as the crawl before had them), looked up at the checkpoint.
        self._carried: list[tuple[ClaimedUrl, list[bytes]]] = []
        self._first_done = 0.0
        #: The smallest depth, and the best score, with which a URL has been told to the frontier.
        self._seen: dict[bytes, tuple[int, float]] = {}
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
            if not self._flights and not self._done:
                if not self._wait():
                    return
                continue
            if self._flights:
                for ticket, answer in self._fetching.finished(self._patience()):
                    event = self._answered(self._flights.pop(ticket), answer)
                    if event is not None:
                        yield event
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
            links = self._frontier.stored_links([c.url_id for c in claimed]) if self._follows else {}
            last = self._frontier.last_answers([c.url_id for c in claimed])
            self._queue.extend(_Flight(c, links.get(c.url_id), last.get(c.url_id)) for c in claimed)
        while self._queue and len(self._flights) < self._window:
            flight = self._queue.popleft()
            key = flight.claimed.key
            if self._tombstoned(key):
                yield self._skipped(flight, "E_TOMBSTONED", f"{key} was deleted on purpose.")
                continue
            if self._reuses(flight):
                yield NotModified(key)
                continue
            try:
                url = self._targets.parsed(flight.claimed.url)
            except TabootError as error:
                event = self._failed(flight, error)
                if event is not None:
                    yield event
                continue
            self._start(flight, url, self._known.get(key))

    def _start(self, flight: _Flight, url: WebUrl, known: Known | None) -> None:
        self._tickets += 1
        self._flights[self._tickets] = flight
        self._fetching.start(self._tickets, url, known=known)

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
        if not self._done:
            return _LOOK_SECONDS
        rest = _STARVING_SECONDS if self._starves() else CHECKPOINT_SECONDS
        return max(self._first_done + rest - time.monotonic(), 0.0)

    def _starves(self) -> bool:
        return not self._queue and len(self._flights) <= self._window / 2

    def _is_due(self) -> bool:
        if not self._done:
            return False
        if len(self._done) >= CHECKPOINT_PAGES or not (self._flights or self._queue):
            return True
        rest = _STARVING_SECONDS if self._starves() else CHECKPOINT_SECONDS
        return time.monotonic() >= self._first_done + rest

    def _settle(self) -> bool:
        """What was told is durable: record it. False once the crawl was cancelled."""
        self._look_up_carried()
        taken = self._frontier.finish(self._done, self._found)
        if taken.lost:
            # What stood on those pages was not taken in, though it is remembered as known.
            self._seen.clear()
        while len(self._seen) > _MAX_SEEN:
            self._seen.pop(next(iter(self._seen)))
        self._done, self._found = [], []
        self._dry_until = 0.0
        return taken.state is CrawlState.RUNNING

    # --- one page -------------------------------------------------------------------------------------------

    def _answered(self, flight: _Flight, answer: Answer | TabootError) -> Event | None:
        key = flight.claimed.key
        if isinstance(answer, TabootError):
            # What robots.txt disallows is the site's word; one that could not be read is a failure.
            if answer.code in ("E_TOO_LARGE", "E_MIME") or answer.details.get("read"):
                return self._skipped(flight, answer.code, answer.message)
            return self._failed(flight, answer)
        known = self._known.get(key)
        if answer.status == 304:
            content = known.sha256 if known is not None else None
            children = self._old_links(flight, content)
            if children is None and self._follows:
                # Nothing tells any more where the page leads: it is asked for as if it were new.
                self._start(flight, parse_url(flight.claimed.url), None)
                return None
            canonical = self._old_canonical(flight) or self._said_by_header(answer, key)
            self._end(flight, Outcome.NOT_MODIFIED, answer, content, children, canonical)
            return NotModified(key)
        content_type = answer.headers.get("content-type", "")
        mime, charset = media_type(content_type), _CHARSET.search(content_type)
        page = Fetched(
            key,
            answer.body,
            mime=None if mime in UNSPECIFIC else mime,
            charset=charset[1].lower() if charset else None,
            url=flight.claimed.url,
            final_url=answer.url,
            etag=answer.headers.get("etag"),
            last_modified=answer.headers.get("last-modified"),
        )
        content = None
        if self._follows or not self._leads:
            content = hashlib.sha256(answer.body).hexdigest()
        same = known is not None and known.sha256 == content
        if not self._follows:
            children = None
        elif same and flight.links is not None and flight.links[0] == content:
            children = self._carry(flight)
        elif denies(answer.headers.get("x-robots-tag", "")):
            children = []
        else:
            children = self._read(flight, page.data, page.mime, page.charset, answer.url)
        if not flight.read and _is_html(page.data, page.mime):
            flight.canonical = page_canonical(page.data, page.charset, answer.url)
        canonical = self._other(flight.canonical, key) or self._said_by_header(answer, key)
        outcome = Outcome.NOT_MODIFIED if same else Outcome.FETCHED
        described = None if self._leads else _described(page, content)
        self._end(flight, outcome, answer, content, children, canonical, described)
        return page

    def _reuses(self, flight: _Flight) -> bool:
        """Settle a page whose last answer is fresh, if all is stored that asking for it could give."""
        claimed, last = flight.claimed, flight.last
        if self._freshness is None or last is None or last.url != claimed.url:
            return False
        fresh = self._freshness.still(last.fresh)
        known = self._known.get(claimed.key) if fresh is not None else None
        if known is None or not known.whole:
            return False
        children = self._old_links(flight, known.sha256)
        if children is None and self._follows:
            return False
        self._note(
            DoneUrl(
                claimed,
                Outcome.NOT_MODIFIED,
                FRESH,
                content=known.sha256,
                children=_joined(children),
                canonical=self._old_canonical(flight),
                fresh=fresh,
            )
        )
        return True

    def _skipped(self, flight: _Flight, code: str, message: str) -> Event:
        self._note(
            DoneUrl(
                flight.claimed,
                Outcome.SKIPPED,
                code,
                message,
                content=flight.links[0] if flight.links else None,
                children=_joined(self._carry(flight)),
            )
        )
        return Skipped(flight.claimed.key, code, message)

    def _failed(self, flight: _Flight, error: TabootError) -> Event | None:
        """None where the page is tried again."""
        claimed = flight.claimed
        status, made = error.details.get("status"), error.details.get("attempts")
        attempts = made if isinstance(made, int) else 1
        gone = error.code == "E_NOT_FOUND"
        retry = error.code in TRANSIENT and claimed.attempts + attempts < MAX_ATTEMPTS
        children = None if gone or retry else self._carry(flight)
        self._note(
            DoneUrl(
                claimed,
                Outcome.FAILED,
                error.code,
                error.message,
                retry=retry,
                wait=_RETRY_SECONDS[min(claimed.attempts, len(_RETRY_SECONDS) - 1)],
                attempts=attempts,
                http_status=status if isinstance(status, int) else None,
                content=flight.links[0] if flight.links and children is not None else None,
                children=_joined(children),
            )
        )
        if retry:
            return None
        if gone:
            return Gone(claimed.key, error.code, error.message, linked=claimed.depth > 0)
        return Failed(claimed.key, error)

    def _end(
        self,
        flight: _Flight,
        outcome: Outcome,
        answer: Answer,
        content: str | None,
        children: list[bytes] | None,
        canonical: str | None,
        page: HandedPage | None = None,
    ) -> None:
        last, fresh = flight.last, None
        # Whoever was sent on to another URL may be sent to a third one next time.
        if self._freshness is not None and answer.url == flight.claimed.url:
            before = last.fresh if last is not None and last.url == answer.url else None
            fresh = self._freshness.of(answer.status, answer.headers, seconds=answer.seconds, before=before)
        self._note(
            DoneUrl(
                flight.claimed,
                outcome,
                canonical=canonical,
                fresh=fresh,
                http_status=answer.status,
                seconds=answer.seconds,
                address=answer.address,
                content=content,
                children=_joined(children),
                page=page,
            )
        )

    def _note(self, done: DoneUrl) -> None:
        if not self._done:
            self._first_done = time.monotonic()
        self._done.append(done)

    # --- links ----------------------------------------------------------------------------------------------

    def _old_links(self, flight: _Flight, content: str | None) -> list[bytes] | None:
        """Where a page leads that did not change: as the crawl before has it for these bytes, else as the
        stored bytes say."""
        if not self._follows or content is None:
            return None
        if flight.links is not None and flight.links[0] == content:
            return self._carry(flight)
        page = self._stored(flight.claimed.key)
        if page is None:
            return None
        known = self._known[flight.claimed.key]
        return self._read(flight, page.data, page.mime, page.charset, known.url or flight.claimed.url)

    def _old_canonical(self, flight: _Flight) -> str | None:
        """What a page that did not change says is its own URL: as its bytes say that were read for links, as
        the crawl before has it, else as the stored bytes say."""
        key = flight.claimed.key
        if not flight.read and flight.last is not None and (self._follows or not self._resumed):
            return self._other(flight.last.canonical, key)
        page = None if flight.read else self._stored(key)
        if page is not None and _is_html(page.data, page.mime):
            url = self._known[key].url or flight.claimed.url
            flight.canonical = page_canonical(page.data, page.charset, url)
        return self._other(flight.canonical, key)

    def _said_by_header(self, answer: Answer, key: str) -> str | None:
        """What the header of a page's answer says is its own URL."""
        link = answer.headers.get("link")
        return self._other(header_canonical(link, answer.url), key) if link else None

    def _other(self, canonical: str | None, key: str) -> str | None:
        """What the page ``key`` says is its own URL, unless it is, or was deleted here on purpose."""
        url = other_url(canonical, key) if canonical is not None else None
        return None if url is None or self._tombstoned(canonical_key(parse_url(url))) else url

    def _carry(self, flight: _Flight) -> list[bytes] | None:
        if flight.links is None or not self._follows:
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

    def _read(
        self, flight: _Flight, data: bytes, mime: str | None, charset: str | None, url: str
    ) -> list[bytes]:
        """Take the links of a page, and give the ids of where it leads."""
        page, flight.read = flight.claimed, True
        if not _is_html(data, mime):
            return []
        scoring = self._targets.scoring
        children: dict[bytes, None] = {}
        found = page_links(data, charset, url, texts=scoring)
        flight.canonical = found.canonical
        for text, label in found.links.items():
            target = self._targets.link(text)
            if target is None:
                continue
            children[target.url_id] = None
            score = self._targets.score(text, label) if scoring else 1.0
            seen = self._seen.get(target.url_id)
            if seen is None or page.depth + 1 < seen[0] or score > seen[1]:
                self._discover(
                    page,
                    FoundUrl(
                        target.url_id,
                        target.key,
                        target.url,
                        target.host,
                        page.url_id,
                        score,
                        target.preferred,
                    ),
                )
        return list(children)

    def _discover(self, page: ClaimedUrl, url: FoundUrl) -> None:
        depth, score = self._seen.get(url.url_id, (page.depth + 1, url.score))
        self._seen[url.url_id] = (min(depth, page.depth + 1), max(score, url.score))
        self._found.append(url)

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
                    event = _told(url)
                    if event is not None:
                        yield event
            if lost:
                self._frontier.reopen(lost)
            if known:
                yield Unchanged(dict.fromkeys(known, "document"))

    def _take_over(self) -> Generator[Event, None, bool]:
        """Tell what others have settled; whether there was anything."""
        handed = self._frontier.handed(_HANDED_PAGES)
        if not handed:
            return False
        lost: list[bytes] = []
        for url in handed:
            event = self._handed(url)
            if event is None:
                lost.append(url.settled.url_id)
            else:
                yield event
        yield Checkpoint()
        self._frontier.take_over([url.settled.url_id for url in handed])
        if lost:
            self._frontier.reopen(lost)
        return True

    def _handed(self, url: HandedUrl) -> Event | None:
        """None for a page that did not change and is not there any more, such as after a repair."""
        settled, page = url.settled, url.page
        key = settled.key
        if self._tombstoned(key):
            return Skipped(key, "E_TOMBSTONED", f"{key} was deleted on purpose.")
        if page is not None:
            return Stored(
                key,
                page.sha256,
                page.byte_size,
                mime=page.mime,
                charset=page.charset,
                url=page.url,
                final_url=page.final_url,
                etag=page.etag,
                last_modified=page.last_modified,
            )
        if settled.outcome is Outcome.NOT_MODIFIED:
            return NotModified(key) if key in self._known else None
        return _told(settled)

    def _ended(self, listing: Listing) -> Iterator[Event]:
        frontier = self._frontier
        if frontier.state() is not CrawlState.RUNNING:
            yield Enumerated(False, "the crawl was cancelled")
            return
        ledger = frontier.ledger()
        reason = listing.reason
        cut = any(row.code == "E_PAGES" for row in ledger)
        if self._follows:
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


def media_type(content_type: str) -> str:
    """The content type of an answer without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _is_html(data: bytes, mime: str | None) -> bool:
    return mime in _HTML or (mime is None and data[:1024].lstrip()[:1] == b"<")


def _told(url: SettledUrl) -> Event | None:
    """The event of a page that was settled without bytes; None where it was never asked for."""
    code, message = url.code or "E_INTERNAL", url.message or ""
    if code in ("E_DEPTH", "E_SCORE", "E_PAGES"):
        return None
    if url.outcome is Outcome.SKIPPED:
        return Skipped(url.key, code, message)
    if code == "E_NOT_FOUND":
        return Gone(url.key, code, message, linked=url.depth > 0)
    return Failed(url.key, TabootError(code, message))


def _described(page: Fetched, sha256: str | None) -> HandedPage:
    assert sha256 is not None and page.url is not None and page.final_url is not None
    return HandedPage(
        sha256,
        len(page.data),
        page.mime,
        page.charset,
        page.url,
        page.final_url,
        page.etag,
        page.last_modified,
    )


def _joined(children: list[bytes] | None) -> bytes | None:
    return None if children is None else b"".join(children)
