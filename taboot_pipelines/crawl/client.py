"""One request and its answer, and what a client for HTTP is to the engine that uses it.

A client makes one hop: it follows no redirect, sends no header that it was not given, and takes neither a
proxy nor credentials nor cookies from anywhere else. It connects only to addresses that it has checked. Any
number of requests are on their way at once, in the one thread that asks for what has finished
(:class:`Arrivals`). :class:`PagesApart` makes two clients one. What a page's fetching comes to in the end is
an :class:`Answer`, or the :func:`refusal` that a status means.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError

#: Looks at a 2xx answer's headers (names in lower case) and URL; raises ``TabootError`` to leave its body
#: unread.
Admit = Callable[[dict[str, str], str], None]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: until the connection stands (a look-up of the name included, which has as long again), between
    two pieces of an answer (of a KiB, or what ends it), and for all of one hop."""

    connect: float
    read: float
    total: float


@dataclass(frozen=True, slots=True)
class Request:
    """One GET. ``headers`` are all that is sent besides ``Host``; the answer's body has at most ``max_bytes``
    once its content encoding is undone, and is refused with ``E_TOO_LARGE`` beyond, or cut off there if
    ``cut``. ``page``: it is a page, which a browser may render, and no list and no robots.txt."""

    url: WebUrl
    headers: tuple[tuple[str, str], ...]
    max_bytes: int
    timeouts: Timeouts
    admit: Admit | None = None
    proxy: Proxy | None = None
    cut: bool = False
    page: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of any status. Header names are in lower case. ``body`` is that of a 2xx, without its content
    encoding, and empty otherwise. ``address``: the IP address that was connected to, of the proxy if one was
    used. ``http_version``: ``1.0``, ``1.1`` or ``2``."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    address: str
    http_version: str


class Client(Protocol):
    """Requests on their way. Not for use by two threads."""

    def start(self, ticket: int, request: Request) -> None:
        """Begin ``request``; ``ticket`` is what :meth:`finished` calls it. Never blocks."""

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has finished, as soon as anything has, after at most ``timeout`` seconds; at once if nothing
        is on its way.

        Errors: ``E_URL_BLOCKED`` (an address that may not be reached), ``E_TIMEOUT``, ``E_NETWORK``,
        ``E_PROXY`` (the proxy is to blame), ``E_TOO_LARGE``, ``E_PARSE`` (an encoding that cannot be undone),
        and what ``admit`` raises. The detail ``again`` says whether another attempt may end otherwise.
        """

    def close(self) -> None:
        """Give up what is on its way and close all connections."""


REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WAF_SERVERS = ("cloudflare", "akamaighost", "sucuri", "imperva", "ddos-guard", "datadome")
_WAF_HEADERS = ("cf-mitigated", "x-sucuri-id", "x-datadome", "x-iinfo", "x-amzn-waf-action")


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx (with its body) or a 304. ``url`` is the one that answered; header names are in lower case.
    ``seconds``: how long its last hop took, ``address``: who gave it."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes
    seconds: float
    address: str


def refusal(status: int, headers: dict[str, str], url: str) -> TabootError:
    """The error that an answer of ``status`` other than 2xx and 304 is."""

    def error(code: str, what: str) -> TabootError:
        return TabootError(code, f"{url} {what} (status {status}).", url=url, status=status)

    if status in (404, 410):
        return error("E_NOT_FOUND", "does not exist")
    if status == 403 and (
        any(h in headers for h in _WAF_HEADERS) or headers.get("server", "").lower().startswith(_WAF_SERVERS)
    ):
        return error("E_403_WAF", "is behind a filter that refuses programs")
    if status == 429:
        return error("E_429_RATE", "asks for fewer requests")
    if status >= 500:
        return error("E_5XX_ORIGIN", "could not be served")
    if status == 408:
        return error("E_TIMEOUT", "took the server too long")
    if status in (401, 402, 403, 405, 407, 451):
        return error("E_FORBIDDEN", "may not be read")
    if status >= 400:
        return error("E_URL_BAD", "is refused by the server as a bad request")
    return error("E_NETWORK", "gave an answer that was not asked for")


#: The longest wait that the system takes.
_FOR_EVER = 1e6


class Arrivals:
    """Counts what is on its way, and gives out what has come."""

    def __init__(self) -> None:
        self._come: queue.SimpleQueue[tuple[int, Reply | TabootError]] = queue.SimpleQueue()
        self._awaited = 0

    def expect(self) -> None:
        """Something more is on its way."""
        self._awaited += 1

    def put(self, ticket: int, result: Reply | TabootError) -> None:
        """It has come; any thread may say so."""
        self._come.put((ticket, result))

    def take(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has come, as of :meth:`~taboot_pipelines.crawl.client.Client.finished`."""
        taken: list[tuple[int, Reply | TabootError]] = []
        with contextlib.suppress(queue.Empty):
            if self._awaited:
                taken.append(self._come.get(timeout=min(max(timeout, 0), _FOR_EVER)))
            while True:
                taken.append(self._come.get_nowait())
        self._awaited -= len(taken)
        return taken


#: How long one client is waited for while the other may have something to give too.
_TURN_SECONDS = 0.02


class PagesApart:
    """A client that has ``pages`` fetch what is a page (``Request.page``), and ``rest`` everything else."""

    def __init__(self, rest: Client, pages: Client) -> None:
        self._rest, self._pages = rest, pages
        self._asked_rest = self._asked_pages = 0

    def start(self, ticket: int, request: Request) -> None:
        """Begin ``request``, as of a client."""
        if request.page:
            self._pages.start(ticket, request)
            self._asked_pages += 1
        else:
            self._rest.start(ticket, request)
            self._asked_rest += 1

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has finished, as of a client. While both have something on its way they are waited for in
        turn.
        """
        left = timeout
        while True:
            both = bool(self._asked_rest and self._asked_pages)
            wait = min(left, _TURN_SECONDS) if both else left
            done = self._pages.finished(0 if both else wait) if self._asked_pages else []
            self._asked_pages -= len(done)
            if self._asked_rest and not (done and not both):
                more = self._rest.finished(0 if done else wait)
                self._asked_rest -= len(more)
                done = done + more
            left -= wait
            if done or left <= 0 or not (self._asked_rest or self._asked_pages):
                return done

    def close(self) -> None:
        """Close both."""
        try:
            self._pages.close()
        finally:
            self._rest.close()
