"""The graph and the ledger of crawls, of real pages of a site on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taboot_pipelines.crawl.graph import leads_of, node_name, request_time
from taboot_pipelines.crawl.urls import canonical_key, parse_url
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.crawl_graph import CRAWL_URLS_SCHEMA, CRAWLS_SCHEMA
from taboot_pipelines.stages.crawl_graph import CrawlGraph, by_depth, wrong_ledger
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines_tests.crawled import DEPTHS, LINKS, SmallSite, crawl_source, small_site
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, holding

#: The properties of a ROOT and of a URL.
ROOT = (
    *("crawl_id", "name", "http_type", "ip", "domain", "requested_depth", "current_depth"),
    *("request_time", "created_at"),
)
URL = (
    *("crawl_id", "name", "http_type", "ip", "domain", "job_status", "requested_depth", "current_depth"),
    *("request_time", "attempts", "claimed_at"),
)


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site() as made:
        yield made


@pytest.fixture
def fast(tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    """A world that asks a host as fast as it answers."""
    made = World(tmp_path, tei.url, http={"rate_limit_rps": 0})
    yield made
    made.workspace.close()


def report(world: World, *stages: str) -> StageReport:
    """Fetch, and run the stages; the report of the last one."""
    made = world.run("raw_blobs", "site")
    for stage in stages or ("crawl_graph",):
        made = world.run(stage, "site")
    return made


def graph(world: World, namespace: str = "default") -> CrawlGraph:
    return CrawlGraph(world.workspace.catalog, namespace)


def rows(parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for row in part.to_pylist()]


def canonical(world: World, site: SmallSite, path: str) -> str | None:
    """What a page said is its own URL, in the last crawl."""
    crawls = graph(world)
    urls = {row["url"]: row["canonical_url"] for row in rows(crawls.urls(crawls.find("site")))}
    return urls[site.url(path)]


def test_the_tables_are_the_graph_of_the_site(fast: World, site: SmallSite) -> None:
    crawl_source(fast, site)
    told = report(fast)
    crawls = graph(fast)
    crawl = crawls.find("site")
    (root,) = crawls.roots([crawl]).to_pylist()
    assert tuple(CRAWLS_SCHEMA.names[: len(ROOT)]) == ROOT
    assert tuple(CRAWL_URLS_SCHEMA.names[: len(URL)]) == URL
    host = site.site.base.removeprefix("http://")
    assert (root["http_type"], root["name"], root["current_depth"]) == ("HTTP://", host, 0)
    assert root["requested_depth"] == 9 and root["crawl_id"] == crawl.crawl_id
    assert root["request_time"].endswith("s") and float(root["request_time"][:-1]) >= 0

    urls = {row["url"].removeprefix(site.site.base): row for row in rows(crawls.urls(crawl))}
    assert {path: row["current_depth"] for path, row in urls.items()} == DEPTHS
    gone = {"/gone", "/missing"}
    assert {path for path, row in urls.items() if row["job_status"] == "FAILED"} == gone
    assert all(row["job_status"] == "COMPLETED" for path, row in urls.items() if path not in gone)
    # Letter case tells pages apart, but not hosts.
    assert urls["/Case"]["name"] == f"{host}/Case" and urls["/a"]["name"] == f"{host}/a"
    assert urls["/a"]["request_time"] == request_time(urls["/"]["seconds"])
    assert all(row["claimed_at"] is not None for row in urls.values())

    leads = {
        (row["parent"].removeprefix(site.site.base), row["child"].removeprefix(site.site.base))
        for row in rows(crawls.leads(crawl))
    }
    assert leads == {(page, link) for page, links in LINKS.items() for link in links}
    broken = [
        (r["url"].removeprefix(site.site.base), r["code"], r["parent"].removeprefix(site.site.base))
        for r in crawls.broken(crawl).to_pylist()
    ]
    assert broken == [
        ("/gone", "E_NOT_FOUND", "/a"),
        ("/gone", "E_NOT_FOUND", "/a/deep"),
        ("/missing", "E_NOT_FOUND", "/d"),
    ]
    assert told.counts["roots"] == 1 and told.counts["urls"] == len(DEPTHS)
    assert told.counts["leads"] == len(leads) and told.counts["discovered"] == len(DEPTHS)
    assert [row["depth"] for row in told.ledger] == [0, 1, 2, 3, 4]
    assert sum(row["failed"] for row in told.ledger) == 2
    assert wrong_ledger(crawl, crawls.ledger_rows(crawl), told.counts["urls"]) is None


def test_a_page_at_the_limit_is_a_completed_leaf_and_listed_pages_stand_beside_the_root(
    fast: World, site: SmallSite
) -> None:
    crawl_source(fast, site, urls=[site.root, site.url("/d")], max_depth=1)
    report(fast)
    crawls = graph(fast)
    crawl = crawls.find("site")
    urls = {row["url"].removeprefix(site.site.base): row for row in rows(crawls.urls(crawl))}
    assert {p: r["current_depth"] for p, r in urls.items()} == {
        **{"/": 0, "/d": 0, "/a": 1, "/b": 1, "/Case": 1, "/e": 1, "/missing": 1}
    }
    assert {r["job_status"] for r in urls.values()} == {"COMPLETED"}
    assert site.site.hits["/a"] == 0 and urls["/a"]["code"] == "E_DEPTH"
    assert crawls.roots([crawl]).to_pylist()[0]["url"] == site.root


def test_a_second_crawl_of_an_unchanged_site_reads_nothing_and_has_the_same_graph(
    fast: World, site: SmallSite
) -> None:
    crawl_source(fast, site)
    report(fast)
    crawls = graph(fast)
    first = crawls.find("site")
    leads = sorted((r["parent"], r["child"]) for r in rows(crawls.leads(first)))
    again = report(fast)
    second = crawls.find("site")
    assert second.number == 2 and second.crawl_id != first.crawl_id
    assert (again.counts["not_modified"], again.counts["fetched"]) == (len(LINKS), 0)
    assert sorted((r["parent"], r["child"]) for r in rows(crawls.leads(second))) == leads
    assert fast.run("crawl_graph", "site").skipped == "unchanged"


def test_old_crawls_keep_their_counts_alone(tmp_path: Path, tei: FakeTei, site: SmallSite) -> None:
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0}, retention={"crawls": 2})
    crawl_source(world, site)
    for _ in range(4):
        told = report(world)
    crawls = graph(world)
    assert told.counts["crawls"] == 2 and told.counts["crawls_forgotten"] == 1
    listed = crawls.crawls()
    assert [c.number for c in listed] == [4, 3, 2, 1]
    assert [c.crawl_id in crawls.held() for c in listed] == [True, True, False, False]
    assert rows(crawls.urls(listed[3])) == [] == rows(crawls.leads(listed[3]))
    assert m.totals(crawls.ledger_rows(listed[3]))["discovered"] == len(DEPTHS)
    assert crawls.roots(listed).column("discovered").to_pylist() == [len(DEPTHS)] * 4
    world.workspace.close()


def test_a_source_that_does_not_crawl_says_so_once(world: World) -> None:
    (world.source("notes") / "a.md").write_text("# A\n\nText enough to be a document.")
    world.run("raw_blobs", "notes")
    told = world.run("crawl_graph", "notes")
    assert told.skipped == "skipped: sources of type files do not crawl" and told.counts == {}
    assert world.run("crawl_graph", "notes").skipped == "unchanged"


def test_a_crawl_is_named_by_its_id_its_beginning_or_its_source(fast: World, site: SmallSite) -> None:
    crawl_source(fast, site)
    report(fast)
    report(fast)
    crawls = graph(fast)
    newest, oldest = crawls.crawls()
    assert crawls.find("site") == newest and crawls.find(oldest.crawl_id[:9]) == oldest
    for name in ("nothing", "", "0" * 40):
        with pytest.raises(TabootError, match="E_NOT_FOUND"):
            crawls.find(name)
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        graph(fast, "other").find(newest.crawl_id)


def test_an_erased_page_is_in_no_file_and_does_not_come_back_with_a_later_crawl(
    fast: World, site: SmallSite
) -> None:
    """The page's URL has a name that stands nowhere else but on the page that links to it, and in a header of
    a page that says that it is the same.
    """
    name = "zyxwvutquux"
    site.links[f"/{name}"] = ()
    site.links["/e"] = (f"/{name}",)
    site.headers["/b"] = {"link": f'</{name}>; rel="canonical"'}
    crawl_source(fast, site)
    fast.ingest("site")
    kb = fast.kb()
    (doc_id,) = [row["doc_id"] for row in kb.documents().to_pylist() if row["url"].endswith(f"/{name}")]
    (linking,) = [row["doc_id"] for row in kb.documents().to_pylist() if row["url"].endswith("/e")]
    assert holding(fast.home, name)
    assert canonical(fast, site, "/b") == site.url(f"/{name}")
    receipt = delete(fast.workspace, "default", [doc_id, linking], erase=True)
    assert receipt.final
    assert holding(fast.home, name) == []
    crawls = graph(fast)
    first = crawls.find("site")
    assert not any(name in row["url"] for row in rows(crawls.urls(first)))
    # A link from or to what was erased is in no table, and the sums still hold.
    assert all(name not in r["child"] for r in rows(crawls.leads(first)))
    assert wrong_ledger(first, crawls.ledger_rows(first), crawls.held()[first.crawl_id]) is None

    # Another page still leads to /e. While that is as it was, no crawl meets it again; one that reads it anew
    # does, passes /e by, and forgets it when it has ended.
    assert report(fast).counts["urls_erased"] == 0
    assert holding(fast.home, name) == [] and canonical(fast, site, "/b") is None
    site.links["/d"] = ("/e", "/a")
    told = report(fast)
    assert told.counts["urls_erased"] == 1
    second = crawls.find("site")
    assert second.number == 3
    assert not any(row["url"].endswith("/e") for row in rows(crawls.urls(second)))


def test_a_source_that_leaves_takes_its_crawls_along(fast: World, site: SmallSite) -> None:
    crawl_source(fast, site)
    (fast.source("notes") / "a.md").write_text("# A\n\nText enough to be a document.")
    fast.ingest()
    fast.remove_source("site")
    fast.ingest("site")
    assert graph(fast).crawls(), "held with its documents"
    fast.ingest("site", confirm_deletes=True)
    assert graph(fast).crawls() == [] and graph(fast).held() == {}


@given(st.text(max_size=40), st.booleans())
def test_type_and_name_of_a_node_are_its_url(path: str, secure: bool) -> None:
    try:
        url = parse_url(f"{'https' if secure else 'http'}://Example.COM/{path}")
    except TabootError:
        return
    http_type, name = node_name(canonical_key(url))
    assert http_type == ("HTTPS://" if secure else "HTTP://")
    assert name.startswith("EXAMPLE.COM") and canonical_key(parse_url(http_type + name)) == canonical_key(url)


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9)), max_size=8),
    st.dictionaries(st.integers(0, 9), st.integers(0, 5)),
)
def test_leads_are_the_links_between_urls_that_have_a_place(
    links: dict[int, list[int]], depths: dict[int, int]
) -> None:
    crawl = m.Crawl("c", "s", 1, m.CrawlPlan((), 1, 1), m.CrawlState.COMPLETED, 0)
    ids = {i: m.url_id(str(i)) for i in range(10)}
    places = {ids[i]: (f"u{i}", depth) for i, depth in depths.items()}
    table = leads_of(crawl, [(ids[p], [ids[c] for c in children]) for p, children in links.items()], places)
    expected = [
        (f"u{p}", f"u{c}", depths[p], depths[c])
        for p, children in links.items()
        for c in children
        if p in depths and c in depths
    ]
    found = zip(
        *(table.column(n).to_pylist() for n in ("parent", "child", "parent_depth", "child_depth")),
        strict=True,
    )
    assert list(found) == expected


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from([None, *m.Outcome]),
            st.sampled_from([None, "E_X"]),
            st.integers(1, 9),
        )
    ),
    st.sampled_from(list(m.CrawlState)),
    st.integers(0, 50),
)
def test_a_ledger_is_wrong_where_something_has_no_end_or_no_reason(
    found: list[tuple[int, m.Outcome | None, str | None, int]], state: m.CrawlState, urls: int
) -> None:
    ledger = tuple(m.LedgerRow(d, o, c, n) for d, o, c, n in found)
    crawl = m.Crawl("c", "s", 1, m.CrawlPlan((), 1, 1), state, 0)
    counts = m.totals(ledger)
    wrong = wrong_ledger(crawl, ledger, urls)
    bare = any(o in (m.Outcome.SKIPPED, m.Outcome.FAILED) and not c for _, o, c, _ in found)
    left = state is m.CrawlState.COMPLETED and counts["open"] > 0
    assert (wrong is not None) == (bare or left or urls > counts["discovered"])
    assert sum(row["discovered"] for row in by_depth(ledger)) == counts["discovered"]
