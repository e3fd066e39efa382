"""Pages rendered by a Crawl4AI service (its server's ``POST /crawl``, versions 0.6 to 0.9).

The service resolves names and connects by itself, and nothing here can pin what it does: a URL's addresses
are checked before it is handed over, and those of the URL it ended at before anything of the answer is used.
What lies between is the service's own guard (it refuses private addresses unless told otherwise) and the
network it stands in. Likewise it follows redirects; one hop of ours is made of that by handing back where the
page ended, so that robots.txt, turns and limits hold for it before it is asked for.

It takes no headers, no proxy and no scripts from a caller, and gives no bytes of what is no HTML.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from taboot_pipelines.crawl.addresses import Network, Resolver, reachable, resolve
from taboot_pipelines.crawl.captures import Captured, PageReply, PageRequest
from taboot_pipelines.crawl.client import Arrivals, Reply, Request
from taboot_pipelines.crawl.rendering import OWN_HEADERS, STALE_HEADERS, late
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.server import Peer, ServerClient
from taboot_pipelines.settings import Crawl4AiSettings

#: An answer holds the page several times over: as it came, cleaned, and as Markdown.
MAX_ANSWER_BYTES = 256 * 1024 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
#: Longer than the page itself may take, so that the service can say that it did.
_GRACE_SECONDS = 10.0
_PEER = Peer("Crawl4AI", "TABOOT_CRAWL4AI", "E_BROWSER", "E_BROWSER", MAX_ANSWER_BYTES)


class Crawl4Ai:
    """A client that has a service render (see :class:`~taboot_pipelines.crawl.client.Client`), for one
    thread. ``allowed``: networks that may be reached though they are not public. Made without touching the
    network; raises ``E_CONFIG`` for a URL or key that no request could carry.

    What is wrong with the service is ``E_BROWSER`` with the detail ``proxy``: no page is to blame for it.
    """

    def __init__(
        self, settings: Crawl4AiSettings, allowed: Sequence[Network], *, resolver: Resolver = resolve
    ) -> None:
        self._settings = settings
        self._allowed = tuple(allowed)
        self._resolver = resolver
        self._service = ServerClient(_PEER, settings)
        self._threads = ThreadPoolExecutor(settings.max_concurrency, thread_name_prefix="taboot-crawl4ai")
        self._arrivals = Arrivals()

    def start(self, ticket: int, request: Request) -> None:
        arrivals = self._arrivals
        arrivals.expect()
        self._threads.submit(lambda: arrivals.put(ticket, self._fetch(request)))

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        return self._arrivals.take(timeout)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._service.close()

    def _fetch(self, request: Request) -> Reply | TabootError:
        try:
            return self._ask(request)
        except TabootError as error:
            return error
        except Exception as error:  # noqa: BLE001  whatever a service's answer provokes is typed
            return _failed(f"its answer cannot be read ({type(error).__name__})")

    def _ask(self, request: Request) -> Reply:
        began = time.monotonic()
        if request.proxy is not None:
            raise TabootError("E_CONFIG", "Pages that Crawl4AI renders go by no proxy of ours.")
        # A page that should have been asked for with a header is another page without it.
        if any(n.lower() not in OWN_HEADERS for n, _ in request.headers):
            raise TabootError(
                "E_CONFIG",
                "Crawl4AI takes no headers for a page.",
                remedy="Leave out the source's `headers`, or unset TABOOT_CRAWL4AI__URL to use Chromium.",
            )
        address = self._check(request.url)
        seconds = min(request.timeouts.total, self._settings.timeout_seconds)
        try:
            answer = self._service.once(
                "POST",
                "/crawl",
                orjson.dumps(_body(request, seconds)),
                deadline=time.monotonic() + seconds + _GRACE_SECONDS,
            )
        except TabootError as error:
            raise _failed(error.message, again=True) from None
        if answer.status != 200:
            passing = answer.status in (408, 425, 429) or answer.status >= 500
            raise _failed(f"it answered with HTTP {answer.status}", status=answer.status, again=passing)
        return self._read(request, answer.body, address, began)

    def _check(self, url: WebUrl) -> str:
        """An address of ``url``'s host, all of which may be reached."""
        try:
            return str(reachable(url.host, url.port, self._allowed, self._resolver)[0])
        except OSError:
            message = f"The name {url.host} does not resolve."
            raise TabootError("E_NETWORK", message, host=url.host, again=True) from None

    def _read(self, request: Request, body: bytes, address: str, began: float) -> Reply:
        url = request.url
        found = orjson.loads(body)["results"][0]
        status = found.get("status_code")
        status = None if isinstance(status, bool) else status
        headers = {str(n).lower(): str(v) for n, v in (found.get("response_headers") or {}).items()}
        ended = parse_url(str(found.get("redirected_url") or url.text), url.text)
        if ended.text != url.text:
            self._check(ended)
            status = status if status in _REDIRECTS else 302
            return _reply(status, {"location": ended.text}, b"", address, began)
        if not found.get("success") or not isinstance(status, int):
            if isinstance(status, int) and status >= 400:
                return _reply(status, headers, b"", address, began)
            raise _unrendered(url, str(found.get("error_message") or ""))
        if not 200 <= status < 300:
            return _reply(status, headers, b"", address, began)
        if request.admit is not None:
            request.admit(headers, url.text)
        page = str(found.get("html") or "").encode("utf-8", "replace")
        if len(page) > request.max_bytes:
            if not request.cut:
                raise TabootError(
                    "E_TOO_LARGE", f"{url.text} is larger than {request.max_bytes} bytes.", url=url.text
                )
            page = page[: request.max_bytes]
        # What is no HTML came as the page in which a browser shows it.
        headers = {n: v for n, v in headers.items() if n not in STALE_HEADERS}
        headers["content-type"] = "text/html; charset=utf-8"
        return _reply(status, headers, page, address, began, _refused(request))


