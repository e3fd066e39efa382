"""The turns of domains without any request: what the state shares, on both kinds of backend."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taboot_pipelines.crawl import domains as domains_module
from taboot_pipelines.crawl import politeness as module
from taboot_pipelines.crawl.domains import Domains, DomainSettings
from taboot_pipelines.crawl.politeness import (
    MAX_RETRY_AFTER_SECONDS,
    RECHECK_SECONDS,
    Politeness,
    retry_after,
)
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import HttpSettings, Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines_tests.crawl.passing import Passing

SITE = "example.org"
Make = Callable[..., Politeness]


@pytest.fixture(params=["catalog", pytest.param("redis", marks=pytest.mark.server)])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    if request.param == "redis":
        found = open_state(load_settings(redis={"url": request.getfixturevalue("redis_url")}), None)
        yield found
        found.close()
        return
    catalog = open_catalog(Settings(home=tmp_path), FileLeases(tmp_path, 5))
    yield open_state(load_settings(), catalog)
    catalog.close()


@pytest.fixture
def namespace() -> str:
    """One that no other test uses: servers are shared."""
    return f"n{uuid.uuid4().hex[:12]}"


@pytest.fixture
def passes(state: State, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Passing:
    return Passing(monkeypatch, state, namespace)


@pytest.fixture
def make(state: State, namespace: str) -> Make:
    """Another run, or process, each time."""

    def politeness(
        settings: dict[str, dict[str, Any]] | None = None,
        blocks: Callable[[], dict[str, bool]] | None = None,
        **http: Any,
    ) -> Politeness:
        defaults = HttpSettings(**{"rate_limit_rps": 0, **http})
        found = {n: DomainSettings.model_validate(s) for n, s in (settings or {}).items()}
        return Politeness(Lenient(state), namespace, defaults, Domains(defaults, found, blocks))

    return politeness


def go(politeness: Politeness, domain: str = SITE, *, failed: bool | None = False, **told: Any) -> None:
    assert politeness.wait(domain) == 0.0
    politeness.told(domain, failed=failed, **told)


def test_nothing_waits_and_a_turn_comes_when_it_was_said(make: Make, passes: Passing) -> None:
    politeness = make(rate_limit_rps=0.01, rate_limit_burst=2)
    begun = time.monotonic()
    assert [politeness.wait(SITE) for _ in range(2)] == [0.0, 0.0]
    wait = politeness.wait(SITE)
    assert 50 < wait <= 100 and 0 < politeness.wait(SITE) <= wait
    assert politeness.wait("other.example") == 0.0, "another domain has a bucket of its own"
    assert time.monotonic() - begun < 50, "somebody waited for the turn"
    passes(wait / 2)
    assert politeness.wait(SITE) > 0
    passes(wait / 2 + 0.01)
    assert politeness.wait(SITE) == 0.0


def test_the_stricter_of_our_pace_and_the_site_s_holds(make: Make) -> None:
    for http, settings, delay, expected in [
        ({"rate_limit_rps": 0}, {}, None, 0.0),
        ({"rate_limit_rps": 0}, {}, 100.0, 100.0),
        ({"rate_limit_rps": 1, "rate_limit_burst": 1}, {}, 100.0, 100.0),
        ({"rate_limit_rps": 0.005, "rate_limit_burst": 1}, {}, 100.0, 200.0),
        ({"rate_limit_rps": 0}, {SITE: {"delay_seconds": 300.0}}, 100.0, 300.0),
        ({"rate_limit_rps": 0}, {SITE: {"rate_limit_rps": 0.01, "rate_limit_burst": 1}}, None, 100.0),
    ]:
        politeness = make(settings, **http)
        domain = f"{uuid.uuid4().hex}.example"
        politeness.domains._settings[domain] = politeness.domains._settings.get(SITE, DomainSettings())
        assert politeness.wait(domain, delay=delay) == 0.0
        second = politeness.wait(domain, delay=delay)
        assert expected - 40 <= second <= expected, (http, settings, delay)


def test_runs_together_keep_one_pace(make: Make) -> None:
    runs = [make(rate_limit_rps=50, rate_limit_burst=5) for _ in range(3)]
    given: list[float] = []
    end = time.monotonic() + 1.0

    def run(politeness: Politeness) -> None:
        # At least as many as are counted on below, however slow the machine is.
        while time.monotonic() < end or (len(given) < 20 and time.monotonic() < end + 60):
            wait = politeness.wait(SITE)
            if wait == 0.0:
                given.append(time.monotonic())
            else:
                time.sleep(min(wait, 0.05))

    begun = time.monotonic()
    threads = [threading.Thread(target=run, args=(r,)) for r in runs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # Each run may hold tokens for a tenth of a second that it took before.
    assert 20 <= len(given) <= 5 + 50 * (time.monotonic() - begun) + 3 * 5


def test_five_failures_open_the_circuit_for_all_and_one_trial_closes_it(make: Make, passes: Passing) -> None:
    settings = {SITE: {"circuit_rest_seconds": 120}}
    one, two = make(settings), make(settings)
    go(two)
    for _ in range(5):
        go(one, failed=True)
    passes(RECHECK_SECONDS)
    for politeness in (one, two, make(settings)):
        with pytest.raises(TabootError, match="E_CIRCUIT_OPEN") as error:
            politeness.wait(SITE)
        assert 60 < error.value.details["seconds"] <= 120
    passes(120)
    # After the rest one may try; in its own process the others wait, elsewhere they are refused.
    assert one.wait(SITE) == 0.0
    assert 0 < one.wait(SITE) < 1
    with pytest.raises(TabootError, match="E_CIRCUIT_OPEN"):
        two.wait(SITE)
    one.told(SITE, failed=False)
    passes(RECHECK_SECONDS)
    for politeness in (one, two, make(settings)):
        assert [politeness.wait(SITE) for _ in range(3)] == [0.0] * 3
    # It is really closed: the failures of before are forgotten.
    for politeness in (one, two):
        for _ in range(3):
            politeness.told(SITE, failed=False)
    for _ in range(4):
        go(one, failed=True)
    assert one.wait(SITE) == 0.0


def test_a_trial_that_fails_opens_it_again_and_one_that_asks_nothing_passes_it_on(
    make: Make, passes: Passing
) -> None:
    politeness = make({SITE: {"circuit_rest_seconds": 120, "circuit_failures": 2}})
    for _ in range(2):
        go(politeness, failed=True)
    passes(121)
    go(politeness, failed=None)
    go(politeness, failed=True)
    with pytest.raises(TabootError, match="E_CIRCUIT_OPEN"):
        politeness.wait(SITE)
    passes(121)
    go(politeness, failed=False)
    go(politeness)


def test_a_trial_waits_for_its_token_without_losing_its_turn(make: Make, passes: Passing) -> None:
    politeness = make({SITE: {"circuit_rest_seconds": 60, "circuit_failures": 1, "delay_seconds": 160}})
    go(politeness, failed=True)
    passes(80)
    begun = passes.now()
    while (wait := politeness.wait(SITE)) > 0:
        passes(min(wait, 20))
        assert passes.now() - begun < 1000
    politeness.told(SITE, failed=False)


def test_a_domain_in_doubt_is_asked_by_one_request_at_a_time(make: Make) -> None:
    politeness = make()
    assert [politeness.wait(SITE) for _ in range(3)] == [0.0] * 3
    politeness.told(SITE, failed=True)
    assert politeness.wait(SITE) > 0, "two are still on their way"
    politeness.told(SITE, failed=None)
    politeness.told(SITE, failed=None)
    assert politeness.wait(SITE) == 0.0 < politeness.wait(SITE)
    politeness.told(SITE, failed=False)
    assert [politeness.wait(SITE) for _ in range(3)] == [0.0] * 3


def test_who_never_told_stops_nobody_for_ever(make: Make, passes: Passing) -> None:
    politeness = make(total_timeout_seconds=60)
    go(politeness, failed=True)
    assert politeness.wait(SITE) == 0.0 < politeness.wait(SITE)
    passes(60)
    assert politeness.wait(SITE) == 0.0


def test_retry_after_is_kept_across_runs(make: Make) -> None:
    one = make()
    go(one, retry_after=600.0)
    assert 500 < one.wait(SITE) <= 600 and one.wait("other.example") == 0.0
    assert 500 < make().wait(SITE) <= 600
    again = make()
    again.told(SITE, failed=False, retry_after=5.0)
    assert 500 < again.wait(SITE) <= 600, "a shorter word does not end a longer one"
    go(one, "greedy.example", retry_after=1e12)
    assert one.wait("greedy.example") <= MAX_RETRY_AFTER_SECONDS
    go(one, "past.example", retry_after=0.0)
    assert one.wait("past.example") == 0.0


def test_another_process_s_retry_after_is_heeded_soon(make: Make, passes: Passing) -> None:
    one, two = make(), make()
    go(two)
    go(one, retry_after=600.0)
    passes(RECHECK_SECONDS)
    assert two.wait(SITE) > 500


def test_what_is_blocked_while_a_crawl_runs_is_asked_no_more(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(domains_module, "RELOAD_SECONDS", 0.0)
    blocks: dict[str, bool] = {}
    politeness = make({}, lambda: blocks)
    go(politeness)
    blocks[SITE] = True
    with pytest.raises(TabootError, match=r"E_DOMAIN_BLOCKED.*example\.org is blocked"):
        politeness.wait(SITE)
    politeness.told(SITE, failed=False)
    del blocks[SITE]
    go(politeness)


def test_a_domain_without_a_limit_costs_a_look_at_the_clock(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the state is asked nor a lock taken, until what it said is too old."""
    politeness, now = make(), [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    go(politeness)
    go(politeness)
    asked: list[str] = []
    monkeypatch.setattr(politeness, "_hints", Asked(asked, "state"))
    monkeypatch.setattr(politeness, "_lock", Asked(asked, "lock"))
    for _ in range(1000):
        go(politeness)
    assert asked == []
    now[0] += RECHECK_SECONDS
    with pytest.raises(LookupError):
        politeness.wait(SITE)
    assert asked == ["lock", "state"]


class Asked:
    """Stands for the state, or for a lock: notes that it is used. The state gives nothing."""

    def __init__(self, asked: list[str], name: str) -> None:
        self._asked, self._name = asked, name

    def ask(self, *_: object) -> object:
        self._asked.append(self._name)
        raise LookupError

    def __enter__(self) -> None:
        self._asked.append(self._name)

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sun, 22 Nov 2026 12:01:00 GMT", 60.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("9" * 50, 999999999999.0),
        ("٣", None),
    ],
)
def test_both_forms_of_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after(value, datetime(2026, 11, 22, 12, tzinfo=UTC)) == seconds
