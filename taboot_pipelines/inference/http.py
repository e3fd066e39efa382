"""Requests to a model's server: bounded in time, in size and in number, and tried again where that may help.

What may pass (408, 425, 429, 5xx, time-outs, broken connections) is tried again with full jitter (Brooker,
"Exponential Backoff and Jitter", AWS 2015), not before a ``Retry-After``. Every attempt ends by its deadline,
however slowly an answer drips. The server's own words are never repeated in an error: they may quote the text
that it was sent.
"""

from __future__ import annotations

import base64
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import httpcore
from pydantic import SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.waiting import waiting_for
from taboot_pipelines.stores.state.keys import SERVER_REST_SECONDS

if TYPE_CHECKING:
    from taboot_pipelines.stores.state import Lenient

#: Answers that may be different a moment later.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
#: No wait between two attempts is longer, unless the server asks for it.
_MAX_BACKOFF = 30.0
#: A server that asks for a longer rest than this is reported rather than waited for.
_MAX_RETRY_AFTER = 300.0
#: Longest wait for a connection: a lost packet is better answered by another attempt.
_CONNECT_SECONDS = 10.0
#: Below what servers grant (uvicorn 5 s), or a request meets a closing connection.
_KEEPALIVE_SECONDS = 2.0
_WRITE_BYTES = 64 * 1024
_CHECK_SECONDS = 1.0
_CLEAR_SECONDS = 30.0


