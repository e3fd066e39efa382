"""Captures of a page: what it looks like, prints like, and answers to a script.

A capture is bytes with provenance and no document: nobody reads text out of it, so it is stored as an *input*
of its source (as a ``.env`` file is), which keeps its blob, its fetch log and its deletion without a row in
any table of documents. Its locator is the page's key, ``#``, and the name of the capture, which no page can
have, since a key holds no fragment. The name follows from what was asked for, never from a clock: a changed
script or selector is another capture, and what is no longer asked for becomes absent like a page that is no
longer listed.

Pictures and printed pages differ from one visit to the next (a clock, an advertisement, the date that a PDF
states), so a capture is taken when the page's bytes are new or when there is none yet, and otherwise reported
as not modified. One that fails is a failure of its own in the ledger; the page stands.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from taboot_pipelines.crawl.client import Client, Reply, Request
from taboot_pipelines.crawl.urls import WebUrl
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import Event, Failed, Fetched, Known, NotModified

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page


Kind = Literal["screenshot", "pdf", "script"]

MAX_WAIT_SECONDS = 60.0
MAX_SCRIPTS = 20
MAX_SCRIPT_CHARS = 100_000
#: A page that is longer is cut off here: the tallest picture that Chromium draws in one piece.
MAX_SCREENSHOT_PIXELS = 16_384
_MIMES: Mapping[Kind, str] = {
    "screenshot": "image/png",
    "pdf": "application/pdf",
    "script": "application/json",
}

_Script = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SCRIPT_CHARS)]


class Capture(BaseModel, extra="forbid", frozen=True):
    """What is captured of each page, and what is waited for before."""

    screenshot: bool = Field(False, description="A picture of the page (PNG).")
    full_page: bool = Field(
        True, description=f"The whole page, down to {MAX_SCREENSHOT_PIXELS:,} pixels; else the first screen."
    )
    pdf: bool = Field(False, description="The page as it prints (PDF, A4).")
    scripts: Annotated[tuple[_Script, ...], Field(max_length=MAX_SCRIPTS)] = Field(
        (),
        description=(
            "JavaScript that runs in the page, one after another; the value of each, or what a function"
            " returns, is kept as JSON."
        ),
    )
    wait_for: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = Field(
        None, description="A CSS selector; captures wait until such an element is visible."
    )
    wait_seconds: float = Field(
        2.0, ge=0, le=MAX_WAIT_SECONDS, description="Waited once the page is loaded, before captures."
    )

    def names(self) -> dict[str, tuple[Kind, str]]:
        """The captures asked for, by name: its kind, and of a script its text."""
        wait: dict[str, object] = {"for": self.wait_for, "seconds": self.wait_seconds}
        wanted: list[tuple[Kind, str, dict[str, object]]] = []
        if self.screenshot:
            wanted.append(("screenshot", "", {**wait, "full_page": self.full_page}))
        if self.pdf:
            wanted.append(("pdf", "", wait))
        wanted += [("script", text, {**wait, "script": text}) for text in self.scripts]
        return {f"{kind}-{ids.digest(kind, fields)[:16]}": (kind, script) for kind, script, fields in wanted}


@dataclass(frozen=True, slots=True)
class Captured:
    """One capture of a page: its bytes as they came, or why there are none."""

    name: str
    kind: Kind
    data: bytes | TabootError

    @property
    def mime(self) -> str:
        return _MIMES[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest(Request):
    """A request for a page and captures of it, which are left out if the page's bytes have the SHA-256
    ``unless``.
    """

    capture: Capture | None = None
    unless: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReply(Reply):
    """An answer with the captures that were taken."""

    captured: tuple[Captured, ...] = ()


class Capturer:
    """A client that has every page captured, for an engine that knows of no captures.

    ``client`` renders (see :class:`~taboot_pipelines.crawl.browser.Browser`). ``unless(url)``: the SHA-256 of
    the page's bytes as they were captured before, if they need not be again. What was captured is kept until
    it is :meth:`taken`.
    """

    def __init__(self, client: Client, capture: Capture, unless: Callable[[WebUrl], str | None]) -> None:
        self._client = client
        self._capture = capture
        self._unless = unless
        self._urls: dict[int, str] = {}
        self._captured: dict[str, tuple[Captured, ...]] = {}

    def start(self, ticket: int, request: Request) -> None:
        """Begin ``request``, as of a client."""
        self._urls[ticket] = request.url.text
        stated = {f.name: getattr(request, f.name) for f in fields(Request)}
        self._client.start(
            ticket, PageRequest(**stated, capture=self._capture, unless=self._unless(request.url))
        )

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has finished, as of a client."""
        done = self._client.finished(timeout)
        for ticket, reply in done:
            url = self._urls.pop(ticket)
            if isinstance(reply, PageReply) and reply.captured:
                self._captured[url] = reply.captured
        return done

    def taken(self, url: str) -> tuple[Captured, ...]:
        """The captures of the page that answered at ``url``, which are not kept any longer."""
        return self._captured.pop(url, ())

    def close(self) -> None:
        """Close the client."""
        self._client.close()


