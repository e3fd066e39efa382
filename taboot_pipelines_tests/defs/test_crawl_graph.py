"""What a person sees of crawls in Dagster: ledger, plot, log events, checks that warn."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from PIL import Image

from taboot_pipelines.defs import materialize
from taboot_pipelines.model.crawls import CrawlState
from taboot_pipelines.stages import crawl_graph
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines_tests.crawled import DEPTHS, SmallSite, crawl_source, small_site
from taboot_pipelines_tests.defs.conftest import Project
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site() as made:
        yield made


@pytest.fixture
def crawling(tmp_path: Path, tei: FakeTei, site: SmallSite) -> Iterator[Project]:
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0})
    crawl_source(world, site)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(world, instance)
    world.workspace.close()


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    return {e.check_name: e for e in result.get_asset_check_evaluations()}


def test_the_ledger_is_a_table_and_a_picture(crawling: Project) -> None:
    result = crawling.run("site")
    shown = crawling.metadata(result, "crawl_graph")
    assert shown["dagster/row_count"] == len(DEPTHS)
    assert (shown["discovered"], shown["fetched"], shown["failed"]) == (len(DEPTHS), len(DEPTHS) - 2, 2)
    depths = [record.data for record in shown["ledger"].records]
    assert [row["depth"] for row in depths] == [0, 1, 2, 3, 4]
    assert all(
        row["discovered"] == sum(row[n] for n in ("fetched", "not_modified", "skipped", "failed", "open"))
        for row in depths
    )
    png = base64.b64decode(shown["ledger_plot"].split("base64,")[1].rstrip(")"))
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG" and image.width > 300 and image.height > 22 * len(depths)
        # Green for what was fetched, red for what failed.
        assert {(0x22, 0x88, 0x33), (0xEE, 0x66, 0x77)} <= {
            colour for _, colour in image.convert("RGB").getcolors(1 << 16) or ()
        }
    # URLs are no part of what Dagster keeps.
    assert "127.0.0.1" not in str(shown)
    checks = evaluations(result)
    assert checks["crawl_ledgers_add_up"].passed and checks["crawl_completed"].passed


def test_a_crawl_that_is_not_complete_is_warned_of(crawling: Project, site: SmallSite) -> None:
    site.statuses["/a"] = 403
    check = evaluations(crawling.run("site"))["crawl_completed"]
    assert not check.passed and check.severity is dg.AssetCheckSeverity.WARN
    assert "site" in check.metadata["unfinished"].value and check.metadata["remedy"].value
    del site.statuses["/a"]
    assert evaluations(crawling.run("site"))["crawl_completed"].passed


def test_a_crawl_is_told_of_while_it_runs_and_a_cancelled_run_gives_back_what_was_on_its_way(
    crawling: Project, site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.slow[0] = 0.4
    monkeypatch.setattr(materialize, "_SECONDS_BETWEEN_LOGS", 0.2)
    monkeypatch.setattr(crawl_graph, "_SECONDS_BETWEEN_LOOKS", 0.05)
    seen: list[str] = []
    graph = CrawlGraph(crawling.world.workspace.catalog, "default")

    def watch(progress: Any) -> None:
        seen.append(progress.sentence)

    crawling.resource.runtime.on_crawl = watch
    real = crawling.world.workspace.catalog.locators.record_fetched

    def interrupted(*args: Any, **options: Any) -> Any:
        real(*args, **options)
        raise dg.DagsterExecutionInterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(crawling.world.workspace.catalog.locators, "record_fetched", interrupted)
        result = crawling.run("site")
    assert not result.success
    left = graph.progress(graph.find("site"))
    assert graph.find("site").state is CrawlState.RUNNING and left.in_progress == 0 and left.pending > 0

    result = crawling.run_only("site")
    assert result.success and len(graph.crawls()) == 1 and graph.find("site").complete
    assert seen and all("pages done" in line for line in seen)
    lines = [
        e.user_message
        for e in crawling.instance.all_logs(result.run_id)
        if e.dagster_event is None and "pages done" in e.user_message
    ]
    assert lines and lines[0].startswith(f"crawl {graph.find('site').crawl_id[:8]}: ")
    assert max(site.site.hits.values()) <= 2
