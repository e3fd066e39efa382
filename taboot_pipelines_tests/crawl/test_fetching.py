"""Pages from the first hop to the last answer, against real servers on loopback."""

from __future__ import annotations

import ipaddress
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.crawl import robots as module
from taboot_pipelines.crawl.addresses import Address
from taboot_pipelines.crawl.client import Answer
from taboot_pipelines.crawl.curl import CurlClient
from taboot_pipelines.crawl.domains import Domains, DomainSettings
from taboot_pipelines.crawl.fetching import Fetching, SentHeaders, own_headers
from taboot_pipelines.crawl.politeness import Politeness
from taboot_pipelines.crawl.proxies import Proxies, ProxySettings
from taboot_pipelines.crawl.robots import RobotsCache
from taboot_pipelines.crawl.urls import parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Known
from taboot_pipelines.settings import HttpSettings, Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.crawl.passing import Passing
from taboot_pipelines_tests.crawl.test_client import http_proxy

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
FAST: dict[str, Any] = {
    "connect_timeout_seconds": 20,
    "read_timeout_seconds": 30,
    "total_timeout_seconds": 60,
    "rate_limit_rps": 0,
    "retry_seconds": (),
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    yield open_state(load_settings(), catalog)
    catalog.close()


def here(_host: str, _port: int) -> list[Address]:
    return [ipaddress.ip_address("127.0.0.1")]


def fetching(
    state: State | None = None,
    *,
    domains: Mapping[str, Any] | None = None,
    robots: bool = False,
    http: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Fetching:
    """By the settings ``http``, where every name is this machine's; polite with a ``state``."""
    settings = HttpSettings(**{**FAST, **(http or {})})
    if state is not None:
        named = {name: DomainSettings.model_validate(d) for name, d in (domains or {}).items()}
        hints = Lenient(state)
        parts["politeness"] = Politeness(hints, "n", settings, Domains(settings, named))
        if robots:
            parts["robots"] = RobotsCache(hints, "n", settings.user_agent)
    parts = {"max_bytes": 1_000_000, **parts}
    return Fetching(CurlClient(LOOPBACK, resolver=here), settings, **parts)


def fetch(fetch: Fetching, urls: list[str], known: Known | None = None) -> list[Answer | TabootError]:
    """What becomes of ``urls``, started at once, in their order."""
    for ticket, url in enumerate(urls):
        fetch.start(ticket, parse_url(url), known=known)
    found: dict[int, Answer | TabootError] = {}
    end = time.monotonic() + 50
    while len(found) < len(urls):
        assert time.monotonic() < end
        found |= dict(fetch.finished(1))
    assert fetch.in_flight == 0 and fetch.finished(0) == []
    return [found[ticket] for ticket in range(len(urls))]


def codes(results: list[Answer | TabootError]) -> list[str]:
    return [r.code if isinstance(r, TabootError) else str(r.status) for r in results]


def site_of(pages: Mapping[str, Any]) -> Any:
    """A handler by path: a status, (status, headers), or a function of the request."""

    def answer(h: BaseHTTPRequestHandler) -> None:
        found = pages.get(h.path.partition("?")[0], pages.get("*", 404))
        if callable(found):
            found(h)
        elif isinstance(found, tuple):
            send(h, found[0], b"", **found[1])
        else:
            send(h, found, h.path.encode())

    return answer


def test_pages_of_many_hosts_come_as_they_finish_two_of_a_host_at_a_time() -> None:
    """A slow host, or many pages of one, keeps nobody else waiting."""

    awake = threading.Event()

    def slow(h: BaseHTTPRequestHandler) -> None:
        awake.wait(50)
        send(h, 200)

    with serve(site_of({"*": slow})) as lazy, serve(site_of({"*": 200})) as quick, fetching() as fetch:
        for i in range(6):
            fetch.start(i, parse_url(f"http://lazy.example:{lazy.port}/{i}"))
        for i in range(40):
            fetch.start(100 + i, parse_url(f"http://quick.example:{quick.port}/{i}"))
        assert fetch.in_flight == 46
        order: list[int] = []
        while fetch.in_flight > 6:
            order += [ticket for ticket, _ in fetch.finished(1)]
        assert sorted(order) == [*range(100, 140)], "who is slow has not answered yet"
        end = time.monotonic() + 50
        while lazy.most < 2 and time.monotonic() < end:
            fetch.finished(0.1)
        awake.set()
        while fetch.in_flight:
            order += [ticket for ticket, _ in fetch.finished(1)]
    assert sorted(order[40:]) == [*range(6)]
    assert lazy.most == 2 and quick.most <= 2


def test_no_more_than_the_setting_are_on_their_way_at_once() -> None:
    wanted = 3

    def slow(h: BaseHTTPRequestHandler) -> None:
        # Until as many have come as may, and then long enough for one too many.
        end = time.monotonic() + 20
        while site.most < wanted and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)
        send(h, 200)

    with serve(site_of({"*": slow})) as site:
        hosts = [f"http://h{i}.example:{site.port}/" for i in range(12)]
        with fetching(http={"max_concurrency": 3}) as all_hosts:
            assert codes(fetch(all_hosts, hosts)) == ["200"] * 12
        assert site.most == 3
        wanted = 4
        with fetching(http={"max_concurrency": 8, "per_host": 4}) as one_host:
            assert codes(fetch(one_host, [f"{hosts[0]}{i}" for i in range(12)])) == ["200"] * 12
        assert site.most == 4


def test_a_domain_that_must_wait_holds_up_nobody_else(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passing(monkeypatch, state, "n")
    with serve(site_of({"*": 200})) as site:
        slow = [f"http://a.slow.example:{site.port}/{i}" for i in range(3)]
        quick = [f"http://quick.example:{site.port}/{i}" for i in range(20)]
        domains = {"slow.example": {"rate_limit_rps": 0.01, "rate_limit_burst": 1}}
        with fetching(state, domains=domains) as polite:
            for ticket, url in enumerate([*slow, *quick]):
                polite.start(ticket, parse_url(url))
            seen: list[int] = []
            for left, waited in ((2, 0), (1, 100), (0, 100)):
                passes(waited)
                while polite.in_flight > left:
                    seen += [ticket for ticket, _ in polite.finished(0.01)]
                assert site.hits.total() == 23 - left
            assert seen[-2:] == [1, 2] and sorted(seen) == [*range(23)]


def test_a_page_can_be_waited_for_while_others_go_on() -> None:
    with serve(site_of({"*": 200, "/gone": 410})) as site, fetching() as one:
        for i in range(5):
            one.start(i, parse_url(f"{site.base}/{i}"))
        assert one.get(parse_url(f"{site.base}/now")).body == b"/now"
        with pytest.raises(TabootError, match="E_NOT_FOUND"):
            one.get(parse_url(f"{site.base}/gone"))
        seen: list[int] = []
        while one.in_flight:
            seen += [ticket for ticket, _ in one.finished(1)]
        assert sorted(seen) == [0, 1, 2, 3, 4]


# --- trying again -------------------------------------------------------------------------------------------


def test_what_may_pass_by_is_tried_again_after_growing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    passes = Passing(monkeypatch, None, "n")

    def flaky(h: BaseHTTPRequestHandler) -> None:
        times.append(passes.now())
        if len(times) == 1:
            h.close_connection = True  # no answer at all
        else:
            send(h, 500 if len(times) < 4 else 200, b"at last")

    with serve(site_of({"/": flaky})) as site, fetching(http={"retry_seconds": (100, 200, 400)}) as one:
        (answer,) = fetch(one, [f"{site.base}/"])
    assert isinstance(answer, Answer) and answer.body == b"at last"
    waits = [b - a for a, b in itertools.pairwise(times)]
    assert all(least <= w < least + 50 for w, least in zip(waits, (100, 200, 400), strict=True))


@pytest.mark.parametrize(
    ("status", "hits"), [(500, 3), (502, 3), (429, 3), (408, 3), (404, 1), (403, 1), (400, 1), (301, 1)]
)
def test_attempts_end_and_what_will_not_change_is_not_tried_again(status: int, hits: int) -> None:
    with serve(site_of({"/": status})) as site, fetching(http={"retry_seconds": (0, 0.01)}) as one:
        (error,) = fetch(one, [f"{site.base}/"])
    assert isinstance(error, TabootError) and site.hits["/"] == hits


def test_the_waits_are_one_two_and_four_seconds_unless_set() -> None:
    assert HttpSettings().retry_seconds == (1, 2, 4)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_says_when_to_come_back_and_all_runs_keep_to_it(state: State, status: int) -> None:
    now = datetime(2099, 1, 1, tzinfo=UTC)
    far = format_datetime(now + timedelta(hours=2), usegmt=True)
    pages = {"/soon": (status, {"retry_after": "1"}), "/far": (status, {"retry_after": far}), "*": 200}
    expected = "E_429_RATE" if status == 429 else "E_5XX_ORIGIN"
    with serve(site_of(pages)) as site:
        with fetching(state, clock=lambda: now) as polite:
            start = time.monotonic()
            assert codes(fetch(polite, [f"{site.base}/soon"])) == [expected]
            assert 1 <= time.monotonic() - start < 30 and site.hits["/soon"] == 2
        with fetching(state, clock=lambda: now) as polite:
            time.sleep(1)
            assert codes(fetch(polite, [f"{site.base}/far"])) == [expected]
            assert codes(fetch(polite, [f"{site.base}/other"])) == ["E_429_RATE"]
        with fetching(state) as another_run:
            assert codes(fetch(another_run, [f"{site.base}/other"])) == ["E_429_RATE"]
    assert site.hits["/far"] == 1 and site.hits["/other"] == 0


def test_a_domain_that_fails_is_left_alone_and_each_page_says_why(state: State) -> None:
    with serve(site_of({"*": 500})) as site, fetching(state, http={"retry_seconds": (0.05, 0.1)}) as polite:
        results = Counter(codes(fetch(polite, [f"{site.base}/{i}" for i in range(12)])))
    assert results.keys() == {"E_5XX_ORIGIN", "E_CIRCUIT_OPEN"}
    assert sum(site.hits.values()) == 5


def test_a_blocked_domain_is_never_asked(state: State) -> None:
    domains = {"bad.example": {"blocked": True}}
    with serve(site_of({"*": 200})) as site, fetching(state, domains=domains) as polite:
        urls = [f"http://x.bad.example:{site.port}/", f"http://good.example:{site.port}/"]
        assert codes(fetch(polite, urls)) == ["E_DOMAIN_BLOCKED", "200"]
    assert sum(site.hits.values()) == 1


# --- robots.txt ---------------------------------------------------------------------------------------------


def silence(h: BaseHTTPRequestHandler) -> None:
    """Nothing comes until the client has gone."""
    h.connection.settimeout(50)
    h.connection.recv(1)
    h.close_connection = True


def robots(text: str, status: int = 200, **headers: str) -> Any:
    return lambda h: send(h, status, text.encode(), **headers)


def test_robots_txt_is_read_once_before_any_page_of_an_origin(state: State) -> None:
    order: list[str] = []
    rules = robots("User-agent: *\nDisallow: /private\nAllow: /private/open")

    def answer(h: BaseHTTPRequestHandler) -> None:
        order.append(h.path)
        if h.path == "/robots.txt":
            time.sleep(0.1)
            rules(h)
        elif h.path == "/away":
            send(h, 302, location="/private/page")
        else:
            send(h, 200)

    with serve(answer) as site:
        paths = ["/a", "/private/x", "/private/open", "/b", "/away"]
        with fetching(state, robots=True) as polite:
            results = fetch(polite, [site.base + p for p in paths])
            assert codes(results) == ["200", "E_ROBOTS", "200", "200", "E_ROBOTS"]
            assert polite.get(parse_url(f"{site.base}/private/map.xml"), purpose="sitemap").status == 200
        assert order[0] == "/robots.txt" and sorted(order[1:]) == sorted(
            ["/a", "/private/open", "/b", "/away", "/private/map.xml"]
        )
        # Another run within the day does not read it again.
        with fetching(state, robots=True) as polite:
            assert codes(fetch(polite, [f"{site.base}/private/x", f"{site.base}/c"])) == ["E_ROBOTS", "200"]
    assert site.hits["/robots.txt"] == 1


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (404, "200"),
        (403, "200"),
        (401, "200"),
        (robots("User-agent: *\nDisallow:"), "200"),
        (robots("User-agent: *\nDisallow: /"), "E_ROBOTS"),
        (lambda h: send(h, 200, bytes(range(256)) * 4096), "200"),
        (lambda h: send(h, 200, b"User-agent: *\nDisallow: /\n" + b"# filler\n" * 120_000), "E_ROBOTS"),
        ((302, {"location": "/robots.txt"}), "200"),
        ((302, {"location": "/elsewhere.txt"}), "E_ROBOTS"),
        ((302, {"location": "http://10.1.2.3/robots.txt"}), "E_URL_BLOCKED"),
        (500, "E_5XX_ORIGIN"),
        (429, "E_429_RATE"),
        (silence, "E_TIMEOUT"),
    ],
)
def test_what_robots_txt_is_decides_what_is_asked(state: State, page: Any, expected: str) -> None:
    pages = {"/robots.txt": page, "/elsewhere.txt": robots("User-agent: *\nDisallow: /"), "*": 200}
    times = {"read_timeout_seconds": 1} if page is silence else {}
    with serve(site_of(pages)) as site, fetching(state, robots=True, http=times) as polite:
        results = fetch(polite, [f"{site.base}/{i}" for i in range(3)])
        assert codes(results) == [expected] * 3
        asked = site.hits["/robots.txt"]
        fetch(polite, [f"{site.base}/again"])
    assert site.hits["/robots.txt"] == asked <= 2, "neither rules nor their absence are asked for twice"
    assert (sum(site.hits[f"/{i}"] for i in range(3)) == 3) == (expected == "200")
    if expected not in ("200", "E_ROBOTS"):
        error = results[0]
        assert isinstance(error, TabootError) and "robots.txt" in error.message
        assert error.details["url"] == f"{site.base}/0"