class ServerSettings(Protocol):
    """What the settings of every model server have in common."""

    @property
    def url(self) -> str | None: ...
    @property
    def api_key(self) -> SecretStr | None: ...
    @property
    def timeout_seconds(self) -> float: ...
    @property
    def max_concurrency(self) -> int: ...
    @property
    def max_retries(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Peer:
    """How messages call a server: ``name`` opens a sentence, ``setting`` is the prefix of its settings."""

    name: str
    setting: str
    code: str
    timeout_code: str
    #: An answer with more bytes is none.
    max_answer: int


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose status is for the caller to judge; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Circuit:
    """A circuit breaker kept in the state store (open after 5 failures in a row, for 30 s), so that
    all processes give a server that is down its rest. A state store that fails itself lets requests
    through.

    The store is asked at most once a second, and told of successes every 30 s unless there was a failure: a
    request must not cost two writes.
    """

    def __init__(self, hints: Lenient, name: str, namespace: str) -> None:
        self._hints = hints
        self._name = name
        self._namespace = namespace
        self._checked = self._cleared = float("-inf")

    def check(self, peer: Peer) -> None:
        """Raises ``E_CIRCUIT_OPEN`` while the server rests."""
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return
        seconds = self._hints.ask(lambda state: state.circuit_open(self._namespace, self._name), 0.0)
        if seconds > 0:
            self._cleared = float("-inf")
            raise TabootError(
                "E_CIRCUIT_OPEN",
                f"{peer.name} failed repeatedly and is not asked for another {seconds:.0f} s.",
                setting=f"{peer.setting}__URL",
                seconds=round(seconds),
            )
        self._checked = now

    def failed(self) -> None:
        self._checked = self._cleared = float("-inf")
        self._hints.ask(
            lambda state: state.circuit_failed(self._namespace, self._name, rest_seconds=SERVER_REST_SECONDS),
            False,
        )

    def succeeded(self) -> None:
        now = time.monotonic()
        if now - self._cleared < _CLEAR_SECONDS:
            return
        self._cleared = now
        self._hints.ask(lambda state: state.circuit_succeeded(self._namespace, self._name), None)


class _Unanswered(TabootError):
    """No answer came; one may come a moment later."""


class RetryingClient:
    """Requests to one server, by many threads. Made without touching the network; raises ``E_CONFIG`` for a
    URL or key that no request could carry.

    ``backoff_seconds`` is the longest first wait between attempts; it doubles with each. Callers hold
    ``slots`` while they ask, so that no more than ``max_concurrency`` requests are on their way, whatever the
    number of threads. Proxies are taken from the environment (``HTTPS_PROXY``, ``NO_PROXY``).
    """

    def __init__(
        self,
        peer: Peer,
        settings: ServerSettings,
        *,
        backoff_seconds: float = 0.5,
        circuit: Circuit | None = None,
    ) -> None:
        self.peer = peer
        self.settings = settings
        self.slots = threading.BoundedSemaphore(settings.max_concurrency)
        self._backoff = backoff_seconds
        self._circuit = circuit
        self._deadline = _Deadline()
        self._lock = threading.Lock()
        self._pool: httpcore.ConnectionPool | None = None
        self._url, userinfo = _server_url(settings.url or "", f"{peer.setting}__URL")
        self.path = self._url.target.decode("ascii").rstrip("/")
        self._headers = [
            ("Host", _authority(self._url)),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "taboot-pipelines"),
        ]
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        if key and not re.fullmatch(r"[\x21-\x7e]+", key):
            name = f"{peer.setting}__API_KEY"
            raise TabootError(
                "E_CONFIG", f"{name}: holds characters that an HTTP header cannot carry.", settings=[name]
            )
        if key:
            self._headers.append(("Authorization", f"Bearer {key}"))
        elif userinfo:
            self._headers.append(("Authorization", f"Basic {base64.b64encode(userinfo.encode()).decode()}"))

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        stop: threading.Event | None = None,
        deadline: float | None = None,
    ) -> Reply:
        """Ask until something comes back that will not pass, or the attempts are used up, or ``stop`` is set.

        ``path`` is appended to the URL's own; ``deadline`` (``time.monotonic``) ends all attempts together,
        without one each has the settings' timeout. Raises the peer's codes and ``E_CIRCUIT_OPEN``.
        """
        if self._circuit is not None:
            self._circuit.check(self.peer)
        try:
            reply = self._persist(method, path, body, stop or threading.Event(), deadline)
        except TabootError:
            if self._circuit is not None:
                self._circuit.failed()
            raise
        if self._circuit is not None:
            self._circuit.succeeded()
        return reply

    def _persist(
        self, method: str, path: str, body: bytes | None, stop: threading.Event, deadline: float | None
    ) -> Reply:
        attempt = 0
        while True:
            retry_after = 0.0
            try:
                reply = self.send(method, path, body, deadline=deadline)
                if reply.status not in _PASSING:
                    return reply
                failure = self.refusal(reply.status, path, attempts=attempt + 1)
                retry_after = seconds_of(reply.headers.get("retry-after"))
            except _Unanswered as error:
                failure = error
            pause = max(
                retry_after, random.uniform(0, min(_MAX_BACKOFF, self._backoff * 2.0 ** min(attempt, 16)))
            )
            late = deadline is not None and time.monotonic() + pause >= deadline
            if attempt >= self.settings.max_retries or retry_after > _MAX_RETRY_AFTER or late:
                raise failure
            with waiting_for(self.peer.name, pause):
                stopped = stop.wait(pause)
            if stopped:
                raise failure
            attempt += 1

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        deadline: float | None = None,
        root: bool = False,
    ) -> Reply:
        """Ask once. ``root``: ``path`` begins at the server's root, not below the URL's own. Raises the
        peer's codes if no answer came.
        """
        with self._exchange(method, path, body, deadline, root=root) as response:
            parts: list[bytes] = []
            size = 0
            for part in response.iter_stream():
                size += len(part)
                self._bound(size, path)
                parts.append(part)
            received = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in response.headers}
            return Reply(response.status, b"".join(parts), received)

    def lines(self, method: str, path: str, body: bytes, *, deadline: float | None = None) -> Iterator[bytes]:
        """Ask once, and give the lines of the answer as they come. Raises as :meth:`send` and, for a status
        that is no answer, what :meth:`refusal` makes.
        """
        with self._exchange(method, path, body, deadline) as response:
            if response.status != 200:
                raise self.refusal(response.status, path)
            size, rest = 0, b""
            for part in response.iter_stream():
                size += len(part)
                self._bound(size, path)
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
            yield rest

    def _bound(self, size: int, path: str) -> None:
        peer = self.peer
        if size > peer.max_answer:
            raise TabootError(peer.code, f"{peer.name}'s answer exceeds {peer.max_answer} bytes.", path=path)

    @contextmanager
    def _exchange(
        self, method: str, path: str, body: bytes | None, deadline: float | None, *, root: bool = False
    ) -> Iterator[httpcore.Response]:
        """One request, its answer not yet read. What goes wrong until it is read is one of the peer's
        codes.
        """
        peer = self.peer
        now = time.monotonic()
        self._deadline.at = now + self.settings.timeout_seconds if deadline is None else deadline
        headers = (
            [*self._headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            if body is not None
            else self._headers
        )
        target = path if root else self.path + path
        timeout = {
            "connect": min(_CONNECT_SECONDS, self.settings.timeout_seconds),
            "pool": max(0.0, self._deadline.at - now),
        }
        try:
            with self._connections().stream(
                method,
                httpcore.URL(
                    scheme=self._url.scheme,
                    host=self._url.host,
                    port=self._url.port,
                    target=target.encode("ascii"),
                ),
                headers=[(n.encode(), v.encode("latin-1")) for n, v in headers],
                content=body,
                extensions={"timeout": timeout},
            ) as response:
                yield response
        except httpcore.TimeoutException:
            raise _Unanswered(
                peer.timeout_code,
                f"{peer.name} did not answer within {self.settings.timeout_seconds:g} s.",
                path=path,
            ) from None
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.UnsupportedProtocol,
            OSError,
            ValueError,
            RuntimeError,
        ) as error:
            # RuntimeError: the pool was closed. Only the type is named: the text may hold parts of the URL.
            raise _Unanswered(
                peer.code, f"{peer.name} could not be reached ({type(error).__name__}).", path=path
            ) from None

    def refusal(self, status: int, path: str, remedy: str | None = None, **details: Any) -> TabootError:
        """The error for a status that is no answer."""
        if status in (401, 403):
            remedy = f"Check {self.peer.setting}__API_KEY."
        return TabootError(
            self.peer.code,
            f"{self.peer.name} answered {path} with HTTP {status}.",
            remedy=remedy,
            path=path,
            status=status,
            **details,
        )

    def _connections(self) -> httpcore.ConnectionPool:
        """The pool, made at the first request and once more after :meth:`close`."""
        with self._lock:
            if self._pool is None:
                self._pool = self._open()
            return self._pool

    def _open(self) -> httpcore.ConnectionPool:
        # One more than the slots: a health check is not to wait for the work.
        size = self.settings.max_concurrency + 1
        options: dict[str, Any] = {
            "max_connections": size,
            "max_keepalive_connections": size,
            "keepalive_expiry": _KEEPALIVE_SECONDS,
            "network_backend": _Backend(self._deadline),
        }
        if self._url.scheme == b"https":
            options["ssl_context"] = _tls()
        host = self._url.host.decode("ascii")
        proxy = getproxies().get(self._url.scheme.decode("ascii"))
        if not proxy or proxy_bypass(host):
            return httpcore.ConnectionPool(**options)
        url, userinfo = _server_url(proxy, "HTTP_PROXY" if self._url.scheme == b"http" else "HTTPS_PROXY")
        user, _, password = userinfo.partition(":")
        return httpcore.HTTPProxy(proxy_url=url, proxy_auth=(user, password) if userinfo else None, **options)


