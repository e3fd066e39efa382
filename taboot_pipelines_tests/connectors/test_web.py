"""The web connector against real servers on loopback."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.web import WebConnector, WebSource
from taboot_pipelines.crawl.frontier import Frontier
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import CrawlPlan
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)
from taboot_pipelines.settings import HttpSettings, LimitSettings, Settings
from taboot_pipelines.sources import open_connector
from taboot_pipelines.stores.catalog.crawls import CrawlReports, crawls_in_memory
from taboot_pipelines_tests.connectors.conftest import DATA
from taboot_pipelines_tests.connectors.servers import Site, base_of, certificate, resolving, send, serve

#: Time-outs that a slow machine does not meet, and those of the pages that are to meet them.
FAST: dict[str, Any] = {
    "connect_timeout_seconds": 20,
    "read_timeout_seconds": 30,
    "total_timeout_seconds": 60,
    "retry_seconds": (),
}
LATE = {"/slow": {"read_timeout_seconds": 1}, "/drip": {"total_timeout_seconds": 2}}
HTML = {"content_type": "text/html; charset=UTF-8"}


def source(**fields: Any) -> WebSource:
    return WebSource.model_validate({"id": "w", "type": "web", "allow_cidrs": ["127.0.0.0/8"], **fields})


def crawl(
    entry: WebSource,
    known: Mapping[str, Known] | None = None,
    tombstones: tuple[str, ...] = (),
    limit: int = 1_000_000,
    **http: Any,
) -> tuple[dict[str, Event], Enumerated]:
    """Events by path, checkpoints left out, and the end, which is the last; each path is reported once."""
    settings = Settings(http=HttpSettings(**{**FAST, **http}), limits=LimitSettings(max_blob_bytes=limit))
    events = list(
        open_connector(entry, Access.of(settings, Path())).events(known or {}, tombstones.__contains__)
    )
    end = events.pop()
    assert isinstance(end, Enumerated)
    items = [e for e in events if not isinstance(e, Checkpoint)]
    by_path: dict[str, Event] = {e.path: e for e in items if not isinstance(e, Enumerated | Unchanged)}
    assert len(by_path) == len(items)
    return by_path, end


def code(event: Event) -> str:
    if isinstance(event, Failed):
        return event.error.code
    assert isinstance(event, Skipped | Gone)
    return event.code


def one(path: str, site: Site, **kwargs: Any) -> Event:
    """The one event of a source that lists ``path`` of ``site``."""
    by_path, end = crawl(source(urls=[site.base + path]), **kwargs)
    assert end.complete
    (event,) = by_path.values()
    return event


def test_a_page_that_is_asked_for_once_counts_one_attempt(site: Site) -> None:
    crawls, begun = crawls_in_memory(), []

    def frontier(plan: CrawlPlan) -> Frontier:
        begun.append(crawls.begin("default", "w", plan))
        return crawls.frontier("default", begun[-1])

    entry = source(urls=[site.base + "/page/a", site.base + "/status/404/x"])
    access = Access.of(Settings(http=HttpSettings(**FAST)), Path(), frontier=frontier)
    events = [*open_connector(entry, access).events({}, lambda _: False)]
    assert {code(e) for e in events if isinstance(e, Gone | Failed | Skipped)} == {"E_NOT_FOUND"}
    (crawl,) = begun
    pages = CrawlReports(crawls.database).urls("default", crawl.crawl_id)
    attempts = {row["key"].removeprefix(site.base): row["attempts"] for rows in pages for row in rows}
    assert attempts["/status/404/x"] == 1


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One path per behaviour."""
    # Made before it is asked for: compressing it takes a good part of the time that an answer may take.
    bomb = gzip.compress(bytes(30_000_000))

    def answer(h: BaseHTTPRequestHandler) -> None:
        path = h.path.partition("?")[0]
        base = base_of(h)
        match path.split("/")[1:]:
            case ["page", *_]:
                send(
                    h,
                    200,
                    b"<p>hello</p>",
                    etag='"v1"',
                    last_modified="Mon, 01 Jan 2024 00:00:00 GMT",
                    **HTML,
                )
            case ["cached"]:
                if h.headers.get("If-None-Match") == '"v1"':
                    send(h, 304)
                else:
                    send(h, 200, b"fresh", etag='"v1"', **HTML)
            case ["status", number, *_]:
                send(h, int(number), b"refused", **HTML)
            case ["waf"]:
                send(h, 403, b"", server="cloudflare")
            case ["hop", number]:
                send(h, 302, location=f"/hop/{int(number) - 1}" if number != "0" else "/page")
            case ["to-cached"]:
                send(h, 301, location="/cached")
            case ["cookie-wall"]:
                send(h, 302, location="/cookie-wall", set_cookie="consent=0; Path=/")
            case ["loop", which]:
                send(h, 307, location="/loop/b" if which == "a" else "/loop/a")
            case ["to", *rest]:
                send(h, 302, location="http://" + "/".join(rest))
            case ["to-file"]:
                send(h, 302, location="file:///etc/passwd")
            case ["to-credentials"]:
                send(h, 302, location=base.replace("//", "//user:hunter2@") + "/page")
            case ["nowhere"]:
                send(h, 302)
            case ["slow"]:
                time.sleep(40)
                send(h, 200, b"late", **HTML)
            case ["drip"]:
                h.send_response(200)
                h.send_header("Content-Type", "text/html")
                h.send_header("Content-Length", "1000")
                h.end_headers()
                for _ in range(400):
                    h.wfile.write(b"x")
                    h.wfile.flush()
                    time.sleep(0.1)
            case ["bomb"]:
                send(h, 200, bomb, content_encoding="gzip", **HTML)
            case ["big"]:
                send(h, 200, b"x" * 1_000_001, **HTML)
            case ["big-chunked"]:
                h.send_response(200)
                h.send_header("Content-Type", "text/html")
                h.send_header("Transfer-Encoding", "chunked")
                h.end_headers()
                for _ in range(40):
                    h.wfile.write(b"10000\r\n" + b"y" * 65536 + b"\r\n")
                h.wfile.write(b"0\r\n\r\n")
            case ["gzip"]:
                send(h, 200, gzip.compress(b"packed" * 50_000), content_encoding="gzip", **HTML)
            case ["members"]:
                send(h, 200, gzip.compress(b"one ") + gzip.compress(b"two"), content_encoding="gzip", **HTML)
            case ["zlib"]:
                send(h, 200, zlib.compress(b"packed"), content_encoding="deflate", **HTML)
            case ["raw-deflate"]:
                machine = zlib.compressobj(wbits=-15)
                send(
                    h, 200, machine.compress(b"packed") + machine.flush(), content_encoding="deflate", **HTML
                )
            case ["half-gzip"]:
                send(h, 200, gzip.compress(bytes(range(256)) * 40)[:-20], content_encoding="gzip", **HTML)
            case ["not-gzip"]:
                send(h, 200, b"plain text, no gzip", content_encoding="gzip", **HTML)
            case ["brotli"]:
                send(h, 200, b"\x0b\x02\x80", content_encoding="br", **HTML)
            case ["cut"]:
                h.send_response(200)
                h.send_header("Content-Type", "text/html")
                h.send_header("Content-Length", "1000")
                h.end_headers()
                h.wfile.write(b"only this")
                h.close_connection = True
            case ["type", kind, sub, *_]:
                send(h, 200, b"data", content_type=f"{kind}/{sub}")
            case ["untyped"]:
                send(h, 200, b"data")
            case ["again"]:
                status = 429 if SEEN[path] == 0 else 200
                SEEN[path] += 1
                send(h, status, b"finally", retry_after="0", **HTML)
            case ["later"]:
                SEEN[path] += 1
                send(h, 429, retry_after="3600")
            case ["partial"]:
                send(h, 206, b"part", **HTML)
            case _:
                send(h, 404, b"no", **HTML)

    with serve(answer) as s:
        yield s


