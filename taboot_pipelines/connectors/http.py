"""One GET over HTTP(S): redirects by hand, every hop guarded, sizes and times bounded, at most two at a time
per host.
"""

from __future__ import annotations

import ssl
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property

import httpcore

from taboot_pipelines.connectors.guard import Deadline, GuardedBackend
from taboot_pipelines.crawl.addresses import Network, Resolver, resolve
from taboot_pipelines.crawl.inflate import inflate
from taboot_pipelines.crawl.politeness import Politeness, retry_after
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Known
from taboot_pipelines.settings import HttpSettings

PER_HOST = 2
#: A server that asks (429, 503) for a wait up to this many seconds gets it, once.
MAX_WAIT_SECONDS = 5.0
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown, text/plain;q=0.9, application/xml;q=0.8, */*;q=0.5"
)
_WAF_SERVERS = ("cloudflare", "akamaighost", "sucuri", "imperva", "ddos-guard", "datadome")
_WAF_HEADERS = ("cf-mitigated", "x-sucuri-id", "x-datadome", "x-iinfo", "x-amzn-waf-action")


#: Tells the time of day, in UTC.
Clock = Callable[[], datetime]

#: Looks at a 2xx answer's headers (names in lower case) and URL; raises ``TabootError`` to leave its body
#: unread.
Admit = Callable[[dict[str, str], str], None]


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx (with its body) or a 304. ``url`` is the one that answered; header names are in lower case."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes


class Fetcher:
    """GET for many threads; a context manager. No proxy and no credentials are taken from the environment."""

    def __init__(
        self,
        settings: HttpSettings,
        allowed: Sequence[Network],
        *,
        resolver: Resolver = resolve,
        politeness: Politeness | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._politeness = politeness
        self._deadline = Deadline()
        self._backend = GuardedBackend(allowed, self._deadline, resolver)
        self._lock = threading.Lock()
        self._slots: dict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(PER_HOST))

    @cached_property
    def _pool(self) -> httpcore.ConnectionPool:
        return httpcore.ConnectionPool(
            ssl_context=_tls(),
            max_connections=self._settings.max_concurrency,
            max_keepalive_connections=self._settings.max_concurrency,
            keepalive_expiry=2.0,  # below what servers grant, or a request meets a closing connection
            network_backend=self._backend,
        )

    def __enter__(self) -> Fetcher:
        self._pool  # noqa: B018 - made here, before threads share it
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def get(self, url: WebUrl, limit: int, known: Known | None = None, admit: Admit | None = None) -> Answer:
        """The answer, its body of at most ``limit`` bytes decoded. The validators of ``known`` go only to the
        URL that gave them (``known.url``; None: the first). ``admit(headers, url)`` may raise before the body
        is read. Raises ``E_REDIRECT``, ``E_URL_BAD``, ``E_URL_BLOCKED``, ``E_TOO_LARGE``, ``E_TIMEOUT``,
        ``E_NETWORK``, ``E_PARSE`` (an encoding that cannot be undone), and for the server's refusals
        ``E_NOT_FOUND`` (404, 410), ``E_FORBIDDEN``, ``E_403_WAF``, ``E_429_RATE``, ``E_5XX_ORIGIN``. With
        ``politeness`` each hop waits for its host's turn, and ``E_CIRCUIT_OPEN`` is a host that is left
        alone."""
        seen: set[str] = set()
        current, waited = url, False
        while True:
            if current.text in seen:
                raise TabootError("E_REDIRECT", f"The redirects of {url.text} form a loop.", url=url.text)
            conditional = (
                known if known and (known.url == current.text or (known.url is None and not seen)) else None
            )
            with self._slot(current.host):
                status, headers, body = self._visit(current, conditional, limit, admit)
                wait = _retry_after(headers, self._clock()) if status in (429, 503) and not waited else None
                if wait is not None:
                    waited = True
                    time.sleep(wait)
                    status, headers, body = self._visit(current, conditional, limit, admit)
            if status in _REDIRECTS and "location" in headers:
                seen.add(current.text)
                if len(seen) > self._settings.max_redirects:
                    raise TabootError(
                        "E_REDIRECT",
                        f"{url.text} redirects more than {self._settings.max_redirects} times.",
                        url=url.text,
                    )
                try:
                    current = parse_url(headers["location"], current.text)
                except TabootError as error:
                    raise TabootError(
                        error.code, f"{url.text} redirects to a bad URL. {error.message}", url=url.text
                    ) from None
                continue
            if status == 304 and conditional is not None:
                return Answer(status, current.text, headers, b"")
            if 200 <= status < 300 and status != 206:
                return Answer(status, current.text, headers, body)
            raise _refusal(status, headers, url.text)

    def _slot(self, host: str) -> threading.Semaphore:
        with self._lock:
            return self._slots[host]

    def _visit(
        self, url: WebUrl, conditional: Known | None, limit: int, admit: Admit | None
    ) -> tuple[int, dict[str, str], bytes]:
        if self._politeness is None:
            return self._request(url, conditional, limit, admit)
        domain = self._politeness.domain_of(url)
        self._await_turn(self._politeness, domain)
        try:
            answer = self._request(url, conditional, limit, admit)
        except TabootError as error:
            failed = None if error.code == "E_URL_BLOCKED" else error.code in ("E_NETWORK", "E_TIMEOUT")
            self._politeness.told(domain, failed=failed)
            raise
        status, headers, _ = answer
        wait = retry_after(headers.get("retry-after", ""), self._clock()) if status in (429, 503) else None
        self._politeness.told(domain, failed=status >= 500, retry_after=wait)
        return answer

    def _await_turn(self, politeness: Politeness, domain: str) -> None:
        """Raises ``E_429_RATE`` if the domain's turn is too far off."""
        end = time.monotonic() + max(
            self._settings.total_timeout_seconds, 10 / (self._settings.rate_limit_rps or 10)
        )
        while (seconds := politeness.wait(domain)) > 0:
            if time.monotonic() + seconds > end:
                raise TabootError(
                    "E_429_RATE",
                    f"{domain} may not be asked for {seconds:.0f} s more.",
                    remedy="It is tried again at the next run; TABOOT_HTTP__RATE_LIMIT_RPS allows more.",
                    domain=domain,
                )
            time.sleep(seconds)

    def _request(
        self, url: WebUrl, conditional: Known | None, limit: int, admit: Admit | None
    ) -> tuple[int, dict[str, str], bytes]:
        settings = self._settings
        headers = [
            ("Host", url.authority),
            ("User-Agent", settings.user_agent),
            ("Accept", _ACCEPT),
            ("Accept-Encoding", "gzip, deflate"),
        ]
        if conditional is not None:
            if conditional.etag:
                headers.append(("If-None-Match", conditional.etag))
            if conditional.last_modified:
                headers.append(("If-Modified-Since", conditional.last_modified))
        timeout = {
            "connect": settings.connect_timeout_seconds,
            "read": settings.read_timeout_seconds,
            "write": settings.read_timeout_seconds,
        }
        self._deadline.at = time.monotonic() + settings.total_timeout_seconds
        try:
            with self._pool.stream(
                "GET",
                httpcore.URL(
                    scheme=url.scheme.encode(),
                    host=url.host.strip("[]").encode(),
                    port=url.port,
                    target=url.target.encode("ascii"),
                ),
                headers=[(n.encode(), v.encode("latin-1", "replace")) for n, v in headers],
                extensions={"timeout": timeout},
            ) as response:
                received = {n.decode("latin-1").lower(): _text(v) for n, v in response.headers}
                body = b""
                if 200 <= response.status < 300:
                    if admit is not None:
                        admit(received, url.text)
                    declared = received.get("content-length", "")
                    if declared.isdecimal() and len(declared) < 19 and int(declared) > limit:
                        raise TabootError(
                            "E_TOO_LARGE", f"{url.text} is larger than {limit} bytes.", url=url.text
                        )
                    body = _body(
                        response.iter_stream(), received.get("content-encoding", ""), limit, url.text
                    )
                return response.status, received, body
        except httpcore.TimeoutException:
            raise TabootError("E_TIMEOUT", f"{url.text} did not answer in time.", url=url.text) from None
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.UnsupportedProtocol,
            OSError,
        ) as error:
            raise TabootError(
                "E_NETWORK", f"{url.text} could not be fetched ({_cause(error)}).", url=url.text
            ) from None


@cache
def _tls() -> ssl.SSLContext:
    """The system's and certifi's authorities (``SSL_CERT_FILE`` adds a private one), read once: it takes a
    while.
    """
    return httpcore.default_ssl_context()


def _cause(error: BaseException) -> str:
    """The kind of failure in words of our own: a server's text does not go into messages."""
    inner = error.__cause__ or error.__context__ or error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(inner, ssl.SSLError):
        return "TLS failed"
    if isinstance(inner, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, httpcore.ConnectError):
        return "no connection, or the name does not resolve"
    return "the answer broke off or is not HTTP"


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _retry_after(headers: dict[str, str], now: datetime) -> float | None:
    """Seconds that ``Retry-After`` (RFC 9110 §10.2.3) asks for, if they are few enough to wait."""
    seconds = retry_after(headers.get("retry-after", ""), now)
    return seconds if seconds is not None and seconds <= MAX_WAIT_SECONDS else None


def _refusal(status: int, headers: dict[str, str], url: str) -> TabootError:
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


def _body(chunks: Iterable[bytes], encoding: str, limit: int, url: str) -> bytes:
    out = bytearray()
    for piece in _decoded(chunks, encoding.strip().lower(), limit, url):
        out += piece
        if len(out) > limit:
            raise TabootError("E_TOO_LARGE", f"{url} is larger than {limit} bytes.", url=url)
    return bytes(out)


def _decoded(chunks: Iterable[bytes], encoding: str, limit: int, url: str) -> Iterator[bytes]:
    """Undo the content encoding in pieces of bounded size, so that a small answer cannot fill the memory."""
    if encoding in ("", "identity"):
        yield from chunks
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise TabootError("E_PARSE", f"{url} came in a content encoding that was not asked for.", url=url)
    try:
        yield from inflate(chunks, gzip=encoding != "deflate")
    except zlib.error:
        raise TabootError("E_PARSE", f"{url} came in a broken content encoding.", url=url) from None
    except EOFError:
        raise TabootError("E_NETWORK", f"{url} broke off within its content encoding.", url=url) from None
