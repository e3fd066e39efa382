"""Processes share one crawl, on both catalogs: nothing is read twice, and whatever dies loses nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.crawl.crawler import CHECKPOINT_PAGES
from taboot_pipelines.model.crawls import CrawlState, totals
from taboot_pipelines.settings import HttpSettings
from taboot_pipelines_tests.connectors.servers import Site, send, serve
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World

#: Leads the crawl of the source `site`, as a worker of a deployment does.
LEAD = """
import sys
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import run_source_stage
from taboot_pipelines.stages.workspace import Workspace
workspace = Workspace(load_settings())
workspace.sync_sources()
(stage,) = (s for s in CHAIN.of_source if s.name == "raw_blobs")
run_source_stage(workspace, stage, workspace.entries("site")[0], confirm_deletes=False)
"""
#: Helps with it, as a person does who types `taboot crawls join site`.
JOIN = """
import sys
import taboot_pipelines.stages.shared_crawls
from taboot_pipelines.cli import main
print("ready", file=sys.stderr, flush=True)
main(sys.argv[1:])
"""
PAGES = 400
#: What a machine that is busy with other tests may take.
_PATIENCE_SECONDS = 240


def answer(h: BaseHTTPRequestHandler) -> None:
    if h.path == "/robots.txt":
        send(h, 404)
        return
    i = int(h.path[2:] or 0)
    to = [j for j in (i * 3 + 1, i * 3 + 2, i * 3 + 3, i // 3, (i * 7) % PAGES) if j < PAGES]
    body = f"<h1>Page {i}</h1>" + "".join(f'<a href="/p{j}">{j}</a>' for j in to)
    time.sleep(0.03)
    send(h, 200, body.encode(), content_type="text/html")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(answer) as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def shared(request: pytest.FixtureRequest, tmp_path: Path, tei: Any, site: Site) -> Iterator[World]:
    settings = {}
    if request.param == "postgresql":
        settings["catalog_url"] = request.getfixturevalue("postgres").database("shared_crawl")
    world = World(tmp_path, tei.url, http={"rate_limit_rps": 0}, **settings)
    world.source(
        "site", "web", path=None, urls=[f"{site.base}/p0"], allow_cidrs=["127.0.0.0/8"], max_depth=50
    )
    yield world
    world.workspace.close()


class Processes:
    """``start``: how their command lines begin, where it is no interpreter."""

    def __init__(self, world: World, start: Sequence[str] = (sys.executable,)) -> None:
        self.start = start
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
            "TABOOT_HOME": str(world.home),
            "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
            "TABOOT_TEI__URL": world.tei,
            "TABOOT_HTTP__RATE_LIMIT_RPS": "0",
        }
        if "catalog_url" in world.overrides:
            self.environment["TABOOT_CATALOG_URL"] = world.overrides["catalog_url"]

    def lead(self) -> subprocess.Popen[str]:
        return self._start(LEAD)

    def join(self) -> subprocess.Popen[str]:
        return self._start(JOIN, "crawls", "join", "site", "--wait", "60", "--json")

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.start, "-c", program, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def hits(site: Site) -> dict[str, int]:
    return {path: n for path, n in site.hits.items() if path != "/robots.txt"}


def check(world: World, site: Site) -> None:
    """Every page is there, once, and the ledger adds up."""
    (crawl,) = world.workspace.catalog.crawls.find("default", "site", 1)
    assert crawl.state is CrawlState.COMPLETED and crawl.complete
    sums = totals(crawl.counts)
    assert sums["discovered"] == sums["fetched"] + sums["not_modified"] == PAGES == len(hits(site))
    assert len(world.workspace.catalog.locators.of_source("default", "site")) == PAGES
    assert world.workspace.catalog.dead_letters.find("default", "site") == []


@pytest.mark.slow
def test_three_processes_read_every_page_of_a_crawl_once(shared: World, site: Site) -> None:
    shared.workspace.sync_sources()
    processes = Processes(shared, python())
    helpers = [processes.join() for _ in range(2)]
    # On a busy machine the leader could read the whole site before the others have started.
    assert all(helper.stderr and helper.stderr.readline() == "ready\n" for helper in helpers)
    leader = processes.lead()
    out, err = leader.communicate(timeout=_PATIENCE_SECONDS)
    assert leader.returncode == 0, out + err
    read = []
    for helper in helpers:
        out, err = helper.communicate(timeout=60)
        assert helper.returncode == 0, out + err
        read.append(json.loads(out))
    assert all(r["fetched"] == r["new_blobs"] > 0 and r["failed"] == 0 for r in read), read
    assert set(hits(site).values()) == {1}
    check(shared, site)
    (job,) = shared.workspace.catalog.jobs.find("default", "site")
    assert job["fetched"] == job["discovered"] == PAGES and job["complete"]
    # The next crawl finds all of it unchanged, whoever had read it.
    again = shared.run("raw_blobs", "site")
    assert again.counts["not_modified"] == PAGES and "new_blobs" not in again.counts


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_of_a_crawl_are_killed_again_and_again_and_nothing_is_lost(
    shared: World, site: Site
) -> None:
    shared.workspace.sync_sources()
    processes, chance = Processes(shared), random.Random(7)
    leader, helper, kills = processes.lead(), processes.join(), 0
    end = time.monotonic() + _PATIENCE_SECONDS
    while leader.poll() is None:
        assert time.monotonic() < end
        until = sum(site.hits.values()) + chance.randrange(70, 160)
        while sum(site.hits.values()) < until and leader.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.005)
        if leader.poll() is not None or kills == 4:
            leader.wait(_PATIENCE_SECONDS)
            break
        victim = leader if kills % 2 else helper
        victim.kill()
        victim.wait()
        kills += 1
        if victim is leader:
            leader = processes.lead()
        else:
            helper = processes.join()
    out, err = leader.communicate(timeout=_PATIENCE_SECONDS)
    assert leader.returncode == 0, out + err
    helper.kill()
    helper.communicate()
    check(shared, site)
    again = sum(hits(site).values()) - PAGES
    assert kills >= 2 and again <= kills * (HttpSettings().max_concurrency + CHECKPOINT_PAGES)


def test_what_cannot_be_joined_is_said(shared: World, site: Site) -> None:
    from taboot_pipelines.errors import TabootError
    from taboot_pipelines.stages.shared_crawls import join_crawl

    shared.source("notes")
    shared.source(
        "pictures",
        "web",
        path=None,
        urls=[f"{site.base}/p0"],
        render=True,
        capture={"screenshot": True},
    )
    shared.workspace.sync_sources()
    for source, code in (
        ("nobody", "E_SOURCE_UNKNOWN"),
        ("notes", "E_CONFIG"),
        ("pictures", "E_CONFIG"),
        ("site", "E_NOT_FOUND"),
    ):
        with pytest.raises(TabootError) as refused:
            join_crawl(shared.workspace, source)
        assert refused.value.code == code and source in refused.value.message