SEEN: dict[str, int] = {"/again": 0, "/later": 0}


def test_a_page_is_fetched_with_what_its_answer_says(site: Site) -> None:
    event = one("/page?b=2&utm_source=x&a=1#part", site)
    assert event == Fetched(
        path=f"{site.base}/page?a=1&b=2",
        data=b"<p>hello</p>",
        mime="text/html",
        charset="utf-8",
        url=f"{site.base}/page?b=2&utm_source=x&a=1",
        final_url=f"{site.base}/page?b=2&utm_source=x&a=1",
        etag='"v1"',
        last_modified="Mon, 01 Jan 2024 00:00:00 GMT",
    )


def test_urls_of_one_key_are_one_item_whatever_their_order(site: Site) -> None:
    urls = [
        f"{site.base}/page/x?gclid=1",
        f"{site.base}/page/x#top",
        f"{site.base}/a/../page/x?utm_medium=mail",
    ]
    first, _ = crawl(source(urls=urls))
    second, _ = crawl(source(urls=urls[::-1]))
    assert first == second and list(first) == [f"{site.base}/page/x"]


def test_a_304_is_not_modified_and_only_the_url_that_gave_a_validator_gets_it(site: Site) -> None:
    known = Known("0" * 64, etag='"v1"')
    assert isinstance(one("/cached", site), Fetched)
    assert one("/cached", site, known={f"{site.base}/cached": known}) == NotModified(f"{site.base}/cached")
    other = Known("0" * 64, etag='"v2"')
    assert isinstance(one("/cached", site, known={f"{site.base}/cached": other}), Fetched)
    # Behind a redirect the validator belongs to the page that answered, not to the one that redirected.
    key = f"{site.base}/to-cached"
    assert isinstance(one("/to-cached", site, known={key: known}), Fetched)
    behind = Known("0" * 64, etag='"v1"', url=f"{site.base}/cached")
    assert one("/to-cached", site, known={key: behind}) == NotModified(key)


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("/status/404", Gone, "E_NOT_FOUND"),
        ("/status/410", Gone, "E_NOT_FOUND"),
        ("/status/401", Failed, "E_FORBIDDEN"),
        ("/status/403", Failed, "E_FORBIDDEN"),
        ("/waf", Failed, "E_403_WAF"),
        ("/status/429", Failed, "E_429_RATE"),
        ("/later", Failed, "E_429_RATE"),
        ("/status/500", Failed, "E_5XX_ORIGIN"),
        ("/status/503", Failed, "E_5XX_ORIGIN"),
        ("/status/400", Failed, "E_URL_BAD"),
        ("/status/304", Failed, "E_NETWORK"),
        ("/partial", Failed, "E_NETWORK"),
        ("/nowhere", Failed, "E_NETWORK"),
        ("/loop/a", Failed, "E_REDIRECT"),
        ("/cookie-wall", Failed, "E_REDIRECT"),
        ("/hop/11", Failed, "E_REDIRECT"),
        ("/to-file", Failed, "E_URL_BAD"),
        ("/to-credentials", Failed, "E_URL_BAD"),
        ("/to/10.255.255.1/x", Failed, "E_URL_BLOCKED"),
        ("/to/[::1]/x", Failed, "E_URL_BLOCKED"),
        ("/to/169.254.169.254/latest", Failed, "E_URL_BLOCKED"),
        ("/slow", Failed, "E_TIMEOUT"),
        ("/drip", Failed, "E_TIMEOUT"),
        ("/cut", Failed, "E_NETWORK"),
        ("/half-gzip", Failed, "E_NETWORK"),
        ("/not-gzip", Failed, "E_PARSE"),
        ("/brotli", Failed, "E_PARSE"),
        ("/bomb", Skipped, "E_TOO_LARGE"),
        ("/big", Skipped, "E_TOO_LARGE"),
        ("/big-chunked", Skipped, "E_TOO_LARGE"),
        ("/type/image/png", Skipped, "E_MIME"),
        ("/type/application/octet-stream", Skipped, "E_MIME"),
    ],
)
def test_what_goes_wrong_is_a_typed_event_and_the_rest_is_done(
    site: Site, path: str, kind: type, expected: str
) -> None:
    by_path, end = crawl(source(urls=[site.base + path, site.base + "/page/z"]), **LATE.get(path, {}))
    bad = by_path.pop(site.base + path)
    assert isinstance(bad, kind) and code(bad) == expected
    assert [type(e) for e in by_path.values()] == [Fetched]
    assert end.complete
    assert "hunter2" not in repr(bad)


