"""The real daemon, webserver and code server on loopback: a sources file that is edited is served without
anybody's doing; a schedule's tick starts a crawl, a person cancels its run in the UI's own way, and the next
tick goes on with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.model.crawls import Crawl, CrawlState
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines.stages.source_state import fingerprint
from taboot_pipelines_tests.crawled import crawl_source, small_site
from taboot_pipelines_tests.defs.launching import end_session
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.world import World

PAGES = 120
#: Seconds that each page takes; eight are asked for at once.
SLOW = 2.5
RUNS = """
{ runsOrError { ... on Runs { results { runId status tags { key value } } } } }
"""
LOGS = """
query ($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection { events { ... on LogMessageEvent { message } } }
  }
}
"""
TERMINATE = """
mutation ($run: String!) { terminateRun(runId: $run) { __typename } }
"""


class Ui:
    """``taboot ui``, asked as the browser asks it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str, **variables: Any) -> Any:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["data"]

    def runs(self, sensor: str = "due_sources") -> list[dict[str, Any]]:
        """The runs that a sensor asked for, by default that of the schedules, oldest first."""
        found = self.ask(RUNS)["runsOrError"]["results"]
        return [
            run for run in reversed(found) if {"key": "dagster/sensor_name", "value": sensor} in run["tags"]
        ]

    def logs(self, run: str) -> list[str]:
        return [e["message"] for e in self.ask(LOGS, run=run)["logsForRun"]["events"] if "message" in e]


@contextmanager
def ui_of(world: World, log: Path) -> Iterator[Ui]:
    with held_port() as port:
        yield from _ui_on(port, world, log)


def _ui_on(port: int, world: World, log: Path) -> Iterator[Ui]:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
        "TABOOT_HTTP__RATE_LIMIT_RPS": "0",
    }
    program = "from taboot_pipelines.cli import main; main()"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-c", program, "ui", "--port", str(port)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=log.parent,
        )
    ui = Ui(f"http://127.0.0.1:{port}")
    try:
        until(lambda: server.poll() is not None or answers(ui))
        assert server.poll() is None, log.read_text()[-3000:]
        yield ui
    finally:
        end_session(server)


def answers(ui: Ui) -> bool:
    try:
        urllib.request.urlopen(f"{ui.url}/server_info", timeout=20).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 400) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_sources_file_that_is_edited_is_served_by_a_run(world: World, tmp_path: Path) -> None:
    (world.source("guides") / "guide.md").write_text("# Guide\n\nThe web server keeps sessions in cache.\n")

    def served() -> set[str]:
        try:
            return set(world.kb().documents().column("source").to_pylist())
        except TabootError:
            return set()

    with ui_of(world, tmp_path / "dagster.log") as ui:
        until(lambda: served() == {"guides"})
        # What it reads is there before it is declared.
        (world.directory / "more").mkdir()
        (world.directory / "more" / "note.md").write_text("# Note\n\nThe cache listens on port 6379.\n")
        world.source("more")
        until(lambda: served() == {"guides", "more"})
        until(lambda: [run["status"] for run in ui.runs("sources_sensor")] == ["SUCCESS", "SUCCESS"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_tick_starts_a_crawl_which_is_watched_cancelled_and_gone_on_with(
    world: World, tmp_path: Path
) -> None:
    links = {"/": tuple(f"/p{i}" for i in range(PAGES)), **{f"/p{i}": () for i in range(PAGES)}}
    with small_site(links) as site:
        site.slow[0] = SLOW
        crawl_source(world, site, schedule="* * * * *")
        workspace = world.workspace
        workspace.sync_sources()
        # Read as it is declared, so that no other sensor runs it.
        read = fingerprint(workspace.settings, workspace.entries("site")[0])
        workspace.catalog.jobs.end(workspace.catalog.jobs.start("default", "site", read), JobState.SUCCEEDED)
        graph = CrawlGraph(workspace.catalog, "default")

        def crawl() -> Crawl:
            return graph.find("site")

        def progress() -> CrawlProgress:
            return graph.progress(crawl())

        with ui_of(world, tmp_path / "dagster.log") as ui:
            until(lambda: bool(graph.crawls()))
            until(lambda: progress().done >= 20)
            # What is left takes minutes, however long everything below takes.
            site.slow[0] = 10.0
            (run,) = ui.runs()
            # The run's log tells how far it has come, at a bounded pace.
            until(lambda: any("pages done" in line for line in ui.logs(run["runId"])))
            told = [line for line in ui.logs(run["runId"]) if "pages done" in line]
            assert len(told) <= 5 and " wait" in told[0] and "/s" in told[0]

            assert ui.ask(TERMINATE, run=run["runId"])["terminateRun"]["__typename"] == "TerminateRunSuccess"
            until(lambda: ui.runs()[0]["status"] == "CANCELED")
            left = progress()
            assert crawl().state is CrawlState.RUNNING
            assert left.in_progress == 0 and left.pending > 0
            asked_for = site.site.hits.total()

            site.slow[0] = 0.0
            until(lambda: crawl().state is CrawlState.COMPLETED)
            assert len(graph.crawls()) == 1 and crawl().complete
            until(lambda: ui.runs()[1]["status"] == "SUCCESS")
        # Nothing but what was on its way when the run was cancelled was asked for twice.
        pages = {path: hits for path, hits in site.site.hits.items() if path in links}
        assert set(pages) == set(links)
        twice = sum(hits - 1 for hits in pages.values())
        assert twice <= 2 * workspace.settings.http.max_concurrency and asked_for < len(links)
        # Later ticks find the site as it was.
        assert world.kb().documents().num_rows == len(links)
