"""What is shown of a crawl, on both databases: a crawl of more URLs than one statement reads."""

from __future__ import annotations

import pytest

from taboot_pipelines.model import crawls as m
from taboot_pipelines.stages.crawl_graph import CrawlGraph, wrong_ledger
from taboot_pipelines.stores.catalog import crawls
from taboot_pipelines.stores.catalog.catalog import Catalog

PAGES = 40


def key(number: int) -> str:
    return f"http://h/{number}" if number else "http://h/"


def crawled(catalog: Catalog, namespace: str = "default") -> m.Crawl:
    """A crawl of a root that leads to all pages; a third of them fail, a quarter still wait."""
    plan = m.CrawlPlan(roots=(key(0),), requested_depth=5, max_pages=1000)
    crawl = catalog.crawls.begin(namespace, "s", plan)
    frontier = catalog.crawls.frontier(namespace, crawl)
    frontier.add_roots([m.FoundUrl(m.url_id(key(0)), key(0), key(0), "h")], m.Listing())
    (root,) = frontier.claim(1)
    found = [m.FoundUrl(m.url_id(key(n)), key(n), key(n), "h", parent=root.url_id) for n in range(1, PAGES)]
    children = b"".join(url.url_id for url in found)
    done = m.DoneUrl(
        root, m.Outcome.FETCHED, http_status=200, seconds=0.25, address="192.0.2.7", children=children
    )
    frontier.finish([done], found)
    settled = []
    for claimed in frontier.claim(PAGES * 3 // 4):
        failed = int(claimed.key.rpartition("/")[2]) % 3 == 0
        outcome, code = (m.Outcome.FAILED, "E_TIMEOUT") if failed else (m.Outcome.FETCHED, None)
        settled.append(m.DoneUrl(claimed, outcome, code, http_status=504 if failed else 200, seconds=0.5))
    frontier.finish(settled, [])
    return crawl


def test_what_is_shown_is_what_became_of_each_url(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawls, "_PAGE", 7)
    monkeypatch.setattr(crawls, "_LEADS_PAGE", 1)
    crawl, graph = crawled(catalog), CrawlGraph(catalog, "default")
    rows = [row for part in graph.urls(crawl) for row in part.to_pylist()]
    assert sorted(row["key"] for row in rows) == sorted(key(n) for n in range(PAGES))
    by_key = {row["key"]: row for row in rows}
    assert by_key[key(0)]["ip"] == "192.0.2.7" and by_key[key(0)]["request_time"] is None
    # How long the page took that leads there.
    assert {row["request_time"] for k, row in by_key.items() if k != key(0)} == {"0.250s"}
    assert {row["parent"] for k, row in by_key.items() if k != key(0)} == {key(0)}
    leads = [row for part in graph.leads(crawl) for row in part.to_pylist()]
    assert sorted((r["parent"], r["child"]) for r in leads) == sorted(
        (key(0), key(n)) for n in range(1, PAGES)
    )
    assert graph.lead_count(crawl) == len(leads)
    (root,) = graph.roots([crawl]).to_pylist()
    assert root["request_time"] == "0.250s" and root["ip"] == "192.0.2.7"

    progress = graph.progress(crawl)
    states = [row["job_status"] for row in rows]
    assert progress.pending == states.count("PENDING") == PAGES - 1 - PAGES * 3 // 4
    assert progress.in_progress == 0 and progress.done == 1 + PAGES * 3 // 4
    assert progress.errors == {"E_TIMEOUT": states.count("FAILED")} and progress.per_second > 0
    assert graph.broken(crawl).num_rows == states.count("FAILED")
    assert graph.held() == {crawl.crawl_id: PAGES}
    assert wrong_ledger(crawl, graph.ledger_rows(crawl), PAGES) is None


def test_the_fingerprint_changes_with_what_is_shown(catalog: Catalog) -> None:
    crawl, graph = crawled(catalog), CrawlGraph(catalog, "default")
    seen = [graph.fingerprint(crawl, PAGES)]
    assert graph.fingerprint(crawl, PAGES) == seen[0]
    frontier = catalog.crawls.frontier("default", crawl)
    (claimed,) = frontier.claim(1)
    seen.append(graph.fingerprint(crawl, PAGES))
    frontier.finish([m.DoneUrl(claimed, m.Outcome.FETCHED, http_status=200, seconds=0.1)], [])
    seen.append(graph.fingerprint(crawl, PAGES))
    catalog.crawls.cancel("default", crawl.crawl_id)
    cancelled = graph.find("s")
    seen += [graph.fingerprint(cancelled, PAGES), graph.fingerprint(cancelled, PAGES - 1)]
    assert len(set(seen)) == len(seen)


def test_crawls_of_another_namespace_are_not_seen(catalog: Catalog) -> None:
    mine, theirs = crawled(catalog), crawled(catalog, "other")
    graph = CrawlGraph(catalog, "default")
    assert [c.crawl_id for c in graph.crawls()] == [mine.crawl_id] and theirs.crawl_id not in graph.held()
    assert list(graph.urls(theirs)) == [] == list(graph.leads(theirs))
    assert graph.progress(theirs).counts["discovered"] == 0
