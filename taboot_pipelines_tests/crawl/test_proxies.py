"""Which proxy is next, which is left alone, and whether one works: the last on a real proxy on loopback."""

from __future__ import annotations

import http.server
import random
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.crawl import proxies as module
from taboot_pipelines.crawl.politeness import RECHECK_SECONDS
from taboot_pipelines.crawl.proxies import Proxies, Proxy, ProxySettings
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.crawl.passing import Passing


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    yield open_state(load_settings(), catalog)
    catalog.close()


SECRETS = {"PW": "p:@ss", "USER_NAME": "u"}


def proxies(state: State, *urls: str, **fields: Any) -> Proxies:
    servers = [{"url": u, "username": "${USER_NAME}", "password": "${PW}"} for u in urls]
    settings = ProxySettings.model_validate({"servers": servers, **fields})
    return Proxies("home", settings, Lenient(state), "n", SECRETS.__getitem__, chance=random.Random(1))


URLS = ("http://a.lan:1", "http://b.lan:2", "socks5://[FD00::1]")


def chosen(list_: Proxies, count: int) -> list[str]:
    names = []
    for _ in range(count):
        proxy = list_.choose()
        assert proxy is not None
        list_.told(proxy, failed=False)
        names.append(proxy.name)
    return names


def test_a_proxy_is_what_the_file_says_and_its_password_is_nowhere_to_be_seen(state: State) -> None:
    found = {p for p in (proxies(state, *URLS).choose() for _ in range(1)) if p}
    all_ = proxies(state, *URLS)._proxies
    assert all_[0] == Proxy("http", "a.lan", 1, "u", "p:@ss") and all_[2].name == "socks5://[fd00::1]:1080"
    (other,) = proxies(state, "SOCKS5H://proxy.lan")._proxies
    assert other.name == "socks5://proxy.lan:1080"
    assert found <= set(all_) and "p:@ss" not in repr(all_) and "p:@ss" not in all_[0].name


def test_each_in_turn(state: State) -> None:
    names = chosen(proxies(state, *URLS), 9)
    assert names[:3] == names[3:6] == names[6:] and len(set(names)) == 3


def test_the_one_with_the_fewest_requests(state: State) -> None:
    list_ = proxies(state, *URLS, rotation="least_used")
    assert set(Counter(chosen(list_, 9)).values()) == {3}
    list_._used[list_._proxies[1]] = 0
    assert chosen(list_, 3) == ["http://b.lan:2"] * 3


def test_any(state: State) -> None:
    counts = Counter(chosen(proxies(state, *URLS, rotation="random"), 300))
    assert len(counts) == 3 and min(counts.values()) > 60


def test_a_list_that_is_not_in_use_gives_none(state: State) -> None:
    assert proxies(state, *URLS, active=False).choose() is None


@pytest.mark.parametrize("rotation", ["round_robin", "least_used", "random"])
def test_a_proxy_that_fails_rests_for_all_processes_and_comes_back(
    state: State, monkeypatch: pytest.MonkeyPatch, rotation: str
) -> None:
    passes = Passing(monkeypatch, state, "n")
    one, two = (proxies(state, *URLS[:2], rotation=rotation) for _ in range(2))
    bad = one._proxies[0]
    for _ in range(module.PROXY_FAILURES):
        one.told(bad, failed=True)
    passes(RECHECK_SECONDS)
    assert set(chosen(one, 6)) == set(chosen(two, 6)) == {"http://b.lan:2"}
    passes(module.PROXY_REST_SECONDS)
    assert bad.name in chosen(one, 30)
    passes(RECHECK_SECONDS)
    assert bad.name in chosen(two, 30)


def test_without_any_that_works_it_is_said(state: State) -> None:
    list_ = proxies(state, *URLS)
    for proxy in list_._proxies:
        for _ in range(module.PROXY_FAILURES):
            list_.told(proxy, failed=True)
    with pytest.raises(TabootError, match=r"E_PROXY.*None of the 3 proxies of home works") as error:
        list_.choose()
    assert "p:@ss" not in str(error.value)


def test_a_test_tries_each_and_counts(state: State) -> None:
    def carry(request: http.server.BaseHTTPRequestHandler) -> None:
        send(request, 200 if request.path.startswith("http://site.example") else 400, b"carried")

    def ask(proxy: Proxy) -> None:
        handler = urllib.request.ProxyHandler({"http": f"http://{proxy.host}:{proxy.port}"})
        opener = urllib.request.build_opener(handler)
        try:
            with opener.open("http://site.example/", timeout=60) as answer:
                assert answer.read() == b"carried"
        except urllib.error.URLError:
            raise TabootError("E_NETWORK", f"The proxy {proxy.name} does not answer.") from None

    with serve(carry) as server:
        list_ = proxies(state, server.base, "http://127.0.0.1:9")
        works, fails = list_.test(ask)
    assert (works.proxy, works.works, works.code) == (server.base, True, "") and works.seconds < 60
    assert (fails.works, fails.code) == (False, "E_NETWORK") and "127.0.0.1:9" in fails.reason
    for _ in range(module.PROXY_FAILURES - 1):
        list_.test(lambda proxy: ask(proxy) if proxy.port == 9 else None)
    assert set(chosen(list_, 4)) == {server.base}
