"""One request to an API and its answer, and what a run may ask of the service altogether.

A service that was asked too often is left alone for as long as it says, within what the run may wait. After
several requests in a row without an answer the run gives the service up.
"""

from __future__ import annotations

import logging
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin, urlsplit

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer, bad_answer, shown
from taboot_pipelines.http.client import Codes, HttpClient
from taboot_pipelines.http.throttling import seconds_to_wait
from taboot_pipelines.model.waiting import waiting_for
from taboot_pipelines.stores.state.circuit import RunCircuit

_log = logging.getLogger(__name__)

#: Refusals, of which a service may have something else to say than their status does.
_REFUSALS = frozenset({400, 401, 403, 429})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_ATTEMPTS = 4
_BACKOFF_SECONDS = 0.5
_MIN_REST_SECONDS = 0.05
#: How often one request rests: a service that always says "at once" is not asked for ever.
_MAX_RESTS = 50
_CONNECTIONS = 100


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
    until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class ApiClient(HttpClient):
    """Requests to one service, by several threads if need be. Made without touching the network.

    ``service`` opens the sentences of messages. ``base_url`` is the operator's; a request leaves its scheme,
    host and port under no circumstances. ``authorize()`` gives the headers that carry credentials: asked
    before every attempt, so that it can renew them; it is told by ``authorize(renew=True)``, once a request,
    that they were refused with 401. ``refused`` is shown refusals (400, 401, 403, 429), whose bodies may say
    what the status does not: it gives for how long the service asks to be left alone, where its headers
    (``throttled``) do not say, or raises what the refusal means. ``absent`` says of an error whether its body
    says that nothing is there, which is a 404 then. Cookies are kept only if ``cookies``. ``tls``: whom to
    trust. ``socket``: the path of a Unix socket, at which the service is asked.
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
        socket: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise TabootError("E_CONFIG", f"The base_url of {service} is not an http(s) URL without a query.")
        if parts.username or parts.password:
            raise TabootError("E_CONFIG", f"The base_url of {service} holds credentials; name a variable.")
        self.limits = limits or Limits()
        super().__init__(
            service,
            base_url,
            circuit=RunCircuit(),
            codes=Codes(),
            timeout_seconds=self.limits.timeout_seconds,
            max_answer_bytes=self.limits.max_answer_bytes,
            attempts=_ATTEMPTS,
            backoff_seconds=self.limits.backoff_seconds,
            connections=_CONNECTIONS,
            tls=lambda: tls or _trusted(),
            cookies=cookies,
            socket=socket,
            sleep=sleep,
        )
        self._origin = _origin(base_url)
        self._headers = {"accept": "application/json", "user-agent": "taboot-pipelines", **(headers or {})}
        self._authorize = authorize
        self._throttled = throttled
        self._refused = refused
        self._absent = absent
        self._spent = _Spent()

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
        redirects, rests, renewed = 0, 0, False

        def settle() -> Answer:
            """Ask until the service neither asks for a rest, nor leads elsewhere, nor wants a new token."""
            nonlocal url, params, redirects, rests, renewed
            while True:
                self._spend()
                sent = {**self._headers, **(headers or {})}
                if self._authorize is not None and authorized:
                    sent |= self._authorize(False)
                answer = self.send(method, url, headers=sent, params=params, json=json, form=form)
                wait = self._throttled(answer.status, answer.headers)
                if answer.status in _REFUSALS:
                    said = self._refused(answer)
                    wait = said if wait is None else wait
                if wait is not None:
                    rests += 1
                    self._rest(wait if rests < _MAX_RESTS else math.inf)
                elif answer.status in _REDIRECTS and "location" in answer.headers:
                    redirects += 1
                    url = self._redirected(method, answer, redirects)
                    params = None
                elif answer.status == 401 and self._authorize is not None and authorized and not renewed:
                    renewed = True
                    self._authorize(True)
                elif answer.status >= 400 and self._absent(answer):
                    return replace(answer, status=404)
                else:
                    return answer

        return self._judged(self.persist(settle))

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
            # Not waited for: the garbage collector may end a generator in a thread that is just starting,
            # which holds the lock that is needed to join another.
            pool.shutdown(wait=False, cancel_futures=True)

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

    def _spend(self) -> None:
        spent = self._spent
        with spent.lock:
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
