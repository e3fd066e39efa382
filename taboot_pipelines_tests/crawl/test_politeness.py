"""Hosts are asked no faster than allowed, and left alone once they fail; a state that is away changes neither
the pages nor their order.
"""

from __future__ import annotations

import http.server
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.crawl import domains as module
from taboot_pipelines.crawl.curl import CurlClient
from taboot_pipelines.crawl.fetching import Fetching
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings, Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.crawl.passing import Passing
from taboot_pipelines_tests.world import World

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    yield open_state(load_settings(), catalog)
    catalog.close()


def fetcher(state: State, namespace: str = "n", *, settings: Mapping[str, Any] | None = None) -> Fetching:
    once = {"total_timeout_seconds": 60, "rate_limit_rps": 0, "retry_seconds": ()}
    http_ = HttpSettings(**{**once, **(settings or {})})
    return Fetching(
        CurlClient(LOOPBACK), http_, max_bytes=1000, politeness=Politeness(Lenient(state), namespace, http_)
    )


def answering(
    statuses: Mapping[str, int] | Callable[[str], int],
) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        said = statuses(request.path) if callable(statuses) else statuses[request.path]
        if said == 0:
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
        elif said == 302:
            send(request, 302, location="/ok")
        else:
            send(request, said, b"x")

    return handle


def codes(fetch: Fetching, urls: list[str]) -> list[str]:
    """What becomes of ``urls``, asked for one after the other."""
    found = []
    for url in urls:
        try:
            fetch.get(parse_url(url))
            found.append("ok")
        except TabootError as error:
            found.append(error.code)
    return found


def together(fetch: Fetching, urls: list[str]) -> list[str]:
    """What becomes of ``urls``, started at once, in their order."""
    for ticket, url in enumerate(urls):
        fetch.start(ticket, parse_url(url))
    found: dict[int, str] = {}
    while fetch.in_flight:
        for ticket, result in fetch.finished(1):
            found[ticket] = result.code if isinstance(result, TabootError) else "ok"
    return [found[ticket] for ticket in range(len(urls))]


def test_runs_together_ask_a_host_no_faster_than_allowed(state: State) -> None:
    with serve(answering(lambda _: 200)) as site:
        start, limits = time.monotonic(), {"rate_limit_rps": 20, "rate_limit_burst": 5}
        with (
            fetcher(state, settings=limits) as one,
            fetcher(state, settings=limits) as two,
            ThreadPoolExecutor(2) as pool,
        ):
            done = [*pool.map(together, (one, two), ([f"{site.base}/{i}" for i in range(n)] for n in (9, 8)))]
        elapsed = time.monotonic() - start
    assert done == [["ok"] * 9, ["ok"] * 8]
    assert 5 + 20 * elapsed >= 17, "12 requests beyond the burst of 5 take 0.6 s"


def test_hosts_and_namespaces_have_their_own_buckets(state: State) -> None:
    with serve(answering(lambda _: 200)) as site, serve(answering(lambda _: 200)) as other:
        slow = {"rate_limit_rps": 0.001, "rate_limit_burst": 1}
        with fetcher(state, settings=slow) as one, fetcher(state, "m", settings=slow) as two:
            begun = time.monotonic()
            assert codes(one, [f"{site.base}/", f"{other.base}/"]) == ["ok", "ok"]
            assert codes(two, [f"{site.base}/"]) == ["ok"]
            assert time.monotonic() - begun < 500, "a second token of one bucket comes after 1000 s"


def test_without_a_limit_nothing_waits(state: State) -> None:
    with (
        serve(answering(lambda _: 200)) as site,
        fetcher(state, settings={"rate_limit_rps": 0, "rate_limit_burst": 1}) as fetch,
    ):
        assert codes(fetch, [f"{site.base}/{i}" for i in range(40)]) == ["ok"] * 40
    assert not state.take_tokens("n", f"rate:127.0.0.1:{site.port}", rate=1, burst=0.5).allowed, (
        "the bucket was never used"
    )


@pytest.mark.parametrize("status", [500, 503, 0])
def test_after_five_failures_a_host_is_asked_no_more(state: State, status: int) -> None:
    with serve(answering({"/bad": status, "/ok": 200})) as site:
        with fetcher(state) as fetch:
            said = codes(fetch, [f"{site.base}/bad"] * 8)
            assert said == ["E_NETWORK" if status == 0 else "E_5XX_ORIGIN"] * 5 + ["E_CIRCUIT_OPEN"] * 3
        # Another run, or process, knows it too.
        with fetcher(state) as again, fetcher(state, "m") as elsewhere:
            assert codes(again, [f"{site.base}/ok"]) == ["E_CIRCUIT_OPEN"]
            assert codes(elsewhere, [f"{site.base}/ok"]) == ["ok"]
    assert site.hits["/bad"] == 5


