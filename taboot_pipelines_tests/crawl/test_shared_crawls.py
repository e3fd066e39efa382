"""Several processes work at one crawl, and any of them may die: what comes of it is what one alone finds."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taboot_pipelines.crawl import crawler as crawler_module
from taboot_pipelines.crawl import outcomes
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import Crawl, CrawlPlan, CrawlState, Outcome, totals
from taboot_pipelines.model.records import Fetched
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import frontier, open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.crawl.made_up import (
    BASE,
    Killed,
    Mortal,
    Page,
    Store,
    Web,
    crawler,
    roots,
)

PLAN = CrawlPlan(roots=(BASE,), requested_depth=20, max_pages=10_000, configuration="c", link_rules="r")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    given = Settings(home=tmp_path_factory.mktemp("shared"))
    opened = open_catalog(given, open_leases(given, 5))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawler_module, "CHECKPOINT_PAGES", 3)
    monkeypatch.setattr(crawler_module, "_CLAIMED_AHEAD", 3)
    monkeypatch.setattr(crawler_module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(outcomes, "_RETRY_SECONDS", (0.0, 0.0, 0.0))


def site(random_: random.Random, pages: int) -> dict[str, Page]:
    """A site every page of which is found from the first."""
    names = [f"p{i}" for i in range(pages)]
    links: dict[str, set[str]] = {name: set(random_.choices(names, k=3)) for name in names}
    for i, name in enumerate(names[1:], 1):
        links[names[random_.randrange(i)]].add(name)
    return {name: Page(tuple(sorted(links[name]))) for name in names}


class Shared:
    """One crawl, its leader and its helpers, each in a thread that may die."""

    def __init__(self, catalog: Catalog, source: str, web: Web, seed: int) -> None:
        self.crawls, self.source, self.web = catalog.crawls, source, web
        self.store, self.random = Store(), random.Random(seed)
        self.dead: set[str] = set()
        self.helped = 0

    def lead(self, die: float) -> bool:
        """One run of the process that leads; False if it died."""
        crawl = self.crawls.begin("n", self.source, PLAN)
        name = f"leader-{self.random.random()}"
        frontier = Mortal(self.crawls.database, "n", crawl, name)
        chance = random.Random(self.random.random())

        def events(known: object) -> object:
            made = crawler(frontier, self.web, random.Random(chance.random()), known=known)
            return made.events(lambda: roots("p0"))

        try:
            self.store.run(events, lambda: chance.random() < die)
        except Killed:
            self.dead.add(name)
            return False
        return True

    def help(self, die: float, seed: int) -> None:
        """Work at the crawl until it ends, each time as a new process after it died."""
        chance = random.Random(seed)
        while (crawl := self._running()) is not None:
            name = f"helper-{chance.random()}"
            frontier = Mortal(self.crawls.database, "n", crawl, name, leads=False)
            made = crawler(frontier, self.web, random.Random(chance.random()), known=dict(self.store.known))
            for event in made.events(lambda: roots("p0")):
                if isinstance(event, Fetched):
                    self.store.blobs[hashlib.sha256(event.data).hexdigest()] = event.data
                    self.helped += 1
                if chance.random() < die:
                    self.dead.add(name)
                    break

    def _running(self) -> Crawl | None:
        return self.crawls.running("n", self.source)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 60), st.integers(0, 2**32), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.1]))
def test_a_crawl_that_several_work_at_ends_as_one_in_a_single_go(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, pages: int, seed: int, helpers: int, die: float
) -> None:
    chance = random.Random(seed)
    web = Web(site(chance, pages))
    shared = Shared(catalog, f"s{chance.random()}", web, seed)
    monkeypatch.setattr(frontier, "_is_dead", lambda name: name.removesuffix(":joined") in shared.dead)
    # Begun, so that helpers have something to join; what they find first is that no list has been read.
    shared.crawls.begin("n", shared.source, PLAN)
    threads = [threading.Thread(target=shared.help, args=(die, seed + i)) for i in range(helpers)]
    for thread in threads:
        thread.start()
    died = 0
    while not shared.lead(die if died < 10 else 0.0):
        died += 1
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    (crawl,) = catalog.crawls.find("n", shared.source, 1)
    assert crawl.state is CrawlState.COMPLETED and crawl.complete
    sums = totals(crawl.counts)
    assert sums["discovered"] == pages and sums["open"] == 0
    assert {k.removeprefix(BASE) for k in shared.store.known} == set(web.pages)
    assert all(shared.store.bodies[BASE + name] == web.body(name) for name in web.pages)
    # The last run of the leader tells every page once, whoever had read it.
    assert set(shared.store.told.values()) == {1} and len(shared.store.told) == pages
    if not shared.dead:
        assert set(web.hits.values()) == {1}
    assert not catalog.crawls.frontier("n", crawl).handed(10)


def test_helpers_alone_read_nothing_before_the_lists_are_read_and_all_of_it_afterwards(
    catalog: Catalog,
) -> None:
    web = Web({"p0": Page(("p1", "gone")), "p1": Page((), 403)})
    shared = Shared(catalog, "lists", web, 1)
    crawl = shared.crawls.begin("n", "lists", PLAN)
    thread = threading.Thread(target=shared.help, args=(0.0, 1), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not web.hits
    leader = shared.crawls.frontier("n", crawl, "leader")
    found, listing = roots("p0")
    leader.add_roots(found, listing)
    # Both of one moment: what was in progress may be followed by what it has found.
    while (waiting := leader.waiting()).pending or waiting.in_progress:
        thread.join(0.05)
    handed = {h.settled.key.removeprefix(BASE): h for h in leader.handed(10)}
    assert {name: (h.settled.outcome, h.settled.code) for name, h in handed.items()} == {
        "p0": (Outcome.FETCHED, None),
        "p1": (Outcome.FAILED, "E_FORBIDDEN"),
        "gone": (Outcome.FAILED, "E_NOT_FOUND"),
    }
    page = handed["p0"].page
    assert page is not None and shared.store.blobs[page.sha256] == web.body("p0")
    assert page.byte_size == len(web.body("p0")) and page.final_url == BASE + "p0"
    # What nobody has taken over counts as settled by nobody for a leader that begins anew.
    assert [x for some in leader.settled() for x in some] == []
    assert shared.lead(0.0)
    thread.join(10)
    assert web.hits == {"p0": 1, "p1": 1, "gone": 1} and set(shared.store.told.values()) == {1}
    assert list(shared.store.known) == [BASE + "p0"]


def test_a_cancelled_crawl_keeps_what_was_handed_over_and_takes_nothing_more(catalog: Catalog) -> None:
    web = Web({"p0": Page(("p1", "p2")), "p1": Page(), "p2": Page()})
    shared = Shared(catalog, "cancelled", web, 1)
    crawl = shared.crawls.begin("n", "cancelled", PLAN)
    leader = shared.crawls.frontier("n", crawl, "leader")
    leader.add_roots(*roots("p0"))
    helper = Mortal(catalog.database, "n", crawl, "helper", leads=False)
    events = crawler(helper, web, random.Random(1)).events(lambda: roots("p0"))
    told = []
    for event in events:
        told.append(event)
        if isinstance(event, Fetched):
            shared.store.blobs[hashlib.sha256(event.data).hexdigest()] = event.data
        if len(leader.handed(10)) == 1:
            shared.crawls.cancel("n", crawl.crawl_id)
    assert len(leader.handed(10)) == 1
    shared.crawls.resume("n", crawl.crawl_id)
    assert shared.lead(0.0)
    assert {k.removeprefix(BASE) for k in shared.store.known} == {"p0", "p1", "p2"} and web.hits["p0"] == 1


def test_who_joins_gives_back_what_it_holds_when_its_store_fails(catalog: Catalog) -> None:
    web = Web({"p0": Page(tuple(f"p{i}" for i in range(1, 9))), **{f"p{i}": Page() for i in range(1, 9)}})
    crawl = catalog.crawls.begin("n", "full", PLAN)
    leader = catalog.crawls.frontier("n", crawl, "leader")
    leader.add_roots(*roots("p0"))
    helper = catalog.crawls.frontier("n", crawl, "helper", leads=False)
    events = crawler(helper, web, random.Random(1)).events(lambda: roots("p0"))
    with pytest.raises(TabootError):
        for event in events:
            if isinstance(event, Fetched) and event.path != BASE + "p0":
                events.close()
                raise TabootError("E_STORAGE", "The disk is full.")
    waiting = leader.waiting()
    assert (waiting.pending, waiting.in_progress) == (8, 0)