def test_a_page_has_one_deadline_for_all_its_hops_and_attempts() -> None:
    over = threading.Event()

    def pour(h: BaseHTTPRequestHandler) -> None:
        h.send_response(200)
        h.end_headers()
        while not over.wait(0.2):
            h.wfile.write(b"x" * 2048)

    def late(h: BaseHTTPRequestHandler) -> None:
        over.wait(1.5)
        send(h, 302, location="/late2" if h.path == "/late" else "/late")

    pages = {"/pour": pour, "/late": late, "/late2": late}
    times = {"total_timeout_seconds": 2, "retry_seconds": (0, 0, 0)}
    with serve(site_of(pages)) as site, fetching(http=times) as one:
        began = time.monotonic()
        assert codes(fetch(one, [f"{site.base}/pour", f"{site.base}/late"])) == ["E_TIMEOUT"] * 2
        assert time.monotonic() - began < 6 and site.hits == {"/pour": 1, "/late": 1, "/late2": 1}
        over.set()


def test_a_redirect_to_another_site_keeps_to_the_rules_there(state: State) -> None:
    with serve(site_of({"/robots.txt": robots("User-agent: *\nDisallow: /no"), "*": 200})) as other:
        pages = {"/no": (301, {"location": f"{other.base}/no"}), "/yes": (301, {"location": other.base})}
        with serve(site_of(pages)) as site, fetching(state, robots=True) as polite:
            assert codes(fetch(polite, [f"{site.base}/no", f"{site.base}/yes"])) == ["E_ROBOTS", "200"]
    assert other.hits == {"/robots.txt": 1, "/": 1}


