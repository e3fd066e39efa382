"""The asset ``usage``: what the UI shows of quotas and deliveries, and what it warns of."""

from __future__ import annotations

import dagster as dg
import yaml

from taboot_pipelines.model.notifications import DeliveryState
from taboot_pipelines_tests.defs.conftest import Project


def audit(project: Project) -> dg.ExecuteInProcessResult:
    return project.defs.resolve_job_def("audit").execute_in_process(instance=project.instance)


def test_quotas_and_deliveries_are_shown_and_warned_of(project: Project) -> None:
    project.run("guides")
    world = project.world
    assert project.checks(audit(project)) == dict.fromkeys(
        ("stores_agree", "below_quotas", "deliveries_arrive"), True
    )
    file = world.directory / "sources.yaml"
    quotas = {"default": {"documents": 1}}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "quotas": quotas}))
    project.sync()
    deliveries = world.workspace.catalog.notifications
    deliveries.add("default", [{"id": "a", "endpoint": "ops", "kind": "failed", "payload": "{}"}])
    deliveries.tried("default", "a", DeliveryState.FAILED, 1, 0, "503")
    done = audit(project)
    found = project.checks(done)
    assert (found["below_quotas"], found["deliveries_arrive"]) == (False, False)
    told = project.metadata(done, "usage")
    rows = {row.data["what"]: row.data for row in told["usage"].records}
    assert rows["documents"]["limit"] == "1" and rows["bytes"]["limit"] == "none"
    assert told["deliveries"] == {"default": {"failed": 1}}
