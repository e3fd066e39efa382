"""The proxy by which a browser reaches the web, asked by plain sockets."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.egress import EgressProxy, Visit
from taboot_pipelines.crawl.proxies import MAX_HEAD_BYTES, Proxy
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.crawl.rendered import LOOPBACK
from taboot_pipelines_tests.crawl.socks import socks_proxy


class Names:
    """A resolver that gives another address at every question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        if host == "many.test":
            return [ipaddress.ip_address(f"127.1.{i // 250}.{i % 250 + 1}") for i in range(1000)]
        if host == "mixed.test":
            return [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("10.0.0.1")]
        if host == "changing.test":
            return [ipaddress.ip_address("127.0.0.1" if len(self.asked) == 1 else "10.0.0.1")]
        if host.endswith(".invalid"):
            raise OSError
        if host == "public.test":
            return [ipaddress.ip_address("93.184.215.14")]
        if host == "cloud.test":
            return [ipaddress.ip_address("169.254.169.254")]
        return [ipaddress.ip_address(host)]


class Running:
    """The proxy in a thread, with one visit."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.names = Names()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.proxy = self.run(self._open())

    def run(self, coroutine: object) -> EgressProxy:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    async def _open(self) -> EgressProxy:
        proxy = EgressProxy(self.names)
        await proxy.open()
        proxy.begin("visit", self.visit)
        return proxy

    def ask(self, head: str, body: bytes = b"", *, password: str | None = None, more: bytes = b"") -> bytes:
        """Everything that comes back for a request, and for ``more`` once something has."""
        stated = f"visit:{self.visit.password if password is None else password}"
        credentials = f"Proxy-Authorization: Basic {base64.b64encode(stated.encode()).decode()}\r\n"
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=10) as peer:
            peer.sendall(f"{head}\r\n{credentials if password != '-' else ''}\r\n".encode() + body)
            came = b""
            with suppress(ConnectionResetError):  # what it left unread
                while piece := peer.recv(65536):
                    came += piece
                    if more:
                        peer.sendall(more)
                        more = b""
            return came

    def get(self, url: str, **more: str) -> bytes:
        return self.ask(f"GET {url} HTTP/1.1", **more)


@contextmanager
def running(
    allowed: list[ipaddress.IPv4Network] = LOOPBACK, max_bytes: int = 10**7, way: Proxy | None = None
) -> Iterator[Running]:
    found = Running(Visit(allowed, max_bytes, 2, way))
    yield found
    found.run(found.proxy.close())
    found.loop.call_soon_threadsafe(found.loop.stop)
    found.thread.join()
    found.loop.close()


def site(h: BaseHTTPRequestHandler) -> None:
    if h.path == "/big":
        send(h, 200, b"x" * 500_000)
    else:
        send(h, 200, f"{h.path} {sorted(k.lower() for k in h.headers)}".encode(), keep_alive="timeout=5")


@pytest.fixture(scope="module")
def pages() -> Iterator[Site]:
    with serve(site) as found:
        yield found


def test_only_the_browser_of_a_visit_is_let_in(pages: Site) -> None:
    with running() as proxy:
        for password in ("", "wrong", "-"):
            assert proxy.get(f"{pages.base}/", password=password).startswith(b"HTTP/1.1 407 ")
            assert proxy.ask(f"CONNECT 127.0.0.1:{pages.port} HTTP/1.1", password=password).startswith(
                b"HTTP/1.1 407 "
            )
        assert proxy.get(f"{pages.base}/").startswith(b"HTTP/1.1 200 OK\r\n")
        proxy.proxy.end("visit")
        assert proxy.get(f"{pages.base}/").startswith(b"HTTP/1.1 407 ")


def test_a_request_goes_on_without_what_was_for_the_proxy(pages: Site) -> None:
    with running() as proxy:
        answer = proxy.ask(
            f"GET {pages.base}/path?q HTTP/1.1\r\nHost: other.test\r\nProxy-Connection: keep-alive\r\n"
            "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nUpgrade: h2c"
        )
        assert b"\r\nConnection: close\r\n" in answer and b"eep-alive: timeout" not in answer
        assert answer.endswith(b"/path?q ['connection', 'host', 'x-end']")
        assert pages.headers[-1][1]["host"] == f"127.0.0.1:{pages.port}"


def test_a_connection_carries_one_request(pages: Site) -> None:
    with running() as proxy:
        smuggled = f"GET {pages.base}/second HTTP/1.1\r\n\r\n".encode()
        before = pages.hits["/second"]
        assert b"/first" in proxy.ask(f"GET {pages.base}/first HTTP/1.1", smuggled, more=smuggled)
        assert pages.hits["/second"] == before
        assert proxy.ask(f"POST {pages.base}/ HTTP/1.1\r\nTransfer-Encoding: chunked").startswith(
            b"HTTP/1.1 411"
        )
        assert proxy.ask(f"POST {pages.base}/ HTTP/1.1\r\nContent-Length: -1").startswith(b"HTTP/1.1 411")


def test_a_tunnel_leads_where_the_name_led_first(pages: Site) -> None:
    with running() as proxy:
        inside = b"GET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for _ in range(2):
            answer = proxy.ask(f"CONNECT changing.test:{pages.port} HTTP/1.1", more=inside)
            assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert proxy.names.asked == ["changing.test"]
        assert str(proxy.visit.addresses["changing.test"]) == "127.0.0.1"


@pytest.mark.parametrize(
    "host",
    [
        *(
            "10.0.0.1",
            "169.254.169.254",
            "mixed.test",
            "0x0a.1",
            "[::ffff:10.0.0.1]",
            "[fe80::1]",
            "192.168.0.1",
        ),
        *("[::]", "0.0.0.0", "100.64.0.1", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[fd00::1]", "224.0.0.1"),
    ],
)
def test_a_host_with_any_blocked_address_is_refused(host: str) -> None:
    with running() as proxy:
        assert proxy.get(f"http://{host}/").startswith(b"HTTP/1.1 403 ")
        assert proxy.ask(f"CONNECT {host}:443 HTTP/1.1").startswith(b"HTTP/1.1 403 ")
        assert {e.code for e in proxy.visit.refusals.values()} == {"E_URL_BLOCKED"}


def test_names_without_an_answer_and_with_a_thousand(pages: Site) -> None:
    with running() as proxy:
        for url in ("http://none.invalid/", "http://many.test:9/", f"http://127.0.0.1:{proxy.proxy.port}/"):
            assert proxy.get(url).startswith(b"HTTP/1.1 502 ")
        assert {e.code for e in proxy.visit.refusals.values()} == {"E_NETWORK"}


@pytest.mark.parametrize(
    "head",
    [
        *(
            "GET / HTTP/1.1",
            "GET https://127.0.0.1/ HTTP/1.1",
            "GET file:///etc/passwd HTTP/1.1",
            "GET ftp://x/ HTTP/1.1",
        ),
        *(
            "GET http://u:p@127.0.0.1/ HTTP/1.1",
            "CONNECT 127.0.0.1 HTTP/1.1",
            "CONNECT u@127.0.0.1:80 HTTP/1.1",
        ),
        *(
            "CONNECT http://127.0.0.1/ HTTP/1.1",
            "GET http://127.0.0.1/",
            "CONNECT 127.0.0.1:99999 HTTP/1.1",
            "X",
        ),
    ],
)
def test_what_is_no_request_for_the_web_is_refused(head: str) -> None:
    with running() as proxy:
        assert proxy.ask(head).startswith(b"HTTP/1.1 400 ")
        assert not proxy.names.asked


def test_a_visit_is_cut_off_beyond_its_bytes(pages: Site) -> None:
    with running(max_bytes=100_000) as proxy:
        assert len(proxy.get(f"{pages.base}/big")) < 400_000
        assert proxy.visit.exceeded
        assert b"/small" not in proxy.get(f"{pages.base}/small")


def test_odd_heads_end(pages: Site) -> None:
    with running() as proxy:
        assert proxy.ask("GET http://127.0.0.1/ HTTP/1.1\r\nX: " + "y" * 2 * MAX_HEAD_BYTES) == b""
        with socket.create_connection(("127.0.0.1", proxy.proxy.port), timeout=10) as peer:
            peer.sendall(b"\x16\x03\x01\x00\x00\r\n\r\n")
            assert peer.recv(100).startswith(b"HTTP/1.1 407 ")
        for bad in (b"no http at all\r\n\r\n", b"HTTP/1.1\r\n\r\n", b""):
            with socket.create_server(("127.0.0.1", 0)) as listening:

                def answer(bad: bytes = bad, listening: socket.socket = listening) -> None:
                    peer, _ = listening.accept()
                    with closing(peer):
                        peer.recv(1000)
                        peer.sendall(bad)

                threading.Thread(target=answer, daemon=True).start()
                assert proxy.get(f"http://127.0.0.1:{listening.getsockname()[1]}/") == b""


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
@settings(max_examples=20, deadline=None)
def test_any_bytes_are_answered_or_dropped(heads: list[bytes]) -> None:
    with running() as proxy:
        for head in heads:
            with socket.create_connection(("127.0.0.1", proxy.proxy.port), timeout=10) as peer:
                peer.sendall(head + b"\r\n\r\n")
                came = peer.recv(100)
                assert came == b"" or came.startswith(b"HTTP/1.1 40")
        assert not proxy.names.asked


# --- by the operator's proxy --------------------------------------------------------------------------------


def only_error(proxy: Running) -> TabootError:
    (found,) = proxy.visit.refusals.values()
    return found


@pytest.mark.parametrize("credentials", [None, ("me", "pä:ss"), ("me", "")])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_socks_proxy_is_told_the_checked_address(credentials: tuple[str, str] | None, host: str) -> None:
    inside = b"GET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    allowed = [ipaddress.ip_network(n) for n in ("127.0.0.0/8", "::1/128")]

    def answer(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listening.accept()
                with closing(peer):
                    peer.recv(1000)
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host.strip("[]"), 0), family=family) as listening,
        socks_proxy(credentials) as socks,
        running(allowed, way=Proxy("socks5", "127.0.0.1", socks.port, *(credentials or ()))) as proxy,
    ):
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        port = listening.getsockname()[1]
        assert proxy.get(f"http://{host}:{port}/").endswith(b"page")
        assert proxy.ask(f"CONNECT {host}:{port} HTTP/1.1", more=inside).endswith(b"page")
        assert socks.asked == [(host.strip("[]"), port)] * 2
        assert socks.said == ([credentials] * 2 if credentials else [])
        assert str(proxy.visit.gate) == "127.0.0.1"


@pytest.mark.parametrize(
    ("reply", "code"),
    [*((n, "E_PROXY") for n in (1, 2, 7, 8, 9, 255)), *((n, "E_NETWORK") for n in (3, 4, 5, 6))],
)
def test_what_a_socks_proxy_replies_is_told(reply: int, code: str) -> None:
    with (
        socks_proxy(reply=reply) as socks,
        running(way=Proxy("socks5", "127.0.0.1", socks.port)) as proxy,
    ):
        assert proxy.get("http://127.0.0.1:9/").startswith(b"HTTP/1.1 502 ")
        error = only_error(proxy)
        assert (error.code, error.details["again"]) == (code, True)
        assert error.details["proxy"] == f"socks5://127.0.0.1:{socks.port}"


def test_a_socks_proxy_that_wants_another_user_is_named() -> None:
    with socks_proxy(("me", "secret")) as socks:
        for given in ((), ("me", "wrong"), ("you", "secret")):
            with running(way=Proxy("socks5", "127.0.0.1", socks.port, *given)) as proxy:
                proxy.get("http://127.0.0.1:9/")
                assert only_error(proxy).code == "E_PROXY"
                assert "wrong" not in str(only_error(proxy))
        with running(way=Proxy("socks5", "127.0.0.1", socks.port, "me", "x" * 256)) as proxy:
            proxy.get("http://127.0.0.1:9/")
            assert only_error(proxy).code == "E_CONFIG"
        assert not socks.asked


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x05",
        b"\x04\x00",
        b"\x05\x01",
        b"\x05\x02",
        b"\x05\x00\x05\x00\x00\x07",
        b"HTTP/1.1 20",
        b"HTTP/1.1 200 Yes\r\n\r\nmore",
        None,
    ],
)
def test_a_proxy_that_breaks_off_is_odd_or_silent_is_named_in_time(scheme: str, said: bytes | None) -> None:
    ended = threading.Event()

    def answer() -> None:
        peer, _ = listening.accept()
        with closing(peer), suppress(OSError):
            peer.recv(1000)
            if said is None:
                ended.wait(60)
            else:
                peer.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        with running(way=Proxy(scheme, "127.0.0.1", listening.getsockname()[1])) as proxy:
            assert proxy.get("http://127.0.0.1:9/").startswith(b"HTTP/1.1 502 ")
            assert only_error(proxy).code == "E_PROXY"
        ended.set()


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
def test_a_proxy_may_be_private_and_what_it_is_asked_for_may_not(scheme: str) -> None:
    with socks_proxy(reply=2) as socks, running([], way=Proxy(scheme, "127.0.0.1", socks.port)) as proxy:
        assert proxy.get("http://public.test/").startswith(b"HTTP/1.1 502 ")
        assert only_error(proxy).code == "E_PROXY"
        assert socks.asked == ([("93.184.215.14", 80)] if scheme == "socks5" else [])
        for url in (
            "http://127.0.0.1/",
            f"http://127.0.0.1:{socks.port}/",
            "http://10.0.0.1/",
            "http://cloud.test/",
        ):
            assert proxy.get(url).startswith(b"HTTP/1.1 403 ")
        assert len(socks.asked) == (scheme == "socks5")


@pytest.mark.parametrize(
    "host", ["cloud.test", "169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"]
)
def test_no_proxy_is_a_metadata_service(host: str) -> None:
    with running([ipaddress.ip_network("0.0.0.0/0")], way=Proxy("socks5", host, 80)) as proxy:
        assert proxy.get("http://public.test/").startswith(b"HTTP/1.1 403 ")
        assert only_error(proxy).code == "E_URL_BLOCKED"