def test_a_short_wait_is_granted_once_and_a_long_one_not(site: Site) -> None:
    assert isinstance(one("/again", site), Fetched)
    before = SEEN["/later"]
    one("/later", site)
    assert SEEN["/later"] == before + 1


@pytest.mark.parametrize(("seconds", "hits"), [(0, 2), (-60, 2), (60, 1)])
def test_a_date_to_come_back_at_is_told_by_the_clock_it_is_given(seconds: int, hits: int) -> None:
    """``Retry-After`` as a date: one that is now or past is no wait, one that is far is not waited for."""
    now = datetime(2099, 1, 1, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=seconds), usegmt=True)
    with serve(lambda h: send(h, 503, retry_after=date)) as busy:
        access = replace(Access.of(Settings(), Path()), clock=lambda: now)
        entry = source(urls=[f"{busy.base}/"])
        failed, *_, end = open_connector(entry, access).events({}, lambda _: False)
    assert code(failed) == "E_5XX_ORIGIN" and end == Enumerated(True)
    assert busy.hits["/"] == hits


@pytest.mark.parametrize(
    "path",
    ["/hop/9", "/type/text/markdown", "/type/application/json", "/type/application/octet-stream/readme.md"],
)
def test_redirects_up_to_the_limit_and_texts_of_every_kind_are_read(site: Site, path: str) -> None:
    event = one(path, site)
    assert isinstance(event, Fetched)
    assert event.final_url == (f"{site.base}/page" if path == "/hop/9" else site.base + path)
    assert (event.mime is None) == ("octet-stream" in path)


