"""The check of drift: a warning that blocks nothing, and goes when either side is mended."""

from __future__ import annotations

import dagster as dg

from taboot_pipelines.stages import notifications
from taboot_pipelines_tests.defs.conftest import Project

WRONG = "# The house\n\nThe `web` container listens on port 9090 of `box.lan`.\n"
CLASH = 'services:\n  other:\n    image: caddy:2\n    ports: ["8080:80"]\n'


def checked(project: Project, source: str) -> dg.AssetCheckEvaluation:
    result = project.run(source)
    assert result.success
    (found,) = (e for e in result.get_asset_check_evaluations() if e.check_name == "no_drift")
    return found


def test_drift_is_a_warning_that_names_both_statements(project: Project) -> None:
    guides = project.world.directory / "guides"
    assert checked(project, "stack").passed and checked(project, "guides").passed

    (guides / "house.md").write_text(WRONG)
    found = checked(project, "guides")
    assert (found.passed, found.severity, found.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    assert found.metadata["drifts"].value == 1
    assert [found.metadata[record.data["kind"]].value for record in found.metadata["edges"].records] == [1]
    (row,) = (record.data for record in found.metadata["edges"].records)
    told_of = [
        e.facts for e in notifications.events(project.world.workspace, "default", 0) if e.kind == "drift"
    ]
    assert told_of == [{"drifts": 1}], "whoever wants to hear of it does"
    kb = project.world.kb()
    (item,) = kb.drift().items
    assert (row["kind"], row["edge"], row["against"]) == ("prose_port", *(s.edge_ids[0] for s in item.sides))
    assert [kb.explain(str(row[side])).line for side in ("edge", "against")] == [3, 5]
    # Nothing that a document holds stands in Dagster's storage, unless a setting allows it.
    assert "statement" not in row and "stands" not in row
    assert row["shown_by"] == "taboot drift --kind prose_port"
    settings = project.world.workspace.settings.model_copy(update={"metadata_text": True})
    project.resource.runtime.settings = project.world.workspace.settings = settings
    (row,) = (record.data for record in checked(project, "guides").metadata["edges"].records)
    assert row["statement"] == item.statement
    assert row["stands"] == ", ".join(f"{side.url}:{side.line}" for side in item.sides)

    (guides / "house.md").write_text(WRONG.replace("9090", "8080"))
    assert checked(project, "guides").passed


def test_configurations_that_clash_are_told_with_the_run_that_brings_them(project: Project) -> None:
    assert checked(project, "stack").passed
    folder = project.world.directory / "stack" / "other"
    folder.mkdir()
    (folder / "compose.yaml").write_text(CLASH)
    found = checked(project, "stack")
    assert not found.passed and found.metadata["drifts"].value == 1
    (folder / "compose.yaml").write_text(CLASH.replace("8080", "8081"))
    assert checked(project, "stack").passed
