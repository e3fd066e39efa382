"""One request and its answer, against real servers on loopback."""

from __future__ import annotations

import base64
import gzip
import ipaddress
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taboot_pipelines.crawl.addresses import ANYWHERE, Address, Resolver
from taboot_pipelines.crawl.client import Reply, Request, Timeouts
from taboot_pipelines.crawl.curl import CurlClient
from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.connectors.servers import certificate, send, serve
from taboot_pipelines_tests.crawl.socks import relay, socks_proxy

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")]
#: So long that a slow machine meets none of them.
TIMES = Timeouts(connect=20, read=30, total=60)
HERE = ipaddress.ip_address("127.0.0.1")


def here(_host: str, _port: int) -> list[Address]:
    """A resolver by which every name is this machine's."""
    return [HERE]


def client(allowed: Sequence[Any] = LOOPBACK, resolver: Resolver = here) -> CurlClient:
    return CurlClient(allowed, resolver=resolver)


def request(url: str, **fields: Any) -> Request:
    return Request(
        parse_url(url),
        **{
            "headers": (("User-Agent", "t"), ("Accept-Encoding", "gzip")),
            "max_bytes": 1_000_000,
            "timeouts": TIMES,
            **fields,
        },
    )


def ask(asked: CurlClient, *requests: Request) -> list[Reply | TabootError]:
    """What becomes of ``requests``, made at once, in their order."""
    for ticket, each in enumerate(requests):
        asked.start(ticket, each)
    found: dict[int, Reply | TabootError] = {}
    end = time.monotonic() + 50
    while len(found) < len(requests):
        assert time.monotonic() < end
        found |= dict(asked.finished(1))
    assert asked.finished(0) == []
    return [found[ticket] for ticket in range(len(requests))]


def body(result: Reply | TabootError) -> bytes:
    assert isinstance(result, Reply), result
    return result.body


def code(result: Reply | TabootError) -> str:
    assert isinstance(result, TabootError), result
    return result.code


@contextmanager
def talking(answer: Callable[[socket.socket, bytes], None], family: Any = socket.AF_INET) -> Iterator[int]:
    """A server whose every connection is ``answer(connection, the first bytes)``; gives its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                answer(self.request, self.request.recv(65536))

    class Server(socketserver.ThreadingTCPServer):
        address_family = family
        daemon_threads = True
        block_on_close = False

    with Server(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def saying(reply: bytes) -> Callable[[socket.socket, bytes], None]:
    return lambda connection, _: connection.sendall(reply)


def test_an_answer_says_what_came_from_where() -> None:
    with serve(lambda h: send(h, 203, b"page", x_robots_tag="noindex")) as site, closing(client()) as asked:
        (reply,) = ask(asked, request(f"http://docs.example:{site.port}/a/../b%7c?q=%E4|x"))
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, reply.address, reply.http_version) == (203, b"page", "127.0.0.1", "1.1")
    assert reply.headers["x-robots-tag"] == "noindex" and 0 < reply.seconds < 1.5
    ((target, headers),) = site.headers
    assert target == "/b%7c?q=%E4|x", "the target is sent as it was parsed"
    assert headers == {"host": f"docs.example:{site.port}", "user-agent": "t", "accept-encoding": "gzip"}


def test_repeated_headers_are_a_list_only_where_they_are_one() -> None:
    reply = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLink: <a>\r\nX-Robots-Tag: noindex\r\nlink: <b>\r\n"
        b"ETag: one\r\nETag: two\r\nX-Name: gr\xc3\xbc\xdfe\r\n\r\n"
    )
    with talking(saying(reply)) as port, closing(client()) as asked:
        (got,) = ask(asked, request(f"http://127.0.0.1:{port}/"))
    assert isinstance(got, Reply)
    assert (got.headers["link"], got.headers["etag"]) == ("<a>, <b>", "two")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ssl.SSLContext]]:
    """The file of an authority for docs.example, and the server's side of it."""
    folder = tmp_path_factory.mktemp("tls")
    yield folder / "cert.pem", certificate(folder, "docs.example")


