"""Pages of a real server that says how long its answers hold: not asked for, and served as last fetched."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines.stages.raw_blobs import Batch
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stores.catalog import schema
from taboot_pipelines_tests.acceptance.checks import blob_path, flip_byte
from taboot_pipelines_tests.crawled import DEPTHS, LINKS, SmallSite, crawl_source, page, small_site
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, logical


class Clock:
    """The clock by which sources are read."""

    now = datetime.now(UTC)

    def step(self, hours: float) -> None:
        self.now += timedelta(hours=hours)


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site() as made:
        holding(made, "max-age=7200")
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the sources and of the server, which says when it made an answer."""
    made, real = Clock(), Access.of
    monkeypatch.setattr(
        BaseHTTPRequestHandler, "date_time_string", lambda *_: format_datetime(made.now, usegmt=True)
    )
    monkeypatch.setattr(Access, "of", lambda *a, **k: replace(real(*a, **k), clock=lambda: made.now))
    return made


@pytest.fixture
def fast(tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    made = World(tmp_path, tei.url, http={"rate_limit_rps": 0})
    yield made
    made.workspace.close()


def holding(site: SmallSite, control: str | None, *paths: str) -> None:
    """Let the pages (default: all) come with this ``Cache-Control``."""
    for path in paths or LINKS:
        site.headers[path] = {} if control is None else {"cache_control": control}


def crawl(world: World, site: SmallSite) -> tuple[StageReport, set[str]]:
    """Crawl; the report, and what was asked of the server."""
    # What robots.txt said is forgotten, so that it must be asked for if anything is.
    with world.workspace.catalog.database.begin("default") as c:
        c.execute(sa.delete(schema.state_value))
    site.site.hits.clear()
    report = world.run("raw_blobs", "site")
    return report, set(site.site.hits)


def fresh(world: World) -> int:
    return world.run("crawl_graph", "site").counts["fresh"]


def rows(world: World) -> dict[str, dict[str, Any]]:
    crawls = CrawlGraph(world.workspace.catalog, "default")
    return {row["url"]: row for part in crawls.urls(crawls.find("site")) for row in part.to_pylist()}


def test_a_fresh_site_is_not_asked_and_counts_as_not_modified(
    fast: World, site: SmallSite, clock: Clock
) -> None:
    crawl_source(fast, site)
    first, hits = crawl(fast, site)
    assert hits == {*DEPTHS, "/robots.txt"} and fresh(fast) == 0
    clock.step(1)
    report, hits = crawl(fast, site)
    # Only what does not exist is asked for again: its refusal says nothing of how long it holds.
    assert hits == {"/gone", "/missing", "/robots.txt"}
    assert (report.counts["not_modified"], report.counts["fetched"]) == (len(LINKS), 0)
    assert report.counts["discovered"] == first.counts["discovered"] == len(DEPTHS)
    assert report.counts.get("new_blobs", 0) == 0 and fresh(fast) == len(LINKS)
    for path in ("/d", "/a", "/a/deep"):
        site.links[path] = tuple(x for x in site.links[path] if x not in ("/gone", "/missing"))
    clock.step(2)
    assert crawl(fast, site)[1] == {*LINKS, "/robots.txt"}
    clock.step(0.5)
    assert crawl(fast, site)[1] == set(), "no request at all, not even for robots.txt"
    assert fresh(fast) == len(LINKS)
    told = {row["code"] for row in rows(fast).values()}
    assert told == {"fresh"} and {row["outcome"] for row in rows(fast).values()} == {"not_modified"}


def test_how_long_pages_hold_is_up_to_the_server_and_to_the_source(
    fast: World, site: SmallSite, clock: Clock
) -> None:
    holding(site, "max-age=900000", "/a")
    holding(site, "no-cache, max-age=900000", "/b")
    holding(site, None, "/c")
    site.headers["/d"] = {"expires": format_datetime(clock.now + timedelta(hours=5), usegmt=True)}
    site.headers["/e"] = {"cache_control": "max-age=7200", "age": "7000"}
    crawl_source(fast, site, fresh_hours=6)
    crawl(fast, site)
    never = {"/gone", "/missing", "/robots.txt"}
    clock.step(0.5)
    assert crawl(fast, site)[1] == never | {"/b", "/c", "/e"}
    clock.step(4)
    assert crawl(fast, site)[1] == never | set(LINKS) - {"/a", "/d"}
    clock.step(1)
    assert "/a" not in (hits := crawl(fast, site)[1]) and "/d" in hits
    clock.step(0.6)
    assert "/a" in crawl(fast, site)[1], "longer than fresh_hours nothing holds"
    # What is set anew asks for every page, once.
    for fields in ({"fresh_hours": 5}, {"headers": {"X-Who": "me"}}, {"extraction": "raw"}):
        crawl_source(fast, site, **{"fresh_hours": 6, **fields})
        assert crawl(fast, site)[1] == never | set(LINKS)
        assert crawl(fast, site)[1] == never | {"/b", "/c", "/d"}
    crawl_source(fast, site, fresh_hours=0)
    for _ in range(2):
        assert crawl(fast, site)[1] == never | set(LINKS)


def test_a_change_is_seen_when_the_answer_is_over_or_the_clock_was_set_back(
    fast: World, site: SmallSite, clock: Clock
) -> None:
    crawl_source(fast, site)
    crawl(fast, site)
    site.links["/e"] = ("/new",)
    site.links["/new"] = ()
    clock.step(1)
    assert crawl(fast, site)[0].counts["fetched"] == 0
    clock.step(-0.5)
    report, hits = crawl(fast, site)
    assert report.counts["fetched"] == 2 and {"/e", "/new"} <= hits and set(LINKS) <= hits


def test_a_damaged_blob_is_asked_for_though_its_page_is_fresh(
    fast: World, site: SmallSite, clock: Clock
) -> None:
    crawl_source(fast, site)
    fast.ingest("site")
    located = fast.workspace.catalog.locators.of_source("default", "site")[site.url("/e")]
    whole = fast.workspace.blobs.get("default", located.sha256)
    flip_byte(blob_path(fast, located.sha256))
    letter = {"item": site.url("/e"), "code": "E_BLOB_CORRUPT", "message": "", "fingerprint": ""}
    fast.workspace.catalog.dead_letters.record(
        "default", "site", "documents", [{**letter, "kind": "failed"}], []
    )
    assert set(LINKS) <= crawl(fast, site)[1]
    assert fast.workspace.blobs.get("default", located.sha256) == whole


def test_a_redirected_page_is_asked_for_and_a_canonical_url_is_only_recorded(
    fast: World, site: SmallSite, clock: Clock
) -> None:
    site.statuses["/e"] = 302
    site.headers["/b"]["link"] = '<https://elsewhere.example/b>; rel="canonical"'
    site.links["/a"] = (*site.links["/a"], "/a?utm_source=feed")
    crawl_source(fast, site)
    crawl(fast, site)
    expected = {site.url(p): None for p in DEPTHS} | {site.url("/b"): "https://elsewhere.example/b"}
    for _ in range(2):
        assert {url: row["canonical_url"] for url, row in rows(fast).items()} == expected
        assert "/a" not in (hits := crawl(fast, site)[1]) and "/e" in hits


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_is_served_is_what_was_last_fetched_and_equals_from_scratch(
    fast: World, site: SmallSite, clock: Clock, seed: int
) -> None:
    """Pages change, their answers hold for a time or not, the clock goes any way, runs are killed."""
    chance = random.Random(seed)
    crawl_source(fast, site)
    served: dict[str, bytes] = {}
    for n in range(7):
        for path in chance.sample(sorted(LINKS), 3):
            site.links[path] = tuple(chance.sample(sorted(LINKS), chance.randint(1, 4)))
            holding(site, chance.choice([None, "max-age=3600", "max-age=90000", "no-store"]), path)
        clock.step(chance.choice([0.2, 0.7, 5, 30, -1, -40]))
        site.site.hits.clear()
        if n % 3 == 2:
            stop = chance.randint(1, 6)
            with pytest.MonkeyPatch.context() as patch:
                real, left = Batch._take, [stop]

                def take(self: Any, event: Any, real: Any = real, left: list[int] = left) -> None:
                    left[0] -= 1
                    if left[0] == 0:
                        raise TabootError("E_STORAGE", "There is no space left on the device.")
                    real(self, event)

                patch.setattr(Batch, "_take", take)
                with pytest.raises(TabootError, match="E_STORAGE"):
                    fast.run("raw_blobs", "site", confirm_deletes=True)
        fast.ingest("site", confirm_deletes=True)
        for path in site.site.hits.keys() & LINKS.keys():
            served[site.url(path)] = page(path, site.links[path]).encode()
        present = fast.workspace.catalog.locators.of_source("default", "site")
        assert present
        for url, located in present.items():
            assert fast.workspace.blobs.get("default", located.sha256) == served[url]
    other = fast.open(fast.replay())
    try:
        assert differences(logical(fast.workspace), logical(other)) == {}
    finally:
        other.close()
