"""A source with a schedule is to be read to its end each time before it is due again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from taboot_pipelines.defs import freshness, operations
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stages.schedules import last_fires, overdue
from taboot_pipelines_tests.defs.conftest import Project
from taboot_pipelines_tests.defs.test_operations import requested, tick


def read(project: Project, *, complete: bool) -> None:
    jobs = project.world.workspace.catalog.jobs
    counts = {"discovered": 0, "fetched": 0, "not_modified": 0, "skipped": 0, "failed": 0}
    jobs.end(jobs.start("default", "stack"), JobState.SUCCEEDED, {**counts, "complete": complete})


def test_who_was_not_read_to_its_end_for_two_intervals_is_overdue(project: Project) -> None:
    project.sync()
    workspace, now = project.world.workspace, datetime.now(UTC)
    soon, later = now + timedelta(minutes=5), now + timedelta(minutes=35)
    # Just declared: not judged yet. The other source has no schedule and is never judged.
    assert overdue(workspace, soon) == []
    (late,) = overdue(workspace, later)
    assert (late.source_id, late.completed) == ("stack", None)
    assert late.since == last_fires("*/10 * * * *", later)[1] and later - late.since >= timedelta(minutes=10)
    read(project, complete=False)
    assert [x.source_id for x in overdue(workspace, later)] == ["stack"]
    read(project, complete=True)
    (late,) = overdue(workspace, later)
    assert late.completed is not None and late.completed < late.since
    assert overdue(workspace, now + timedelta(minutes=9)) == []


def test_the_check_warns_and_the_sensor_reports_a_change_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sync()
    monkeypatch.setattr(freshness, "_now", lambda: datetime.now(UTC) + timedelta(hours=1))
    result = freshness.sources_fresh(project.resource)
    assert isinstance(result, dg.AssetCheckResult)
    assert not result.passed and result.severity is dg.AssetCheckSeverity.WARN
    assert result.metadata["overdue"].value.records[0].data["source"] == "stack"
    (due,) = result.metadata["due next"].value.records
    assert due.data["source"] == "stack" and due.data["schedule"] == "*/10 * * * *"
    soonest = datetime.fromisoformat(str(due.data["due"])) - datetime.now(UTC)
    assert timedelta(minutes=50) < soonest <= timedelta(minutes=70)
    first = tick(project, freshness.freshness_sensor)
    assert isinstance(first, dg.SensorResult) and first.cursor == "stack" and len(first.asset_events) == 1
    again = tick(project, freshness.freshness_sensor, first.cursor)
    assert isinstance(again, dg.SensorResult) and not again.asset_events
    monkeypatch.setattr(freshness, "_now", lambda: datetime.now(UTC))
    well = tick(project, freshness.freshness_sensor, again.cursor)
    assert isinstance(well, dg.SensorResult) and well.cursor == "none"
    (event,) = well.asset_events
    assert isinstance(event, dg.AssetCheckEvaluation) and event.passed


def test_a_tick_that_finds_no_time_for_all_goes_on_where_it_stopped(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        project.world.source(name, schedule="*/10 * * * *")
    project.sync()
    now = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
    monkeypatch.setattr(operations, "_now", lambda: now)
    first = tick(project, operations.due_sources)
    assert isinstance(first, dg.SensorResult)
    cursor, found = first.cursor, []
    now = datetime(2026, 3, 1, 12, 14, tzinfo=UTC)
    # No time at all: each tick looks at one source, and the next one at the next.
    monkeypatch.setattr(operations, "_BUDGET_SECONDS", -1.0)
    for _ in range(5):
        answer = tick(project, operations.due_sources, cursor)
        assert isinstance(answer, dg.SensorResult)
        cursor = answer.cursor
        found.append(sorted(requested(answer)))
    assert found == [["a"], ["b"], ["c"], ["stack"], []]
    monkeypatch.setattr(operations, "_BUDGET_SECONDS", 20.0)
    assert requested(tick(project, operations.due_sources, cursor)) == {}
