"""Crawls of made-up sites: whatever the order of answers, and wherever the process dies."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl import crawler as module
from taboot_pipelines.crawl import following, outcomes
from taboot_pipelines.crawl.following import StoredPage
from taboot_pipelines.model.crawls import Crawl, CrawlPlan, CrawlState, Outcome, Strategy, totals
from taboot_pipelines.model.records import Enumerated
from taboot_pipelines.stores.catalog.crawls import Crawls, crawls_in_memory
from taboot_pipelines_tests.crawl.made_up import (
    BASE,
    AnyOrder,
    Killed,
    Mortal,
    Page,
    Store,
    Web,
    crawler,
    roots,
    targets,
)
from taboot_pipelines_tests.crawl_rows import leads_of, rows_of


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after every few pages, and no waits."""
    monkeypatch.setattr(module, "CHECKPOINT_PAGES", 3)
    monkeypatch.setattr(outcomes, "_RETRY_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(module, "_STARVING_SECONDS", 0.0)


def plan(depth: int, strategy: Strategy = Strategy.BFS, **fields: Any) -> CrawlPlan:
    fields = {"max_pages": 10_000, "configuration": "c", "link_rules": "r", **fields}
    return CrawlPlan(roots=(BASE,), requested_depth=depth, strategy=strategy, **fields)


class Run:
    """Crawls of one made-up source, one after the other, into one store."""

    def __init__(self, web: Web, listed: tuple[str, ...], seed: int = 0, window: int = 4) -> None:
        self.crawls: Crawls = crawls_in_memory()
        self.keywords: tuple[str, ...] = ()
        self.store, self.web, self.listed = Store(), web, listed
        self.random, self.window = random.Random(seed), window
        #: How often each page had been asked for that was settled when the process died.
        self.settled: dict[str, int] = {}

    def once(self, the_plan: CrawlPlan, die: float = 0.0, **more: Any) -> Enumerated:
        """One run of the process; raises ``Killed`` where it dies."""
        crawl = self.crawls.begin("n", "s", the_plan)
        frontier = Mortal(self.crawls.database, "n", crawl, f"p{self.random.random()}")
        fetching = AnyOrder(self.web, self.random)
        kill = lambda: self.random.random() < die  # noqa: E731

        def events(known: Any) -> Any:
            made = module.Crawler(
                frontier,
                fetching,
                targets(self.keywords),
                **{
                    "known": known,
                    "tombstoned": lambda _: False,
                    "window": self.window,
                    "stored": self._stored,
                    **more,
                },
            )
            return made.events(lambda: roots(*self.listed))

        try:
            return self.store.run(events, kill)
        except Killed:
            for url in rows_of(self.crawls, crawl):
                if url["outcome"] is not None and url["code"] != "E_DEPTH":
                    name = url["key"].removeprefix(BASE)
                    self.settled.setdefault(name, self.web.hits[name])
            raise

    def to_the_end(self, the_plan: CrawlPlan, die: float = 0.0, **more: Any) -> tuple[Enumerated, int]:
        """Run until a run comes to its end; how often it died."""
        for died in range(1000):
            try:
                return self.once(the_plan, die if died < 30 else 0.0, **more), died
            except Killed:
                pass
        raise AssertionError("it never comes to its end")

    def _stored(self, key: str) -> StoredPage | None:
        """Half of the blobs cannot be read any more."""
        body = self.store.bodies.get(key)
        if body is None or self.random.random() < 0.5:
            return None
        return StoredPage(body, self.web.pages[key.removeprefix(BASE)].mime, None)

    @property
    def last(self) -> Crawl:
        return self.crawls.find("n", "s", 1)[0]

    def rows(self) -> list[dict[str, Any]]:
        """The URLs of the last crawl by key."""
        return rows_of(self.crawls, self.last)

    def leads(self) -> list[tuple[str, str]]:
        """The links of the last crawl."""
        return leads_of(self.crawls, self.last)


def ways(web: Web, listed: tuple[str, ...], limit: int) -> dict[str, int]:
    """The depth of every URL that a crawl knows: the shortest ways over pages that can be read."""
    depths = dict.fromkeys(listed, 0)
    queue = deque(depths)
    while queue:
        name = queue.popleft()
        page, depth = web.pages.get(name), depths[name]
        asked = depth == 0 or depth < limit
        if limit == 0 or not asked or page is None or not page.readable or page.mime != "text/html":
            continue
        for link in page.links:
            if link not in depths:
                depths[link] = depth + 1
                queue.append(link)
    return depths


NAMES = [f"p{i}" for i in range(10)]
PAGES = st.builds(
    Page,
    links=st.lists(st.sampled_from([*NAMES, "lost"]), max_size=5).map(tuple),
    status=st.sampled_from([200] * 6 + [404, 403, 500, 408]),
    passes=st.integers(0, 2),
    mime=st.sampled_from(["text/html"] * 5 + ["text/plain"]),
)
SITES = st.lists(PAGES, min_size=1, max_size=len(NAMES)).map(
    lambda pages: dict(zip(NAMES, pages, strict=False))
)


@settings(max_examples=60, deadline=None)
@given(
    SITES,
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from(list(Strategy)),
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.03, 0.15, 0.4]),
)
def test_a_crawl_that_is_killed_anywhere_ends_as_one_in_a_single_go(
    site: dict[str, Page],
    listed: int,
    depth: int,
    strategy: Strategy,
    seed: int,
    window: int,
    die: float,
) -> None:
    web = Web(site)
    start = tuple(list(site)[:listed])
    run = Run(web, start, seed, window)
    end, died = run.to_the_end(plan(depth, strategy), die)
    expected = ways(web, start, depth)
    urls = {u["key"].removeprefix(BASE): u for u in run.rows()}
    assert {n: u["depth"] for n, u in urls.items()} == expected

    def reads(name: str) -> bool:
        page = site.get(name)
        return page is not None and page.readable and (expected[name] == 0 or expected[name] < depth)

    assert {k.removeprefix(BASE) for k in run.store.known} == {n for n in expected if reads(n)}
    unknown = {n for n, u in urls.items() if u["outcome"] == Outcome.FAILED and u["code"] != "E_NOT_FOUND"}
    assert end.complete == (depth == 0 or not unknown)
    for name, url in urls.items():
        leaf = expected[name] > 0 and expected[name] >= depth
        assert (url["code"] == "E_DEPTH") == leaf == (url["state"] == "COMPLETED" and not web.hits[name])
        assert url["state"] in ("COMPLETED", "FAILED") and url["attempts"] <= 3
        page = site.get(name)
        if not leaf and died == 0:
            again = page is not None and page.status in (500, 408)
            assert page is None or not again or web.hits[name] == (page.passes + 1 if page.passes else 3)
            assert again or web.hits[name] == 1
    # What was settled when the process died is never asked for again.
    assert {n: web.hits[n] for n in run.settled} == run.settled
    sums = totals(run.last.counts)
    assert sums["discovered"] == len(urls) and sums["open"] == 0
    assert sums["discovered"] == sums["fetched"] + sums["not_modified"] + sums["skipped"] + sums["failed"]
    assert run.last.state is CrawlState.COMPLETED and run.last.complete == end.complete
    # The last run tells every page once, whichever run had read it.
    asked = {n for n in urls if not (expected[n] > 0 and expected[n] >= depth)}
    assert {k.removeprefix(BASE) for k in run.store.told} == asked
    assert set(run.store.told.values()) <= {1}


