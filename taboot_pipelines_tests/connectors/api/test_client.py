"""Requests to an API on a real server: limits, retries, waits, redirects, and what no error may tell."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import canonical, item, version_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.throttling import seconds_to_wait
from taboot_pipelines.model.records import Fetched, Known, NotModified
from taboot_pipelines.model.waiting import observed
from taboot_pipelines_tests.connectors.servers import Site, base_of, send, serve

TOKEN = "swordfish-token"


def client(site: Site | str, **changed: object) -> ApiClient:
    base = site if isinstance(site, str) else site.base
    limits = Limits(**{"backoff_seconds": 0.01, "timeout_seconds": 5.0, **changed})
    return ApiClient(
        "The fake", base, authorize=lambda _: {"authorization": f"Bearer {TOKEN}"}, limits=limits
    )


def code_of(ask: ApiClient, path: str = "/x?key=swordfish") -> TabootError:
    with pytest.raises(TabootError) as caught:
        ask.get(path)
    assert "swordfish" not in str(caught.value) + repr(caught.value.details)
    return caught.value


def test_an_answer_with_its_validator_and_a_conditional_request() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        assert h.headers["authorization"] == f"Bearer {TOKEN}"
        if h.headers["if-none-match"] == '"a"':
            send(h, 304, etag='"a"')
        else:
            send(h, 200, gzip.compress(b'{"a": 1}', mtime=0), etag='"a"', content_encoding="gzip")

    with serve(answer) as site, client(site) as ask:
        first = ask.get("/things", {"page": 1})
        assert first.json() == {"a": 1} and first.etag == '"a"'
        assert ask.get("/things", etag=first.etag).not_modified
        assert ask.requests == 2


@pytest.mark.parametrize(
    ("status", "code"), [(401, "E_CREDENTIALS"), (403, "E_FORBIDDEN"), (400, "E_API"), (451, "E_API")]
)
def test_what_will_not_pass_is_asked_once(status: int, code: str) -> None:
    with serve(lambda h: send(h, status, b"swordfish")) as site, client(site) as ask:
        assert code_of(ask).code == code
        assert ask.requests == (2 if status == 401 else 1), "credentials are renewed once"


def test_what_is_not_there_is_an_answer() -> None:
    with serve(lambda h: send(h, 410 if "old" in h.path else 404)) as site, client(site) as ask:
        assert ask.get("/x").gone and ask.get("/old").gone


def test_what_may_pass_is_asked_again_and_a_storm_ends_the_run() -> None:
    failing = iter([500, 502])

    def answer(h: BaseHTTPRequestHandler) -> None:
        send(h, next(failing, 200), b"{}")

    told: list[str] = []
    with serve(answer) as site, client(site) as ask, observed(lambda what, _: told.append(what)):
        assert ask.get("/x").json() == {} and ask.requests == 3
    assert [what.partition(", which ")[2] for what in told if what] == ["failed (E_5XX_ORIGIN)"] * 2
    with serve(lambda h: send(h, 503)) as site, client(site) as ask:
        codes = [code_of(ask).code for _ in range(7)]
        assert codes == ["E_5XX_ORIGIN"] * 5 + ["E_CIRCUIT_OPEN"] * 2 and ask.requests == 20


@pytest.mark.parametrize("headers", [{"retry_after": "0.3"}, {"x_ratelimit_remaining": "0"}])
def test_a_service_is_left_alone_as_long_as_it_says(headers: dict[str, str]) -> None:
    refused = []

    def answer(h: BaseHTTPRequestHandler) -> None:
        if not refused:
            refused.append(time.monotonic())
            reset = {"x_ratelimit_reset": str(int(time.time()) + 2)}
            send(h, 403, b"", **headers, **(reset if "x_ratelimit_remaining" in headers else {}))
        else:
            refused.append(time.monotonic())
            send(h, 200, b"[]")

    told: list[tuple[str, float]] = []
    with serve(answer) as site, client(site) as ask, observed(lambda *wait: told.append(wait)):
        assert ask.get("/x").json() == []
    assert 0.25 <= refused[1] - refused[0] < 30
    (what, seconds), over = told
    assert what.endswith(", which asks for fewer requests") and seconds > 0 and over == ("", 0.0)


def test_waits_are_bounded_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with serve(lambda h: send(h, 429, retry_after="0.02")) as site:
        with client(site, max_wait_seconds=0.5) as ask, caplog.at_level(logging.WARNING):
            assert code_of(ask).code == "E_429_RATE"
        assert 3 <= ask.requests <= 50 and "asks for fewer requests" in caplog.text
        with client(site, max_wait_seconds=1e9) as ask:
            assert code_of(ask).code == "E_429_RATE", "whoever always says `at once` is not asked for ever"
    with serve(lambda h: send(h, 429, retry_after="86400")) as site, client(site) as ask:
        assert code_of(ask).code == "E_429_RATE" and ask.requests == 1


def test_the_budget_of_requests() -> None:
    with serve(lambda h: send(h, 200, b"{}")) as site, client(site, max_requests=2) as ask:
        ask.get("/1"), ask.get("/2")
        error = code_of(ask)
        assert error.code == "E_REQUESTS" and "max_requests" in error.remedy and sum(site.hits.values()) == 2


def test_redirects_stay_with_the_service() -> None:
    with serve(lambda h: send(h, 200, b"{}")) as other:

        def answer(h: BaseHTTPRequestHandler) -> None:
            where = {"/old": "/new", "/round": "/round", "/away": f"{other.base}/new"}.get(h.path)
            send(h, 301, location=where) if where else send(h, 200, b'"new"')

        with serve(answer) as site, client(site) as ask:
            moved = ask.get("/old")
            assert moved.json() == "new" and moved.url.endswith("/new")
            for path in ("/round", "/away", f"{other.base}/new"):
                assert code_of(ask, path).code == "E_REDIRECT"
        assert not other.hits, "nothing was sent there, the token least of all"


@pytest.mark.parametrize(
    "body", [b"<!DOCTYPE html><p>swordfish", b'{"a": [1, 2', b"\xff\xfe\x00", b"", b"[" * 100_000]
)
def test_what_is_no_json_is_told(body: bytes) -> None:
    with serve(lambda h: send(h, 200, body)) as site, client(site) as ask:
        with pytest.raises(TabootError, match="E_API") as caught:
            ask.get("/x?key=swordfish").json()
        assert "swordfish" not in str(caught.value)


def test_an_answer_that_breaks_off_drips_or_swells() -> None:
    bomb = gzip.compress(bytes(50_000_000), 1, mtime=0)

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path == "/short":
            h.send_response(200)
            h.send_header("content-length", "1000")
            h.end_headers()
            h.wfile.write(b"{")
            h.close_connection = True
        elif h.path == "/bomb":
            send(h, 200, bomb, content_encoding="gzip")
        elif h.path == "/odd":
            send(h, 200, b"not packed", content_encoding="gzip")
        else:
            h.send_response(200)
            h.end_headers()
            for _ in range(100):
                try:
                    h.wfile.write(b" ")
                    time.sleep(0.05)
                except OSError:
                    return

    with serve(answer) as site:
        with client(site, max_answer_bytes=1_000_000) as ask:
            assert code_of(ask, "/short").code == "E_NETWORK"
            assert code_of(ask, "/bomb").code == "E_TOO_LARGE"
            assert code_of(ask, "/odd").code == "E_API"
        with client(site, timeout_seconds=0.4) as ask:
            assert code_of(ask, "/drip").code == "E_TIMEOUT"
    with client("http://127.0.0.1:9") as ask:
        assert code_of(ask).code == "E_NETWORK"


def test_pages_follow_links_and_come_to_an_end() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        page = int(h.path.rpartition("=")[2])
        to = {1: 2, 2: 3, 7: 8, 8: 7}.get(page)
        link = f'<{base_of(h)}/l?page={to}>; a="x, y"; rel="next", </>; rel=last'
        send(h, 200, json.dumps(page).encode(), **({"link": link} if to else {}))

    with serve(answer) as site, client(site) as ask:
        assert [p.json() for p in ask.pages("/l", {"page": 1})] == [1, 2, 3]
        with pytest.raises(TabootError, match="does not end"):
            list(ask.pages("/l", {"page": 7}))


def test_many_at_once_come_in_order_and_one_that_fails_stops_no_other() -> None:
    most = []

    def answer(h: BaseHTTPRequestHandler) -> None:
        most.append(threading.active_count())
        send(h, 404 if h.path == "/7" else 400 if h.path == "/9" else 200, h.path[1:].encode())

    with serve(answer) as site, client(site) as ask:
        answers = list(ask.get_each((f"/{n}", {}) for n in range(40)))
        assert [a.json() if not isinstance(a, TabootError) and not a.gone else None for a in answers] == [
            None if n in (7, 9) else n for n in range(40)
        ]
        assert isinstance(answers[9], TabootError) and site.most <= 4


def test_who_wants_no_more_of_many_waits_for_none_of_them() -> None:
    """The garbage collector may end what nobody reads on in a thread that must not join another."""
    over = threading.Event()

    def answer(h: BaseHTTPRequestHandler) -> None:
        if h.path != "/0":
            over.wait(60)
        send(h, 200, b"0")

    with serve(answer) as site, client(site) as ask:
        answers = ask.get_each((f"/{n}", {}) for n in range(8))
        next(answers)
        answers.close()
        assert not over.is_set() and any(t.name.startswith("api_") for t in threading.enumerate())
        over.set()


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://u:p@h", "http://h/?key=1", "x"])
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(TabootError, match="E_CONFIG"):
        ApiClient("The fake", url)


def test_when_a_service_says_that_it_was_asked_too_often() -> None:
    assert seconds_to_wait(200, {"retry-after": "5"}) is None
    assert seconds_to_wait(403, {}) is None
    assert seconds_to_wait(429, {}) == 60
    assert seconds_to_wait(429, {"retry-after": "7"}) == 7
    date = {"date": "Mon, 23 Nov 2026 10:00:00 GMT"}
    assert seconds_to_wait(429, {"retry-after": "Mon, 23 Nov 2026 10:02:00 GMT", **date}) == 120
    left = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795428090", **date}
    assert seconds_to_wait(403, left) == pytest.approx(90, abs=1)
    assert seconds_to_wait(403, {**left, "x-ratelimit-remaining": "10"}) is None
    assert (
        seconds_to_wait(429, {"retry-after": "soon"}) == 60
        and seconds_to_wait(429, {"retry-after": "nan"}) == 60
    )


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["a", "seen", "é"]), v, max_size=3),
)


@given(values, values)
def test_the_same_content_is_the_same_bytes_and_volatile_members_make_no_version(
    a: object, b: object
) -> None:
    assert json.loads(canonical(a)) == json.loads(json.dumps(a))
    assert (canonical(a) == canonical(b)) == (version_of(a) == version_of(b))
    one, other = {"name": a, "seen": 1}, {"seen": 2, "name": a}
    assert version_of(one, {"seen"}) == version_of(other, {"seen"}) and version_of(one) != version_of(other)


def test_a_known_version_is_not_stored_again() -> None:
    first = item({}, "d/1.json", {"a": 1, "seen": 1}, volatile=("seen",))
    assert isinstance(first, Fetched) and first.etag is not None
    known = {"d/1.json": Known("0" * 64, first.etag)}
    assert item(known, "d/1.json", {"a": 1, "seen": 9}, volatile=("seen",)) == NotModified("d/1.json")
    assert isinstance(item(known, "d/1.json", {"a": 2, "seen": 1}, volatile=("seen",)), Fetched)
    damaged = {"d/1.json": Known("0" * 64, first.etag, whole=False)}
    assert isinstance(item(damaged, "d/1.json", {"a": 1}, volatile=("seen",)), Fetched)


def test_headers_that_never_end_meet_the_time_limit() -> None:
    def answer(h: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            h.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
            for _ in range(1200):
                h.wfile.write(b"a")
                h.wfile.flush()
                time.sleep(0.05)

    begin = time.monotonic()
    with serve(answer) as site, client(site, timeout_seconds=0.3) as ask:
        assert code_of(ask).code == "E_TIMEOUT"
        assert time.monotonic() - begin < 50, "the headers end after a minute"
