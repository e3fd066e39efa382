"""Sensors: partitions follow the sources file, sources run when they are due."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import orjson
import pytest

from taboot_pipelines.defs import operations
from taboot_pipelines.defs.partitions import TAG
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.defs.conftest import Project


def tick(project: Project, sensor: Any, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    """Evaluate a sensor and carry out its answer as the daemon does."""
    with dg.build_sensor_context(
        instance=project.instance,
        cursor=cursor,
        definitions=project.defs,
        resources={"workspace": project.resource},
    ) as context:
        answer: dg.SensorResult | dg.SkipReason = sensor(context)
    for request in getattr(answer, "dynamic_partitions_requests", None) or ():
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            project.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                project.instance.delete_dynamic_partition(request.partitions_def_name, key)
    return answer


def requested(answer: dg.SensorResult | dg.SkipReason) -> dict[str, str]:
    return {r.partition_key: r.run_key for r in getattr(answer, "run_requests", None) or ()}


def test_partitions_follow_the_sources_file(project: Project) -> None:
    first = tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack", "guides"}
    assert set(requested(first)) == {"stack", "guides"}
    # The same keys again until a run has begun, so the daemon launches each once.
    assert requested(tick(project, operations.sources_sensor)) == requested(first)
    assert project.run("stack").success and project.run("guides").success
    assert isinstance(tick(project, operations.sources_sensor), dg.SkipReason)

    project.world.remove_source("guides")
    leaving = tick(project, operations.sources_sensor)
    (key,) = requested(leaving).values()
    assert key.startswith("retire:default:guides:") and project.partitions() == {"stack", "guides"}
    assert project.run_only("guides").success
    tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack"}
    assert set(project.world.kb().documents().column("source").to_pylist()) == {"stack"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "sources: []\n",
        "sources:\n- id: stack\n  type: comp",
        "sources: [{id: a, type: files, path: a}, {id: a, type: files, path: b}]",
    ],
)
def test_a_broken_sources_file_changes_nothing_and_is_seen(project: Project, content: str) -> None:
    tick(project, operations.sources_sensor)
    (project.world.directory / "sources.yaml").write_text(content)
    with pytest.raises(TabootError, match="E_SOURCES"):
        tick(project, operations.sources_sensor)
    assert project.partitions() == {"stack", "guides"}
    assert {r["state"] for r in project.world.workspace.catalog.sources.find()} == {"active"}


def test_a_source_is_run_when_it_is_due_and_once_for_what_was_missed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sync()
    now = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
    monkeypatch.setattr(operations, "_now", lambda: now)

    def due(cursor: str | None) -> tuple[dict[str, str], str]:
        answer = tick(project, operations.due_sources, cursor)
        assert isinstance(answer, dg.SensorResult) and answer.cursor is not None
        return requested(answer), answer.cursor

    runs, cursor = due(None)
    assert runs == {} and orjson.loads(cursor) == {"stack": "2026-03-01T12:00:00+00:00"}
    now = datetime(2026, 3, 1, 12, 9, tzinfo=UTC)
    assert due(cursor)[0] == {}
    now = datetime(2026, 3, 1, 13, 47, tzinfo=UTC)
    runs, after = due(cursor)
    assert runs == {"stack": "due:stack:2026-03-01T13:40:00+00:00"}
    assert due(after)[0] == {}

    # While a run of the source is under way it stays due.
    project.instance.create_run_for_job(
        project.defs.resolve_job_def("ingest_source"), status=dg.DagsterRunStatus.STARTED, tags={TAG: "stack"}
    )
    now = datetime(2026, 3, 1, 13, 52, tzinfo=UTC)
    runs, kept = due(after)
    assert runs == {} and orjson.loads(kept) == orjson.loads(after)


def test_a_failed_run_is_logged_with_its_code(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    project.world.source("broken").rmdir()
    result = project.run("broken")
    assert not result.success
    context = dg.build_run_status_sensor_context(
        sensor_name="run_failures",
        dagster_instance=project.instance,
        dagster_run=result.dagster_run,
        dagster_event=next(e for e in reversed(result.all_events) if e.is_run_failure),
    ).for_run_failure()
    capfd.readouterr()
    operations.run_failures(context)
    assert "broken: raw_blobs: E_PATH" in capfd.readouterr().err
