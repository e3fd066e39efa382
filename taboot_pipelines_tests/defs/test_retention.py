"""Retention by Dagster: the sensor sees what is due, the asset carries it out, the check tells of it."""

from __future__ import annotations

import dagster as dg

from taboot_pipelines.defs import retention
from taboot_pipelines_tests.defs.conftest import Project
from taboot_pipelines_tests.defs.test_operations import evaluated, tick


def expire(project: Project) -> dg.ExecuteInProcessResult:
    return project.defs.resolve_job_def("expire").execute_in_process(instance=project.instance)


def test_what_is_due_is_announced_by_a_run_then_deleted_by_one_and_seen_in_the_ui(project: Project) -> None:
    project.world.source("guides", retention_days=30)
    assert project.run("guides").success
    assert isinstance(tick(project, retention.due_retention), dg.SkipReason)

    project.world.age(24)
    (request,) = evaluated(project, "due_retention").run_requests
    assert request.run_key.startswith("retention:")
    done = expire(project)
    assert project.checks(done) == {"nothing_expires_soon": False}
    told = project.metadata(done, "retention")
    assert (told["announced"], told["expired"], told["expiring"]) == (1, 0, 1)
    (row,) = told["expiring soon"].records
    # By its id: names go into Dagster's storage only where TABOOT_METADATA_TEXT allows it.
    located = project.world.workspace.catalog.locators.of_source("default", "guides")
    assert row.data["source"] == "guides" and row.data["document"] == located["guide.md"].doc_id
    assert isinstance(tick(project, retention.due_retention), dg.SkipReason)

    project.world.age(7)
    assert evaluated(project, "due_retention").run_requests
    done = expire(project)
    assert project.checks(done) == {"nothing_expires_soon": True}
    assert project.metadata(done, "retention")["expired"] == 1
    assert "guides" not in project.world.kb().documents().column("source").to_pylist()
    # Nothing is left to do, and a run of the source keeps it so.
    assert isinstance(tick(project, retention.due_retention), dg.SkipReason)
    assert project.run("guides").success
    assert "guides" not in project.world.kb().documents().column("source").to_pylist()


def test_the_nightly_schedule_asks_for_a_run(project: Project) -> None:
    project.sync()
    schedule = project.defs.resolve_schedule_def("daily_retention")
    with dg.build_schedule_context(instance=project.instance) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    assert schedule.job_name == "expire" and request.run_config == {}
