"""Pages rendered by headless Chromium (extra ``browser``: Playwright), behind the interface of a client.

A request is one hop here too: the answer to the navigation is looked at before Chromium sees it, and a
redirect is handed back to the caller, as is the URL that a page's script or ``<meta>`` sends the browser on
to (as a 302). So robots.txt, turns and limits of redirects stay where they are for every client. What a page
loads besides goes through :mod:`~taboot_pipelines.crawl.egress`, and nothing goes any other way: Chromium
resolves no names and is told of no other proxy, QUIC and UDP of WebRTC are off, downloads and service workers
are refused. Each page has a context of its own (no cookies, cache or storage of another), and what it loads
is bounded in bytes and time. Chromium's own sandbox is on unless the user is root, who cannot have it.

An answer that is no HTML is given as it came. HTML is what the document has become once it is loaded and its
connections have rested, in UTF-8 whatever its ``<meta>`` says. Since that depends on more than the document's
own bytes, no validators are sent, and none are given back.

Chromium may die at any moment (it needs much memory), and so may Playwright's driver, a process of its own.
Every visit that was under way then ends with ``E_BROWSER`` at once, and the next one starts both anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taboot_pipelines.crawl.addresses import Network, Resolver, resolve
from taboot_pipelines.crawl.authorities import trusting_home
from taboot_pipelines.crawl.captures import MAX_SECONDS, VIEWPORT
from taboot_pipelines.crawl.client import Arrivals, Reply, Request
from taboot_pipelines.crawl.egress import EgressProxy, Visit
from taboot_pipelines.crawl.rendering import Rendering, late
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import BrowserSettings

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, CDPSession, Page, Playwright

_EXECUTABLES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: Beside what Playwright passes, which turns off updates, reports and other traffic of Chromium's own.
ARGUMENTS = (
    # No name is resolved in the browser, for whatever reason; the proxy is an address.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-file-system",
    "--disable-notifications",
    "--disable-speech-api",
    "--mute-audio",
    "--hide-scrollbars",
    "--js-flags=--max-old-space-size=512",
)
#: WebRTC opens sockets of its own, and no page needs it to be read.
_BEFORE_SCRIPTS = """
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'RTCIceTransport', 'WebTransport'])
    delete globalThis[name];
"""
_LAUNCH_SECONDS = 60.0
_CLOSE_SECONDS = 10.0
#: How often Chromium is asked whether it lives. It tells at once that it has ended, but the driver does not.
_PULSE_SECONDS = 1.0
#: Environment variables that Chromium may see: none that could hold a secret or name a proxy.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "FONTCONFIG_PATH", "FONTCONFIG_FILE")


class Browser:
    """A client that renders (see :class:`~taboot_pipelines.crawl.client.Client`), for one thread.

    ``allowed``: networks that may be reached though they are not public. Chromium starts with the first
    request, in a thread of its own. Raises ``E_CONFIG`` where Playwright or Chromium is not installed.
    ``finished`` gives ``E_BROWSER`` too, for a page that Chromium cannot render.
    """

    def __init__(
        self, settings: BrowserSettings, allowed: Sequence[Network], *, resolver: Resolver = resolve
    ) -> None:
        self._settings = settings
        self._allowed = tuple(allowed)
        self._executable = find_chromium(settings)
        self._resolver = resolver
        self._arrivals = Arrivals()
        self._engine: _Engine | None = None

    def start(self, ticket: int, request: Request) -> None:
        if self._engine is None:
            self._engine = _Engine(self._settings, self._allowed, self._executable, self._resolver)
        arrivals = self._arrivals
        arrivals.expect()
        self._engine.submit(request, lambda result: arrivals.put(ticket, result))

    def finished(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        return self._arrivals.take(timeout)

    def close(self) -> None:
        engine, self._engine, self._arrivals = self._engine, None, Arrivals()
        if engine is not None:
            engine.close()


def find_chromium(settings: BrowserSettings) -> Path:
    """Chromium's executable. Raises ``E_CONFIG`` without it, or without the extra ``browser``."""
    if importlib.util.find_spec("playwright") is None:
        raise TabootError(
            "E_CONFIG",
            "Rendering pages needs the extra browser (playwright is not installed).",
            remedy="Install it by `pip install 'taboot-pipelines[browser]'`, and Chromium from your system.",
            extra="browser",
        )
    names = [str(settings.executable)] if settings.executable else _EXECUTABLES
    for name in names:
        if (found := shutil.which(name)) is not None:
            return Path(found)
    raise TabootError(
        "E_CONFIG",
        f"Rendering pages needs Chromium; {' and '.join(names)} cannot be run."
        if settings.executable
        else "Rendering pages needs Chromium, and none is in the PATH.",
        remedy=(
            "Install your system's package (Debian: `apt install chromium`) beside the extra browser, or"
            " name an executable in TABOOT_BROWSER__EXECUTABLE."
        ),
        settings=["TABOOT_BROWSER__EXECUTABLE"],
        extra="browser",
    )