def test_the_pause_that_a_site_asks_for_is_kept(state: State) -> None:
    pages = {"/robots.txt": robots("User-agent: *\nCrawl-delay: 0.4"), "*": 200}
    with serve(site_of(pages)) as site, fetching(state, robots=True) as polite:
        start = time.monotonic()
        assert codes(fetch(polite, [f"{site.base}/{i}" for i in range(3)])) == ["200"] * 3
        assert time.monotonic() - start >= 0.75


# --- headers, hops, proxies ---------------------------------------------------------------------------------


def sent(site: Site, path: str) -> dict[str, str]:
    return next(headers for p, headers in site.headers if p == path)


def test_credentials_go_to_their_own_origin_and_nowhere_else(state: State) -> None:
    with serve(site_of({"*": 200})) as other:
        pages = {"/away": (302, {"location": f"{other.base}/caught"}), "*": 200}
        with serve(site_of(pages)) as site:
            settings = HttpSettings(**FAST)
            limits = {"api.example": DomainSettings(headers={"X-Key": "${KEY}"})}
            headers = SentHeaders(
                own_headers(settings),
                source={"Authorization": "Bearer ${TOKEN}", "user-agent": "mine"},
                origins={site.base},
                domains=Domains(settings, limits),
                secret={"TOKEN": "hunter2", "KEY": "k"}.__getitem__,
            )
            urls = [
                f"{site.base}/in",
                f"{site.base}/away",
                f"{other.base}/link",
                f"http://docs.example:{site.port}/name",
                f"http://v1.api.example:{site.port}/api",
            ]
            with fetching(headers=headers) as one:
                assert codes(fetch(one, urls)) == ["200"] * 5
    assert sent(site, "/in")["authorization"] == sent(site, "/away")["authorization"] == "Bearer hunter2"
    assert sent(site, "/in")["user-agent"] == "mine" and sent(other, "/link")["user-agent"] != "mine"
    assert sent(site, "/api")["x-key"] == "k" and "x-key" not in sent(site, "/in")
    for where, path in ((other, "/caught"), (other, "/link"), (site, "/name"), (site, "/api")):
        assert "authorization" not in sent(where, path)


