"""A tier's runs in the UI, and the jobs that make, promote and take back runs."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from taboot_pipelines_tests.defs.conftest import Project

SECRET = "swordfish-eleven"
PAGE = (
    "# Grafana\n\nGrafana depends on Postgres.\n\n"
    f"# Jellyfin\n\nJellyfin connects to Redis (`DB_PASSWORD={SECRET}`).\n"
)


def job(project: Project, name: str, op: str, **config: Any) -> dg.ExecuteInProcessResult:
    return project.defs.resolve_job_def(name).execute_in_process(
        instance=project.instance, run_config={"ops": {op: {"config": config}}}, raise_on_error=False
    )


def outputs(result: dg.ExecuteInProcessResult, op: str) -> dict[str, Any]:
    (event,) = [e for e in result.all_events if e.is_successful_output and e.step_key == op]
    return {k: v.value for k, v in event.step_output_data.metadata.items()}


def table(value: Any) -> list[dict[str, Any]]:
    return [dict(record.data) for record in value.records]


@pytest.mark.parametrize("names", [False, True])
def test_a_tier_shows_its_runs_how_sure_they_are_and_triples_with_their_sentences(
    project: Project, names: bool
) -> None:
    world = project.world
    (world.source("pages") / "page.md").write_text(PAGE)
    settings = world.workspace.settings.model_copy(update={"metadata_text": names})
    project.resource.runtime.settings = project.world.workspace.settings = settings
    result = project.run("pages")
    assert result.success
    found = project.metadata(result, "tier_b_triples")
    assert {r["state"]: r["runs"] for r in table(found["runs"])} == {"active": 1}
    assert {r["confidence"]: r["facts"] for r in table(found["confidence"])} == {"0.8-0.9": 2}
    assert found["confidence_plot"].startswith("![facts by confidence](data:image/png;base64,")
    triples = table(found["triples"])
    assert {t["relation"] for t in triples} == {"DEPENDS_ON", "CONNECTS_TO"} and {
        t["line"] for t in triples
    } == {3, 7}
    if names:
        (told,) = (t for t in triples if t["line"] == 7)
        assert told["triple"] == "(Service jellyfin)-[CONNECTS_TO]->(Service redis)"
        assert told["sentence"].startswith("Jellyfin connects to Redis (`DB_PASSWORD=****")
    else:
        assert "triple" not in triples[0] and "grafana" not in str(found).lower()
    assert SECRET not in str(found)
    # What a run found as it was is not kept once more.
    again = project.metadata(project.run("pages"), "tier_b_triples")
    assert "triples" not in again and "runs" not in again


def test_jobs_interpret_again_promote_and_take_back(project: Project) -> None:
    world = project.world
    (world.source("pages") / "page.md").write_text(PAGE)
    assert project.run("pages").success
    place = {"source": "pages", "tier": "B"}
    made = job(project, "reinterpret", "reinterpret_units", config={"min_confidence": 0.84}, **place)
    assert made.success and outputs(made, "reinterpret_units")["runs"] == 1
    edges = world.kb().edges().num_rows
    promoted = job(project, "promote_runs", "promote_candidates", **place)
    assert promoted.success and outputs(promoted, "promote_candidates")["promoted"] == 1
    assert world.kb().edges().num_rows == edges - 1
    back = job(project, "rollback_runs", "take_back", **place)
    assert back.success and outputs(back, "take_back")["active"] == 1
    assert world.kb().edges().num_rows == edges
    refused = job(project, "rollback_runs", "take_back", **place)
    (failure,) = [e for e in refused.all_events if e.is_step_failure]
    assert "E_NOT_FOUND" in failure.step_failure_data.user_failure_data.description
    at_once = job(
        project, "reinterpret", "reinterpret_units", config={"min_confidence": 0.84}, promote=True, **place
    )
    assert outputs(at_once, "reinterpret_units")["promoted"] == 1
    assert world.kb().edges().num_rows == edges - 1
