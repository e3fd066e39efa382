"""Who may ask, under which name, and what the answer lets a page do."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from taboot_pipelines.browse.guard import HEADERS, Guard

TOKEN = "tT0-ken_" * 5
ONCE = "0nce-" * 8


def client(host: str = "127.0.0.1:8300") -> TestClient:
    async def page(_request: object) -> PlainTextResponse:
        return PlainTextResponse("inside")

    app = Guard(Starlette(routes=[Route("/{rest:path}", page, methods=["GET", "POST"])]), TOKEN, ONCE, 8300)
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False)


def test_whoever_watches_it_hears_that_it_runs_and_no_more() -> None:
    answer = client().get("/health")
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert client("evil.example").get("/health").status_code == 421
    assert client().get("/health/x").status_code == 403


def test_prometheus_comes_in_by_a_header_and_no_further_than_its_page() -> None:
    c, given = client(), {"authorization": f"Bearer {TOKEN}"}
    assert c.get("/metrics", headers=given).text == "inside"
    for wrong in ({}, {"authorization": f"Bearer {ONCE}"}, {"authorization": TOKEN}):
        assert c.get("/metrics", headers=wrong).status_code == 403
    assert c.get("/", headers=given).status_code == 403
    assert client("evil.example").get("/metrics", headers=given).status_code == 421


def test_the_other_token_opens_once() -> None:
    c = client()
    opened = c.get(f"/?token={ONCE}")
    assert opened.status_code == 303 and opened.headers["location"] == "/"
    assert ONCE not in opened.headers["set-cookie"]
    assert c.get("/").text == "inside"
    c.cookies.clear()
    assert c.get(f"/?token={ONCE}").status_code == 403
    assert c.get("/", headers={"cookie": f"taboot-8300={ONCE}"}).status_code == 403
    assert c.get(f"/?token={TOKEN}").status_code == 303


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    c = client()
    opened = c.get(f"/search?q=a+b%26c&token={TOKEN}&tag=x")
    assert opened.status_code == 303 and opened.headers["location"] == "/search?q=a+b%26c&tag=x"
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(f"taboot-8300={TOKEN};")
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and "Path=/" in cookie
    assert "domain" not in cookie.lower()
    assert c.get("/search?q=a").text == "inside"


@pytest.mark.parametrize(
    "path",
    ["/", "/search?q=a", "/static/style.css", f"/?token={TOKEN[:-1]}", "/?token=", f"/?token={TOKEN}&token=x",
     "/?token=%F0%9F%98%80", f"/?TOKEN={TOKEN}"],
)  # fmt: skip
def test_without_the_token_nothing_is_told(path: str) -> None:
    answer = client().get(path)
    assert answer.status_code == 403 and "inside" not in answer.text
    assert TOKEN not in answer.text and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "cookie",
    ["", "taboot-8300=", f"taboot-8300={TOKEN}x", f"taboot-8301={TOKEN}", f"token={TOKEN}", "taboot-8300=é",
     f'taboot-8300="{TOKEN[:-1]}"', ";;;=", "taboot-8300"],
)  # fmt: skip
def test_another_cookie_does_not_open(cookie: str) -> None:
    assert client().get("/", headers={"cookie": cookie.encode("utf-8")}).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", "localhost.evil.example",
     "192.168.1.4:8300",
     "0.0.0.0:8300", "127.0.0.1@evil.example", "evil.example@127.0.0.1", "localhost:99999999", "127.0.0.1/x",
     "[::ffff:8.8.8.8]", "", "127.0.0.1 evil", "localhost#x"],
)  # fmt: skip
def test_another_name_of_this_machine_is_refused(host: str) -> None:
    c = client()
    answer = c.get(f"/?token={TOKEN}", headers={"host": host})
    assert answer.status_code == 421 and "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:8300", "localhost", "localhost:9000", "LOCALHOST", "[::1]:8300"])
def test_names_of_loopback_do(host: str) -> None:
    assert client().get(f"/?token={TOKEN}", headers={"host": host}).status_code == 303


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method: str) -> None:
    c = client()
    assert c.request(method, "/").status_code == 403
    c.get(f"/?token={TOKEN}")
    assert c.request(method, "/").status_code == 405
    assert c.head("/").status_code == 200


def test_an_address_that_leads_elsewhere_is_none() -> None:
    """``//evil.example`` would be another host to a browser that is sent there."""
    for path in ("//evil.example/x", "/\\evil.example", "//evil.example"):
        answer = client().get(f"http://127.0.0.1:8300{path}?token={TOKEN}")
        location = answer.headers["location"]
        assert answer.status_code == 303 and location.startswith("/") and location[1:2] not in ("/", "\\")


def test_every_answer_has_the_headers() -> None:
    c = client()
    for answer in (
        c.get("/"),
        c.get("/", headers={"host": "evil.example"}),
        c.get(f"/?token={TOKEN}"),
        c.get("/"),
        c.post("/"),
    ):
        assert {k: answer.headers[k] for k in HEADERS} == HEADERS
        assert answer.headers["cache-control"] == "no-store"
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy and "*" not in policy and "http:" not in policy and "data:" not in policy
    for rule in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        assert rule in policy


def test_no_websocket_is_opened() -> None:
    c = client()
    c.get(f"/?token={TOKEN}")
    with pytest.raises(Exception) as closed, c.websocket_connect("/"):
        pass
    assert getattr(closed.value, "code", None) == 1008
