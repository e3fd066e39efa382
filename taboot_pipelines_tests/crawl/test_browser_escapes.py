"""A page that tries every way out, against traps on loopback that count who knocks.

The page stands on 127.0.0.2, which its source may reach; the traps stand on 127.0.0.1 and [::1], which it may
not. Each way has a trap of its own, for TCP and UDP. The same page in a source that may reach the traps, and
in a Chromium without a guard, shows that its ways lead somewhere.
"""

from __future__ import annotations

import ipaddress
import json
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Formatter
from urllib.parse import parse_qs, urlsplit

import pytest

from taboot_pipelines.crawl import browser as browser_module
from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.browser import Browser
from taboot_pipelines.crawl.captures import Capture, PageReply, PageRequest
from taboot_pipelines.crawl.client import Reply, Timeouts
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import BrowserSettings

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
PAGE_HOST = "127.0.0.2"
_HERE = Path(__file__).parent
#: What a page can do by markup alone, with the URL of a way's trap at ``{way}``, and what it does by scripts.
MARKUP, SCRIPT = (_HERE / "ways_out.html").read_text(), (_HERE / "ways_out.js").read_text()
#: The ways that have a URL on 127.0.0.1, and those that are known by their port.
URLS = (
    frozenset(re.findall(r"WAYS\.(\w+)", SCRIPT))
    | frozenset(
        name
        for _, name, _, _ in Formatter().parse(MARKUP)
        if name and name not in ("page", "page_port", "canary")
        if not name.startswith("port_")
    )
    | {"download", "shared_worker", "service_worker", "framed_fetch"}
)
PORTS = frozenset(re.findall(r"PORTS\.(\w+)", SCRIPT)) | frozenset(re.findall(r"\{port_(\w+)\}", MARKUP))
#: Refused whatever the source may reach: films, pings, service workers, and what is no HTTP.
NEVER = {
    "video",
    "audio",
    "ping",
    "service_worker",
    "stun",
    "turn_tcp",
    "framed_stun",
    "webtransport",
}
#: Chromium asks for these or not, as it sees fit.
OPTIONAL = {"prefetch", "prerender", "speculative", "manifest", "icon", "preconnect", "popup", "unspecified"}


def one_port(*kinds: tuple[int, int, str]) -> list[socket.socket]:
    """A socket of each family, kind and host, all bound to one port that is free on all of them."""
    for _ in range(1000):
        made: list[socket.socket] = []
        try:
            for family, kind, host in kinds:
                made.append(socket.socket(family, kind))
                made[-1].bind((host, made[0].getsockname()[1] if len(made) > 1 else 0))
            return made
        except OSError:
            for s in made:
                s.close()
    raise AssertionError("no port is free on all hosts")


class Traps:
    """A TCP and a UDP port of loopback per way; ``hits``: how often each was knocked at."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.ports: dict[str, int] = {}
        self._sockets: dict[socket.socket, str] = {}
        for way in (*URLS, *PORTS):
            self._open(way, "::1" if way == "ipv6" else "127.0.0.1")
        self._stop = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _open(self, way: str, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kinds = [(family, kind, host) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
        tcp, udp = one_port(*kinds)
        tcp.listen(64)
        self.ports[way] = tcp.getsockname()[1]
        self._sockets |= {tcp: way, udp: way}

    def rebinding(self, *sockets: socket.socket) -> None:
        """Traps at the page's own port, where a name that changes its address would lead."""
        self._sockets |= dict.fromkeys(sockets, "rebinding")

    def _listen(self) -> None:
        while not self._stop:
            for s in select.select(list(self._sockets), [], [], 0.05)[0]:
                self.hits[self._sockets[s]] += 1
                with suppress(OSError):
                    if s.type == socket.SOCK_DGRAM:
                        s.recvfrom(2000)
                        continue
                    peer, _ = s.accept()
                    threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with closing(peer), suppress(OSError):
            peer.settimeout(2)
            peer.recv(4000)
            peer.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nAccess-Control-Allow-Origin: *\r\n"
                b"Content-Length: 4\r\nConnection: close\r\n\r\nTRAP"
            )

    def close(self) -> None:
        self._stop = True
        self._thread.join()
        for s in self._sockets:
            s.close()


