"""Crawls as a notebook shows them: tables, pictures, and what is said where there are none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawl_graph import (
    BROKEN_SCHEMA,
    CRAWL_LEADS_SCHEMA,
    CRAWL_URLS_SCHEMA,
    CRAWLS_SCHEMA,
    LEDGER_SCHEMA,
)
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.crawled import DEPTHS, LINKS, SmallSite, crawl_source, small_site
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[tuple[World, SmallSite]]:
    world = World(tmp_path_factory.mktemp("crawls"), tei.url, http={"rate_limit_rps": 0})
    with small_site() as site:
        crawl_source(world, site)
        crawl_source(world, site, "other", urls=[site.url("/c")], max_depth=1)
        world.ingest()
        yield world, site
    world.workspace.close()


def test_crawls_are_tables_and_pictures(crawled: tuple[World, SmallSite]) -> None:
    world, site = crawled
    kb = world.kb()
    listed = kb.crawls()
    assert listed.to_arrow().schema == CRAWLS_SCHEMA and len(listed) == 2
    assert set(listed.to_pandas()["source"]) == {"site", "other"}
    assert site.root in listed._repr_html_() and "COMPLETED" in listed._repr_html_()
    assert len(kb.crawls("site")) == 1 and len(kb.crawls("nothing")) == 0

    crawl = kb.crawl("site")
    assert kb.crawl(crawl.crawl_id).crawl_id == kb.crawl(crawl.crawl_id[:8]).crawl_id == crawl.crawl_id
    assert (crawl.source, crawl.state, crawl.complete, crawl.reason) == ("site", "COMPLETED", True, "")
    urls, leads, broken, ledger = crawl.urls(), crawl.leads(), crawl.broken(), crawl.ledger()
    assert (urls.schema, leads.schema) == (CRAWL_URLS_SCHEMA, CRAWL_LEADS_SCHEMA)
    assert (broken.schema, ledger.schema) == (BROKEN_SCHEMA, LEDGER_SCHEMA)
    assert urls.num_rows == len(DEPTHS) == sum(ledger.column("urls").to_pylist())
    assert urls.column("current_depth").to_pylist() == sorted(DEPTHS.values())
    assert leads.num_rows == sum(len(links) for links in LINKS.values()) and broken.num_rows == 3
    assert crawl.root().column("crawl_id").to_pylist() == [crawl.crawl_id]
    assert crawl.progress().done == len(DEPTHS)

    html = crawl._repr_html_()
    assert html.startswith("<svg") and html.count("font-weight='bold'") == len(DEPTHS)
    # Every page but the root is drawn with the link by which it was found.
    assert html.count("stroke-width='1.4'") == len(DEPTHS) - 1
    assert "/a/deep" in html and "E_NOT_FOUND" in html


def test_names_of_pages_are_no_markup(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0})
    with small_site({"/": ("/x'><script>alert(1)</script>",)}) as site:
        crawl_source(world, site)
        world.ingest()
        html = world.kb().crawl("site")._repr_html_() + world.kb().crawls()._repr_html_()
        assert "<script" not in html
    world.workspace.close()


def test_a_copy_of_the_shards_alone_says_that_crawls_stayed_behind(
    crawled: tuple[World, SmallSite], tmp_path: Path
) -> None:
    world, _ = crawled
    copy = tmp_path / "copy"
    shutil.copytree(world.home, copy, ignore=shutil.ignore_patterns("catalog.db*"))
    kb = KnowledgeBase.open(copy, settings=world.settings(copy))
    assert kb.search("small site").hits
    for ask in (lambda: kb.crawls(), lambda: kb.crawl("site")):
        with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
            ask()
    assert not (copy / "catalog.db").exists()
    with pytest.raises(TabootError, match="E_NOT_FOUND"):
        world.kb().crawl("nothing")
