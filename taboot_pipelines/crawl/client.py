"""One request and its answer, and what a client for HTTP is to the engine that uses it.

A client makes one hop: it follows no redirect, sends no header that it was not given, and takes neither a
proxy nor credentials nor cookies from anywhere else. It connects only to addresses that it has checked. Any
number of requests are on their way at once, in the one thread that asks for what has finished.
"""

from __future__ import annotations

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
    two pieces of an answer, and for all of one hop."""

    connect: float
    read: float
    total: float


@dataclass(frozen=True, slots=True)
class Request:
    """One GET. ``headers`` are all that is sent besides ``Host``; the answer's body has at most ``max_bytes``
    once its content encoding is undone, and is refused with ``E_TOO_LARGE`` beyond, or cut off there if
    ``cut``."""

    url: WebUrl
    headers: tuple[tuple[str, str], ...]
    max_bytes: int
    timeouts: Timeouts
    admit: Admit | None = None
    proxy: Proxy | None = None
    cut: bool = False


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
