"""The Dagster UI in a real browser: the graph, a partition materialized by hand, its metadata.

Screenshots go to ``$TABOOT_TEST_SCREENSHOTS`` where it is set.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stages import crawl_graph
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.source_state import fingerprint
from taboot_pipelines_tests.defs.conftest import GUIDE
from taboot_pipelines_tests.defs.launching import end_session
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.needs import BROWSER
from taboot_pipelines_tests.world import World

pytestmark = pytest.mark.ui

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held


@pytest.fixture
def ui(world: World, tmp_path: Path, port: int) -> Iterator[str]:
    """``taboot ui`` over a world with one source.

    The source was read before as it is declared, so no sensor runs it ahead of the test.
    """
    (world.source("guides") / "guide.md").write_text(GUIDE)
    world.workspace.sync_sources()
    catalog = world.workspace.catalog
    read = fingerprint(world.workspace.settings, world.workspace.entries("guides")[0])
    catalog.jobs.end(catalog.jobs.start("default", "guides", read), JobState.SUCCEEDED)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
    }
    with (tmp_path / "dagster.log").open("wb") as log:
        server = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from taboot_pipelines.cli import main; main()",
                "ui",
                "--port",
                str(port),
            ],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=tmp_path,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 400
        while True:
            try:
                urllib.request.urlopen(f"{url}/server_info", timeout=20).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (
                    tmp_path / "dagster.log"
                ).read_text()[-3000:]
                time.sleep(0.5)
        yield url
    finally:
        end_session(server)


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def test_a_partition_is_materialized_from_the_ui_and_turns_green(
    ui: str, page: Page, shoot: Callable[..., None], world: World
) -> None:
    asked: set[str] = set()
    page.on("request", lambda r: asked.add(r.url.split("/")[2]) if r.url.startswith(("http", "ws")) else None)
    expect.set_options(timeout=120_000)

    # The graph shows every asset, and nothing is materialized yet.
    page.goto(f"{ui}/asset-groups")
    expect(page.get_by_text("knowledge_base", exact=True).last).to_be_visible()
    page.keyboard.press("Alt+e")
    for asset in CHAIN.names:
        expect(page.get_by_text(asset, exact=True).last).to_be_visible()
    shoot(page, "1-graph")

    # The sensor has made the partition; a person picks it and launches the run.
    page.goto(f"{ui}/assets/raw_blobs?view=partitions")
    expect(page.get_by_text("Missing (1)")).to_be_visible()
    page.goto(f"{ui}/locations/taboot_pipelines.definitions/jobs/ingest_source")
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem").filter(has_text="guides").last.click()
    page.keyboard.press("Escape")
    shoot(page, "2-launch")
    # Leaving the page before the server has answered would take the launch back.
    with page.expect_response(
        lambda r: (
            "graphql" in r.url
            and "launch" in (r.request.post_data or "").lower()
            and "mutation" in (r.request.post_data or "")
        )
    ) as launched:
        dialog.get_by_role("button", name="Launch 1 run").click()
    assert launched.value.ok and "LaunchRunSuccess" in launched.value.text(), launched.value.text()[:500]

    # It turns green, in the list of partitions and in the graph.
    page.goto(f"{ui}/assets/kb_shards?view=partitions&partition=guides")
    expect(page.get_by_text("Materialized (1)")).to_be_visible()
    page.goto(f"{ui}/assets/raw_blobs?view=partitions&partition=guides")
    expect(page.get_by_text("Materialized", exact=True).first).to_be_visible()
    expect(page.get_by_text(ids.doc_id("default", ids.locator("guides", "guide.md")))).to_be_visible()
    shoot(page, "3-partition")

    # The plot of what the run did.
    page.get_by_text("[Show Markdown]").first.click()
    plot = page.get_by_role("dialog").locator("img")
    expect(plot).to_be_visible()
    assert plot.evaluate("i => i.complete && i.naturalWidth > 100 && i.naturalHeight > 20")
    shoot(page, "4-plot")

    page.goto(f"{ui}/assets/entity_snapshots?view=checks")
    expect(page.get_by_text("no_orphan_node").first).to_be_visible()
    shoot(page, "5-checks")
    page.goto(f"{ui}/assets/entity_snapshots?view=lineage&lineageScope=neighbors&lineageDepth=6")
    for asset in set(CHAIN.names) - {crawl_graph.STAGE}:  # nothing follows from the graph of crawls
        expect(page.get_by_text(asset, exact=True).last).to_be_visible()
    page.wait_for_timeout(2000)
    shoot(page, "6-green")

    assert world.kb().search("sessions in cache").hits[0].source == "guides"
    assert asked == {ui.split("/")[2]}, "the UI asked a host that is not this machine's"