def test_validators_go_to_the_url_that_gave_them() -> None:
    with serve(site_of({"/from": (301, {"location": "/to"}), "/to": (304, {})})) as site:
        known = Known("0" * 64, etag='"1"', last_modified="then", url=f"{site.base}/to")
        with fetching() as one:
            (answer,) = fetch(one, [f"{site.base}/from"], known=known)
        assert isinstance(answer, Answer) and (answer.status, answer.url) == (304, f"{site.base}/to")
        assert "if-none-match" not in sent(site, "/from")
        assert (sent(site, "/to")["if-none-match"], sent(site, "/to")["if-modified-since"]) == ('"1"', "then")


def test_a_broken_proxy_is_to_blame_and_the_next_one_is_tried(state: State) -> None:
    pages = {"*": 200, "/bad": 500}
    with serve(site_of(pages)) as site, http_proxy() as (good, heads), http_proxy(502) as (bad, refused):
        servers = [{"url": f"http://127.0.0.1:{port}"} for port in (bad, good)]
        lists = ProxySettings.model_validate({"servers": servers})
        proxies = Proxies("p", lists, Lenient(state), "n", {}.__getitem__)
        http = {"retry_seconds": (0, 0), "per_host": 1}
        with fetching(state, proxies=proxies, http=http) as one:
            assert codes(fetch(one, [f"{site.base}/{i}" for i in range(9)])) == ["200"] * 9
            assert codes(fetch(one, [f"{site.base}/bad"])) == ["E_5XX_ORIGIN"]
            assert codes(fetch(one, [f"{site.base}/well"])) == ["200"]
        assert len(refused) == 3, "a proxy that fails three times in a row rests"
        assert heads
        with fetching(state, proxies=Proxies("p", lists, Lenient(state), "n", {}.__getitem__)) as another:
            assert codes(fetch(another, [f"{site.base}/{i}" for i in range(3)])) == ["200"] * 3
    assert len(refused) == 3