@settings(max_examples=40, deadline=None)
@given(SITES, st.lists(SITES, min_size=1, max_size=3), st.integers(0, 4), st.integers(0, 2**32))
def test_crawls_of_a_site_that_changes_hold_what_one_crawl_of_its_last_state_holds(
    first: dict[str, Page], later: list[dict[str, Page]], depth: int, seed: int
) -> None:
    run = Run(Web(first), ("p0",), seed)
    for site in [first, *later]:
        run.web.pages = site
        run.web.hits.clear()
        end, _ = run.to_the_end(plan(depth), random.Random(seed).choice([0.0, 0.1]))
    fresh = Run(Web(later[-1]), ("p0",), seed)
    fresh.to_the_end(plan(depth))
    held = set(run.store.known)
    if end.complete and depth:
        assert held == set(fresh.store.known)
    else:
        # What cannot be read now may be there still; a partial crawl retires only what does not exist.
        assert held >= set(fresh.store.known)
    assert {k: run.store.known[k].sha256 for k in fresh.store.known} == {
        k: x.sha256 for k, x in fresh.store.known.items()
    }
    urls = [(u["key"], u["depth"], u["code"]) for u in fresh.rows()]
    if all(p.status in (200, 404) for s in [first, *later] for p in s.values()):
        assert [(u["key"], u["depth"], u["code"]) for u in run.rows()] == urls
        leads = fresh.leads()
        assert run.leads() == leads


