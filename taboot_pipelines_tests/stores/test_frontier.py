"""The frontier of a crawl on both databases: nobody shares a URL, nothing is lost or taken in twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import (
    ClaimedUrl,
    Crawl,
    CrawlPlan,
    CrawlState,
    DoneUrl,
    FoundUrl,
    Listing,
    Outcome,
    Strategy,
    totals,
    url_id,
)
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import frontier as frontiers
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.frontier import Frontier
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.crawl_rows import leads_of, rows_of
from taboot_pipelines_tests.stores.conftest import Opener


def plan(**fields: Any) -> CrawlPlan:
    return CrawlPlan(
        **{
            "roots": ("http://h/",),
            "requested_depth": 9,
            "max_pages": 100_000,
            "configuration": "c",
            "link_rules": "r",
            **fields,
        }
    )


def url(name: str, parent: ClaimedUrl | None = None, host: str = "h", **fields: Any) -> FoundUrl:
    key = f"http://{host}/{name}"
    return FoundUrl(url_id(key), key, key, host, parent.url_id if parent else None, **fields)


def begun(catalog: Catalog, roots: list[FoundUrl], **fields: Any) -> Crawl:
    crawl = catalog.crawls.begin("n", "s", plan(**fields))
    catalog.crawls.frontier("n", crawl).add_roots(roots, Listing())
    return crawl


def done(claimed: ClaimedUrl, *children: FoundUrl, **fields: Any) -> DoneUrl:
    ids = b"".join(c.url_id for c in children)
    return DoneUrl(claimed, **{"outcome": Outcome.FETCHED, "children": ids, **fields})


def states(catalog: Catalog, crawl: Crawl) -> Counter[str]:
    return Counter(u["state"] for u in rows_of(catalog.crawls, crawl))


def test_a_crawl_has_its_id_from_its_source_and_number_and_goes_on_until_it_ends(catalog: Catalog) -> None:
    first = begun(catalog, [url("a")])
    assert catalog.crawls.begin("n", "s", plan()).crawl_id == first.crawl_id
    frontier = catalog.crawls.frontier("n", first)
    (claimed,) = frontier.claim(9)
    frontier.finish([done(claimed)], [])
    frontier.end(complete=True)
    second = catalog.crawls.begin("n", "s", plan())
    assert (second.number, second.previous) == (2, first.crawl_id) and second.crawl_id != first.crawl_id
    assert catalog.crawls.begin("n", "s", plan(configuration="d", link_rules="q")).previous is None
    assert [c.state for c in catalog.crawls.find("n", "s")] == [
        CrawlState.RUNNING,
        CrawlState.CANCELLED,
        CrawlState.COMPLETED,
    ]
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        catalog.crawls.get("m", first.crawl_id)


def test_claimants_never_share_a_url(opener: Opener) -> None:
    """Four at once, each with a catalog of its own, each page leading to more."""
    catalog = opener()
    crawl = begun(catalog, [url(f"r{i}", host=f"h{i % 3}") for i in range(30)])
    taken: list[list[str]] = [[] for _ in range(4)]
    failures: list[BaseException] = []
    first = threading.Barrier(4)

    def work(n: int, own: Catalog) -> None:
        try:
            frontier = own.crawls.frontier("n", crawl, f"claimant {n}")
            while True:
                claimed = frontier.claim(7)
                if not taken[n]:
                    # SQLite favours whoever wrote last: all hold something before the first goes on.
                    first.wait(60)
                if not claimed:
                    if frontier.waiting().in_progress == 0 and frontier.waiting().pending == 0:
                        return
                    continue
                taken[n] += [c.key for c in claimed]
                pages, found = [], []
                for c in claimed:
                    # Every page of a level leads to the same ones of the next: all race to bring them in.
                    children = [
                        url(f"d{c.depth + 1}-{i}", c, host=f"h{i % 3}") for i in range(40) if c.depth < 6
                    ]
                    pages.append(done(c, *children))
                    found += children
                frontier.finish(pages, found)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n, opener())) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    keys = [key for some in taken for key in some]
    assert len(keys) == len(set(keys)) == 30 + 6 * 40 and all(taken)
    assert states(catalog, crawl) == {"COMPLETED": 270}
    assert {u["attempts"] for u in rows_of(catalog.crawls, crawl)} == {0}


def test_what_a_dead_or_silent_claimant_held_is_handed_out_again(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = begun(catalog, [url(f"p{i}") for i in range(9)])
    gone = subprocess.run(
        [
            sys.executable,
            "-c",
            "from taboot_pipelines.stores.catalog.crawl_urls import this_process as p; print(p())",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ).stdout.strip()
    dead = catalog.crawls.frontier("n", crawl, gone)
    silent = catalog.crawls.frontier("n", crawl, "another-machine:7:1.0")
    living = catalog.crawls.frontier("n", crawl)
    lost = dead.claim(2)
    silent.claim(3)
    assert len(living.claim(1)) == 1
    assert living.reclaim() == 2, "those of the dead process, and nothing of those that live"
    assert dead.finish([done(c) for c in lost], []).lost == 2
    monkeypatch.setattr(frontiers, "STALE_MICROS", -1)
    silent.heartbeat()
    assert living.reclaim() == 4 and states(catalog, crawl) == {"PENDING": 9}
    assert catalog.crawls.frontier("n", crawl, "x").reclaim(alone=True) == 0


def test_giving_back_and_retrying_count_as_the_graph_says(catalog: Catalog) -> None:
    crawl = begun(catalog, [url("a"), url("b")])
    frontier = catalog.crawls.frontier("n", crawl)
    assert len(frontier.claim(9)) == 2 and frontier.release() == 2
    a, b = frontier.claim(9)
    assert (a.attempts, b.attempts) == (0, 0)
    failed = {"outcome": Outcome.FAILED, "children": None, "code": "E_TIMEOUT"}
    frontier.finish([done(a, **failed, retry=True, wait=0.0), done(b, **failed, retry=True, wait=60.0)], [])
    waiting = frontier.waiting()
    assert (waiting.pending, waiting.in_progress, waiting.seconds) == (2, 0, 0.0)
    (again,) = frontier.claim(9)
    assert (again.key, again.attempts) == (a.key, 1)
    frontier.finish([done(again, **failed)], [])
    rows = {u["key"]: u for u in rows_of(catalog.crawls, crawl)}
    assert (rows[a.key]["state"], rows[a.key]["attempts"]) == ("FAILED", 2)
    assert (rows[b.key]["state"], rows[b.key]["attempts"], rows[b.key]["outcome"]) == ("PENDING", 1, None)
    seconds = frontier.waiting().seconds
    assert seconds is not None and 50 < seconds <= 60


def test_every_host_has_its_share_and_a_busy_one_waits(catalog: Catalog) -> None:
    many = [url(f"p{i}", host="big") for i in range(200)]
    crawl = begun(catalog, [*many, url("x", host="small"), url("y", host="tiny")])
    frontier = catalog.crawls.frontier("n", crawl)
    assert Counter(c.host for c in frontier.claim(12)) == {"big": 4, "small": 1, "tiny": 1}
    assert {c.host for c in frontier.claim(3, ["big"])} == {"big"}, "a busy host where no other has any"
    hosts = begun(catalog, [url("p", host=f"h{i:03}") for i in range(100)], configuration="many")
    frontier = catalog.crawls.frontier("n", hosts)
    seen = [c.host for _ in range(4) for c in frontier.claim(32)]
    assert len(seen) == len(set(seen)) == 100


def test_preferred_urls_come_first_whatever_the_strategy(catalog: Catalog) -> None:
    for strategy in Strategy:
        roots = [url(f"p{i}", preferred=i == 5, score=i / 10) for i in range(8)]
        crawl = begun(catalog, roots, strategy=strategy, configuration=strategy.value)
        order = [c.key[-2:] for c in catalog.crawls.frontier("n", crawl).claim(8)]
        assert order[0] == "p5"
        rest = {"bfs": "01234 67", "dfs": "01234 67", "best_first": "76 43210"}[strategy.value]
        assert order[1:] == [f"p{i}" for i in rest.replace(" ", "")]


def test_max_pages_counts_each_url_once_however_often_it_is_claimed(catalog: Catalog) -> None:
    crawl = begun(catalog, [url(f"p{i:02}") for i in range(20)], max_pages=7)
    frontier = catalog.crawls.frontier("n", crawl)
    first = frontier.claim(5)
    frontier.release()
    assert [c.key for c in frontier.claim(5)] == [c.key for c in first]
    assert len(frontier.claim(5)) == 2 and frontier.claim(5) == []
    assert states(catalog, crawl) == {"IN-PROGRESS": 7, "CANCELLED": 13}
    late = [url("late", first[0])]
    frontier.finish([done(c) for c in first[1:]] + [done(first[0], *late)], late)
    assert states(catalog, crawl) == {"IN-PROGRESS": 2, "CANCELLED": 14, "COMPLETED": 5}
    frontier.release()
    assert len(frontier.claim(5)) == 2
    ledger = totals(frontier.ledger())
    assert (ledger["discovered"], ledger["skipped"], ledger["open"]) == (21, 14, 2)


def test_a_shorter_way_moves_up_all_that_lies_behind_it(catalog: Catalog) -> None:
    """A page was reached by a long way and read; leaves behind it come into reach."""
    crawl = begun(catalog, [url("a"), url("slow")], requested_depth=4)
    frontier = catalog.crawls.frontier("n", crawl)
    a, slow = frontier.claim(9)
    for here, there in (("b", 1), ("c", 2), ("d", 3)):
        child = [url(here, a)]
        frontier.finish([done(a, *child)], child)
        (a,) = frontier.claim(9)
        assert a.depth == there
    leaf = [url("e", a)]
    frontier.finish([done(a, *leaf)], leaf)
    assert frontier.claim(9) == []
    rows = {u["key"][-1]: u for u in rows_of(catalog.crawls, crawl)}
    assert (rows["e"]["depth"], rows["e"]["state"], rows["e"]["code"]) == (4, "COMPLETED", "E_DEPTH")
    short = [url("c", slow)]
    frontier.finish([done(slow, *short)], short)
    rows = {u["key"][-1]: u for u in rows_of(catalog.crawls, crawl)}
    assert {n: rows[n]["depth"] for n in "abcde"} == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 3}
    assert rows["c"]["parent"] == slow.key
    assert [c.key[-1] for c in frontier.claim(9)] == ["e"]


def test_the_graph_names_every_link_and_forgets_what_is_erased(catalog: Catalog) -> None:
    crawl = begun(catalog, [url("a")])
    frontier = catalog.crawls.frontier("n", crawl)
    (a,) = frontier.claim(1)
    children = [url(f"c{i}", a) for i in range(3)]
    frontier.finish(
        [done(a, *children, content="sha", http_status=200, seconds=0.5, address="192.0.2.1")], children
    )
    leads = leads_of(catalog.crawls, crawl)
    assert leads == [(a.key, c.key) for c in children]
    row = rows_of(catalog.crawls, crawl)[0]
    assert (row["http_status"], row["request_seconds"], row["ip"]) == (200, 0.5, "192.0.2.1")
    with catalog.database.begin("n") as c:
        catalog.crawls.forget(c, "n", "s", {children[1].key, "http://h/"})
    assert leads_of(catalog.crawls, crawl) == [leads[0], leads[2]]
    assert catalog.crawls.get("n", crawl.crawl_id).plan.roots == ()


def test_old_crawls_keep_their_counts_and_lose_their_urls(catalog: Catalog) -> None:
    for i in range(5):
        crawl = begun(catalog, [url(f"p{i}")])
        frontier = catalog.crawls.frontier("n", crawl)
        frontier.finish([done(frontier.claim(1)[0])], [])
        frontier.end(complete=True)
    running = begun(catalog, [url("now")])
    assert catalog.crawls.forget_old("n", "s", 2) == 3 and catalog.crawls.forget_old("n", "s", 2) == 0
    assert catalog.crawls.forget_old("n", "s", 0) == 1, "the one before the crawl that runs is needed"
    crawls = catalog.crawls.find("n", "s")
    assert [totals(catalog.crawls.ledger("n", c.crawl_id))["discovered"] for c in crawls] == [1] * 6
    catalog.crawls.forget_source("n", "s")
    with catalog.database.begin("n") as c:
        left = [c.execute(sa.select(sa.func.count()).select_from(x)).scalar() for x in (t.crawl, t.crawl_url)]
    assert left == [0, 0] and running.number == 6


def test_what_is_taken_in_twice_counts_once(catalog: Catalog) -> None:
    """A commit whose answer was lost is tried again."""
    crawl = begun(catalog, [url("a")])
    frontier = catalog.crawls.frontier("n", crawl)
    (a,) = frontier.claim(1)
    children = [url("b", a), replace(url("b", a), score=0.5), url("a", a)]
    assert frontier.finish([done(a, *children)], children).lost == 0
    assert frontier.finish([done(a, *children)], children).lost == 1
    assert states(catalog, crawl) == {"COMPLETED": 1, "PENDING": 1}
    frontier.end(complete=True, reason="")
    assert frontier.claim(1) == [] and frontier.state() is CrawlState.COMPLETED
    assert not catalog.crawls.cancel("n", crawl.crawl_id)
    with pytest.raises(TabootError, match="E_TRANSITION"):
        catalog.crawls.resume("n", crawl.crawl_id)


def test_a_claim_finds_what_waits_by_its_index(tmp_path: Path) -> None:
    """However many have been settled, on SQLite: PostgreSQL chooses its plans by what it has counted."""
    settings = Settings(home=tmp_path)
    catalog = open_catalog(settings, open_leases(settings, 5))
    crawl = begun(catalog, [url("a")])
    frontier = Frontier(catalog.database, "n", crawl)
    seen: list[str] = []
    sa.event.listen(catalog.database.engine, "before_cursor_execute", lambda c, x, s, p, y, m: seen.append(s))
    frontier.claim(3)
    select = next(s for s in seen if "ORDER BY crawl_url.rank" in s)
    with catalog.database.begin("n") as c:
        steps = c.exec_driver_sql(f"EXPLAIN QUERY PLAN {select}", ("n", crawl.crawl_id, "h", 1, 3, 0)).all()
    assert any("ix_crawl_url_pending" in s[3] for s in steps) and not any(
        "TEMP B-TREE" in s[3] for s in steps
    )
    catalog.close()