def test_refusals_redirects_and_successes_are_no_failures(state: State) -> None:
    with (
        serve(
            answering(
                {"/404": 404, "/403": 403, "/429": 429, "/408": 408, "/500": 500, "/ok": 200, "/302": 302}
            )
        ) as site,
        fetcher(state) as fetch,
    ):
        for path in ("/404", "/403", "/429", "/408", "/302"):
            assert "E_CIRCUIT_OPEN" not in codes(fetch, [f"{site.base}{path}"] * 7)
        said = codes(
            fetch, [f"{site.base}/{p}" for _ in range(4) for p in ("500", "500", "500", "500", "ok")]
        )
        assert Counter(said) == {"E_5XX_ORIGIN": 16, "ok": 4}, "a success in between forgets the failures"


def test_a_host_that_is_well_again_loses_no_page_after_its_rest(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Passing(monkeypatch, state, "n")
    well = False

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        time.sleep(0.05)
        send(request, 200 if well else 500, b"x")

    with serve(handle) as site:
        with fetcher(state) as fetch:
            assert codes(fetch, [f"{site.base}/a"] * 6)[-1] == "E_CIRCUIT_OPEN"
        well = True
        passes(module.CIRCUIT_REST_SECONDS)
        with fetcher(state) as fetch:
            assert together(fetch, [f"{site.base}/{i}" for i in range(30)]) == ["ok"] * 30


def test_a_trial_that_fails_rests_again(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passing(monkeypatch, state, "n")
    with serve(answering(lambda _: 500)) as site, fetcher(state) as fetch:
        codes(fetch, [f"{site.base}/a"] * 6)
        passes(module.CIRCUIT_REST_SECONDS)
        assert codes(fetch, [f"{site.base}/a"] * 3) == ["E_5XX_ORIGIN", "E_CIRCUIT_OPEN", "E_CIRCUIT_OPEN"]
    assert site.hits["/a"] == 6


def test_what_was_never_asked_of_a_host_is_not_held_against_it(state: State) -> None:
    http_ = HttpSettings()
    polite = Politeness(Lenient(state), "n", http_)
    with Fetching(CurlClient([]), http_, max_bytes=1000, politeness=polite) as fetch:
        assert codes(fetch, ["http://127.0.0.1:9/"] * 7) == ["E_URL_BLOCKED"] * 7


def test_without_redis_pages_come_and_are_paced() -> None:
    state = open_state(load_settings(redis={"url": "redis://127.0.0.1:1", "timeout_seconds": 0.1}), None)
    with serve(answering(lambda _: 200)) as site, fetcher(state, settings={"rate_limit_rps": 50}) as fetch:
        start = time.monotonic()
        assert codes(fetch, [f"{site.base}/{i}" for i in range(11)]) == ["ok"] * 11
        assert 1 + 50 * (time.monotonic() - start) + 0.01 >= 11


def test_a_site_that_is_down_fails_by_page_and_keeps_what_is_known(world: World) -> None:
    down = False
    page = (
        b"<html><body><h1>Page</h1><p>The grafana service listens on port 3000 of the host.</p></body></html>"
    )

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        (
            send(request, 502)
            if down
            else send(request, 200, page + request.path.encode(), content_type="text/html")
        )

    world.overrides["http"] = {"retry_seconds": (), "rate_limit_rps": 0}
    world.workspace.close()
    world.workspace = world.open(world.home)
    with serve(handle) as site:
        world.entries.append(
            {
                "id": "site",
                "type": "web",
                "urls": [f"{site.base}/{i}" for i in range(9)],
                "allow_cidrs": ["127.0.0.0/8"],
            }
        )
        world.declare()
        world.ingest("site")
        down = True
        raw = next(r for r in world.ingest("site") if r.stage == "raw_blobs")
    assert raw.counts["failed"] == raw.counts["discovered"] == 9 and raw.counts["removed"] == 0
    assert Counter(p["code"] for p in raw.problems) == {"E_5XX_ORIGIN": 5, "E_CIRCUIT_OPEN": 4}
    assert len(world.kb().documents()) == 9
