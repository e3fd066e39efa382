"""Pages by a Crawl4AI service: a fake that speaks its API, and sites on loopback."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.captures import Capture
from taboot_pipelines.crawl.crawl4ai import Crawl4Ai
from taboot_pipelines.crawl.proxies import Proxy
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Crawl4AiSettings
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.crawl.rendered import LOOPBACK, answers, error, page, request
from taboot_pipelines_tests.fakes.crawl4ai import FakeCrawl4Ai


def site(h: BaseHTTPRequestHandler) -> None:
    if h.path == "/":
        send(h, 200, b"<p>Home</p>", content_type="text/html; charset=iso-8859-1", etag='"1"')
    elif h.path == "/moved":
        send(h, 301, location="/")
    else:
        send(h, 404)


@pytest.fixture
def pages() -> Iterator[Site]:
    with serve(site) as found:
        yield found


@pytest.fixture
def service() -> Iterator[FakeCrawl4Ai]:
    with FakeCrawl4Ai(api_key="key") as fake:
        yield fake


@pytest.fixture
def client(service: FakeCrawl4Ai) -> Iterator[Crawl4Ai]:
    with closing(Crawl4Ai(_settings(service), LOOPBACK)) as made:
        yield made


def _settings(service: FakeCrawl4Ai, key: str = "key") -> Crawl4AiSettings:
    return Crawl4AiSettings(url=service.url, api_key=SecretStr(key), timeout_seconds=5)


def test_pages_come_as_the_service_rendered_them(
    client: Crawl4Ai, service: FakeCrawl4Ai, pages: Site
) -> None:
    service.render = lambda html: f"<!doctype html>{html}<p>drawn by a script: ü</p>"
    replies = answers(client, *(request(f"{pages.base}/?{i}" if i else f"{pages.base}/") for i in range(5)))
    assert [getattr(r, "status", r) for r in replies] == [200, 404, 404, 404, 404]
    reply = page(client, f"{pages.base}/")
    assert reply.body.decode() == "<!doctype html><p>Home</p><p>drawn by a script: ü</p>"
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "etag" not in reply.headers
    assert reply.address == "127.0.0.1"
    assert service.requests[-1] == {
        "urls": [f"{pages.base}/"],
        "browser_config": {
            "type": "BrowserConfig",
            "params": {"headless": True, "user_agent": "taboot-test"},
        },
        "crawler_config": {
            "type": "CrawlerRunConfig",
            "params": {
                "cache_mode": {"type": "CacheMode", "params": "bypass"},
                "page_timeout": 5000,
                "wait_until": "load",
                "stream": False,
            },
        },
    }


def test_a_redirect_is_handed_back(client: Crawl4Ai, pages: Site) -> None:
    reply = page(client, f"{pages.base}/moved")
    assert (reply.status, reply.headers, reply.body) == (301, {"location": f"{pages.base}/"}, b"")


def test_no_blocked_address_is_handed_over_nor_used(service: FakeCrawl4Ai, pages: Site) -> None:
    def inside(h: BaseHTTPRequestHandler) -> None:
        send(h, 302, location=f"http://localhost:{pages.port}/")

    def resolver(host: str, port: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.2" if host == "127.0.0.1" else "127.0.0.1")]

    allowed = [ipaddress.ip_network("127.0.0.2/32")]
    with serve(inside) as door, closing(Crawl4Ai(_settings(service), allowed, resolver=resolver)) as client:
        assert error(client, f"http://localhost:{pages.port}/").code == "E_URL_BLOCKED"
        assert not service.requests
        assert error(client, f"{door.base}/").code == "E_URL_BLOCKED"
        assert len(service.requests) == 1


def test_what_a_page_cannot_be_asked_with_is_an_error(
    client: Crawl4Ai, service: FakeCrawl4Ai, pages: Site
) -> None:
    assert error(client, f"{pages.base}/", headers=(("Authorization", "secret"),)).code == "E_CONFIG"
    assert error(client, f"{pages.base}/", proxy=Proxy("http", "127.0.0.1", 9)).code == "E_CONFIG"
    assert not service.requests
    reply = page(client, f"{pages.base}/", capture=Capture(pdf=True))
    assert [(c.kind, getattr(c.data, "code", "")) for c in reply.captured] == [("pdf", "E_CONFIG")]


def test_bounds_hold(client: Crawl4Ai, pages: Site) -> None:
    assert error(client, f"{pages.base}/", max_bytes=5).code == "E_TOO_LARGE"
    assert page(client, f"{pages.base}/", max_bytes=5, cut=True).body == b"<p>Ho"

    def admit(headers: dict[str, str], url: str) -> None:
        assert headers["content-type"].startswith("text/html")
        raise TabootError("E_MIME", "not wanted")

    assert error(client, f"{pages.base}/", admit=admit).code == "E_MIME"


@pytest.mark.parametrize(
    ("status", "body", "again"),
    [
        (500, b'{"detail": "secret words"}', True),
        (429, b"", True),
        (401, b"", False),
        (400, b"", False),
        (200, b"no JSON", None),
        (200, b'{"success": true, "results": []}', None),
        (200, b'{"results": [{"html": 5}]}', None),
    ],
)
def test_what_is_wrong_with_the_service_is_said_of_it(
    client: Crawl4Ai, service: FakeCrawl4Ai, pages: Site, status: int, body: bytes, again: bool | None
) -> None:
    service.answer(status, body)
    found = error(client, f"{pages.base}/")
    assert found.code == "E_BROWSER"
    assert "secret words" not in str(found)
    if again is not None:
        assert (found.details.get("again"), found.details["proxy"]) == (again, "Crawl4AI")
    assert page(client, f"{pages.base}/").status == 200


def test_an_unreachable_service_page_or_name(service: FakeCrawl4Ai) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with closing(Crawl4Ai(Crawl4AiSettings(url=f"http://127.0.0.1:{port}"), LOOPBACK)) as client:
        found = error(client, "http://127.0.0.1/")
        assert (found.code, found.details["again"], found.details["proxy"]) == ("E_BROWSER", True, "Crawl4AI")
    with closing(Crawl4Ai(_settings(service, "wrong"), LOOPBACK)) as client:
        assert "TABOOT_CRAWL4AI__API_KEY" in error(client, "http://127.0.0.1/").remedy
    with closing(Crawl4Ai(_settings(service), LOOPBACK)) as client:
        assert error(client, f"http://127.0.0.1:{port}/").code == "E_NETWORK"
        assert error(client, "http://no-such-name.invalid/").code == "E_NETWORK"
    with pytest.raises(TabootError) as refused:
        Crawl4Ai(Crawl4AiSettings(url="ftp://x"), [])
    assert refused.value.code == "E_CONFIG"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ("success", "html", "status_code", "redirected_url", "response_headers", "error_message")
        ),
        _JSON,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_is_a_reply_or_a_code(
    client: Crawl4Ai, service: FakeCrawl4Ai, pages: Site, result: dict[str, object]
) -> None:
    service.answer(200, orjson.dumps({"success": True, "results": [result]}))
    (reply,) = answers(client, request(f"{pages.base}/"))
    if not isinstance(reply, TabootError):
        assert isinstance(reply.status, int)
        assert isinstance(reply.body, bytes)