def test_a_missing_content_type_leaves_it_to_the_parser(site: Site) -> None:
    event = one("/untyped", site)
    assert isinstance(event, Fetched) and event.mime is None and event.charset is None


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/gzip", b"packed" * 50_000),
        ("/members", b"one two"),
        ("/zlib", b"packed"),
        ("/raw-deflate", b"packed"),
    ],
)
def test_content_encodings_are_undone(site: Site, path: str, data: bytes) -> None:
    event = one(path, site)
    assert isinstance(event, Fetched) and event.data == data


def test_nothing_listens_or_the_answer_is_not_http(site: Site) -> None:
    with socket.socket() as bound, socket.create_server(("127.0.0.1", 0)) as noise:
        # It is this test's and nobody listens on it.
        bound.bind(("127.0.0.1", 0))
        closed = bound.getsockname()[1]

        def talk() -> None:
            for _ in range(2):
                connection, _ = noise.accept()
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
                connection.close()

        threading.Thread(target=talk, daemon=True).start()
        port = noise.getsockname()[1]
        urls = [f"http://127.0.0.1:{closed}/", f"http://127.0.0.1:{port}/", f"https://127.0.0.1:{port}/"]
        by_path, end = crawl(source(urls=urls))
    assert [code(by_path[u]) for u in urls] == ["E_NETWORK"] * 3
    assert end.complete


def test_a_private_address_is_refused_before_any_connection(site: Site) -> None:
    before = sum(site.hits.values())
    by_path, _ = crawl(source(urls=[site.base + "/page"], allow_cidrs=[]))
    assert [code(e) for e in by_path.values()] == ["E_URL_BLOCKED"]
    assert sum(site.hits.values()) == before


def test_the_environments_proxy_is_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(one("/page", site), Fetched)


def test_the_connection_goes_to_the_address_that_was_checked(site: Site) -> None:
    """A name that is public when checked and private a moment later (rebinding) is asked for once per
    connection.
    """
    answers = iter([[ipaddress.ip_address("127.0.0.1")], [ipaddress.ip_address("10.0.0.1")]])
    asked: list[str] = []

    def resolver(host: str, port: int) -> Any:
        asked.append(host)
        return next(answers)

    entry = source(urls=[f"http://rebind.example:{site.port}/page"])
    events = list(WebConnector(entry, resolving(resolver, **FAST)).events({}, lambda _: False))
    assert isinstance(events[0], Fetched) and asked == ["rebind.example"]
    assert [h["host"] for p, h in site.headers if "rebind" in h["host"]] == [f"rebind.example:{site.port}"]
    events = list(WebConnector(entry, resolving(resolver, **FAST)).events({}, lambda _: False))
    assert code(events[0]) == "E_URL_BLOCKED"


def test_one_private_address_among_public_ones_is_refused() -> None:
    def resolver(host: str, port: int) -> Any:
        return [ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address("192.168.1.1")]

    entry = source(urls=["http://mixed.example/"])
    events = list(WebConnector(entry, resolving(resolver, **FAST)).events({}, lambda _: False))
    assert code(events[0]) == "E_URL_BLOCKED"