def path_of(key: str, name: str) -> str:
    """The locator of a capture of the page ``key``."""
    return f"{key}#{name}"


def missing(capture: Capture, key: str, known: Mapping[str, Known]) -> bool:
    """Whether a capture that is asked for was never stored, so that the page must be visited for it even if
    its bytes are known.
    """
    return any(path_of(key, name) not in known for name in capture.names())


def events(
    capture: Capture,
    key: str,
    known: Mapping[str, Known],
    captured: Sequence[Captured],
    *,
    url: str,
    final_url: str,
    page_is_known: bool,
) -> Iterator[Event]:
    """What a source tells of the captures of the page ``key``, each under a path of its own.

    ``captured``: what this visit took. One that is asked for and was not taken is not modified if it is known
    (``page_is_known``: the page's bytes are those it was taken of), else it failed.
    """
    taken = {c.name: c for c in captured}
    for name in capture.names():
        path = path_of(key, name)
        found = taken.get(name)
        if found is None and page_is_known and path in known:
            yield NotModified(path, role="input")
        elif found is None:
            yield Failed(path, TabootError("E_BROWSER", f"There is no capture of {key}.", url=url))
        elif isinstance(found.data, TabootError):
            yield Failed(path, found.data)
        else:
            yield Fetched(path, found.data, role="input", mime=found.mime, url=url, final_url=final_url)


#: Width and height of the window in pixels.
VIEWPORT = (1280, 800)
#: For all captures of a page together, what they wait for included.
MAX_SECONDS = 180.0