@contextmanager
def serve_h2(context: ssl.SSLContext) -> Iterator[tuple[int, list[int]]]:
    """A server of HTTP/2: its port, and how many requests each of its connections had."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import RequestReceived

    context.set_alpn_protocols(["h2", "http/1.1"])
    counts: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(raw: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(raw, server_side=True) as connection:
            assert connection.selected_alpn_protocol() == "h2"
            mine = len(counts)
            counts.append(0)
            state = H2Connection(H2Configuration(client_side=False))
            state.initiate_connection()
            connection.sendall(state.data_to_send())
            while data := connection.recv(65536):
                for event in state.receive_data(data):
                    if isinstance(event, RequestReceived):
                        counts[mine] += 1
                        sent = dict(event.headers or ())
                        text = b"%s %s" % (sent[b":authority"], sent[b":path"])
                        state.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/x")])
                        state.send_data(event.stream_id, text, end_stream=True)
                connection.sendall(state.data_to_send())

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], counts
    finally:
        listener.close()
        context.set_alpn_protocols(["http/1.1"])


def test_http_2_is_spoken_where_the_server_has_it(
    tls: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
    with serve_h2(tls[1]) as (port, counts), closing(client()) as asked:
        url = f"https://docs.example:{port}/a%20b?x=1"
        replies = [*ask(asked, request(url)), *ask(asked, request(url), request(url))]
        assert [body(r) for r in replies] == [f"docs.example:{port} /a%20b?x=1".encode()] * 3
        assert [r.http_version for r in replies if isinstance(r, Reply)] == ["2"] * 3
    assert counts == [3], "one connection for all"


def test_a_certificate_must_be_trusted_and_fit_the_name(
    tls: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(lambda h: send(h, 200, b"private"), tls[1]) as site:

        def fetch(host: str) -> Reply | TabootError:
            with closing(client()) as asked:
                return ask(asked, request(f"https://{host}:{site.port}/"))[0]

        stranger = fetch("docs.example")
        assert isinstance(stranger, TabootError) and "certificate" in stranger.message
        assert stranger.details["again"] is False, "another attempt would end as this one"
        monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
        assert body(fetch("docs.example")) == b"private"
        assert code(fetch("other.example")) == "E_NETWORK"


# --- addresses ----------------------------------------------------------------------------------------------


def test_a_name_is_looked_up_once_for_many_requests() -> None:
    asked_for: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[Address]:
        asked_for.append((host, port))
        return [HERE]

    with serve(lambda h: send(h, 200, b"x")) as site, closing(client(resolver=resolver)) as asked:
        requests = [request(f"http://docs.example:{site.port}/{i}") for i in range(20)]
        assert [body(r) for r in ask(asked, *requests)] == [b"x"] * 20
    assert asked_for == [("docs.example", site.port)]


@pytest.mark.parametrize("last", ["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1"])
def test_one_address_among_a_thousand_refuses_the_name(last: str) -> None:
    many = [ipaddress.ip_address(0x5DB80000 + i) for i in range(1000)]
    with closing(client([], lambda *_: [*many, ipaddress.ip_address(last)])) as asked:
        (result,) = ask(asked, request("http://docs.example/"))
    assert code(result) == "E_URL_BLOCKED"


def test_of_a_thousand_addresses_few_are_tried_and_those_in_turn() -> None:
    many = [ipaddress.ip_address(0x7F000002 + i) for i in range(1000)]
    with serve(lambda h: send(h, 200, b"x")) as site:
        with closing(client(resolver=lambda *_: [*many[:3], HERE, *many])) as asked:
            (reply,) = ask(asked, request(f"http://docs.example:{site.port}/"))
            assert isinstance(reply, Reply) and reply.address == "127.0.0.1"
        with closing(client(resolver=lambda *_: many)) as asked:
            assert code(*ask(asked, request(f"http://docs.example:{site.port}/"))) == "E_NETWORK"


def test_a_host_with_an_ipv6_address_alone_is_reached() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    page = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nsix")
    only = [ipaddress.ip_address("::1")]
    with talking(page, socket.AF_INET6) as port, closing(client(resolver=lambda *_: only)) as asked:
        urls = [f"http://docs.example:{port}/", f"http://[::1]:{port}/"]
        assert [body(r) for r in ask(asked, *map(request, urls))] == [b"six"] * 2
    with closing(client([], resolver=lambda *_: only)) as asked:
        assert [code(r) for r in ask(asked, *map(request, urls))] == ["E_URL_BLOCKED"] * 2


def test_a_socket_is_opened_for_a_checked_address_whoever_looked_the_name_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """libcurl is left to look the name up by itself, and finds another address than was checked."""
    monkeypatch.setattr("taboot_pipelines.crawl.curl._pinned", lambda *_: [])
    public = [ipaddress.ip_address("93.184.215.14")]
    with serve(lambda h: send(h, 200)) as site, closing(client([], lambda *_: public)) as asked:
        assert code(*ask(asked, request(f"http://localhost:{site.port}/"))) == "E_URL_BLOCKED"
        assert not site.hits


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (socket.gaierror(socket.EAI_NONAME, ""), False),
        (socket.gaierror(socket.EAI_AGAIN, ""), True),
        (UnicodeError("label too long"), False),
    ],
)
def test_a_name_that_does_not_resolve(error: Exception, again: bool) -> None:
    def resolver(*_: Any) -> list[Address]:
        raise error

    with closing(client(resolver=resolver)) as asked:
        (result,) = ask(asked, request("http://nowhere.example/"))
    assert code(result) == "E_NETWORK" and isinstance(result, TabootError)
    assert result.details["again"] is again


def test_a_name_server_that_does_not_answer_holds_up_nobody_else() -> None:
    hold = threading.Event()

    def resolver(host: str, _port: int) -> list[Address]:
        if host == "slow.example":
            hold.wait(60)
        return [HERE]

    with serve(lambda h: send(h, 200, b"x")) as site, closing(client(resolver=resolver)) as asked:
        slow, quick = ask(
            asked,
            request(f"http://slow.example:{site.port}/", timeouts=Timeouts(connect=0.5, read=1, total=5)),
            request(f"http://docs.example:{site.port}/"),
        )
        # Both are settled while the name server still says nothing.
        assert not hold.is_set() and (body(quick), code(slow)) == (b"x", "E_TIMEOUT")
        hold.set()


# --- proxies ------------------------------------------------------------------------------------------------


@contextmanager
def http_proxy(status: int = 200) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy that only opens tunnels: its port, and the heads of what it was asked."""
    heads: list[bytes] = []

    def answer(connection: socket.socket, head: bytes) -> None:
        heads.append(head)
        target = head.split()[1].rpartition(b":")
        if status != 200:
            connection.sendall(b"HTTP/1.1 %d No\r\nX-Proxy: yes\r\n\r\n" % status)
            return
        with socket.create_connection((target[0].decode().strip("[]"), int(target[2]))) as onward:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
            relay(connection, onward)

    with talking(answer) as port:
        yield port, heads


