"""Connections whose every operation ends by a deadline, under ``httpx``.

The time-outs of ``httpx`` and ``httpcore`` begin anew with each byte, so that an answer that drips would hold
its reader for ever. The module is imported with the first request: it loads ``httpx``.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

#: The longest wait for a connection: a lost packet is better answered by another attempt.
_CONNECT_SECONDS = 10.0
#: Below what servers grant (uvicorn 5 s), or a request meets a closing connection.
_KEEPALIVE_SECONDS = 2.0
_WRITE_BYTES = 64 * 1024

#: What goes wrong with an attempt that may be repeated. RuntimeError: the connections were closed.
UNREACHED = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    OSError,
    RuntimeError,
)
TIMED_OUT = (httpcore.TimeoutException, httpx.TimeoutException)
#: What no request can be made of.
UNUSABLE = (httpx.HTTPError, httpx.InvalidURL, ValueError)


class Deadline(threading.local):
    """When (``time.monotonic``) the calling thread's attempt must have ended."""

    at: float = float("inf")

    def left(self, timeout: float | None = None) -> float:
        """The seconds that are left, at most ``timeout``. Raises where none are."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


class Transport(httpx.BaseTransport):
    """``size``: how many connections there may be at once. ``proxy``: the URL of one, with its user and
    password apart. ``socket``: the path of a Unix socket that is asked, whatever host a URL names."""

    def __init__(
        self,
        deadline: Deadline,
        tls: ssl.SSLContext | None,
        size: int,
        proxy: tuple[str, str] | None,
        socket: str | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "ssl_context": tls,
            "max_connections": size,
            "max_keepalive_connections": size,
            "keepalive_expiry": _KEEPALIVE_SECONDS,
            "network_backend": _Backend(deadline, socket),
        }
        self._pool: httpcore.ConnectionPool
        if proxy is None:
            self._pool = httpcore.ConnectionPool(**options)
        else:
            url, userinfo = proxy
            user, _, password = userinfo.partition(":")
            self._pool = httpcore.HTTPProxy(
                proxy_url=url, proxy_auth=(user, password) if userinfo else None, **options
            )
        self._deadline = deadline

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        left = self._deadline.left()
        answer = self._pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions={"timeout": {"connect": min(_CONNECT_SECONDS, left), "pool": left}},
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _Backend(httpcore.NetworkBackend):
    """Connections whose every operation ends by the thread's deadline."""

    def __init__(self, deadline: Deadline, socket: str | None) -> None:
        self._deadline = deadline
        self._socket = socket
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        if self._socket is not None:
            return _Stream(self._inner.connect_unix_socket(self._socket, left), self._deadline)
        return _Stream(
            self._inner.connect_tcp(host, port, left, local_address, socket_options), self._deadline
        )


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._inner.write(buffer[start : start + _WRITE_BYTES], self._deadline.left(timeout))

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