def test_tls_is_verified_for_the_name_while_the_connection_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_names: list[str | None] = []
    context = certificate(tmp_path, "docs.example")
    context.sni_callback = lambda _socket, name, _context: server_names.append(name)
    loopback = [ipaddress.ip_address("127.0.0.1")]

    def fetch(host: str) -> Event:
        entry = source(urls=[f"https://{host}:{tls.port}/"])
        access = resolving(lambda *_: loopback, **FAST)
        return next(WebConnector(entry, access).events({}, lambda _: False))

    with serve(lambda h: send(h, 200, b"private", **HTML), context) as tls:
        stranger = fetch("docs.example")
        assert (
            code(stranger) == "E_NETWORK"
            and isinstance(stranger, Failed)
            and "certificate" in stranger.error.message
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        page = fetch("docs.example")
        assert isinstance(page, Fetched) and page.data == b"private"
        assert code(fetch("other.example")) == "E_NETWORK"
    assert server_names == ["docs.example", "docs.example", "other.example"]


def test_any_answer_is_an_event_and_no_other_error() -> None:
    """A server of arbitrary bytes: the property runs the whole connector on each."""
    reply = b""

    def talk(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(reply)

    heads = st.sampled_from(
        [
            b"",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            b"HTTP/1.1 302 Found\r\nLocation: ",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 429 Slow\r\nRetry-After: ",
            b"HTTP/1.1 200 OK\r\nContent-Length: ",
            b"HTTP/1.1 ",
        ]
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=talk, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        @hypothesis.settings(max_examples=50, deadline=None)
        @hypothesis.given(heads, st.binary(max_size=60), st.sampled_from([b"", b"\r\n\r\n", b"\r\n\r\nbody"]))
        def check(head: bytes, body: bytes, tail: bytes) -> None:
            nonlocal reply
            reply = head + body + tail
            by_path, end = crawl(source(urls=[url]), max_redirects=2)
            assert list(by_path) == [url] and end.complete

        check()


def test_bad_urls_are_named_by_position_and_keep_their_secrets(site: Site) -> None:
    by_path, end = crawl(
        source(
            urls=[
                "http://user:hunter2@host/",
                "http://[::",
                "ftp://host/",
                "http://a b/",
                site.base + "/page",
            ]
        )
    )
    assert [code(by_path[f"urls[{i}]"]) for i in range(4)] == ["E_URL_BAD"] * 4
    assert isinstance(by_path[site.base + "/page"], Fetched)
    assert "hunter2" not in repr(by_path) and end.complete


def test_tombstoned_pages_are_not_fetched(site: Site) -> None:
    url = f"{site.base}/page/deleted"
    by_path, end = crawl(source(urls=[url]), tombstones=(url,))
    assert code(by_path[url]) == "E_TOMBSTONED" and end.complete
    assert site.hits["/page/deleted"] == 0


def test_globs_leave_out_and_max_pages_skips_what_lies_beyond(site: Site) -> None:
    urls = [f"{site.base}/page/{n}" for n in ("a/1", "a/2", "b/1", "c/1", "c/2")]
    by_path, end = crawl(
        source(urls=urls, include=["/page/a/**", f"{site.base}/page/c/*"], exclude=["2"], max_pages=1)
    )
    assert {p.removeprefix(site.base): type(e) for p, e in by_path.items()} == {
        "/page/a/1": Fetched,
        "/page/c/1": Skipped,
    }
    assert end.complete


def test_events_come_as_pages_answer_and_a_host_sees_two_requests_at_most(site: Site) -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        time.sleep(0.05 if h.path.endswith("0") else 0.01)
        send(h, 200, h.path.encode(), **HTML)

    with serve(answer) as other:
        urls = [f"{other.base}/{n}" for n in range(30, 0, -1)]
        access = Access.of(Settings(http=HttpSettings(max_concurrency=8)), Path())
        events = list(open_connector(source(urls=urls), access).events({}, lambda _: False))
        paths = [e.path for e in events if isinstance(e, Fetched)]
        assert sorted(paths) == sorted(urls)
        # The slow first page keeps nobody waiting.
        assert paths != sorted(urls)
        assert other.most == 2


def test_a_consumer_that_stops_leaves_nothing_running() -> None:
    with serve(lambda h: send(h, 200, b"x", **HTML)) as other:
        entry = source(urls=[f"{other.base}/{n}" for n in range(100)])
        access = Access.of(Settings(http=HttpSettings(max_concurrency=4)), Path())
        stream = open_connector(entry, access).events({}, lambda _: False)
        next(stream)
        stream.close()
        assert sum(other.hits.values()) <= 5
        assert not [t for t in threading.enumerate() if t.name.startswith("taboot-web")]


# --- sitemaps over HTTP -------------------------------------------------------------------------------------


def _folder(h: BaseHTTPRequestHandler) -> None:
    """The real ingress-nginx site under its own path, the host of its sitemap rewritten."""
    root = DATA / "site-ingress-nginx" / "site"
    path = h.path.removeprefix("/ingress-nginx").partition("?")[0]
    base = base_of(h)
    sitemap = (root / "sitemap.xml").read_bytes().replace(b"https://kubernetes.github.io", base.encode())
    if path == "/sitemap.xml":
        send(h, 200, sitemap, content_type="application/xml")
    elif path == "/sitemap.xml.gz":
        send(h, 200, gzip.compress(sitemap), content_type="application/gzip")
    elif path == "/index.xml":
        entries = "".join(
            f"<sitemap><loc>{base}/ingress-nginx/{n}</loc></sitemap>"
            for n in ("sitemap.xml", "sitemap.xml.gz", "index.xml")
        )
        send(
            h,
            200,
            (
                f"<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</sitemapindex>"
            ).encode(),
        )
    elif path == "/bad-index.xml":
        send(
            h,
            200,
            (
                f"<sitemapindex><sitemap><loc>{base}/ingress-nginx/sitemap.xml</loc></sitemap>"
                "<sitemap><loc>/gone.xml</loc></sitemap></sitemapindex>"
            ).encode(),
        )
    else:
        file = root / path.strip("/") / "index.html" if path.endswith("/") else root / path.strip("/")
        if file.is_file():
            send(h, 200, file.read_bytes(), **HTML)
        else:
            send(h, 404)


@pytest.mark.parametrize("name", ["sitemap.xml", "sitemap.xml.gz", "index.xml"])
@pytest.mark.needs("data")
def test_a_real_site_is_read_whole_by_its_sitemap(name: str) -> None:
    with serve(_folder) as other:
        by_path, end = crawl(
            source(sitemaps=[f"{other.base}/ingress-nginx/{name}"]),
            read_timeout_seconds=10,
            total_timeout_seconds=20,
        )
        kinds = [type(e) for e in by_path.values()]
        assert kinds.count(Fetched) == len(kinds) == 63
        assert end == Enumerated(True)
        page = by_path[f"{other.base}/ingress-nginx/faq/"]
        assert isinstance(page, Fetched)
        assert page.data == (DATA / "site-ingress-nginx/site/faq/index.html").read_bytes()


@pytest.mark.needs("data")
def test_a_list_that_cannot_be_read_leaves_the_enumeration_incomplete() -> None:
    with serve(_folder) as other:
        base = f"{other.base}/ingress-nginx"
        by_path, end = crawl(
            source(sitemaps=[f"{base}/bad-index.xml"]), read_timeout_seconds=10, total_timeout_seconds=20
        )
        assert not end.complete and "gone.xml" in end.reason
        assert code(by_path[f"{other.base}/gone.xml#sitemap"]) == "E_NOT_FOUND"
        assert sum(isinstance(e, Fetched) for e in by_path.values()) == 63
        _, end = crawl(source(sitemaps=[f"{base}/faq/"], urls=[f"{base}/faq/"]))
        assert not end.complete


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'></urlset>",
        b"<urlset><url><loc>http://h/</loc></url>",
        b"<html><body>Not found, but 200</body></html>",
        b"<html><item><link>http://h/</link></item></html>",
        b"no url here",
        b"\x1f\x8bbroken",
        b"<sitemapindex><sitemap><loc>http://[</loc></sitemap></sitemapindex>",
    ],
)
def test_an_empty_or_broken_sitemap_is_a_failure_and_no_deletion(body: bytes) -> None:
    with serve(lambda h: send(h, 200, body)) as other:
        by_path, end = crawl(source(sitemaps=[f"{other.base}/sitemap.xml"]))
        assert not end.complete
        assert [type(e) for e in by_path.values()] == [Failed]


def test_a_sitemap_bomb_is_bounded() -> None:
    with serve(lambda h: send(h, 200, gzip.compress(b"<urlset>" + bytes(53_000_000)))) as other:
        by_path, end = crawl(
            source(sitemaps=[f"{other.base}/s.xml.gz"]), read_timeout_seconds=10, total_timeout_seconds=20
        )
        assert not end.complete and [code(e) for e in by_path.values()] == ["E_TOO_LARGE"]


def test_a_source_says_how_its_pages_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its headers go to the listed origin and nowhere else, also not by a redirect; robots.txt and the size
    of a page as it says.
    """
    monkeypatch.setenv("DOCS_TOKEN", "s3cret")

    def elsewhere(h: BaseHTTPRequestHandler) -> None:
        send(h, 200, b"<p>other", **HTML)

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/away":
            send(h, 302, location=f"{other.base}/there")
        else:
            send(h, 200, b"<p>" + b"x" * (5000 if h.path == "/large" else 5), **HTML)

    with serve(elsewhere) as other, serve(answer) as site:
        entry = source(
            urls=[site.base + path for path in ("/small", "/large", "/away")],
            headers={"Authorization": "Bearer ${DOCS_TOKEN}"},
            max_page_bytes=1000,
            respect_robots=False,
        )
        by_path, _ = crawl(entry)
    assert {path: type(event) for path, event in by_path.items()} == {
        f"{site.base}/small": Fetched,
        f"{site.base}/large": Skipped,
        f"{site.base}/away": Fetched,
    }
    assert code(by_path[f"{site.base}/large"]) == "E_TOO_LARGE"
    assert {h.get("authorization", h.get("Authorization")) for _, h in site.headers} == {"Bearer s3cret"}
    assert [{k.lower() for k in h} & {"authorization"} for _, h in other.headers] == [set()]
    assert "/robots.txt" not in site.hits


def test_documents_behind_links_are_read_or_stand_in_the_ledger() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        kinds = {
            "/manual.pdf": "application/pdf",
            "/plan.docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "/data.pdf": "application/octet-stream",
            "/old.doc": "application/msword",
            "/news.xml": "application/rss+xml",
        }
        if h.path in kinds:
            send(h, 200, b"%PDF-1.7 " + h.path.encode(), content_type=kinds[h.path])
        else:
            send(h, 200, "".join(f'<a href="{path}">x</a>' for path in [*kinds, "/x.zip"]).encode(), **HTML)

    with serve(answer) as site:
        found, end = crawl(source(urls=[f"{site.base}/"], max_depth=2))
    by_name = {path.removeprefix(site.base): event for path, event in found.items()}
    assert end.complete
    assert {name for name, event in by_name.items() if isinstance(event, Fetched)} == {
        *("/", "/manual.pdf", "/plan.docx", "/data.pdf")
    }
    assert {name: code(event) for name, event in by_name.items() if not isinstance(event, Fetched)} == {
        "/old.doc": "E_MIME",
        "/news.xml": "E_MIME",
    }


def test_markdown_is_asked_for_first_where_a_source_wants_it_and_its_links_are_followed() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        best = h.headers["Accept"].split(",")[0]
        name = h.path.strip("/") or "index"
        if best == "text/markdown":
            text = f"# {name}\n\n[Next](/next) and `[not](/code)`.\n"
            send(h, 200, text.encode(), content_type="text/markdown; charset=utf-8")
        else:
            send(h, 200, f"<h1>{name}</h1><a href=/next>Next</a>".encode(), **HTML)

    with serve(answer) as site:
        start = f"{site.base}/"
        plain, _ = crawl(source(urls=[start], max_depth=2))
        wanted, _ = crawl(source(urls=[start], max_depth=2, prefer_markdown=True))
    assert plain.keys() == wanted.keys() == {start, f"{site.base}/next"}
    for event in plain.values():
        assert isinstance(event, Fetched) and event.mime == "text/html"
    for event in wanted.values():
        assert isinstance(event, Fetched) and event.mime == "text/markdown" and event.data.startswith(b"# ")


def test_a_header_whose_secret_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCS_TOKEN", raising=False)
    with pytest.raises(TabootError) as caught:
        crawl(source(urls=["http://127.0.0.1:9/"], headers={"Authorization": "Bearer ${DOCS_TOKEN}"}))
    assert caught.value.code == "E_CONFIG" and "DOCS_TOKEN" in caught.value.message