def test_without_a_proxy_that_works_no_page_is_asked_for_directly(state: State) -> None:
    with serve(site_of({"*": 200})) as site, http_proxy(403) as (port, refused):
        lists = ProxySettings.model_validate({"servers": [{"url": f"http://127.0.0.1:{port}"}]})
        proxies = Proxies("p", lists, Lenient(state), "n", {}.__getitem__)
        with fetching(state, proxies=proxies, robots=True) as one:
            assert codes(fetch(one, [f"{site.base}/{i}" for i in range(5)])) == ["E_PROXY"] * 5
    assert not site.hits and refused


def test_nothing_is_kept_of_hosts_that_are_done(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FAILURES", 3)
    with serve(site_of({"/robots.txt": 500})) as site, fetching(state, robots=True) as polite:
        fetch(polite, [f"http://h{i}.example:{site.port}/" for i in range(6)])
        assert polite._gate is not None
        assert not polite._hosts and not polite._held and len(polite._gate._failures) == 3


def test_closing_while_pages_are_on_their_way_ends_at_once() -> None:
    hold = threading.Event()
    with serve(site_of({"*": lambda h: hold.wait(50)})) as site:
        start = time.monotonic()
        with fetching() as one:
            one.start(1, parse_url(f"{site.base}/"))
            assert one.finished(0.1) == []
        assert time.monotonic() - start < FAST["read_timeout_seconds"] / 2
        hold.set()