@dataclass(frozen=True, slots=True)
class _Running:
    """Chromium and its driver. ``ended`` is set once either is dead; calls may stay unanswered then."""

    chromium: Chromium
    driver: Playwright
    ended: asyncio.Event

    async def watch(self, pulse: CDPSession) -> None:
        """Until it has ended, which its own word or a missing pulse says."""
        self.chromium.on("disconnected", lambda _: self.ended.set())
        with contextlib.suppress(Exception):
            while self.chromium.is_connected() and not self.ended.is_set():
                await pulse.send("Browser.getVersion")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), _PULSE_SECONDS)
        self.ended.set()

    async def end(self) -> None:
        """Stop both, whatever state they are in."""
        self.ended.set()
        for stop in (self.chromium.close, self.driver.stop):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(stop(), _CLOSE_SECONDS)


class _Engine:
    """The event loop that Playwright and the proxy live in, and its thread."""

    def __init__(
        self, settings: BrowserSettings, allowed: Sequence[Network], executable: Path, resolver: Resolver
    ) -> None:
        self._settings = settings
        self._allowed = allowed
        self._executable = executable
        self._loop = asyncio.new_event_loop()
        self._proxy = EgressProxy(resolver)
        self._running: _Running | None = None
        self._listening = False
        #: A home for Chromium, once it is needed, and whether Chromium is to have it.
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._own_home = False
        self._starting = asyncio.Lock()
        self._turns = asyncio.Semaphore(settings.max_concurrency)
        self._visits = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="taboot-browser", daemon=True)
        self._thread.start()

    def submit(self, request: Request, tell: Callable[[Reply | TabootError], None]) -> None:
        self._loop.call_soon_threadsafe(lambda: self._spawn(self._answer(request, tell)))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._running is not None:
            await self._running.end()
        await self._proxy.close()
        if self._home is not None:
            self._home.cleanup()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, tell: Callable[[Reply | TabootError], None]) -> None:
        from playwright.async_api import Error as PlaywrightError

        async with self._turns:
            try:
                async with asyncio.timeout(_LAUNCH_SECONDS + request.timeouts.total + MAX_SECONDS):
                    result: Reply | TabootError = await self._visit(request)
            except TabootError as error:
                result = error
            except TimeoutError:
                result = late(request.url)
            except PlaywrightError:
                result = _gave_up(request)
        tell(result)

    async def _start(self) -> _Running:
        """Chromium, started if it does not run."""
        async with self._starting:
            if self._running is not None and not self._running.ended.is_set():
                return self._running
            if not self._listening:
                await self._proxy.open()
                self._listening = True
                self._home = tempfile.TemporaryDirectory(prefix="taboot-home-", ignore_cleanup_errors=True)
                self._own_home = await asyncio.to_thread(trusting_home, Path(self._home.name))
            if self._running is not None:
                dead, self._running = self._running, None
                self._spawn(dead.end())
            self._running = await self._launch()
            return self._running

    async def _launch(self) -> _Running:
        from playwright.async_api import Error as PlaywrightError
        from playwright.async_api import async_playwright

        root = os.geteuid() == 0
        environment = {n: os.environ[n] for n in _ENVIRONMENT if n in os.environ}
        if self._own_home and self._home is not None:
            environment["HOME"] = self._home.name
        driver = await async_playwright().start()
        pulse = None
        try:
            chromium = await driver.chromium.launch(
                executable_path=self._executable,
                chromium_sandbox=not root,
                args=list(ARGUMENTS),
                # Without a visit's password this way leads nowhere.
                proxy={"server": f"http://127.0.0.1:{self._proxy.port}", "bypass": "<-loopback>"},
                env=dict(environment),
                timeout=_LAUNCH_SECONDS * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            pulse = await chromium.new_browser_cdp_session()
        except PlaywrightError:
            raise TabootError(
                "E_BROWSER",
                f"Chromium ({self._executable}) does not start.",
                remedy="Run it by hand to see why; its sandbox needs user namespaces, which some"
                " containers forbid.",
                settings=["TABOOT_BROWSER__EXECUTABLE"],
            ) from None
        finally:
            if pulse is None:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(driver.stop(), _CLOSE_SECONDS)
        running = _Running(chromium, driver, asyncio.Event())
        self._spawn(running.watch(pulse))
        return running

    async def _visit(self, request: Request) -> Reply:
        """The answer to ``request``. Raises ``E_BROWSER`` as soon as Chromium has ended."""
        running = await self._start()
        visiting = asyncio.ensure_future(self._render(running, request))
        ended = asyncio.ensure_future(running.ended.wait())
        try:
            await asyncio.wait((visiting, ended), return_when=asyncio.FIRST_COMPLETED)
            if not visiting.done():
                raise _gave_up(request)
            return visiting.result()
        finally:
            for task in (visiting, ended):
                task.cancel()
            await asyncio.gather(visiting, ended, return_exceptions=True)

    async def _render(self, running: _Running, request: Request) -> Reply:
        began = time.monotonic()
        self._visits += 1
        name = f"visit-{self._visits}"
        visit = Visit(
            self._allowed, self._settings.max_traffic_bytes, request.timeouts.connect, way=request.proxy
        )
        self._proxy.begin(name, visit)
        context = None
        agent = next((v for n, v in request.headers if n.lower() == "user-agent"), None)
        try:
            context = await running.chromium.new_context(
                proxy={
                    "server": f"http://127.0.0.1:{self._proxy.port}",
                    "bypass": "<-loopback>",
                    "username": name,
                    "password": visit.password,
                },
                user_agent=agent,
                accept_downloads=False,
                service_workers="block",
                viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]},
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                reduced_motion="reduce",
            )
            context.set_default_timeout(0)  # the visit has its own bound
            await context.add_init_script(_BEFORE_SCRIPTS)
            page = await context.new_page()
            context.on("page", lambda other: None if other is page else self._spawn(_close(other)))
            return await Rendering(page, request, visit, self._settings, self._spawn).reply(began)
        finally:
            self._proxy.end(name)
            if context is not None:
                await _leave(context, running)


async def _leave(context: BrowserContext, running: _Running) -> None:
    """Close a visit's context. A Chromium that does not get that done is given up for another one."""
    closing = asyncio.ensure_future(context.close())
    ended = asyncio.ensure_future(running.ended.wait())
    try:
        await asyncio.wait((closing, ended), timeout=_CLOSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not closing.done() or closing.exception() is not None:
            running.ended.set()
    finally:
        for task in (closing, ended):
            task.cancel()
        await asyncio.gather(closing, ended, return_exceptions=True)


def _gave_up(request: Request) -> TabootError:
    url = request.url.text
    return TabootError("E_BROWSER", f"Chromium gave up on {url}.", url=url, again=True)


async def _close(page: Page) -> None:
    with contextlib.suppress(Exception):
        await page.close()