def test_a_proxy_is_told_the_checked_address_and_the_server_the_name(
    tls: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
    admitted: list[str | None] = []
    with (
        serve(lambda h: send(h, 200, b"plain", x_proxy="no")) as site,
        serve(lambda h: send(h, 200, b"secret", x_proxy="no"), tls[1]) as private,
        http_proxy() as (port, heads),
        closing(client()) as asked,
    ):
        proxy = Proxy("http", "proxy.example", port, "me", "pa:ss")
        urls = [f"http://docs.example:{site.port}/", f"https://docs.example:{private.port}/"]
        requests = [
            request(u, proxy=proxy, admit=lambda headers, _: admitted.append(headers.get("x-proxy")))
            for u in (*urls, *urls)
        ]
        replies = [*ask(asked, *requests[:2]), *ask(asked, *requests[2:])]
        assert [body(r) for r in replies] == [b"plain", b"secret"] * 2
        assert admitted == ["no"] * 4, "the proxy's own answer is not the page's"
        # The same handles without a proxy.
        assert [body(r) for r in ask(asked, *map(request, urls))] == [b"plain", b"secret"]
    assert sorted(h.split()[1] for h in heads) == sorted(
        f"127.0.0.1:{s.port}".encode() for s in (site, private)
    )
    password = base64.b64encode(b"me:pa:ss")
    assert all(b"Basic " + password in h and b"docs.example" not in h for h in heads)
    assert site.headers[0][1]["host"] == f"docs.example:{site.port}"
    assert all("proxy-authorization" not in h for _, h in site.headers)
    assert "pa:ss" not in repr(proxy)


@pytest.mark.parametrize("credentials", [None, ("me", "pä:ss")])
def test_a_socks_proxy_is_gone_by(credentials: tuple[str, str] | None) -> None:
    with (
        serve(lambda h: send(h, 200, b"page")) as site,
        socks_proxy(credentials) as socks,
        closing(client()) as asked,
    ):
        proxy = Proxy("socks5", "127.0.0.1", socks.port, *(credentials or ()))
        assert body(*ask(asked, request(f"http://docs.example:{site.port}/", proxy=proxy))) == b"page"
        wrong = Proxy("socks5", "127.0.0.1", socks.port, "me", "wrong")
        (refused,) = ask(asked, request(f"http://docs.example:{site.port}/", proxy=wrong))
        assert getattr(refused, "code", "") == ("E_PROXY" if credentials else "")
    assert set(socks.asked) == {("127.0.0.1", site.port)}
    assert socks.said[:1] == ([credentials] if credentials else [])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [*((n, "E_PROXY") for n in (1, 2, 7, 8)), *((n, "E_NETWORK") for n in (3, 4, 5, 6))],
)
def test_what_a_socks_proxy_says_of_the_host_is_no_failure_of_its_own(reply: int, expected: str) -> None:
    with socks_proxy(reply=reply) as socks, closing(client()) as asked:
        proxy = Proxy("socks5", "127.0.0.1", socks.port)
        assert code(*ask(asked, request("http://127.0.0.1:9/", proxy=proxy))) == expected


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_private_proxy_is_gone_by_and_no_private_page_is_reached_by_it(scheme: str) -> None:
    names = {"public.example": "93.184.215.14", "private.example": "10.0.0.1", "proxy.lan": "127.0.0.1"}

    def resolver(host: str, _port: int) -> list[Address]:
        return [ipaddress.ip_address(names[host])]

    with (
        http_proxy(403) as (http, heads),
        socks_proxy(reply=2) as socks,
        closing(client([], resolver)) as asked,
    ):
        port = http if scheme == "http" else socks.port
        proxies = [Proxy(scheme, host, port) for host in ("proxy.lan", "127.0.0.1")]
        results = ask(asked, *(request("http://public.example/", proxy=p) for p in proxies))
        assert [code(r) for r in results] == ["E_PROXY"] * 2
        reached = [h.split()[1] for h in heads] + [f"{a}:{p}".encode() for a, p in socks.asked]
        assert reached == [b"93.184.215.14:80"] * 2
        pages = [
            *("http://private.example/", f"http://proxy.lan:{port}/", f"http://127.0.0.1:{port}/"),
            "http://169.254.169.254/",
        ]
        results = ask(asked, *(request(url, proxy=p) for url in pages for p in proxies))
        # That the proxy may be there says nothing for a page.
        results += ask(asked, *(request(url) for url in pages))
        assert [code(r) for r in results] == ["E_URL_BLOCKED"] * 12
        assert len(heads) + len(socks.asked) == 2


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"])
def test_no_proxy_is_a_metadata_service(address: str) -> None:
    def resolver(host: str, _port: int) -> list[Address]:
        return [ipaddress.ip_address("93.184.215.14" if host == "public.example" else address)]

    with closing(client(ANYWHERE, resolver)) as asked:
        literal = f"[{address}]" if ":" in address else address
        results = ask(
            asked,
            *(request("http://public.example/", proxy=Proxy("http", h, 80)) for h in ("proxy.lan", literal)),
        )
    assert [code(r) for r in results] == ["E_URL_BLOCKED"] * 2


