"""The sensor of dead letters requests one run for each failure, and none when nothing can be mended."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from taboot_pipelines.defs import operations
from taboot_pipelines.defs.partitions import TAG
from taboot_pipelines_tests.defs.conftest import Project
from taboot_pipelines_tests.defs.test_operations import requested, tick
from taboot_pipelines_tests.objects import Bucket
from taboot_pipelines_tests.servers import S3Server
from taboot_pipelines_tests.stages.test_dead_letters import letter


def test_a_source_is_run_again_once_for_each_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sync()
    catalog = project.world.workspace.catalog
    assert isinstance(tick(project, operations.due_dead_letters), dg.SkipReason)
    seen = set()
    for attempt in (1, 2, 3):
        catalog.dead_letters.record(
            "default", "guides", "raw_blobs", [letter("a"), letter("b", "E_PARSE")], ()
        )
        assert isinstance(tick(project, operations.due_dead_letters), dg.SkipReason), "not before its time"
        later = time.time() + 60
        monkeypatch.setattr("taboot_pipelines.stages.dead_letters.time.time", lambda later=later: later)
        first = requested(tick(project, operations.due_dead_letters))
        assert set(first) == {"guides"} and first["guides"].startswith(f"retry:default:guides:{attempt}:")
        assert requested(tick(project, operations.due_dead_letters)) == first, (
            "the same key until the next failure"
        )
        seen.add(first["guides"])
        monkeypatch.undo()
    assert len(seen) == 3
    catalog.dead_letters.record("default", "guides", "raw_blobs", [letter("a")], ())
    monkeypatch.setattr("taboot_pipelines.stages.dead_letters.time.time", lambda: time.monotonic() + 9e9)
    assert isinstance(tick(project, operations.due_dead_letters), dg.SkipReason), "failed for good"


def test_bytes_that_wait_for_the_object_store_are_uploaded_when_they_are_due(
    project: Project, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(tick(project, operations.due_uploads), dg.SkipReason), "a directory has no queue"
    bucket = Bucket(s3)
    project.world.overrides |= {"blob_url": bucket.url, "storage": bucket.storage}
    project.sync()
    workspace = project.world.open(project.world.home)
    monkeypatch.setattr("taboot_pipelines.defs.resources.WorkspaceResource.open", lambda _: workspace)
    assert isinstance(tick(project, operations.due_uploads), dg.SkipReason)
    catalog, when = workspace.catalog, time.time_ns() // 1000 + 60_000_000
    catalog.uploads.enqueue(
        "default", "0" * 64, "x", 1, max_retries=5, next_retry_at=when, error_message="away"
    )
    assert isinstance(tick(project, operations.due_uploads), dg.SkipReason), "not before its time"
    monkeypatch.setattr(operations, "now_micros", lambda: when + 1)
    first = requested(tick(project, operations.due_uploads))
    assert list(first.values()) == [f"uploads:default:{when}"]
    assert requested(tick(project, operations.due_uploads)) == first, "once for each wait"
    workspace.close()


def test_a_busy_source_is_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.sync()
    project.world.workspace.catalog.dead_letters.record("default", "guides", "raw_blobs", [letter("a")], ())
    monkeypatch.setattr("taboot_pipelines.stages.letter_retries.BACKOFF_SECONDS", (0.0,))
    job = project.defs.resolve_job_def("ingest_source")
    run = project.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={TAG: "guides"})
    assert isinstance(tick(project, operations.due_dead_letters), dg.SkipReason)
    project.instance.report_run_failed(run)
    assert set(requested(tick(project, operations.due_dead_letters))) == {"guides"}
