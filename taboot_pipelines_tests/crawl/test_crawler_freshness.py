"""Crawls of made-up sites whose pages may be reused for a time, under a clock that goes any way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl import crawler as module
from taboot_pipelines.crawl import following
from taboot_pipelines.crawl.freshness import Freshness
from taboot_pipelines.model.crawls import CrawlState, fresh_urls, totals
from taboot_pipelines_tests.crawl.made_up import BASE, Page, Web
from taboot_pipelines_tests.crawl.test_crawler import Run, plan

HOUR = 3600
NAMES = [f"p{i}" for i in range(6)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "CHECKPOINT_PAGES", 3)
    monkeypatch.setattr(module, "_STARVING_SECONDS", 0.0)
    yield


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def aged(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"cache-control": f"max-age={seconds}"}


def asked(run: Run, clock: Clock, hours: float = 24, **fields: Any) -> set[str]:
    """Crawl once; the names of the pages that were asked for."""
    run.web.hits.clear()
    end, _ = run.to_the_end(plan(9, **fields), freshness=Freshness(clock, hours * HOUR))
    assert run.last.state is CrawlState.COMPLETED and end.complete
    return set(run.web.hits)


PAGES = st.builds(
    Page,
    links=st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
    headers=st.sampled_from([None, 0, 1, HOUR, 5 * HOUR, 90 * HOUR]).map(aged),
    brief=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(PAGES, min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(st.tuples(st.integers(-30, 30), st.sets(st.sampled_from(NAMES))), min_size=1, max_size=5),
    st.sampled_from([0.5, 2.0, 24.0]),
    st.sampled_from([0, 9]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 2**32),
)
def test_a_page_is_unasked_only_while_its_answer_holds_whatever_the_clock_does(
    pages: list[Page],
    steps: list[tuple[int, set[str]]],
    hours: float,
    depth: int,
    die: float,
    seed: int,
) -> None:
    site = dict(zip(NAMES, pages, strict=True))
    clock, run = Clock(), Run(Web(site), ("p0", "p1"), seed)
    #: By page: the clock at its last answer and when it was last told as fresh, and the body that it gave.
    answers: dict[str, tuple[datetime, datetime, bytes]] = {}
    for n, (step, edited) in enumerate([(0, set()), *steps]):
        clock.now += timedelta(hours=step)
        for name in edited:
            site[name].body = f"edition {n}"
        run.web.hits.clear()
        end, died = run.to_the_end(plan(depth), die, freshness=Freshness(clock, hours * HOUR))
        assert end.complete
        hits = set(run.web.hits)
        for name in hits:
            answers[name] = (clock.now, clock.now, run.web.body(name))
        urls = {u["key"].removeprefix(BASE): u for u in run.rows()}
        reused = {name for name, u in urls.items() if u["code"] == "fresh"}
        assert reused <= answers.keys() and (died or not reused & hits)
        for name in reused - hits:
            since, latest, body = answers[name]
            age = site[name].headers.get("cache-control", "max-age=0").partition("=")[2]
            assert since <= latest <= clock.now < since + timedelta(seconds=min(int(age), hours * HOUR))
            answers[name] = (since, clock.now, body)
        # What is stored is what was last fetched, and every page is accounted for.
        read = {k.removeprefix(BASE) for k in run.store.known}
        assert read == {name for name, u in urls.items() if u["code"] != "E_DEPTH"}
        assert all(run.store.bodies[BASE + name] == answers[name][2] for name in read)
        sums = totals(run.last.counts)
        assert sums["discovered"] == sums["fetched"] + sums["not_modified"] + sums["skipped"]
        assert fresh_urls(run.last.counts) == len(reused)


def test_a_fresh_site_is_crawled_without_a_request_and_has_the_same_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = {
        f"p{i}": Page(links=(f"p{i * 2 + 1}", f"p{i * 2 + 2}", "p0"), headers=aged(HOUR)) for i in range(40)
    }
    for i in range(40, 81):
        site[f"p{i}"] = Page(headers=aged(HOUR))
    run, clock = Run(Web(site), ("p0",)), Clock()
    assert len(asked(run, clock)) == 81
    before = [(u["key"], u["depth"], u["parent"]) for u in run.rows()], run.leads()
    monkeypatch.setattr(following, "page_links", lambda *_, **__: pytest.fail("a page was parsed again"))
    for _ in range(5):
        clock.now += timedelta(minutes=11)
        assert asked(run, clock) == set()
        assert ([(u["key"], u["depth"], u["parent"]) for u in run.rows()], run.leads()) == before
    clock.now += timedelta(minutes=11)
    assert len(asked(run, clock)) == 81, "reusing an answer does not make it hold longer"
    assert totals(run.last.counts)["not_modified"] == 81 and fresh_urls(run.last.counts) == 0


def test_a_page_is_asked_for_where_it_is_not_whole_or_known_or_was_set_anew() -> None:
    site = {"p0": Page(links=("p1",), headers=aged(HOUR)), "p1": Page(headers=aged(HOUR))}
    run, clock = Run(Web(site), ("p0",)), Clock()
    asked(run, clock)
    assert asked(run, clock) == set()
    key = f"{BASE}p1"
    run.store.known[key] = run.store.known[key]._replace(whole=False)
    assert asked(run, clock) == {"p1"}
    run.store.known[key] = run.store.known[key]._replace(whole=True)
    assert asked(run, clock) == set()
    del run.store.known[key]
    assert asked(run, clock) == {"p1"} and key in run.store.known
    assert asked(run, clock, configuration="another") == {"p0", "p1"}
    assert asked(run, clock, configuration="another") == set()
    assert asked(run, clock, hours=0, configuration="another") == set(), "what was fresh then is until then"
    site["p1"].headers = {"cache-control": "no-store"}
    clock.now += timedelta(hours=2)
    assert asked(run, clock) == {"p0", "p1"}
    assert asked(run, clock) == {"p1"}


def test_a_page_whose_links_are_lost_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under new rules for links the stored bytes say where it leads; where these cannot be read, the site."""
    site = {"p0": Page(links=("p1",), headers=aged(HOUR)), "p1": Page(headers=aged(HOUR))}
    run, clock = Run(Web(site), ("p0",)), Clock()
    asked(run, clock)
    with run.crawls.database.begin("n") as c:
        c.exec_driver_sql("DELETE FROM crawl_lead")
    run.web.hits.clear()
    run.once(plan(9), freshness=Freshness(clock, HOUR), stored=lambda _: None)
    assert set(run.web.hits) == {"p0", "p1"} and run.last.complete
    with run.crawls.database.begin("n") as c:
        c.exec_driver_sql("DELETE FROM crawl_lead")
    run.web.hits.clear()
    stored = {key: following.StoredPage(body, "text/html", None) for key, body in run.store.bodies.items()}
    run.once(plan(9), freshness=Freshness(clock, HOUR), stored=stored.get)
    assert not run.web.hits and run.last.complete and len(run.leads()) == 1


