"""The common HTTP client: URLs, time limits, circuit breakers."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.server import Peer, ServerClient
from taboot_pipelines.inference.batching import gather
from taboot_pipelines.settings import TeiSettings
from taboot_pipelines.stores.state import circuit as breakers
from taboot_pipelines.stores.state.circuit import Circuit
from taboot_pipelines.stores.state.protocol import Lenient
from taboot_pipelines_tests.fakes.tei import FakeTei

PEER = Peer("The server", "TABOOT_TEI", "E_EMBEDDER", "E_LLM_TIMEOUT", max_answer=100_000)


def client(url: str, **given_) -> ServerClient:
    circuit = given_.pop("circuit", None)
    return ServerClient(
        PEER, TeiSettings(url=url, **{"max_retries": 0, **given_}), backoff_seconds=0.01, circuit=circuit
    )


class Breaker:
    """The circuit's part of the state protocol, in memory."""

    def __init__(self) -> None:
        self.failures = self.rest = self.asked = self.told = 0
        self.broken = False

    def circuit_open(self, namespace, name):
        self.asked += 1
        if self.broken:
            raise TabootError("E_REDIS", "Redis does not answer.")
        assert (namespace, name) == ("default", "tei")
        return self.rest

    def circuit_failed(self, namespace, name, *, rest_seconds):
        if self.broken:
            raise TabootError("E_REDIS", "Redis does not answer.")
        self.failures += 1
        self.rest = rest_seconds if self.failures >= 2 else 0

    def circuit_succeeded(self, namespace, name):
        if self.broken:
            raise TabootError("E_REDIS", "Redis does not answer.")
        self.told += 1
        self.failures = self.rest = 0


@pytest.fixture
def server():
    with FakeTei() as fake:
        yield fake


def test_a_server_that_failed_repeatedly_gets_its_rest(server, monkeypatch):
    monkeypatch.setattr(breakers, "_CHECK_SECONDS", 0.0)
    breaker = Breaker()
    asked = client(server.url, circuit=Circuit(Lenient(breaker), "tei", "default"))
    server.fail(503, times=2)
    for _ in range(2):
        with pytest.raises(TabootError, match="E_EMBEDDER"):
            asked.call("POST", "/embed", b'{"inputs": "a"}')
    with pytest.raises(TabootError, match="E_CIRCUIT_OPEN") as caught:
        asked.call("POST", "/embed", b'{"inputs": "a"}')
    assert server.requests == 2 and caught.value.details["setting"] == "TABOOT_TEI__URL"
    breaker.rest = 0  # half open: this caller may try, and closes it
    assert asked.call("POST", "/embed", b'{"inputs": "a"}').status == 200
    assert (breaker.failures, breaker.told) == (0, 1)


def test_what_the_caller_did_wrong_opens_no_circuit_and_success_is_cheap(server):
    breaker = Breaker()
    asked = client(server.url, circuit=Circuit(Lenient(breaker), "tei", "default"))
    for _ in range(20):
        assert asked.call("POST", "/embed", b"not json").status == 422
    assert (breaker.failures, breaker.asked, breaker.told) == (0, 1, 1)


def test_a_state_store_that_is_down_lets_requests_through(server):
    breaker = Breaker()
    breaker.broken = True
    asked = client(server.url, circuit=Circuit(Lenient(breaker), "tei", "default"))
    assert asked.call("GET", "/info").status == 200
    server.fail(500)
    with pytest.raises(TabootError, match="E_EMBEDDER"):
        asked.call("POST", "/embed", b"{}")


def test_a_header_that_never_ends_meets_the_time_limit(server):
    asked = client(server.url, timeout_seconds=0.4)
    server.corrupt("drip")
    begin = time.monotonic()
    with pytest.raises(TabootError, match="E_LLM_TIMEOUT"):
        asked.call("POST", "/embed", b'{"inputs": "a"}')
    assert time.monotonic() - begin < 50, "the header ends after a minute"


def test_a_deadline_is_kept_over_all_attempts(server):
    asked = client(server.url, max_retries=1000, timeout_seconds=60)
    server.fail(503, times=1000)
    begin = time.monotonic()
    with pytest.raises(TabootError):
        asked.call("POST", "/embed", b"{}", deadline=begin + 2)
    assert time.monotonic() - begin < 50 and 1 < server.requests < 1000


def test_a_body_larger_than_the_limit_is_refused(server):
    server.corrupt("huge")
    with pytest.raises(TabootError, match="exceeds 100000 bytes"):
        client(server.url).call("POST", "/embed", b"{}")


def test_it_works_again_after_close_and_in_many_threads(server):
    asked = client(server.url, max_concurrency=2)
    assert asked.call("GET", "/info").status == 200
    asked.close()
    statuses: list[int] = []

    def work() -> None:
        for _ in range(20):
            with asked.slots:
                statuses.append(asked.call("GET", "/info").status)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 120
    asked.close()


def test_a_proxy_of_the_environment_is_used_unless_excepted(server, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(TabootError, match="could not be reached"):
            client(server.url).call("GET", "/info")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert client(server.url).call("GET", "/info").status == 200


@pytest.mark.parametrize(
    ("url", "path", "host"),
    [
        ("http://gpu.lan:8080", "", "gpu.lan:8080"),
        ("HTTPS://gpu.lan/tei/", "/tei", "gpu.lan"),
        ("http://[::1]:80/v1", "/v1", "[::1]"),
        ("http://user:p%40ss@h:81/a/b", "/a/b", "h:81"),
        (" http://bücher.example ", "", "xn--bcher-kva.example"),
    ],
)
def test_urls_of_servers(url, path, host):
    made = client(url)
    assert made.path == path and httpx.Request("GET", made.base_url).headers["host"] == host
    assert ("user:" in url) == (made.headers.get("authorization") == "Basic dXNlcjpwQHNz")


@given(st.text(max_size=40) | st.text(max_size=30).map("http://".__add__), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_url_and_key_make_a_client_or_are_refused_by_name(url, key):
    try:
        client(url, api_key=SecretStr(key))
    except TabootError as error:
        assert error.code == "E_CONFIG" and error.details["settings"][0].startswith("TABOOT_TEI__")


def test_gather_raises_the_first_failure_and_stops_the_others():
    seen: list[int] = []

    def work(start: int, end: int, stop: threading.Event) -> None:
        seen.append(start)
        if start == 0:
            raise TabootError("E_EMBEDDER", "first")
        assert stop.wait(60)

    begin = time.monotonic()
    with pytest.raises(TabootError, match="first"):
        gather(100, 1, 4, work)
    assert time.monotonic() - begin < 50 and len(seen) < 10
    gather(0, 8, 4, work)