def _body(request: Request, seconds: float) -> dict[str, Any]:
    """The request as the service's own client would write it."""
    agent = next((v for n, v in request.headers if n.lower() == "user-agent"), None)
    browser: dict[str, object] = {"headless": True}
    if agent is not None:
        browser["user_agent"] = agent
    run: dict[str, object] = {
        "cache_mode": {"type": "CacheMode", "params": "bypass"},
        "page_timeout": int(seconds * 1000),
        "wait_until": "load",
        "stream": False,
    }
    return {
        "urls": [request.url.text],
        "browser_config": {"type": "BrowserConfig", "params": browser},
        "crawler_config": {"type": "CrawlerRunConfig", "params": run},
    }


def _refused(request: Request) -> tuple[Captured, ...]:
    """Captures, which the service takes in forms of its own choice, and scripts not at all."""
    capture = request.capture if isinstance(request, PageRequest) else None
    if capture is None:
        return ()
    error = TabootError(
        "E_CONFIG",
        "Captures are taken by Chromium, not by Crawl4AI.",
        remedy="Unset TABOOT_CRAWL4AI__URL for sources with `capture`, or leave `capture` out.",
        settings=["TABOOT_CRAWL4AI__URL"],
    )
    return tuple(Captured(name, kind, error) for name, (kind, _) in capture.names().items())


def _reply(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    address: str,
    began: float,
    captured: tuple[Captured, ...] = (),
) -> PageReply:
    return PageReply(
        status=status,
        headers=dict(headers),
        body=body,
        seconds=time.monotonic() - began,
        address=address,
        http_version="1.1",
        captured=captured,
    )


def _failed(what: str, **details: object) -> TabootError:
    return TabootError(
        "E_BROWSER",
        f"Crawl4AI rendered nothing: {what}",
        remedy=(
            "Check that Crawl4AI answers at TABOOT_CRAWL4AI__URL and takes TABOOT_CRAWL4AI__API_KEY, and what"
            " its log says."
        ),
        proxy="Crawl4AI",
        **details,
    )


def _unrendered(url: WebUrl, message: str) -> TabootError:
    """Why the service could not render; of its own words only the kind is told."""
    if "ERR_CERT" in message:
        return TabootError(
            "E_NETWORK", f"{url.text} could not be fetched (its certificate is not trusted).", url=url.text
        )
    if "Timeout" in message or "ERR_TIMED_OUT" in message or "ERR_CONNECTION_TIMED_OUT" in message:
        return late(url)
    if "ERR_" in message:
        return TabootError(
            "E_NETWORK", f"{url.text} could not be fetched by Crawl4AI.", url=url.text, again=True
        )
    return TabootError("E_BROWSER", f"{url.text} could not be rendered by Crawl4AI.", url=url.text)