def gather(count: int, size: int, workers: int, work: Callable[[int, int, threading.Event], None]) -> None:
    """Call ``work(start, end, stop)`` for each slice of at most ``size`` of ``count`` things, ``workers`` at
    a time.

    The first failure is raised; the others are told by ``stop`` and waited for no longer than their request
    takes.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    stop = threading.Event()
    slices = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(slices) <= 1 or workers == 1:
        for start, end in slices:
            work(start, end, stop)
        return
    pool = ThreadPoolExecutor(min(workers, len(slices)), "inference")
    try:
        futures = [pool.submit(work, start, end, stop) for start, end in slices]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()
    finally:
        # After a failure the others stop at their next wait; after success there is nothing left to stop.
        stop.set()
        pool.shutdown(cancel_futures=True)


def seconds_of(value: str | None) -> float:
    """``Retry-After`` (RFC 9110 §10.2.3: seconds or a date) in seconds from now; 0 where it says nothing."""
    if not value:
        return 0.0
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def is_unicode(text: str) -> bool:
    """Whether ``text`` has UTF-8: a lone surrogate has none, and no request can carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _server_url(text: str, setting: str) -> tuple[httpcore.URL, str]:
    """The URL without its user and password, and those apart ("user:password", or "")."""
    match = re.fullmatch(
        r"(https?)://(?:([^/?#@\s]*)@)?(\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s]+)(?::([0-9]{1,5}))?(/[!-~]*)?",
        text.strip(),
        re.IGNORECASE,
    )
    try:
        if match is None or any(c in (match[5] or "") for c in "?#"):
            raise ValueError
        scheme, host = match[1].lower(), match[3].strip("[]").encode("idna").decode("ascii")
        port = int(match[4]) if match[4] else {"http": 80, "https": 443}[scheme]
        if not re.fullmatch(r"[A-Za-z0-9._:-]+", host) or not 0 < port < 65536:
            raise ValueError
    except (ValueError, UnicodeError):
        raise TabootError(
            "E_CONFIG", f"{setting}: is not an http:// or https:// URL of a server.", settings=[setting]
        ) from None
    return httpcore.URL(scheme=scheme, host=host, port=port, target=match[5] or "/"), unquote(match[2] or "")


def _authority(url: httpcore.URL) -> str:
    host = url.host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return shown if url.port == {b"http": 80, b"https": 443}[url.scheme] else f"{shown}:{url.port}"


def _tls() -> ssl.SSLContext:
    """The system's authorities and certifi's; ``SSL_CERT_FILE`` adds a private one."""
    return httpcore.default_ssl_context()


class _Deadline(threading.local):
    """When (``time.monotonic``) the calling thread's attempt must have ended."""

    at: float = float("inf")

    def left(self, timeout: float | None) -> float:
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


class _Backend(httpcore.NetworkBackend):
    """Connections whose every operation ends by the thread's deadline; httpcore's own timeouts begin anew
    with each byte.
    """

    def __init__(self, deadline: _Deadline) -> None:
        self._deadline = deadline
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(
            self._inner.connect_tcp(host, port, self._deadline.left(timeout), local_address, socket_options),
            self._deadline,
        )


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: _Deadline) -> None:
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
