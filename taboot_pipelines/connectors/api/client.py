"""One request to an API and its answer: bounded in size, time and number, tried again where that may help.

What may pass (time-outs, broken connections, 408, 425, 5xx, an answer that breaks off) is tried again with
full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015). A service that was asked too often is left
alone for as long as it says, within what the run may wait. After several requests in a row without an answer
the run gives the service up.
"""

from __future__ import annotations

import logging
import math
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from taboot_pipelines.connectors.api.answers import Answer, bad_answer, shown
from taboot_pipelines.connectors.api.throttling import seconds_to_wait
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.waiting import waiting_for

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)

#: Answers that may be different a moment later.
_PASSING = frozenset({408, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524})
#: Refusals, of which a service may have something else to say than their status does.
_REFUSALS = frozenset({400, 401, 403, 429})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_ATTEMPTS = 4
_BACKOFF_SECONDS = 0.5
_MIN_REST_SECONDS = 0.05
#: How often one request rests: a service that always says "at once" is not asked for ever.
_MAX_RESTS = 50
#: Requests in a row that found no answer, after which the rest of the run's are not made.
_GIVE_UP_AFTER = 5
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may ask of a service. ``timeout_seconds`` is for one attempt with its whole answer,
    ``max_wait_seconds`` for all waits that the service asks for together."""

    max_requests: int = 10_000
    max_wait_seconds: float = 900.0
    timeout_seconds: float = 60.0
    max_answer_bytes: int = 256 * 1024 * 1024
    #: The longest first wait between attempts; it doubles with each.
    backoff_seconds: float = _BACKOFF_SECONDS


@dataclass
class _Spent:
    """What the run has used of its limits."""

    requests: int = 0
    waited: float = 0.0
    failures: int = 0
    until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class ApiClient:
    """Requests to one service, by several threads if need be. Made without touching the network.

    ``service`` opens the sentences of messages. ``base_url`` is the operator's; a request leaves its scheme,
    host and port under no circumstances. ``authorize()`` gives the headers that carry credentials: asked
    before every attempt, so that it can renew them; it is told by ``authorize(renew=True)``, once a request,
    that they were refused with 401. ``refused`` is shown refusals (400, 401, 403, 429), whose bodies may say
    what the status does not: it gives for how long the service asks to be left alone, where its headers
    (``throttled``) do not say, or raises what the refusal means. ``absent`` says of an error whether its body
    says that nothing is there, which is a 404 then. Cookies are kept only if ``cookies``. ``tls``: whom to
    trust.
    """

    def __init__(
        self,
        service: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        authorize: Callable[[bool], Mapping[str, str]] | None = None,
        limits: Limits | None = None,
        throttled: Callable[[int, Mapping[str, str]], float | None] = seconds_to_wait,
        refused: Callable[[Answer], float | None] = lambda _: None,
        absent: Callable[[Answer], bool] = lambda _: False,
        cookies: bool = False,
        tls: ssl.SSLContext | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise TabootError("E_CONFIG", f"The base_url of {service} is not an http(s) URL without a query.")
        if parts.username or parts.password:
            raise TabootError("E_CONFIG", f"The base_url of {service} holds credentials; name a variable.")
        self.service = service
        self.base_url = base_url.rstrip("/")
        self._origin = _origin(base_url)
        self._headers = {"accept": "application/json", "user-agent": "taboot-pipelines", **(headers or {})}
        self._authorize = authorize
        self.limits = limits or Limits()
        self._throttled = throttled
        self._refused = refused
        self._absent = absent
        self._cookies = cookies
        self._tls = tls
        self._sleep = sleep
        self._spent = _Spent()
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def requests(self) -> int:
        """How many requests were made so far."""
        return self._spent.requests

    def get(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        etag: str | None = None,
        last_modified: str | None = None,
    ) -> Answer:
        """GET ``path``: below the base URL, or absolute on the same scheme, host and port. With ``etag`` or
        ``last_modified`` the request is conditional. Raises as :meth:`ask`."""
        conditions: dict[str, str] = {}
        if etag is not None:
            conditions["if-none-match"] = etag
        if last_modified is not None:
            conditions["if-modified-since"] = last_modified
        return self.ask("GET", path, params=params, headers={**(headers or {}), **conditions})

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        json: object | None = None,
        form: Mapping[str, str] | None = None,
        authorized: bool = True,
    ) -> Answer:
        """Ask until an answer comes that will not pass, or the attempts are used up. 404 and 410 are answers.

        Raises ``E_CREDENTIALS`` (401), ``E_FORBIDDEN`` (403), ``E_429_RATE``, ``E_5XX_ORIGIN``,
        ``E_TIMEOUT``, ``E_NETWORK``, ``E_TOO_LARGE``, ``E_REDIRECT`` (away from the service), ``E_REQUESTS``
        (the run's budget), ``E_CIRCUIT_OPEN`` (given up), ``E_API`` (anything else).
        """
        url = self.url(path)
        attempt, redirects, rests, renewed = 0, 0, 0, False
        while True:
            self._spend(url)
            failure: TabootError
            try:
                answer = self._send(method, url, params, headers, json, form, authorized)
            except TabootError as error:
                if not error.details.get("again"):
                    raise
                failure = error
            else:
                wait = self._throttled(answer.status, answer.headers)
                if answer.status in _REFUSALS:
                    said = self._refused(answer)
                    wait = said if wait is None else wait
                if wait is not None:
                    rests += 1
                    self._rest(wait if rests < _MAX_RESTS else math.inf)
                    continue
                if answer.status in _REDIRECTS and "location" in answer.headers:
                    redirects += 1
                    url = self._redirected(method, answer, redirects)
                    params = None
                    continue
                if answer.status == 401 and self._authorize is not None and authorized and not renewed:
                    renewed = True
                    self._authorize(True)
                    continue
                if answer.status >= 400 and self._absent(answer):
                    answer = replace(answer, status=404)
                if answer.status not in _PASSING:
                    self._spent.failures = 0
                    return self._judged(answer)
                failure = TabootError(
                    "E_5XX_ORIGIN",
                    f"{self.service} failed at {shown(url)} (status {answer.status}).",
                    status=answer.status,
                )
            attempt += 1
            if attempt >= _ATTEMPTS:
                self._spent.failures += 1
                raise failure
            pause = random.uniform(0, self.limits.backoff_seconds * 2.0**attempt)
            with waiting_for(f"{self.service}, which failed ({failure.code})", pause):
                self._sleep(pause)

    def get_each(
        self, requests: Iterable[tuple[str, Mapping[str, str]]], *, workers: int = 4
    ) -> Iterator[Answer | TabootError]:
        """GET many paths with their headers, several at a time; the answers come in the order of the paths,
        an error in the place of the answer that failed."""
        from collections import deque
        from concurrent.futures import Future, ThreadPoolExecutor

        def ask(path: str, headers: Mapping[str, str]) -> Answer | TabootError:
            try:
                return self.get(path, headers=headers)
            except TabootError as error:
                return error

        pool = ThreadPoolExecutor(workers, "api")
        waiting: deque[Future[Answer | TabootError]] = deque()
        try:
            for path, headers in requests:
                waiting.append(pool.submit(ask, path, headers))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def pages(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        max_pages: int = 10_000,
    ) -> Iterator[Answer]:
        """The pages of a list that names its next one by ``Link``. Raises ``E_API`` for a page that leads to
        one that was there before, or for more than ``max_pages``."""
        seen: set[str] = set()
        url: str | None = self.url(path)
        while url is not None:
            if url in seen or len(seen) >= max_pages:
                raise bad_answer(self.service, url, "with a list that does not end")
            seen.add(url)
            answer = self.ask("GET", url, params=params, headers=headers)
            yield answer
            # The link has the query in it.
            url, params = answer.link("next"), None

    def url(self, path: str) -> str:
        """The absolute URL of a path below the base URL. Raises ``E_REDIRECT`` for one of another server."""
        url = path if "://" in path else f"{self.base_url}/{path.lstrip('/')}"
        if _origin(url) != self._origin:
            raise TabootError(
                "E_REDIRECT",
                f"{self.service} leads to another server, which is not asked.",
                service=self.service,
            )
        return url

    # --- one attempt ----------------------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str] | None,
        json: object | None,
        form: Mapping[str, str] | None,
        authorized: bool,
    ) -> Answer:
        import httpx

        sent = {**self._headers, **(headers or {})}
        if self._authorize is not None and authorized:
            sent |= self._authorize(False)
        deadline = time.monotonic() + self.limits.timeout_seconds
        limit = self.limits.max_answer_bytes
        where = f"{self.service} at {shown(url)}"
        try:
            client = self._connections()
            request = client.build_request(
                method, url, params=params or None, headers=sent, json=json, data=dict(form) if form else None
            )
            if not self._cookies:
                client.cookies.clear()
            response = client.send(request, stream=True)
            try:
                parts: list[bytes] = []
                size = 0
                for part in response.iter_bytes():
                    size += len(part)
                    if size > limit:
                        raise TabootError("E_TOO_LARGE", f"{where} answers with more than {limit} bytes.")
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the answer drips")
                    parts.append(part)
            finally:
                response.close()
        except httpx.TimeoutException:
            raise TabootError("E_TIMEOUT", f"{where} did not answer in time.", again=True) from None
        except httpx.DecodingError:
            raise bad_answer(self.service, url, "with an encoding that cannot be undone") from None
        except httpx.TransportError as error:
            why, remedy = _unreached(error)
            raise TabootError(
                "E_NETWORK", f"{where} could not be reached ({why}).", remedy=remedy, again=remedy is None
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise TabootError("E_API", f"{where} cannot be asked so ({type(error).__name__}).") from None
        names = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, names, b"".join(parts), url, self.service)

    def _connections(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                # Their logs would tell queries, and cookies.
                for logger in ("httpx", "httpcore"):
                    logging.getLogger(logger).setLevel(logging.WARNING)
                parts = urlsplit(self.base_url)
                proxy = getproxies().get(parts.scheme)
                self._client = httpx.Client(
                    verify=self._tls or _trusted(),
                    timeout=httpx.Timeout(self.limits.timeout_seconds, connect=_CONNECT_SECONDS),
                    follow_redirects=False,
                    # Neither credentials of a `.netrc` nor anything else that nobody named.
                    trust_env=False,
                    proxy=proxy if proxy and not proxy_bypass(parts.hostname or "") else None,
                )
            return self._client

    # --- what becomes of it ---------------------------------------------------------------------------------

    def _judged(self, answer: Answer) -> Answer:
        if 200 <= answer.status < 300 or answer.status in (304, 404, 410):
            return answer
        where = shown(answer.url)
        if answer.status == 401:
            raise TabootError(
                "E_CREDENTIALS", f"{self.service} refuses the credentials at {where}.", service=self.service
            )
        if answer.status == 403:
            raise TabootError(
                "E_FORBIDDEN",
                f"{self.service} does not let this account read {where}.",
                remedy="Give the account or token the right that the documentation of this source names.",
                service=self.service,
            )
        raise bad_answer(self.service, answer.url, f"with status {answer.status}", status=answer.status)

    def _redirected(self, method: str, answer: Answer, redirects: int) -> str:
        url = urljoin(answer.url, answer.headers["location"])
        if redirects > _MAX_REDIRECTS or method not in ("GET", "HEAD"):
            raise TabootError("E_REDIRECT", f"{self.service} redirects {shown(answer.url)} without end.")
        return self.url(url)

    def _spend(self, url: str) -> None:
        spent = self._spent
        with spent.lock:
            if spent.failures >= _GIVE_UP_AFTER:
                raise TabootError(
                    "E_CIRCUIT_OPEN", f"{self.service} failed repeatedly and is not asked again in this run."
                )
            if spent.requests >= self.limits.max_requests:
                raise TabootError(
                    "E_REQUESTS",
                    f"The run has made its {self.limits.max_requests} requests of {self.service}.",
                )
            spent.requests += 1
            pause = spent.until - time.monotonic()
        if pause > 0:
            with waiting_for(f"{self.service}, which asks for fewer requests", pause):
                self._sleep(pause)

    def _rest(self, seconds: float) -> None:
        """Wait as long as the service asks. Raises ``E_429_RATE`` where the run may not wait so long."""
        spent = self._spent
        seconds = max(seconds, _MIN_REST_SECONDS)
        with spent.lock:
            until = time.monotonic() + seconds
            added = max(0.0, until - max(spent.until, time.monotonic()))
            if spent.waited + added > self.limits.max_wait_seconds:
                raise TabootError(
                    "E_429_RATE",
                    f"{self.service} asks to be left alone; the run has waited {spent.waited:.0f} of the"
                    f" {self.limits.max_wait_seconds:.0f} s that it may.",
                    asked=seconds if math.isfinite(seconds) else None,
                )
            spent.waited += added
            spent.until = max(spent.until, until)
        _log.warning("%s asks for fewer requests; waiting %.0f s", self.service, seconds)


def _trusted() -> ssl.SSLContext:
    """certifi's authorities and the system's, which ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name."""
    from taboot_pipelines.crawl.authorities import authorities

    return ssl.create_default_context(cafile=authorities())


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ("", "", 0)
    return (
        parts.scheme.lower(),
        (parts.hostname or "").lower(),
        port or {"http": 80, "https": 443}.get(parts.scheme.lower(), 0),
    )


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
            return "it speaks no TLS at this port", "Let `base_url` begin with http:// or name another port."
        if isinstance(cause, socket.gaierror):
            return "its name has no address", None
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens at this port", None
        if type(cause).__name__ == "RemoteProtocolError":
            return "it ended the connection without an answer, as it may if `base_url` lacks https", None
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__, None