class Page:
    """The server of the page; ``told``: what scripts reported to it."""

    def __init__(self, traps: Traps, canary: Path, listening: socket.socket) -> None:
        self.told: list[str] = []
        page = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path == "/redirect":
                    self.send_response(302)
                    self.send_header("Location", parse_qs(url.query)["to"][0])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                kind, body = "text/javascript", ""
                if url.path == "/":
                    kind, body = "text/html", page.markup
                elif url.path == "/script":
                    body = SCRIPT % tuple(map(json.dumps, (page.ways, page.base, str(canary), traps.ports)))
                elif url.path in ("/shared-worker", "/service-worker"):
                    body = f"fetch('{page.ways[url.path[1:].replace('-', '_')]}', {{mode: 'no-cors'}})"
                elif url.path == "/frame":
                    kind = "text/html"
                    body = (
                        f"<script>fetch('{page.ways['framed_fetch']}', {{mode: 'no-cors'}})</script>"
                        f"<a id=a href='{page.ways['download']}' download></a><script>a.click()</script>"
                    )
                elif url.path == "/away":
                    kind, body = "text/html", f"<script>location = '{page.ways['img']}'</script>"
                elif url.path == "/told":
                    page.told.append(url.query)
                data = body.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self.server = Server((PAGE_HOST, 0), Handler, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = listening
        self.server.server_activate()
        self.port = listening.getsockname()[1]
        self.base = f"http://{PAGE_HOST}:{self.port}"
        self.ways = {way: f"http://127.0.0.1:{traps.ports[way]}/" for way in URLS}
        self.markup = MARKUP.format(
            **self.ways,
            **{f"port_{name}": traps.ports[name] for name in PORTS},
            page=self.base,
            page_port=self.port,
            canary=canary,
        )
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextmanager
def stage(canary: Path) -> Iterator[tuple[Traps, Page]]:
    canary.write_text("CANARY")
    traps = Traps()
    listening, tcp, udp = one_port(
        (socket.AF_INET, socket.SOCK_STREAM, PAGE_HOST),
        (socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"),
        (socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1"),
    )
    page = Page(traps, canary, listening)
    tcp.listen(64)
    traps.rebinding(tcp, udp)
    try:
        yield traps, page
    finally:
        page.close()
        traps.close()


class Names:
    """A resolver for the names of the page, one of which means something else at every second question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        with suppress(ValueError):
            return [ipaddress.ip_address(host)]
        if host == "rebinding.test":
            return [ipaddress.ip_address(PAGE_HOST if self.asked.count(host) % 2 else "127.0.0.1")]
        if host == "inside.test" or host.endswith("localhost"):
            return [ipaddress.ip_address("127.0.0.1")]
        raise OSError("no such name")


def visit(url: str, allowed: list[str], names: Names, seconds: float = 2) -> Reply | TabootError:
    """Render ``url`` as for a capture, so that pictures are loaded too."""
    ((_, reply),) = visits([url], allowed, names, seconds)
    return reply


def visits(
    urls: Sequence[str], allowed: list[str], names: Names, seconds: float = 2
) -> Iterator[tuple[str, Reply | TabootError]]:
    """Render each in one Chromium, one after the other."""
    client = Browser(
        BrowserSettings(settle_seconds=8), [ipaddress.ip_network(n) for n in allowed], resolver=names
    )
    with closing(client):
        for url in urls:
            client.start(
                1,
                PageRequest(
                    url=parse_url(url),
                    headers=(("User-Agent", "taboot"),),
                    max_bytes=10_000_000,
                    timeouts=Timeouts(60, 60, 200),
                    capture=Capture(screenshot=True, wait_seconds=seconds),
                ),
            )
            ((_, reply),) = client.finished(400)
            yield url, reply


def test_a_page_reaches_nothing_but_what_its_source_may_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "net.json"
    monkeypatch.setattr(browser_module, "ARGUMENTS", (*browser_module.ARGUMENTS, f"--log-net-log={log}"))
    names = Names()
    with stage(tmp_path / "canary") as (traps, page):
        reply = visit(f"{page.base}/", [f"{PAGE_HOST}/32"], names)
        assert isinstance(reply, PageReply), reply
        assert b"Words." in reply.body
        assert [isinstance(c.data, bytes) for c in reply.captured] == [True]
        assert traps.hits == {}
        assert not page.told
    # What Chromium's own log says: its sockets lead to the proxy and nowhere else, and it asked for no name.
    connected, others = chromium_log(log)
    assert len(connected) == 1 and connected.pop().startswith("127.0.0.1:")
    assert others == []
    # One name is looked up once in a visit: what it means a moment later does not matter.
    assert names.asked.count("rebinding.test") == 1


def test_the_same_page_reaches_what_its_source_may_reach(tmp_path: Path) -> None:
    with stage(tmp_path / "canary") as (traps, page):
        for seconds in (2, 20, 60):  # on a busy machine some ways take their time
            reply = visit(f"{page.base}/", ["127.0.0.0/8", "::1/128"], Names(), seconds)
            assert isinstance(reply, PageReply), reply
            missed = {*URLS, *PORTS} - set(traps.hits)
            if missed - OPTIONAL == NEVER:
                break
        assert missed - OPTIONAL == NEVER
        assert not NEVER & set(traps.hits)
        assert not page.told


def test_without_the_guard_the_page_gets_out_by_every_way_that_is_never_open(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with stage(tmp_path / "canary") as (traps, page), sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser_module.find_chromium(BrowserSettings()), args=["--no-sandbox"]
        )
        try:
            tab = chromium.new_page()
            tab.goto(f"{page.base}/")
            end = time.monotonic() + 200
            while not set(traps.hits) >= NEVER and time.monotonic() < end:
                tab.wait_for_timeout(200)
        finally:
            chromium.close()
        assert set(traps.hits) >= NEVER


@pytest.mark.parametrize("path", ["/away", "/redirect?to=http://127.0.0.1:9/"])
def test_where_a_page_leads_is_handed_back(tmp_path: Path, path: str) -> None:
    with stage(tmp_path / "canary") as (traps, page):
        reply = visit(page.base + path, ["127.0.0.0/8"], Names())
        assert isinstance(reply, PageReply), reply
        assert (reply.status, reply.body) == (302, b"")
        assert urlsplit(reply.headers["location"]).hostname == "127.0.0.1"
        assert traps.hits == {}


def test_a_page_at_a_blocked_address_is_not_asked_for(tmp_path: Path) -> None:
    hosts = ("127.0.0.1", "localhost", "inside.test", "[::ffff:7f00:1]", "2130706433")
    with stage(tmp_path / "canary") as (traps, _):
        urls = [f"{scheme}://{host}:{traps.ports['img']}/" for host in hosts for scheme in ("http", "https")]
        for url, reply in visits(urls, [f"{PAGE_HOST}/32"], Names()):
            assert isinstance(reply, TabootError) and reply.code == "E_URL_BLOCKED", url
            assert traps.hits == {}, url


def chromium_log(path: Path) -> tuple[set[str], list[str]]:
    """The ends of all TCP connections of Chromium, and whatever it sent by UDP or asked of a resolver. (It
    connects one UDP socket, by which it sends nothing, to see whether there is a way for IPv6.)"""
    text = path.read_text()
    log = json.loads(text if text.rstrip().endswith("}") else text.rstrip().rstrip(",") + "]}")
    kinds = {number: name for name, number in log["constants"]["logEventTypes"].items()}
    connected: set[str] = set()
    others: list[str] = []
    for event in log["events"]:
        kind, parameters = kinds[event["type"]], event.get("params", {})
        if kind == "TCP_CONNECT_ATTEMPT" and "address" in parameters:
            connected.add(parameters["address"])
        elif kind in (
            "UDP_BYTES_SENT",
            "HOST_RESOLVER_DNS_TASK",
            "HOST_RESOLVER_SYSTEM_TASK",
            "HOST_RESOLVER_MDNS_TASK",
        ):
            others.append(f"{kind} {parameters}")
    return connected, others