def test_a_redirected_page_is_always_asked_for() -> None:
    site = {"p0": Page(headers=aged(HOUR))}
    run, clock = Run(Web(site), ("p0",)), Clock()
    real = run.web.answer

    def elsewhere(url: Any, known: Any) -> Any:
        reply = real(url, known)
        reply.url = f"{BASE}elsewhere"
        return reply

    run.web.answer = elsewhere
    assert asked(run, clock) == asked(run, clock) == {"p0"}


def test_what_a_page_says_is_its_own_url_is_recorded_and_carried_over() -> None:
    other = "https://elsewhere.test/"
    site = {
        "p0": Page(links=("p1", "p2", "p3", "p4"), body=f"<link rel=canonical href={other}p0#x>"),
        "p1": Page(body="<link rel=canonical href=/p1?utm_source=x>", headers=aged(HOUR)),
        "p2": Page(body="<link rel=canonical href=p0>", headers=aged(HOUR)),
        "p3": Page(mime="text/plain", headers={"link": f'<{other}p3>; rel="canonical"'}),
        "p4": Page(
            body="<meta name=robots content=nofollow><link rel=canonical href=c>",
            headers={"link": "</no>; rel=canonical", "x-robots-tag": "nofollow", **aged(HOUR)},
        ),
    }
    expected = {
        "p0": f"{other}p0",
        "p1": None,
        "p2": f"{BASE}p0",
        "p3": f"{other}p3",
        "p4": f"{BASE}c",
    }
    for depth in (9, 0):
        run, clock = Run(Web(site), tuple(site), random.Random(depth).randint(0, 99)), Clock()
        for _ in range(3):
            end, _ = run.to_the_end(plan(depth), 0.0, freshness=Freshness(clock, HOUR))
            found = {u["key"].removeprefix(BASE): u["canonical"] for u in run.rows()}
            assert found == expected and end.complete
            assert set(run.store.known) == {BASE + name for name in site}, "nothing follows from it"
        assert fresh_urls(run.last.counts) == 3
        # Under new rules the crawl before is no help: the stored bytes say it, and a header that comes again.
        bodies = {key: following.StoredPage(b, "text/html", None) for key, b in run.store.bodies.items()}
        run.once(plan(depth, link_rules="new", configuration="new"), stored=bodies.get)
        found = {u["key"].removeprefix(BASE): u["canonical"] for u in run.rows()}
        assert found == expected and set(run.web.hits) == set(site)
        site["p0"].body = ""
        run.once(plan(depth, link_rules="new", configuration="new"))
        assert {u["key"].removeprefix(BASE): u["canonical"] for u in run.rows()} == {**expected, "p0": None}
        site["p0"].body = f"<link rel=canonical href={other}p0#x>"
