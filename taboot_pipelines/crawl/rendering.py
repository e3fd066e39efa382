"""One page in Chromium: what it may ask for, where it leads, and what becomes of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from taboot_pipelines.crawl.captures import Captured, Capturing, PageReply, PageRequest, still_there
from taboot_pipelines.crawl.client import Request
from taboot_pipelines.crawl.egress import Visit
from taboot_pipelines.crawl.urls import WebUrl, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.settings import BrowserSettings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_SCHEMES = ("http:", "https:", "ws:", "wss:", "data:", "blob:", "about:")
_HTML = ("text/html", "application/xhtml+xml")
#: Loaded only for a picture of the page; films never are.
_PICTURES = ("Image", "Font")
#: What the browser says itself, what would cut its answer short, and what says nothing about a rendered page.
OWN_HEADERS = frozenset(
    (
        *("host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "range"),
        *("if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range"),
    )
)
STALE_HEADERS = ("content-encoding", "content-length", "transfer-encoding", "etag", "last-modified")

_Header = dict[str, str]


class Rendering:
    """One page from its navigation to its bytes."""

    def __init__(
        self,
        page: Page,
        request: Request,
        visit: Visit,
        settings: BrowserSettings,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._page = page
        self._request = request
        self._visit = visit
        self._settings = settings
        self._spawn = spawn
        self._url = request.url
        capture = request.capture if isinstance(request, PageRequest) else None
        self._capture = capture
        pictured = capture is not None and (capture.screenshot or capture.pdf)
        self._unloaded = ("Media",) if pictured else ("Media", *_PICTURES)
        self._headers = [(n, v) for n, v in request.headers if n.lower() not in OWN_HEADERS]
        #: What answers the request in place of a page: a redirect, a refusal, bytes that are no HTML.
        self._instead: asyncio.Future[tuple[int, _Header, bytes]] = asyncio.get_running_loop().create_future()
        # Whether or not anybody asks, a failure has been seen.
        self._instead.add_done_callback(lambda found: found.cancelled() or found.exception())
        self._answered: tuple[int, _Header] | None = None
        self._version = "1.1"
        self._frame = ""
        #: The request for the page itself as the network part of Chromium calls it, and what is known of it.
        self._document = ""
        self._complete = asyncio.Event()
        #: The document's stages by name (``load``, ``networkIdle`` …).
        self._stages: set[str] = set()
        self._progress = asyncio.Event()
        self._cdp: CDPSession | None = None

    async def reply(self, began: float) -> PageReply:
        """The answer; captures come after it and have their own time. Raises ``TimeoutError``."""
        captured: tuple[Captured, ...] = ()
        async with asyncio.timeout(self._request.timeouts.total):
            cdp = await self._watch()
            await self._load()
            if self._visit.exceeded:
                raise self._too_large(f"loads more than {self._settings.max_traffic_bytes} bytes")
            if self._instead.done():
                status, headers, body = self._instead.result()
            elif self._answered is None:
                raise self._why("")
            else:
                status, headers = self._answered
                body = await self._html()
                headers = {n: v for n, v in headers.items() if n not in STALE_HEADERS}
                headers["content-type"] = f"{_mime(headers)}; charset=utf-8"
        request = self._request
        if (
            isinstance(request, PageRequest)
            and request.capture is not None
            and not self._instead.done()
            and ids.sha256_hex(body) != request.unless
        ):
            taking = Capturing(self._page, cdp, self._look, self._url.text, request.max_bytes)
            captured = await taking.take(request.capture)
        return PageReply(
            status=status,
            headers=headers,
            body=body,
            seconds=time.monotonic() - began,
            address=self._address(),
            http_version=self._version,
            captured=captured,
        )

    async def _watch(self) -> CDPSession:
        """Have every request of the page looked at before it is sent, and answers to navigations too."""
        self._page.on("crash", lambda _: self._fail(self._broken("its renderer crashed")))
        self._page.on("close", lambda _: self._fail(self._broken("Chromium ended", again=True)))
        cdp = self._cdp = await self._page.context.new_cdp_session(self._page)
        self._frame = (await cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        cdp.on("Fetch.requestPaused", lambda event: self._spawn(self._paused(event)))
        cdp.on("Network.responseReceived", self._received)
        cdp.on("Network.loadingFinished", self._finished)
        cdp.on("Network.loadingFailed", self._failed)
        cdp.on("Page.lifecycleEvent", self._staged)
        await cdp.send("Network.enable")
        await cdp.send("Page.enable")
        await cdp.send("Page.setLifecycleEventsEnabled", {"enabled": True})
        patterns = [
            {"urlPattern": "*", "requestStage": "Request"},
            {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
        ]
        await cdp.send("Fetch.enable", {"patterns": patterns})
        return cdp

    async def _load(self) -> None:
        """Until every byte of the page has come, and it rests or has had its time."""
        from playwright.async_api import Error as PlaywrightError

        try:
            await self._first(self._navigate())
            await self._first(self._complete.wait())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.settle_seconds):
                    await self._first(self._rest())
        except PlaywrightError as error:
            if not self._instead.done():
                await self._still_there()
                raise self._why(str(error)) from None

    async def _navigate(self) -> None:
        # Not by Playwright's own, which waits for ever once a page's next navigation was refused.
        answer = await self._send("Page.navigate", {"url": self._url.text})
        if (message := answer.get("errorText")) and not self._instead.done():
            raise self._why(str(message))

    async def _rest(self) -> None:
        while not self._stages >= {"load", "networkIdle"}:
            self._progress.clear()
            await self._progress.wait()

    async def _first(self, what: Coroutine[Any, Any, Any]) -> None:
        """Wait for ``what``, unless the answer turns out to be something else than a page."""
        waiting = asyncio.ensure_future(what)
        try:
            await asyncio.wait((waiting, self._instead), return_when=asyncio.FIRST_COMPLETED)
            if not self._instead.done():
                waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    # What the page asks for ---------------------------------------------------------------------------------

    async def _paused(self, event: Mapping[str, Any]) -> None:
        from playwright.async_api import Error as PlaywrightError

        try:
            if "responseStatusCode" in event or "responseErrorReason" in event:
                await self._response(event)
            else:
                await self._asked(event)
        except PlaywrightError:
            pass  # the request or the page has gone meanwhile
        except TabootError as error:
            self._fail(error)
            with contextlib.suppress(PlaywrightError):
                await self._refuse(event)

    async def _asked(self, event: Mapping[str, Any]) -> None:
        url = str(event["request"]["url"])
        if not url.lower().startswith(_SCHEMES) or event["resourceType"] in self._unloaded:
            await self._refuse(event)
            return
        if self._navigates(event):
            target = _parsed(url)
            if target is None or target.text != self._url.text or self._answered is not None:
                self._moved(event, target)
                await self._refuse(event)
                return
        ours = self._headers if (parsed := _parsed(url)) and _origin(parsed) == _origin(self._url) else []
        continued: dict[str, Any] = {"requestId": event["requestId"]}
        if self._headers:
            # A redirect carries over what was set before it, so every hop is set anew.
            names = {n.lower() for n, _ in self._headers}
            kept = [(n, v) for n, v in event["request"]["headers"].items() if n.lower() not in names]
            continued["headers"] = [{"name": n, "value": v} for n, v in (*kept, *ours)]
        await self._send("Fetch.continueRequest", continued)

    def _moved(self, event: Mapping[str, Any], target: WebUrl | None) -> None:
        """The page sends the browser on: the caller goes there, or not."""
        if target is None or target.text == self._url.text or event["request"]["method"] != "GET":
            return
        if not self._instead.done():
            self._instead.set_result((302, {"location": target.text}, b""))

    async def _response(self, event: Mapping[str, Any]) -> None:
        if not self._navigates(event) or self._answered is not None or "responseErrorReason" in event:
            await self._send("Fetch.continueRequest", {"requestId": event["requestId"]})
            return
        self._document = str(event.get("networkId", ""))
        status = int(event["responseStatusCode"])
        headers: _Header = {}
        for field in event.get("responseHeaders", ()):
            name = str(field["name"]).lower()
            headers[name] = f"{headers[name]}, {field['value']}" if name in headers else str(field["value"])
        if (refusal := self._refusal()) is not None:
            raise refusal
        if 200 <= status < 300:
            if self._request.admit is not None:
                self._request.admit(headers, self._url.text)
            declared = headers.get("content-length", "")
            if (
                declared.isdecimal()
                and len(declared) < 19
                and int(declared) > self._request.max_bytes
                and not self._request.cut
            ):
                raise self._too_large(f"is larger than {self._request.max_bytes} bytes")
        saved = headers.get("content-disposition", "").strip().lower().startswith("attachment")
        if not 200 <= status < 300 or status in (204, 205):
            self._instead.set_result((status, headers, b""))
        elif _mime(headers) in _HTML and not saved:
            self._answered = status, headers
            await self._send("Fetch.continueRequest", {"requestId": event["requestId"]})
            return
        else:
            self._instead.set_result((status, headers, await self._bytes(event, headers)))
        await self._refuse(event)

    async def _bytes(self, event: Mapping[str, Any], headers: _Header) -> bytes:
        """The body of an answer that is not rendered."""
        from playwright.async_api import Error as PlaywrightError

        try:
            answer = await self._send("Fetch.getResponseBody", {"requestId": event["requestId"]})
        except PlaywrightError:
            await self._still_there()
            raise self._why("") from None
        body = base64.b64decode(answer["body"]) if answer["base64Encoded"] else str(answer["body"]).encode()
        if "content-encoding" not in headers and headers.get("content-length", str(len(body))) != str(
            len(body)
        ):
            raise self._why("")
        return self._bounded(body)

    def _received(self, event: Mapping[str, Any]) -> None:
        if event.get("frameId") == self._frame and event["response"].get("protocol") == "h2":
            self._version = "2"

    def _finished(self, event: Mapping[str, Any]) -> None:
        if self._answered is not None and event["requestId"] == self._document:
            self._complete.set()

    def _failed(self, event: Mapping[str, Any]) -> None:
        if self._answered is not None and event["requestId"] == self._document:
            self._fail(self._why(str(event.get("errorText", ""))))

    def _staged(self, event: Mapping[str, Any]) -> None:
        if event["frameId"] == self._frame and event["loaderId"] == self._document:
            self._stages.add(str(event["name"]))
            self._progress.set()

    def _navigates(self, event: Mapping[str, Any]) -> bool:
        return event.get("frameId") == self._frame and event.get("resourceType") == "Document"

    async def _refuse(self, event: Mapping[str, Any]) -> None:
        await self._send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})

    async def _still_there(self) -> None:
        """Before a failure is said to be the page's."""
        assert self._cdp is not None
        await still_there(self._cdp)

    async def _send(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        assert self._cdp is not None
        answer: dict[str, Any] = await self._cdp.send(method, parameters)
        return answer

    # What has become of it ----------------------------------------------------------------------------------

    async def _html(self) -> bytes:
        """The document as it stands, read from a world that the page's scripts cannot reach."""
        text = await self._look(
            "(() => { const kind = document.doctype ? new XMLSerializer().serializeToString(document.doctype)"
            " + '\\n' : ''; const root = document.documentElement ? document.documentElement.outerHTML : '';"
            f" return root.length > {self._request.max_bytes} && !{json.dumps(self._request.cut)}"
            f" ? null : (kind + root).slice(0, {self._request.max_bytes + 1}); }})()"
        )
        if text is None:
            raise self._too_large(f"is larger than {self._request.max_bytes} bytes")
        return self._bounded(str(text).encode("utf-8", "replace"))

    async def _look(self, expression: str) -> Any:
        world = await self._send("Page.createIsolatedWorld", {"frameId": self._frame, "worldName": "taboot"})
        answer = await self._send(
            "Runtime.evaluate",
            {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True},
        )
        if "exceptionDetails" in answer:
            raise self._broken("it cannot be read")
        return answer["result"].get("value")

    # Why there is nothing -----------------------------------------------------------------------------------

    def _fail(self, error: TabootError) -> None:
        if not self._instead.done():
            self._instead.set_exception(error)

    def _bounded(self, body: bytes) -> bytes:
        if len(body) > self._request.max_bytes:
            if not self._request.cut:
                raise self._too_large(f"is larger than {self._request.max_bytes} bytes")
            return body[: self._request.max_bytes]
        return body

    def _refusal(self) -> TabootError | None:
        return self._visit.refusals.get(f"{self._url.host}:{self._url.port}")

    def _address(self) -> str:
        """Whom the connection was made to: the proxy, if there is one."""
        if self._request.proxy is not None:
            return str(self._visit.gate or "")
        return str(self._visit.addresses.get(self._url.host.strip("[]"), ""))

    def _why(self, message: str) -> TabootError:
        """The reason why the navigation failed; ``message``: Chromium's, of which only the code is told."""
        if (refusal := self._refusal()) is not None:
            return refusal
        if self._visit.exceeded:
            return self._too_large(f"loads more than {self._settings.max_traffic_bytes} bytes")
        url = self._url.text
        if "ERR_CERT" in message:
            return TabootError(
                "E_NETWORK", f"{url} could not be fetched (its certificate is not trusted).", url=url
            )
        if "ERR_SSL" in message:
            return TabootError("E_NETWORK", f"{url} could not be fetched (TLS failed).", url=url)
        if "ERR_TIMED_OUT" in message or "ERR_CONNECTION_TIMED_OUT" in message:
            return late(self._url)
        return TabootError(
            "E_NETWORK",
            f"{url} could not be fetched (the answer broke off or is not HTTP).",
            url=url,
            again=True,
        )

    def _broken(self, what: str, *, again: bool | None = None) -> TabootError:
        url = self._url.text
        return TabootError("E_BROWSER", f"{url} could not be rendered: {what}.", url=url, again=again)

    def _too_large(self, what: str) -> TabootError:
        return TabootError("E_TOO_LARGE", f"{self._url.text} {what}.", url=self._url.text)


def late(url: WebUrl) -> TabootError:
    return TabootError("E_TIMEOUT", f"{url.text} was not rendered in time.", url=url.text, again=True)


def _mime(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _parsed(url: str) -> WebUrl | None:
    try:
        return parse_url(url)
    except TabootError:
        return None


def _origin(url: WebUrl) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port