class Capturing:
    """Takes captures of ``page`` at ``url``, each of at most ``max_bytes``. ``look(expression)`` gives the
    value of an expression in a world that the page's scripts cannot reach.
    """

    def __init__(
        self,
        page: Page,
        cdp: CDPSession,
        look: Callable[[str], Awaitable[Any]],
        url: str,
        max_bytes: int,
    ) -> None:
        self._page = page
        self._cdp = cdp
        self._look = look
        self._url = url
        self._max_bytes = max_bytes

    async def take(self, capture: Capture) -> tuple[Captured, ...]:
        """What ``capture`` asks for, in its order, scripts last since they may change the page. What fails,
        or is not done in time, is an error in its place. Raises Playwright's error if Chromium has ended.
        """
        wanted = capture.names()
        taken: dict[str, bytes | TabootError] = {}
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await self._wait(capture)
                for name, (kind, script) in wanted.items():
                    taken[name] = await self._one(capture, kind, script)
            rest = None
        except TabootError as error:
            rest = error
        except TimeoutError:
            rest = TabootError("E_TIMEOUT", f"{self._url} was not captured in time.", url=self._url)
        missed = rest or self._broken("a capture is missing")
        return tuple(Captured(name, kind, taken.get(name, missed)) for name, (kind, _) in wanted.items())

    async def _wait(self, capture: Capture) -> None:
        from playwright.async_api import Error as PlaywrightError

        if capture.wait_for is not None:
            try:
                async with asyncio.timeout(MAX_SECONDS / 3):
                    await self._page.locator(f"css={capture.wait_for}").first.wait_for(state="visible")
            except TimeoutError:
                raise TabootError(
                    "E_TIMEOUT",
                    f"{self._url} shows no element {capture.wait_for}.",
                    remedy="Correct `wait_for`, or leave it out.",
                    url=self._url,
                ) from None
            except PlaywrightError as error:
                await still_there(self._cdp)
                if "selector" not in str(error).partition("\n")[0]:
                    raise self._broken("the page cannot be looked at") from None
                raise TabootError(
                    "E_CONFIG", f"{capture.wait_for} is no CSS selector.", settings=["wait_for"]
                ) from None
        await asyncio.sleep(capture.wait_seconds)

    async def _one(self, capture: Capture, kind: Kind, script: str) -> bytes | TabootError:
        from playwright.async_api import Error as PlaywrightError

        try:
            if kind == "screenshot":
                data = await self._screenshot(capture.full_page)
            elif kind == "pdf":
                data = await self._page.pdf(format="A4", print_background=True, prefer_css_page_size=True)
            else:
                data = await self._script(script)
        except TabootError as error:
            return error
        except PlaywrightError:
            await still_there(self._cdp)
            return self._broken(f"no {kind} could be made")
        if len(data) > self._max_bytes:
            return TabootError(
                "E_TOO_LARGE",
                f"{self._url} has a {kind} of more than {self._max_bytes} bytes.",
                url=self._url,
            )
        return data

    async def _screenshot(self, full: bool) -> bytes:
        width, height = VIEWPORT
        if full:
            tall = await self._look(
                "Math.max(document.documentElement.scrollHeight, document.body?.scrollHeight ?? 0)"
            )
            height = max(height, min(int(tall), MAX_SCREENSHOT_PIXELS))
        return await self._page.screenshot(
            full_page=full,
            clip={"x": 0, "y": 0, "width": width, "height": height},
            animations="disabled",
            caret="hide",
            scale="css",
        )

    async def _script(self, script: str) -> bytes:
        """The value of a script, or what it returns if it is a function, as JSON."""
        answer = await self._cdp.send(
            "Runtime.evaluate",
            # As in a console: `await` may stand outside of functions; the page's policy does not forbid it.
            {"expression": script, "replMode": True, "awaitPromise": True, "userGesture": False},
        )
        if "objectId" in answer["result"] and "exceptionDetails" not in answer:
            answer = await self._cdp.send(
                "Runtime.callFunctionOn",
                {
                    "objectId": answer["result"]["objectId"],
                    "functionDeclaration": (
                        "async function() { const value = typeof this === 'function' ? await this() : this;"
                        " return JSON.stringify(value) ?? 'null'; }"
                    ),
                    "awaitPromise": True,
                    "returnByValue": True,
                },
            )
            if "exceptionDetails" not in answer:
                return self._json(answer["result"].get("value"))
        found = answer["result"]
        if "exceptionDetails" in answer:
            # The name of the error's class is ours to tell; its text may be the page's.
            name = str(found.get("className", ""))
            raise self._broken(f"a script ended with {name if name.isidentifier() else 'an error'}")
        return json.dumps(found.get("value"), ensure_ascii=False).encode("utf-8", "replace")

    def _json(self, text: object) -> bytes:
        """JSON as the page wrote it: its own ``JSON.stringify`` may give anything."""
        try:
            json.loads(str(text))
        except (ValueError, RecursionError):
            raise self._broken("a script's value is not JSON") from None
        return str(text).encode("utf-8", "replace")

    def _broken(self, what: str) -> TabootError:
        return TabootError("E_BROWSER", f"{self._url} could not be captured: {what}.", url=self._url)


async def still_there(cdp: CDPSession) -> None:
    """Raises Playwright's error if Chromium has ended, so that what failed was no fault of the page's. It is
    not the page's renderer that answers, which may be busy or gone."""
    await cdp.send("Target.getTargetInfo")
