"""``taboot crawls``: list, show, watch, cancel, resume."""

from __future__ import annotations

import io
import json
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from taboot_pipelines.cli.progress import _Bars
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.stages.crawl_graph import CrawlGraph
from taboot_pipelines_tests.cli.test_cli import PROGRAM, Shell
from taboot_pipelines_tests.crawled import DEPTHS, SmallSite, crawl_source, small_site
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site() as made:
        yield made


@pytest.fixture
def shell(world: World, site: SmallSite) -> Shell:
    crawl_source(world, site)
    made = Shell(world)
    made.environment["TABOOT_HTTP__RATE_LIMIT_RPS"] = "0"
    return made


def test_crawls_are_listed_and_shown(shell: Shell) -> None:
    assert "No source has crawled yet" in shell("crawls")
    (source,) = shell.json("ingest")["sources"]
    assert source["failed_items"] == []  # two broken links are the site's affair
    (crawl,) = shell.json("crawls", "list")["crawls"]
    assert crawl["source"] == "site" and crawl["state"] == "COMPLETED" and crawl["complete"] is True
    assert crawl["counts"]["discovered"] == len(DEPTHS) and crawl["errors"] == {"E_NOT_FOUND": 2}
    assert crawl["crawl_id"][:8] in shell("crawls") and crawl["crawl_id"][:8] in shell(
        "crawls", "list", "site"
    )
    assert shell.json("crawls", "list", "other")["crawls"] == []
    assert "No source has crawled yet" in shell("crawls", "list", "--namespace", "other")

    shown = shell("crawls", "show", "site")
    assert f"{len(DEPTHS)} of {len(DEPTHS)} pages done" in shown and "3 broken links" in shown
    told = shell.json("crawls", "show", crawl["crawl_id"][:8])
    assert sum(row["urls"] for row in told["ledger"]) == len(DEPTHS) and len(told["broken"]) == 3
    assert shell.json("crawls", "show", "nothing", code=1)["error"]["code"] == "E_NOT_FOUND"
    assert "COMPLETED" in shell("crawls", "watch", "site")
    assert "had ended already" in shell("crawls", "cancel", "site")
    assert shell.json("crawls", "resume", "site", code=1)["error"]["code"] == "E_TRANSITION"


def test_pages_that_were_not_asked_for_are_shown_as_fresh(shell: Shell, site: SmallSite) -> None:
    for path in ("/", "/a", "/b"):
        site.headers[path] = {"cache_control": "max-age=3600"}
    for _ in range(2):
        shell.json("ingest")
    assert "3 fresh" in shell("crawls", "show", "site")
    ledger = shell.json("crawls", "show", "site")["ledger"]
    assert sum(r["urls"] for r in ledger if r["code"] == "fresh" and r["outcome"] == "not_modified") == 3


@pytest.mark.slow
def test_a_crawl_is_watched_and_cancelled_from_outside_and_resumed(
    shell: Shell, site: SmallSite, world: World
) -> None:
    many = {"/": tuple(f"/p{i}" for i in range(60)), **{f"/p{i}": () for i in range(60)}}
    site.links.clear()
    site.links.update(many)
    site.slow[0] = 1.0
    told: list[str] = []
    ingesting = threading.Thread(target=lambda: told.append(shell.process("ingest", "--json")))
    ingesting.start()
    graph = CrawlGraph(world.workspace.catalog, "default")
    end = time.monotonic() + 300
    while not graph.crawls() or graph.progress(graph.find("site")).done < 9:
        assert time.monotonic() < end
        time.sleep(0.1)
    # What is left takes minutes, however long the commands below take.
    site.slow[0] = 10.0
    with subprocess.Popen(
        [*python(), "-c", PROGRAM, "crawls", "watch", "site", "--json"],
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        watched = [watcher.stdout.readline()]
        cancelled = json.loads(shell.process("crawls", "cancel", "site", "--json"))
        watched += watcher.stdout
    assert cancelled["cancelled"] and cancelled["state"] == "CANCELLED"
    ingesting.join(300)
    assert watcher.returncode == 0
    lines = [json.loads(line) for line in watched]
    assert lines[0]["state"] == "RUNNING" and lines[-1]["state"] == "CANCELLED"
    assert lines[0]["counts"]["discovered"] == len(many) > lines[0]["done"]
    assert "cancelled" in str(json.loads(told[0])["sources"][0]["stages"][0]["problems"])
    # Nothing was deleted, and what was read is kept; what is left is read when a person says so.
    read = {path for path, hits in site.site.hits.items() if hits}
    assert len(read) < len(many)
    site.slow[0] = 0.0
    shell.process("crawls", "resume", "site", "--json")
    assert len(graph.crawls()) == 1 and graph.find("site").complete
    assert set(site.site.hits) >= set(many) and world.kb().documents().num_rows == len(many)
    twice = [path for path in many if site.site.hits[path] > 1]
    assert len(twice) <= 8


def test_the_bar_of_an_ingest_tells_of_the_crawl() -> None:
    from rich.progress import Progress, TextColumn

    out = io.StringIO()
    columns = (TextColumn("{task.description}"), TextColumn("{task.fields[stage]}"))
    with Progress(*columns, console=Console(file=out, width=160, force_terminal=True)) as progress:
        bars = _Bars(progress)
        bars.begin("site")
        counts = {
            **dict.fromkeys(("fetched", "not_modified", "skipped", "failed"), 1),
            "discovered": 9,
            "open": 5,
        }
        bars.crawl(CrawlProgress("c", "site", "RUNNING", 2.0, counts, 3, 2, 7.5, 2.0, {"E_TIMEOUT": 1}))
        bars.progress("raw_blobs", 4, 0)
        (task,) = progress.tasks
        assert (task.completed, task.total) == (4, 9)
        sentence = "4 of 9 pages done, 3 wait, 2 in hand, 7.5/s; errors: 1 E_TIMEOUT"
        assert task.fields["stage"] == sentence