def test_a_crawl_of_an_unchanged_site_asks_conditionally_and_parses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = {f"p{i}": Page(links=(f"p{i * 2 + 1}", f"p{i * 2 + 2}", "p0")) for i in range(40)}
    run = Run(Web(site), ("p0",))
    run.once(plan(20))
    assert run.web.hits == Counter({f"p{i}": 1 for i in range(81)})
    before = run.leads()
    run.web.hits.clear()
    monkeypatch.setattr(following, "page_links", lambda *_, **__: pytest.fail("a page was parsed again"))
    end = run.once(plan(20), stored=lambda _: pytest.fail("a stored page was read"))
    assert end.complete and run.web.hits == Counter({f"p{i}": 1 for i in range(81)})
    assert run.web.conditional == Counter({f"p{i}": 1 for i in range(40)})
    assert run.leads() == before
    sums = totals(run.last.counts)
    assert (sums["not_modified"], sums["failed"], sums["fetched"]) == (40, 41, 0)


def test_what_lies_behind_a_page_that_cannot_be_read_now_is_still_seen() -> None:
    """Refused, failing, or deleted here on purpose: it leads where it last did."""
    site = {"p0": Page(links=("p1",)), "p1": Page(links=("p2",)), "p2": Page(links=("p3",)), "p3": Page()}
    run = Run(Web(site), ("p0",))
    assert run.once(plan(9)).complete
    site["p0"] = Page(status=500)
    for _ in range(2):
        end = run.once(plan(9), tombstoned=lambda key: key == f"{BASE}p2")
        assert not end.complete and end.reason == "pages did not answer: E_5XX_ORIGIN"
        assert run.store.seen >= {f"{BASE}p1", f"{BASE}p3"} and len(run.store.known) == 4
    assert run.web.hits["p2"] == 1 and run.web.hits["p3"] == 3


def test_a_crawl_is_cut_at_max_pages_and_deletes_nothing() -> None:
    site = {f"p{i}": Page(links=tuple(f"p{j}" for j in range(i, min(i + 9, 60)))) for i in range(60)}
    run = Run(Web(site), ("p0",))
    run.once(plan(90))
    assert len(run.store.known) == 60
    run.web.hits.clear()
    end, _ = run.to_the_end(plan(90, max_pages=25, configuration="smaller"), 0.1)
    assert end == Enumerated(False, "it was cut at 25 pages")
    assert len(run.web.hits) == 25 and len(run.store.known) == 60
    by_code = {r.code: r.urls for r in run.last.counts if r.outcome == Outcome.SKIPPED}
    assert set(by_code) == {"E_PAGES"} and totals(run.last.counts)["discovered"] == 25 + by_code["E_PAGES"]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_each_strategy_asks_in_its_order(strategy: Strategy) -> None:
    site = {
        "": Page(links=("a", "b-gauge", "c")),
        "a": Page(links=("a1", "a2")),
        "b-gauge": Page(links=("b1", "pressure-gauge")),
        "c": Page(links=("c1",)),
    }
    for leaf in ("a1", "a2", "b1", "pressure-gauge", "c1"):
        site[leaf] = Page()
    run = Run(Web(site), ("",), window=1)
    order: list[str] = []
    asked = run.web.answer
    run.web.answer = lambda url, known: order.append(url.text.removeprefix(BASE)) or asked(url, known)
    run.keywords = ("pressure gauge",)
    run.once(plan(5, strategy))
    assert (
        order
        == {
            Strategy.BFS: ["", "a", "b-gauge", "c", "a1", "a2", "b1", "pressure-gauge", "c1"],
            Strategy.DFS: ["", "a", "a1", "a2", "b-gauge", "b1", "pressure-gauge", "c", "c1"],
            Strategy.BEST_FIRST: ["", "a", "b-gauge", "pressure-gauge", "b1", "c", "a1", "a2", "c1"],
        }[strategy]
        or strategy is Strategy.BEST_FIRST
    )
    if strategy is Strategy.BEST_FIRST:
        assert order.index("pressure-gauge") == order.index("b-gauge") + 1


