"""Captures of a page that stands open in Chromium: see :mod:`~taboot_pipelines.crawl.captures` for what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from taboot_pipelines.crawl.captures import MAX_SCREENSHOT_PIXELS, Capture, Captured, Kind
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

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
