"""The job whose steps help with a crawl that another run leads."""

from __future__ import annotations

import threading
import time
from typing import Any

import dagster as dg
import pytest

from taboot_pipelines.defs import build_defs
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines_tests.crawled import crawl_source, small_site
from taboot_pipelines_tests.world import World

PAGES = {"/": tuple(f"/p{i}" for i in range(120)), **{f"/p{i}": () for i in range(120)}}


def join(world: World, **config: Any) -> dg.ExecuteInProcessResult:
    settings = world.settings(world.home)
    resource = WorkspaceResource(runtime=Runtime(settings))
    job = build_defs(settings, workspace=resource).resolve_job_def("join_crawls")
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            instance=instance, run_config={"ops": {"helpers": {"config": config}}}, raise_on_error=False
        )


@pytest.mark.slow
def test_helpers_read_pages_of_a_crawl_that_another_run_leads(world: World) -> None:
    world.overrides["http"] = {"rate_limit_rps": 0, "max_concurrency": 4}
    with small_site(PAGES) as site:
        site.slow[0] = 0.2
        crawl_source(world, site)
        world.workspace.sync_sources()
        led: list[Any] = []
        leading = world.open(world.home)
        own = World.__new__(World)
        own.__dict__ |= {**world.__dict__, "workspace": leading}
        leader = threading.Thread(target=lambda: led.append(own.run("raw_blobs", "site")))
        leader.start()
        result = join(world, source="site", helpers=2, wait_seconds=60)
        leader.join(120)
        leading.close()
        assert result.success and led
        outputs = [e for e in result.all_events if e.is_successful_output and e.step_key.startswith("read_")]
        assert len(outputs) == 2
        # In one process a step follows the other, so that nothing may be left to the second.
        read = [e.step_output_data.metadata.get("fetched") for e in outputs]
        read = [r.value for r in read if r is not None]
        assert sum(read) > 0
        assert led[0].counts["fetched"] == len(PAGES) == len(site.site.hits) - 1
        assert led[0].counts["read_by_others"] == sum(read)
        assert {n for path, n in site.site.hits.items() if path != "/robots.txt"} == {1}


def test_without_a_crawl_the_helpers_say_so(world: World) -> None:
    with small_site() as site:
        crawl_source(world, site)
        world.workspace.sync_sources()
        began = time.monotonic()
        result = join(world, source="site", wait_seconds=0)
    assert not result.success and time.monotonic() - began < 60
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert "No crawl of site goes on" in str(failed.step_failure_data.user_failure_data)