def test_links_below_the_threshold_are_known_and_not_followed() -> None:
    site = {"": Page(links=("pumps", "valves")), "pumps": Page(links=("valves",)), "valves": Page()}
    run = Run(Web(site), ("",))
    run.keywords = ("pumps",)
    end = run.once(plan(5, score_threshold=0.4))
    assert end.complete and sorted(run.web.hits) == ["", "pumps"]
    (skipped,) = [r for r in run.last.counts if r.outcome == Outcome.SKIPPED]
    assert (skipped.code, skipped.urls, skipped.depth) == ("E_SCORE", 1, 1)


def test_a_crawl_is_cancelled_while_it_runs_and_goes_on_when_it_is_resumed() -> None:
    site = {f"p{i}": Page(links=tuple(f"p{j}" for j in range(30))) for i in range(30)}
    run = Run(Web(site), ("p0",))
    asked = run.web.answer

    def answer(url: Any, known: Any) -> Any:
        if len(run.web.hits) == 12:
            run.crawls.cancel("n", run.last.crawl_id)
        return asked(url, known)

    run.web.answer = answer
    end = run.once(plan(9))
    assert end == Enumerated(False, "the crawl was cancelled") and run.last.state is CrawlState.CANCELLED
    assert 12 <= sum(run.web.hits.values()) <= 12 + 2 * run.window and totals(run.last.counts)["open"] > 0
    run.web.answer = asked
    cancelled = run.crawls.resume("n", run.last.crawl_id)
    end = run.once(plan(9))
    assert end.complete and run.last.crawl_id == cancelled.crawl_id and len(run.store.known) == 30
    assert sum(run.web.hits.values()) <= 30 + 2 * run.window


def test_a_source_that_is_configured_anew_begins_a_new_crawl() -> None:
    site = {f"p{i}": Page(links=(f"p{i + 1}",)) for i in range(9)}
    run = Run(Web(site), ("p0",))
    with pytest.raises(Killed):
        run.once(plan(9), 1.0)
    first = run.last
    run.once(plan(4, configuration="another"))
    assert [c.state for c in run.crawls.find("n", "s")] == [CrawlState.COMPLETED, CrawlState.CANCELLED]
    assert run.crawls.get("n", first.crawl_id).reason == "the source was configured anew"


def test_whoever_stops_early_leaves_the_crawl_as_if_nothing_had_been_claimed() -> None:
    site = {"p0": Page(links=tuple(f"p{j}" for j in range(30))), **{f"p{i}": Page() for i in range(1, 30)}}
    crawls = crawls_in_memory()
    crawl = crawls.begin("n", "s", plan(9))
    frontier = crawls.frontier("n", crawl)
    stream = crawler(frontier, Web(site), random.Random(1)).events(lambda: roots("p0"))
    for _ in range(8):
        next(stream)
    assert frontier.waiting().in_progress > 0
    stream.close()
    assert frontier.waiting().in_progress == 0 and frontier.state() is CrawlState.RUNNING
