"""Progress of jobs: shown while a stage works, kept when it ends, and never a reason to fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import progress
from taboot_pipelines.stages.progress import running, tracked
from taboot_pipelines.stages.running import run_chain, run_stage
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture(params=["catalog", pytest.param("redis", marks=pytest.mark.server)])
def any_world(request: pytest.FixtureRequest, tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    made = World(
        tmp_path,
        tei.url,
        **({"redis": {"url": request.getfixturevalue("redis_url")}} if request.param == "redis" else {}),
    )
    folder = made.source("docs")
    for i in range(70):
        (folder / f"d{i}.md").write_text(
            f"# Page {i}\n\nThe grafana service number {i} listens on port 3000.\n"
        )
    made.workspace.sync_sources()
    yield made
    made.workspace.close()


def record(world: World) -> dict[str, Any]:
    (job,) = world.workspace.catalog.jobs.find("default", "docs", limit=1)
    value = world.workspace.state.get("default", f"job:{job['job_id']}")
    assert value is not None
    found: dict[str, Any] = orjson.loads(value)
    assert found["job_id"] == job["job_id"]
    return found


def test_every_stage_is_seen_while_it_works_and_the_record_stays(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 0.0)
    seen: dict[str, Any] = {}

    def look(stage: str, done: int, total: int) -> None:
        (job,) = running(any_world.workspace, "default")
        assert (job["source"], job["status"]) == ("docs", "running")
        seen[stage] = job["stages"][stage]
        assert (seen[stage]["status"], seen[stage]["done"], seen[stage]["total"]) == ("running", done, total)

    run_chain(any_world.workspace, "docs", look)
    assert {"raw_blobs", "documents", "chunks"} <= set(seen)
    assert seen["documents"]["done"] == 70
    assert running(any_world.workspace, "default") == []
    kept = record(any_world)
    assert kept["status"] == "succeeded" and {s["status"] for s in kept["stages"].values()} == {"succeeded"}
    assert kept["started_at"] <= kept["updated_at"] and "Page" not in str(kept)


def test_quick_stages_write_nothing_but_the_fetch_does(any_world: World) -> None:
    run_chain(any_world.workspace, "docs")
    assert "raw_blobs" in record(any_world)["stages"]
    written: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "_SECONDS_BETWEEN_WRITES", 1e9)
        patch.setattr(type(any_world.workspace.state), "set", lambda self, *a: written.append(a))
        for stage in ("documents", "chunks", "entity_snapshots"):
            run_stage(any_world.workspace, stage, "docs")
    assert written == []


def test_a_failure_is_kept_with_its_code(any_world: World) -> None:
    any_world.source("docs").rename(any_world.root / "away")
    with pytest.raises(TabootError, match="E_PATH"):
        run_stage(any_world.workspace, "raw_blobs", "docs")
    kept = record(any_world)
    assert kept["status"] == "failed" and kept["stages"]["raw_blobs"]["code"] == "E_PATH"
    (any_world.root / "away").rename(any_world.directory / "docs")
    run_stage(any_world.workspace, "raw_blobs", "docs")
    with (
        pytest.raises(KeyboardInterrupt),
        tracked(any_world.workspace, "default", "docs", "documents", lambda *_: None),
    ):
        raise KeyboardInterrupt
    assert record(any_world)["status"] == "canceled"


_KILLED = """
import os, sys
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.workspace import Workspace
workspace = Workspace(load_settings(home=sys.argv[1]))
with tracked(workspace, "default", "docs", "documents", lambda *_: None) as shown:
    shown("documents", 1, 2)
    os._exit(9)
"""


def test_a_killed_process_is_not_shown_as_running(world: World) -> None:
    (world.source("docs") / "d.md").write_text("# A page\n\nThe grafana service listens on port 3000.\n")
    world.workspace.sync_sources()
    run_stage(world.workspace, "raw_blobs", "docs")
    code = _KILLED.replace(
        "with tracked",
        "from taboot_pipelines.stages import progress; progress._SECONDS_BETWEEN_WRITES = 0\nwith tracked",
        1,
    )
    assert subprocess.run([sys.executable, "-c", code, str(world.home)], check=False).returncode == 9
    assert record(world)["status"] == "running" and running(world.workspace, "default") == []


def test_without_its_record_a_job_is_shown_as_the_catalog_knows_it(world: World) -> None:
    world.source("docs")
    world.workspace.sync_sources()
    job_id = world.workspace.catalog.jobs.start("default", "docs")
    (job,) = running(world.workspace, "default")
    assert (job["job_id"], job["status"], job["stages"]) == (job_id, "running", {})
    world.workspace.state.set("default", f"job:{job_id}", b"[not a record", 60)
    assert [j["job_id"] for j in running(world.workspace, "default")] == [job_id]


def test_an_ingest_does_not_need_redis_for_its_progress(
    tmp_path: Path, tei: FakeTei, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, tei.url, redis={"url": "redis://127.0.0.1:1/0", "timeout_seconds": 0.1})
    (world.source("docs") / "d.md").write_text("# A page\n\nThe grafana service listens on port 3000.\n")
    assert all(r.counts.get("failed", 0) == 0 for r in world.ingest("docs"))
    assert len(world.kb().documents()) == 1 and running(world.workspace, "default") == []
    assert caplog.text.count("State is not available") == 1
    world.workspace.close()
