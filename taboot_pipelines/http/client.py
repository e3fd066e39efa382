"""One request and its answer: bounded in time and size, and tried again where that may help.

What may pass (time-outs, broken connections, 408, 425, 429, 5xx, an answer that breaks off) is tried again
with full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015), not before a ``Retry-After``. Every
attempt ends by its deadline, however slowly an answer drips. The server's own words are never repeated in an
error, nor are queries and headers: they may hold secrets, or the text that the server was sent.
"""

from __future__ import annotations

import logging
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Required, TypedDict, Unpack
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer, bad_answer, shown
from taboot_pipelines.http.throttling import retry_after
from taboot_pipelines.model.waiting import waiting_for

if TYPE_CHECKING:
    import httpx

    from taboot_pipelines.http.connections import Deadline
    from taboot_pipelines.stores.state.circuit import Breaker

#: Answers that may be different a moment later. 520 to 524 are Cloudflare's.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
#: No wait between two attempts is longer, unless the server asks for it.
_MAX_BACKOFF = 30.0
#: A server that asks for a longer rest than this is reported rather than waited for.
_MAX_RETRY_AFTER = 300.0


class Unanswered(TabootError):
    """No answer came; one may come a moment later."""


class Sent(TypedDict, total=False):
    """What a request says beside its method and URL.

    ``deadline``: by when (``time.monotonic``) the whole answer is there; default as the client is set.
    """

    headers: Required[Mapping[str, str]]
    params: Mapping[str, str | int] | None
    json: object | None
    form: Mapping[str, str] | None
    content: bytes | None
    deadline: float | None


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of what goes wrong with a service, by kind."""

    unreached: str = "E_NETWORK"
    timeout: str = "E_TIMEOUT"
    failed: str = "E_5XX_ORIGIN"
    unusable: str = "E_API"
    too_large: str = "E_TOO_LARGE"


class HttpClient:
    """Requests to one server, by several threads if need be. Made without touching the network.

    ``service`` opens the sentences of messages. ``base_url``: of its server alone. ``timeout_seconds`` is for
    one attempt with its whole answer, ``attempts`` for one request; ``backoff_seconds`` is the longest first
    wait between two, which doubles with each. ``connections``: at once. ``tls`` makes what says whom to
    trust. Cookies are kept only if ``cookies``. Proxies are taken from the environment (``HTTPS_PROXY``,
    ``NO_PROXY``), and nothing else is. ``socket``: the path of a Unix socket, at which the server is asked.
    """

    def __init__(
        self,
        service: str,
        base_url: str,
        *,
        circuit: Breaker | None,
        codes: Codes,
        timeout_seconds: float,
        max_answer_bytes: int,
        attempts: int,
        backoff_seconds: float,
        connections: int,
        tls: Callable[[], ssl.SSLContext],
        cookies: bool = False,
        socket: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.service = service
        self.base_url = base_url.rstrip("/")
        self.codes = codes
        self._circuit = circuit
        self._timeout = timeout_seconds
        self._max_bytes = max_answer_bytes
        self._attempts = attempts
        self._backoff = backoff_seconds
        self._connections = connections
        self._tls = tls
        self._cookies = cookies
        self._socket = socket
        self._sleep = sleep
        self._lock = threading.Lock()
        self._opened: tuple[httpx.Client, Deadline] | None = None

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()

    def send(self, method: str, url: str, **sent: Unpack[Sent]) -> Answer:
        """Ask once. Raises :class:`Unanswered` where no answer came, and by ``codes`` for one that is too
        large or whose encoding cannot be undone."""
        with self.exchange(method, url, **sent) as response:
            body = b"".join(self.parts(response, url))
            names = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, names, body, url, self.service, self.codes.unusable)

    @contextmanager
    def exchange(self, method: str, url: str, **sent: Unpack[Sent]) -> Iterator[httpx.Response]:
        """One request, its answer not yet read; else as :meth:`send`."""
        import httpx

        from taboot_pipelines.http.connections import TIMED_OUT, UNREACHED, UNUSABLE

        where = f"{self.service} at {shown(url)}"
        try:
            client, until = self._open()
            deadline, form = sent.get("deadline"), sent.get("form")
            until.at = time.monotonic() + self._timeout if deadline is None else deadline
            if not self._cookies:
                client.cookies.clear()
            request = client.build_request(
                method,
                url,
                params=sent.get("params") or None,
                headers=sent["headers"],
                json=sent.get("json"),
                data=dict(form) if form else None,
                content=sent.get("content"),
            )
            response = client.send(request, stream=True)
            try:
                yield response
            finally:
                response.close()
        except TIMED_OUT:
            raise Unanswered(
                self.codes.timeout, f"{where} did not answer within {self._timeout:g} s."
            ) from None
        except httpx.DecodingError:
            raise bad_answer(
                self.service, url, "with an encoding that cannot be undone", code=self.codes.unusable
            ) from None
        except UNREACHED as error:
            why, remedy = _unreached(error)
            # What waiting does not help is not tried again.
            kind = Unanswered if remedy is None else TabootError
            raise kind(
                self.codes.unreached, f"{where} could not be reached ({why}).", remedy=remedy
            ) from None
        except UNUSABLE as error:
            # Only the type is named: the text may hold parts of the URL.
            raise TabootError(
                self.codes.unusable, f"{where} cannot be asked so ({type(error).__name__})."
            ) from None

    def parts(self, response: httpx.Response, url: str) -> Iterator[bytes]:
        """The body of an answer as it comes, its encoding undone, up to the limit in bytes."""
        size = 0
        for part in response.iter_bytes():
            size += len(part)
            if size > self._max_bytes:
                raise TabootError(
                    self.codes.too_large,
                    f"The answer of {self.service} at {shown(url)} exceeds {self._max_bytes} bytes.",
                )
            yield part

    def persist(
        self,
        once: Callable[[], Answer],
        *,
        stop: threading.Event | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """Call ``once``, which asks once, until an answer comes that will not pass, or the attempts are used
        up, or ``stop`` is set, or ``deadline`` would be over before the next. Raises what the last attempt
        did, and ``E_CIRCUIT_OPEN``."""
        if self._circuit is not None:
            self._circuit.check(self.service, **self.details())
        attempt = 0
        while True:
            asked = 0.0
            try:
                answer = once()
                if answer.status not in _PASSING:
                    if self._circuit is not None:
                        self._circuit.succeeded()
                    return answer
                failure = self.failure(answer, attempt + 1)
                asked = retry_after(answer.headers) or 0.0
            except Unanswered as error:
                failure = error
            pause = max(asked, random.uniform(0, min(_MAX_BACKOFF, self._backoff * 2.0 ** min(attempt, 16))))
            late = deadline is not None and time.monotonic() + pause >= deadline
            attempt += 1
            if attempt < self._attempts and asked <= _MAX_RETRY_AFTER and not late:
                with waiting_for(f"{self.service}, which failed ({failure.code})", pause):
                    if not self._pause(pause, stop):
                        continue
            if self._circuit is not None:
                self._circuit.failed()
            raise failure

    def failure(self, answer: Answer, attempts: int) -> TabootError:
        """The error for an answer that may pass and did not."""
        return TabootError(
            self.codes.failed,
            f"{self.service} failed at {shown(answer.url)} (status {answer.status}).",
            status=answer.status,
        )

    def details(self) -> dict[str, str]:
        """What the error of an open circuit says besides its sentence."""
        return {}

    def _pause(self, seconds: float, stop: threading.Event | None) -> bool:
        """Whether ``stop`` was set while it was waited."""
        if stop is not None:
            return stop.wait(seconds)
        self._sleep(seconds)
        return False

    def _open(self) -> tuple[httpx.Client, Deadline]:
        """The connections, made at the first request and once more after :meth:`close`."""
        import httpx

        from taboot_pipelines.http.connections import Deadline, Transport

        with self._lock:
            if self._opened is None:
                # Their logs would tell queries, and cookies.
                for logger in ("httpx", "httpcore"):
                    logging.getLogger(logger).setLevel(logging.WARNING)
                parts = urlsplit(self.base_url)
                deadline = Deadline()
                proxy = getproxies().get(parts.scheme)
                used = proxy is not None and self._socket is None and not proxy_bypass(parts.hostname or "")
                transport = Transport(
                    deadline,
                    self._tls() if parts.scheme == "https" else None,
                    self._connections,
                    server_url(proxy, f"{parts.scheme.upper()}_PROXY") if proxy and used else None,
                    self._socket,
                )
                # Neither credentials of a `.netrc` nor anything else that nobody named.
                client = httpx.Client(transport=transport, follow_redirects=False, trust_env=False)
                self._opened = client, deadline
            return self._opened


def server_url(text: str, setting: str) -> tuple[str, str]:
    """The URL of a server without its user and password, and those apart ("user:password", or "").

    Raises ``E_CONFIG`` that names ``setting`` for anything else."""
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
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}:{port}{match[5] or '/'}", unquote(match[2] or "")


def _unreached(error: Exception) -> tuple[str, str | None]:
    """Why a server was not reached, in words, and what helps where waiting does not."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = (
                "Let `ca_file` name its certificate or its authority's, or set `verify_tls: false`, if the"
                " source's type has these fields; else add the authority to those of the machine."
            )
            return f"its certificate is not trusted: {cause.verify_message}", remedy
        if isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "it speaks no TLS at this port", "Let its URL begin with http:// or name another port."
        if isinstance(cause, socket.gaierror):
            return "its name has no address", None
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens at this port", None
        if type(cause).__name__ == "RemoteProtocolError":
            return "it ended the connection without an answer, as it may if its URL lacks https", None
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__, None
