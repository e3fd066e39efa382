"""What becomes of claimed URLs: the event that is told of each, and what the frontier hears of it.

What was settled before, by an earlier run of the crawl or by another process, is told of in the same way.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from taboot_pipelines import telemetry
from taboot_pipelines.crawl.following import Flight, Following, StoredPage
from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.crawl.links import denies
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import FRESH, MAX_ATTEMPTS, DoneUrl, HandedUrl, Outcome, SettledUrl
from taboot_pipelines.model.records import Event, Failed, Fetched, Gone, Known, NotModified, Skipped, Stored


def told(url: SettledUrl) -> Event | None:
    """The event of a page that was settled without bytes; None where it was never asked for."""
    code, message = url.code or "E_INTERNAL", url.message or ""
    if code in ("E_DEPTH", "E_SCORE", "E_PAGES"):
        return None
    if url.outcome is Outcome.SKIPPED:
        return Skipped(url.key, code, message)
    if code == "E_NOT_FOUND":
        return Gone(url.key, code, message, linked=url.depth > 0)
    return Failed(url.key, TabootError(code, message))


def handed(url: HandedUrl, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Event | None:
    """The event of what another process settled; None for a page that did not change and is not there any
    more, such as after a repair."""
    settled, page = url.settled, url.page
    key = settled.key
    if tombstoned(key):
        return Skipped(key, "E_TOMBSTONED", f"{key} was deleted on purpose.")
    if page is not None:
        return page
    if settled.outcome is Outcome.NOT_MODIFIED:
        return NotModified(key) if key in known else None
    return told(settled)


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


class Settling:
    """Answers become events; what they mean is gathered in ``done`` until it is taken.

    ``hands_over``: another process leads the crawl, so that what is stored of a page goes to it by way of the
    frontier.
    """

    def __init__(
        self,
        following: Following,
        *,
        known: Mapping[str, Known],
        freshness: Freshness | None,
        hands_over: bool,
    ) -> None:
        self._following = following
        self._known = known
        self._freshness = freshness
        self._hands_over = hands_over
        self.done: list[DoneUrl] = []
        #: When the first of ``done`` came, on the monotonic clock.
        self.first_done = 0.0

    def take(self) -> list[DoneUrl]:
        """What is to be recorded since the last time."""
        done, self.done = self.done, []
        return done

    def answered(self, flight: Flight, answer: Answer | TabootError) -> Event | None:
        """The event of an answer; None where the page is to be asked for as if it were new (it did not
        change, and nothing tells any more where it leads), or is tried again later (:attr:`DoneUrl.retry`).
        """
        key = flight.claimed.key
        if isinstance(answer, TabootError):
            # What robots.txt disallows is the site's word; one that could not be read is a failure.
            if answer.code in ("E_TOO_LARGE", "E_MIME") or answer.details.get("read"):
                return self.skipped(flight, answer.code, answer.message)
            return self.failed(flight, answer)
        known = self._known.get(key)
        if answer.status == 304:
            content = known.sha256 if known is not None else None
            children = self._following.old_links(flight, content)
            if children is None and self._following.follows:
                return None
            canonical = self._following.old_canonical(flight)
            canonical = canonical or self._following.said_by_header(answer.headers, answer.url, key)
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
        stored = StoredPage(page.data, page.mime, page.charset)
        content = None
        if self._following.follows or self._hands_over:
            content = hashlib.sha256(answer.body).hexdigest()
        same = known is not None and known.sha256 == content
        if not self._following.follows:
            children = None
        elif same and flight.links is not None and flight.links[0] == content:
            children = self._following.carry(flight)
        elif denies(answer.headers.get("x-robots-tag", "")):
            children = []
        else:
            children = self._following.read(flight, stored, answer.url)
        canonical = self._following.canonical(flight, stored, answer.headers, answer.url)
        outcome = Outcome.NOT_MODIFIED if same else Outcome.FETCHED
        handed = _stored(page, content) if self._hands_over else None
        self._end(flight, outcome, answer, content, children, canonical, handed)
        return page

    def reuses(self, flight: Flight) -> bool:
        """Settle a page whose last answer is fresh, if all is stored that asking for it could give."""
        claimed, last = flight.claimed, flight.last
        if self._freshness is None or last is None or last.url != claimed.url:
            return False
        fresh = self._freshness.still(last.fresh)
        known = self._known.get(claimed.key) if fresh is not None else None
        if known is None or not known.whole:
            return False
        children = self._following.old_links(flight, known.sha256)
        if children is None and self._following.follows:
            return False
        self._note(
            DoneUrl(
                claimed,
                Outcome.NOT_MODIFIED,
                FRESH,
                content=known.sha256,
                children=_joined(children),
                canonical=self._following.old_canonical(flight),
                fresh=fresh,
            )
        )
        return True

    def skipped(self, flight: Flight, code: str, message: str) -> Event:
        self._note(
            DoneUrl(
                flight.claimed,
                Outcome.SKIPPED,
                code,
                message,
                content=flight.links[0] if flight.links else None,
                children=_joined(self._following.carry(flight)),
            )
        )
        return Skipped(flight.claimed.key, code, message)

    def failed(self, flight: Flight, error: TabootError) -> Event | None:
        """None where the page is tried again."""
        claimed = flight.claimed
        status, made = error.details.get("status"), error.details.get("attempts")
        attempts = made if isinstance(made, int) else 1
        gone = error.code == "E_NOT_FOUND"
        retry = error.code in TRANSIENT and claimed.attempts + attempts < MAX_ATTEMPTS
        children = None if gone or retry else self._following.carry(flight)
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
        _trace(claimed.host, error.code, status if isinstance(status, int) else None)
        if retry:
            return None
        if gone:
            return Gone(claimed.key, error.code, error.message, linked=claimed.depth > 0)
        return Failed(claimed.key, error)

    def _end(
        self,
        flight: Flight,
        outcome: Outcome,
        answer: Answer,
        content: str | None,
        children: list[bytes] | None,
        canonical: str | None,
        page: Stored | None = None,
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
                size=len(answer.body),
            )
        )
        _trace(flight.claimed.host, "ok", answer.status, answer.seconds)

    def _note(self, done: DoneUrl) -> None:
        if not self.done:
            self.first_done = time.monotonic()
        self.done.append(done)


def media_type(content_type: str) -> str:
    """The content type of an answer without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _stored(page: Fetched, sha256: str | None) -> Stored:
    """What is told of a page once its bytes are in the blob store."""
    assert sha256 is not None
    return Stored(
        page.path,
        sha256,
        len(page.data),
        role=page.role,
        mime=page.mime,
        charset=page.charset,
        url=page.url,
        final_url=page.final_url,
        etag=page.etag,
        last_modified=page.last_modified,
    )


def _trace(host: str, outcome: str, status: int | None, seconds: float | None = None) -> None:
    """Tell of a page that was asked for; how long one took that did not answer is not known here."""
    asked = telemetry.Span("fetch", {"http.request.method": "GET"}, outcome)
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    asked.set_standard({"server.address": name} | ({"server.port": int(port)} if port else {}))
    if status is not None:
        asked.set_standard({"http.response.status_code": status})
    asked.seconds = seconds or 0.0
    telemetry.past(asked, "GET", client=True)


def _joined(children: list[bytes] | None) -> bytes | None:
    return None if children is None else b"".join(children)