def test_a_proxy_that_refuses_or_is_away_is_named() -> None:
    # Bound and not listening: nobody else gets the port, and nobody answers there.
    with socket.socket() as shut, http_proxy(403) as (port, _), closing(client()) as asked:
        shut.bind(("127.0.0.1", 0))
        closed = shut.getsockname()[1]
        results = ask(
            asked,
            *(request("http://docs.example/", proxy=Proxy("http", "127.0.0.1", p)) for p in (port, closed)),
        )
    for result in results:
        assert isinstance(result, TabootError) and result.code == "E_PROXY"
        assert result.details["proxy"] in result.message and result.details["again"]


def test_nothing_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".netrc", ".curlrc"):
        Path(tmp_path, name).write_text("machine 127.0.0.1 login me password hunter2\n")
    with (
        serve(lambda h: send(h, 200, b"x", set_cookie="a=b; Path=/")) as site,
        closing(client()) as asked,
    ):
        for _ in range(2):
            assert body(*ask(asked, request(f"{site.base}/"))) == b"x"
    assert all(not {"authorization", "cookie"} & headers.keys() for _, headers in site.headers)


# --- bounds -------------------------------------------------------------------------------------------------


def test_what_ends_a_header_is_not_sent_in_one() -> None:
    with serve(lambda h: send(h, 200)) as site, closing(client()) as asked:
        ask(asked, request(f"{site.base}/", headers=(("If-None-Match", "a\r\nX-Evil: yes\0ü€"),)))
    ((_, headers),) = site.headers
    assert "x-evil" not in headers and headers["if-none-match"].startswith("aX-Evil: yes")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "E_NETWORK"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nlonger", b"lon"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx", "E_NETWORK"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "E_NETWORK"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx", "E_TOO_LARGE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\nx", "E_TOO_LARGE"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx", "E_NETWORK"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "E_NETWORK"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000, "E_NETWORK"),
        (b"<html>no head at all", "E_NETWORK"),
        (b"", "E_NETWORK"),
    ],
)
def test_lengths_and_heads_that_lie(reply: bytes, expected: str | bytes) -> None:
    with talking(saying(reply)) as port, closing(client()) as asked:
        (result,) = ask(asked, request(f"http://127.0.0.1:{port}/"))
    if isinstance(expected, bytes):
        assert body(result) == expected
    else:
        assert code(result) == expected


