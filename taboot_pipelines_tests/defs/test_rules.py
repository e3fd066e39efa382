"""The check of the house's rules: it warns of errors, counts the rest, and looks only at what is new."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines_tests.defs.conftest import Project

BAD = 'services: {a: {image: "nginx:1.27", container_name: one, privileged: true, restart: always}}\n'


def checked(project: Project) -> dg.AssetCheckEvaluation:
    result = project.run("stack")
    assert result.success
    (found,) = (e for e in result.get_asset_check_evaluations() if e.check_name == "rules_hold")
    return found


def test_errors_are_a_warning_that_says_which_rules_do_not_hold(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(project).passed
    stack = project.world.directory / "stack"
    for folder in ("one", "two"):
        (stack / folder).mkdir()
        (stack / folder / "compose.yaml").write_text(BAD)
    found = checked(project)
    assert (found.passed, found.severity, found.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    rows: list[Any] = [record.data for record in found.metadata["rules"].records]
    told = {row["rule"]: (row["severity"], row["found"]) for row in rows}
    assert told["container-name-twice"] == ("error", 1) and told["privileged"] == ("warning", 2)
    assert found.metadata["error"].value == 1 and all(row["remedy"] for row in rows)
    kb = project.world.kb()
    (clash,) = kb.rules("container-name-twice").findings
    assert [r["first"] for r in rows if r["rule"] == "container-name-twice"] == [clash.citations[0].doc_id]

    assert all(row["shown_by"] == f"taboot rules --rule {row['rule']}" for row in rows)
    assert not any("statement" in row for row in rows)
    # What documents say stands in Dagster's storage only where a setting allows it.
    was = project.world.workspace.settings
    settings = was.model_copy(update={"metadata_text": True})
    project.resource.runtime.settings = project.world.workspace.settings = settings
    named: list[Any] = [record.data for record in checked(project).metadata["rules"].records]
    (row,) = (row for row in named if row["rule"] == clash.rule)
    assert row["statement"] == f"{clash.subject}: {clash.statement}"
    assert row["stands"] == f"{clash.citations[0].url}:{clash.citations[0].line}"
    project.resource.runtime.settings = project.world.workspace.settings = was
    found = checked(project)

    # Where nothing is new, nothing is looked at; what somebody decided is new.
    with monkeypatch.context() as patch:
        patch.delattr(KnowledgeBase, "rules")
        assert checked(project).metadata["rules"] == found.metadata["rules"]
    file = project.world.workspace.settings.sources_file
    declared = file.read_text()
    silenced = "rules: {container-name-twice: {silence: [{subject: one, reason: only one runs}]}}"
    file.write_text(f"{declared}\n{silenced}\n")
    assert checked(project).passed
