"""Pages, from the first hop to the last answer, any number at once: redirects by hand, robots.txt before any
page, each domain at its pace, what may pass by tried again.

Nothing here waits for one host while another may be asked: hosts take turns, and a host that must not be
asked yet is put aside until it may. Everything happens while somebody calls :meth:`Fetching.finished` or
:meth:`Fetching.get`, in that thread.

Which headers go to which URL: credentials stay where they belong, whatever links or redirects there.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from taboot_pipelines.crawl.client import (
    REDIRECTS,
    Admit,
    Answer,
    Client,
    PagesApart,
    Reply,
    Request,
    Timeouts,
    refusal,
)
from taboot_pipelines.crawl.domains import Domains, filled_headers
from taboot_pipelines.crawl.politeness import Politeness, retry_after
from taboot_pipelines.crawl.proxies import Proxies, Proxy
from taboot_pipelines.crawl.robots import MAX_ROBOTS_BYTES, RobotsCache, RobotsGate
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Known
from taboot_pipelines.settings import HttpSettings

_ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/xml;q=0.8, */*;q=0.5"
)
_ACCEPT_MARKDOWN = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"


def own_headers(settings: HttpSettings, *, prefer_markdown: bool = False) -> dict[str, str]:
    """What every request says of us, and what we would like best (RFC 9110 §12.5.1)."""
    accept = _ACCEPT_MARKDOWN if prefer_markdown else _ACCEPT
    return {"User-Agent": settings.user_agent, "Accept": accept, "Accept-Encoding": "gzip, deflate"}


class SentHeaders:
    """What a source and a domain add to requests, on top of ``ours``, with secrets filled in.

    ``source``: the source's own headers, sent to ``origins`` (scheme, host and port) alone. Those of a domain
    go to all of that domain. ``secret(NAME)`` gives what ``${NAME}`` stands for.
    """

    def __init__(
        self,
        ours: Mapping[str, str],
        *,
        source: Mapping[str, str] | None = None,
        origins: Collection[str] = (),
        domains: Domains | None = None,
        secret: Callable[[str], str],
    ) -> None:
        self._ours = ours
        self._source = filled_headers(source or {}, secret)
        self._origins = frozenset(origins)
        self._domains = domains
        self._secret = secret
        self._sent: dict[tuple[str | None, bool], tuple[tuple[str, str], ...]] = {}

    def to(self, url: WebUrl) -> tuple[tuple[str, str], ...]:
        """The headers of a request for ``url``. Raises ``E_CONFIG`` for a secret that is not set."""
        domain = self._domains.name_of(url) if self._domains is not None else None
        key = (domain, url.origin in self._origins)
        sent = self._sent.get(key)
        if sent is None:
            named = {name.lower(): (name, value) for name, value in self._ours.items()}
            if self._domains is not None and domain is not None:
                for name, value in filled_headers(self._domains.limits(domain).headers, self._secret).items():
                    named[name.lower()] = (name, value)
            if key[1]:
                named |= {name.lower(): (name, value) for name, value in self._source.items()}
            if len(self._sent) > 1000:
                self._sent = {}
            sent = self._sent[key] = tuple(named.values())
        return sent


#: A server that asks (429, 503) for a wait up to this many seconds gets it, once.
MAX_RETRY_AFTER_SECONDS = 30.0
#: A page whose host may not be asked within this time is not waited for.
MAX_PATIENCE_SECONDS = 120.0

#: ``page``: asked for only where robots.txt allows it.
Purpose = Literal["page", "sitemap", "robots"]

#: Tells the time of day, in UTC.
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class _Job:
    """One page on its way, or with no ticket a robots.txt. ``url`` is the hop that is next, ``failure`` why
    it is tried again."""

    ticket: int | None
    first: WebUrl
    known: Known | None
    max_bytes: int
    admit: Admit | None
    purpose: Purpose
    url: WebUrl
    seen: set[str] = field(default_factory=set)
    #: How often it was tried again.
    attempts: int = 0
    #: Seconds that its hops and attempts have taken, and when the present one began.
    spent: float = 0.0
    sent: float = 0.0
    waited: bool = False
    failure: TabootError | None = None
    conditional: bool = False
    proxy: Proxy | None = None


@dataclass(slots=True, eq=False)
class _Host:
    """Jobs that wait for a host. ``offered``: it stands in the row of hosts, or is put aside for a time."""

    name: str
    ready: deque[_Job] = field(default_factory=deque)
    asked: int = 0
    offered: bool = False


class Fetching:
    """Fetches by ``client``; a context manager that closes it.

    A body of more than ``max_bytes`` is refused. ``admit(headers, url)`` may raise before the body of a page
    is read. Without ``politeness`` hosts are asked as fast as they answer, without ``robots`` for every page.
    ``headers`` says what a source and a domain add to those that every request has (:func:`own_headers`).
    ``pages`` fetches the pages in place of ``client``, such as a browser.
    """

    def __init__(
        self,
        client: Client,
        settings: HttpSettings,
        *,
        max_bytes: int,
        admit: Admit | None = None,
        politeness: Politeness | None = None,
        robots: RobotsCache | None = None,
        proxies: Proxies | None = None,
        headers: SentHeaders | None = None,
        pages: Client | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client if pages is None else PagesApart(client, pages)
        self._settings = settings
        self._max_bytes = max_bytes
        self._admit = admit
        self._politeness = politeness
        self._gate = RobotsGate(robots) if robots is not None else None
        self._proxies = proxies
        self._clock = clock
        self._timeouts = Timeouts(
            settings.connect_timeout_seconds, settings.read_timeout_seconds, settings.total_timeout_seconds
        )
        self._own = tuple(own_headers(settings).items())
        self._headers = headers
        self._hosts: dict[str, _Host] = {}
        #: Hosts that may be asked, in the order of their turns.
        self._turns: deque[_Host] = deque()
        #: What happens at a later time: a host is offered again, a job is tried again.
        self._later: list[tuple[float, int, _Host | _Job]] = []
        self._count = itertools.count(1)
        self._asked: dict[int, _Job] = {}
        self._open = 0
        #: Pages that wait for their origin's robots.txt.
        self._held: dict[str, list[_Job]] = {}
        self._done: list[tuple[int, Answer | TabootError]] = []

    def __enter__(self) -> Fetching:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def in_flight(self) -> int:
        """Pages that were started and not yet given out by :meth:`finished`."""
        return self._open + len(self._done)

    def start(self, ticket: int, url: WebUrl, *, known: Known | None = None) -> None:
        """Take up the page ``url``; ``ticket``, not negative, is what :meth:`finished` calls it. The
        validators of ``known`` go only to the URL that gave them (``known.url``; None: the first). Never
        blocks."""
        self._take(_Job(ticket, url, known, self._max_bytes, self._admit, "page", url))

    def finished(self, timeout: float) -> list[tuple[int, Answer | TabootError]]:
        """What has finished, as soon as anything has, after at most ``timeout`` seconds; at once if nothing
        is on its way.

        An answer is a 2xx or a 304. Errors: ``E_REDIRECT``, ``E_URL_BAD``, ``E_URL_BLOCKED``, ``E_ROBOTS``,
        ``E_TOO_LARGE``, ``E_TIMEOUT``, ``E_NETWORK``, ``E_PARSE`` (an encoding that cannot be undone), for
        the server's refusals ``E_NOT_FOUND`` (404, 410), ``E_FORBIDDEN``, ``E_403_WAF``, ``E_429_RATE``,
        ``E_5XX_ORIGIN``, ``E_DOMAIN_BLOCKED``, ``E_PROXY``, and ``E_CIRCUIT_OPEN`` for a domain that is left
        alone. Their detail ``attempts`` says in how many attempts they came.
        """
        end = time.monotonic() + timeout
        while True:
            self._ask()
            now = time.monotonic()
            if self._done or not self._open or now >= end:
                break
            wait = max(0.0, (min(end, self._later[0][0]) if self._later else end) - now)
            if self._asked:
                for ticket, result in self._client.finished(wait):
                    self._answered(self._asked.pop(ticket), result)
            else:
                time.sleep(wait)
        done, self._done = self._done, []
        return done

    def get(
        self,
        url: WebUrl,
        *,
        known: Known | None = None,
        max_bytes: int | None = None,
        purpose: Purpose = "page",
    ) -> Answer:
        """The answer of one URL, waited for while whatever else is on its way goes on; of at most
        ``max_bytes`` if given. What is no page is not asked of ``admit``. Raises what :meth:`finished` gives
        as errors."""
        ticket = -next(self._count)
        limit = self._max_bytes if max_bytes is None else max_bytes
        admit = self._admit if purpose == "page" else None
        self._take(_Job(ticket, url, known, limit, admit, purpose, url))
        others: list[tuple[int, Answer | TabootError]] = []
        while True:
            done = self.finished(3600)
            mine = [result for t, result in done if t == ticket]
            others += [(t, result) for t, result in done if t != ticket]
            if mine:
                self._done = others + self._done
                if isinstance(mine[0], TabootError):
                    raise mine[0]
                return mine[0]

    # --- turns ----------------------------------------------------------------------------------------------

    def _take(self, job: _Job) -> None:
        self._open += 1
        self._queue(job)

    def _queue(self, job: _Job, *, first: bool = False) -> None:
        name = job.url.host
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(name)
        if first:
            host.ready.appendleft(job)
        else:
            host.ready.append(job)
        self._offer(host)

    def _offer(self, host: _Host) -> None:
        """Put ``host`` into the row if a page of it may be asked for, and forget it if it has none."""
        if not host.ready and not host.asked:
            self._hosts.pop(host.name, None)
        elif host.ready and not host.offered and host.asked < self._settings.per_host:
            host.offered = True
            self._turns.append(host)

    def _ask(self) -> None:
        """Ask whom it is time to ask."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, item = heapq.heappop(self._later)
            if isinstance(item, _Job):
                self._queue(item)  # behind the others, so that one bad page is not the whole site
            else:
                item.offered = False
                self._offer(item)
        while self._turns and len(self._asked) < self._settings.max_concurrency:
            host = self._turns.popleft()
            wait = self._try(host)
            if wait:
                self._put_off(host, wait)
            else:
                host.offered = False
                self._offer(host)

    def _try(self, host: _Host) -> float:
        """Ask ``host`` for its next page, or settle that page otherwise; the seconds until the host may be
        asked, if it may not."""
        job = host.ready[0]
        delay: float | None = None
        try:
            headers = self._headers.to(job.url) if self._headers is not None else self._own
            if self._gate is not None and job.purpose == "page":
                rules = None if job.url.origin in self._held else self._gate.rules(job.url)
                if rules is None:
                    self._hold(host.ready.popleft())
                    return 0.0
                delay = rules.crawl_delay
            wait = self._wait(job, delay)
            if wait == 0:
                job.proxy = self._proxy_for(job)
        except TabootError as error:
            host.ready.popleft()
            self._end(job, job.failure or error)
            return 0.0
        if wait == 0:
            host.ready.popleft()
            host.asked += 1
            self._send(job, headers)
        return wait

    def _wait(self, job: _Job, delay: float | None) -> float:
        """Seconds until the page's domain may be asked; 0.0 takes the turn."""
        if self._politeness is None:
            return 0.0
        domain = self._politeness.domain_of(job.url)
        wait = self._politeness.wait(domain, delay=delay)
        if wait > MAX_PATIENCE_SECONDS:
            limits = self._politeness.domains.limits(domain)
            # A pace that somebody set is kept to, however slow.
            if wait > max(limits.delay, limits.burst / limits.rate if limits.rate else 0.0):
                raise TabootError(
                    "E_429_RATE",
                    f"{job.url.text} was not asked for: the turn of {domain} comes in {wait:.0f} s only.",
                    remedy="It is tried again at the next run.",
                    url=job.url.text,
                )
        return wait

    def _proxy_for(self, job: _Job) -> Proxy | None:
        """The proxy to go by, for a page whose turn it is."""
        try:
            return self._proxies.choose(job.url) if self._proxies is not None else None
        except TabootError:
            job.proxy = None
            self._tell(job, failed=None)
            raise

    def _put_off(self, item: _Host | _Job, seconds: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._count), item))

    def _send(self, job: _Job, headers: tuple[tuple[str, str], ...]) -> None:
        url, known = job.url, job.known
        job.conditional = known is not None and (
            known.url == url.text or (known.url is None and not job.seen)
        )
        if known is not None and job.conditional:
            if known.etag:
                headers += (("If-None-Match", known.etag),)
            if known.last_modified:
                headers += (("If-Modified-Since", known.last_modified),)
        ticket = next(self._count)
        self._asked[ticket] = job
        job.sent = time.monotonic()
        request = Request(
            url,
            headers,
            job.max_bytes,
            replace(self._timeouts, total=self._timeouts.total - job.spent),
            admit=job.admit,
            proxy=job.proxy,
            cut=job.purpose == "robots",
            page=job.purpose == "page",
        )
        self._client.start(ticket, request)

    # --- answers --------------------------------------------------------------------------------------------

    def _answered(self, job: _Job, result: Reply | TabootError) -> None:
        host = self._hosts[job.url.host]
        host.asked -= 1
        self._offer(host)
        job.spent += time.monotonic() - job.sent if isinstance(result, TabootError) else result.seconds
        if isinstance(result, TabootError):
            failed = result.code in ("E_NETWORK", "E_TIMEOUT")
            # An address that may not be reached is refused on this side.
            not_asked = result.code in ("E_PROXY", "E_URL_BLOCKED")
            self._tell(job, failed=None if not_asked else failed, proxy_failed=result.code == "E_PROXY")
            if not (result.details.get("again") and self._again(job, result)):
                self._end(job, result)
            return
        status, headers = result.status, result.headers
        asked = headers.get("retry-after") if status in (429, 503) else None
        wait = retry_after(asked, self._clock()) if asked is not None else None
        self._tell(job, failed=status >= 500, retry_after=wait)
        if status in REDIRECTS and "location" in headers:
            self._redirect(job, headers["location"])
        elif (status == 304 and job.conditional) or (200 <= status < 300 and status != 206):
            body = b"" if status == 304 else result.body
            self._end(job, Answer(status, job.url.text, headers, body, result.seconds, result.address))
        else:
            error = refusal(status, headers, job.first.text)
            if wait is not None:
                # The server's word on when to come back stands for ours.
                if wait <= MAX_RETRY_AFTER_SECONDS and not job.waited and job.spent < self._timeouts.total:
                    job.waited, job.failure = True, error
                    self._put_off(job, wait)
                    return
            elif (status in (408, 429) or status >= 500) and self._again(job, error):
                return
            self._end(job, error)

    def _tell(
        self, job: _Job, *, failed: bool | None, retry_after: float | None = None, proxy_failed: bool = False
    ) -> None:
        if self._politeness is not None:
            self._politeness.told(self._politeness.domain_of(job.url), failed=failed, retry_after=retry_after)
        if self._proxies is not None and job.proxy is not None:
            self._proxies.told(job.proxy, failed=True if proxy_failed else None if failed is None else False)

    def _again(self, job: _Job, error: TabootError) -> bool:
        """Whether ``job`` is tried again after ``error``."""
        if job.attempts >= len(self._settings.retry_seconds) or job.spent >= self._timeouts.total:
            return False
        self._put_off(job, self._settings.retry_seconds[job.attempts])
        job.attempts += 1
        job.failure = error
        return True

    def _redirect(self, job: _Job, location: str) -> None:
        first, limit = job.first.text, self._settings.max_redirects
        job.seen.add(job.url.text)
        try:
            if len(job.seen) > limit:
                raise TabootError("E_REDIRECT", f"{first} redirects more than {limit} times.", url=first)
            url = parse_url(location, job.url.text)
            if url.text in job.seen:
                raise TabootError("E_REDIRECT", f"The redirects of {first} form a loop.", url=first)
            if job.spent >= self._timeouts.total:
                raise TabootError("E_TIMEOUT", f"{first} did not answer in time.", url=first)
        except TabootError as error:
            if error.code == "E_URL_BAD":
                error = TabootError(error.code, f"{first} redirects to a bad URL. {error.message}", url=first)
            self._end(job, error)
            return
        job.url, job.failure = url, None
        self._queue(job, first=True)

    def _end(self, job: _Job, result: Answer | TabootError) -> None:
        self._open -= 1
        if isinstance(result, TabootError):
            result.details["attempts"] = job.attempts + 1
        if job.ticket is None:
            self._robots_read(job, result)
        else:
            self._done.append((job.ticket, result))

    # --- robots.txt -----------------------------------------------------------------------------------------

    def _hold(self, job: _Job) -> None:
        """Let ``job`` wait until its origin's robots.txt is read."""
        origin = job.url.origin
        if origin not in self._held:
            self._held[origin] = []
            url = parse_url(f"{origin}/robots.txt")
            self._take(_Job(None, url, None, MAX_ROBOTS_BYTES, None, "robots", url))
        self._held[origin].append(job)

    def _robots_read(self, job: _Job, result: Answer | TabootError) -> None:
        origin = job.first.origin
        if self._gate is not None:
            self._gate.keep(origin, result)
        for page in self._held.pop(origin):
            self._queue(page)