def test_a_bomb_fills_no_memory() -> None:
    bomb = gzip.compress(bytes(200_000_000), 1)
    assert len(bomb) < 1_000_000

    def answer(h: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            send(h, 200, bomb, content_encoding="gzip")

    with serve(answer) as site, closing(client()) as asked:
        tracemalloc.start()
        (result,) = ask(asked, request(f"{site.base}/"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert code(result) == "E_TOO_LARGE" and peak < 6_000_000


def test_a_body_can_be_cut_off_instead() -> None:
    with serve(lambda h: send(h, 200, b"0123456789" * 50_000)) as site, closing(client()) as asked:
        (reply,) = ask(asked, request(f"{site.base}/", max_bytes=25, cut=True))
    assert body(reply) == b"0123456789012345678901234"


def test_silence_and_dripping_end_in_time() -> None:
    over = threading.Event()

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/silent":
            over.wait(60)
        h.send_response(200)
        h.send_header("Content-Length", "1000")
        h.end_headers()
        while not over.wait(0.1):
            h.wfile.write(b"x")

    with serve(answer) as site, closing(client()) as asked:
        quick, patient = Timeouts(connect=20, read=0.5, total=30), Timeouts(connect=20, read=30, total=1.5)
        began = time.monotonic()
        silent, drip, slow = ask(
            asked,
            request(f"{site.base}/silent", timeouts=quick),
            request(f"{site.base}/drip", timeouts=patient),
            request(f"{site.base}/drip", timeouts=quick),
        )
        # No server has ended by itself, and a byte now and then is no piece of an answer.
        assert not over.is_set() and [code(silent), code(drip), code(slow)] == ["E_TIMEOUT"] * 3
        assert time.monotonic() - began < 15
        assert isinstance(silent, TabootError) and isinstance(slow, TabootError)
        assert silent.details["again"] and not slow.details["again"]
        over.set()


def test_time_in_which_nobody_waits_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    away = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + away[0])
    monkeypatch.setattr("taboot_pipelines.crawl.curl.time", clock)
    with serve(lambda h: send(h, 200, b"page")) as site, closing(client()) as asked:
        asked.start(0, request(f"{site.base}/page"))
        found = dict(asked.finished(0))
        away[0] += 10 * TIMES.total
        end = time.monotonic() + 50
        while not found and time.monotonic() < end:
            found |= dict(asked.finished(1))
        assert body(found[0]) == b"page"


def test_what_nobody_reads_keeps_the_connection_unless_it_is_long() -> None:
    def refuse(headers: dict[str, str], url: str) -> None:
        raise TabootError("E_MIME", f"{url} is no page.")

    connections: set[Any] = set()
    over = threading.Event()

    def answer(h: BaseHTTPRequestHandler) -> None:
        connections.add(h.client_address)
        if h.path == "/200":
            # The rest of it never comes: who wants to read it waits for that.
            h.send_response(200)
            h.send_header("Content-Length", "1000000")
            h.end_headers()
            h.wfile.write(b"x" * 5000)
            over.wait(60)
        else:
            send(h, int(h.path[1:]), b"x" * 5000)

    with serve(answer) as site, closing(client()) as asked:
        for _ in range(3):
            (gone,) = ask(asked, request(f"{site.base}/404"))
            assert isinstance(gone, Reply) and (gone.status, gone.body) == (404, b"")
            (moved,) = ask(asked, request(f"{site.base}/202", admit=refuse))
            assert code(moved) == "E_MIME"
        assert len(connections) == 1
        start = time.monotonic()
        assert code(*ask(asked, request(f"{site.base}/200", admit=refuse))) == "E_MIME"
        assert time.monotonic() - start < TIMES.read / 2
        over.set()


def test_closing_leaves_nothing_open() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        time.sleep(0.3)
        send(h, 200)

    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    with serve(answer) as site:
        # What the first request of a process opens for good, as the list of authorities.
        first = client()
        first.start(0, request(f"http://docs.example:{site.port}/"))
        first.finished(5)
        first.close()
        time.sleep(0.5)
        before = len(list(folder.iterdir()))
        asked = client()
        for ticket in range(5):
            asked.start(ticket, request(f"http://docs.example:{site.port}/"))
        asked.finished(0.1)
        assert len(list(folder.iterdir())) > before
        asked.close()
        # The server lets go of its ends when it has slept.
        end = time.monotonic() + 60
        while len(list(folder.iterdir())) > before:
            assert time.monotonic() < end, [os.readlink(p) for p in folder.iterdir() if p.is_symlink()]
            time.sleep(0.05)


def test_the_file_of_authorities_goes_with_the_process_however_it_is_left(tmp_path: Path) -> None:
    """The command line leaves without having Python taken down, once all that is to be called was called."""
    code = (
        "import atexit, os; atexit.register(lambda: os._exit(0));"
        "from taboot_pipelines.crawl.authorities import authorities as f;"
        "print(open(f()).read(27), flush=True)"
    )
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=True)
    assert said.stdout.startswith(b"-----BEGIN CERTIFICATE")
    assert not list(tmp_path.iterdir())
