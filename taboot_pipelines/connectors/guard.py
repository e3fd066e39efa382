"""Connections that go only to addresses that were checked (SSRF guard), and end at a deadline.

The check stands where the socket is opened: the name is resolved once, every address of the answer is
checked, and the connection is made to a checked address, whatever the name means a moment later. TLS and the
Host header keep the name.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore

from taboot_pipelines.crawl.addresses import Network, Resolver, reachable, resolve


class Deadline(threading.local):
    """The time (``time.monotonic``) by which the calling thread's request must have ended."""

    at: float = float("inf")

    def left(self, timeout: float | None) -> float:
        """Seconds that one more operation may take. Raises ``httpcore.ReadTimeout`` when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the request took too long")
        return left if timeout is None else min(left, timeout)


class GuardedBackend(httpcore.NetworkBackend):
    """A network backend for ``httpcore``. Raises ``E_URL_BLOCKED`` for a host one of whose addresses may not
    be reached.
    """

    def __init__(self, allowed: Sequence[Network], deadline: Deadline, resolver: Resolver = resolve) -> None:
        self._allowed = allowed
        self._deadline = deadline
        self._resolver = resolver
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = reachable(host, port, self._allowed, self._resolver)
        except OSError:
            raise httpcore.ConnectError("the name does not resolve") from None
        for i, address in enumerate(addresses):
            try:
                stream = self._inner.connect_tcp(
                    str(address), port, self._deadline.left(timeout), local_address, socket_options
                )
                return _Stream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if i == len(addresses) - 1:
                    raise
        raise AssertionError("unreachable")


class _Stream(httpcore.NetworkStream):
    """A stream whose every operation ends at the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(
            self._inner.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
