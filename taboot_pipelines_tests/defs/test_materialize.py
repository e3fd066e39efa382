"""A source through the job: materializations, metadata, checks, failures."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from taboot_pipelines import ingesting
from taboot_pipelines.checks import CHECKS
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages import running
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines_tests.defs.conftest import COMPOSE, Project


def test_a_source_goes_through_the_chain_and_a_second_run_finds_nothing_to_do(project: Project) -> None:
    first = project.run("stack")
    assert first.success
    done = [e.asset_key.to_user_string() for e in first.get_asset_materialization_events()]
    # Of stages that do not need each other Dagster chooses the order; what serves the snapshot comes last.
    before = len(CHAIN.names) - len(CHAIN.serving)
    assert sorted(done[:before]) == sorted(CHAIN.names[:before]) and sorted(done) == sorted(CHAIN.names)
    assert all(done.index(need) < done.index(stage.name) for stage in CHAIN.stages for need in stage.needs)
    assert project.checks(first) == dict.fromkeys((check.name for check in CHECKS), True)
    raw = project.metadata(first, "raw_blobs")
    assert (raw["discovered"], raw["fetched"], raw["failed"], raw["source"]) == (1, 1, 0, "default/stack")
    image = base64.b64decode(raw["plot"].split("base64,")[1].rstrip(")"))
    assert image.startswith(b"\x89PNG") and len(image) < 100_000
    assert project.metadata(first, "documents")["dagster/partition_row_count"] == 1
    assert project.world.kb().neighbors("web", types="DEPENDS_ON").edges[0].end_name == "cache"

    second = project.run("stack")
    assert second.success
    skipped = {a: project.metadata(second, a).get("skipped") for a in CHAIN.names}
    assert skipped == {
        **dict.fromkeys(CHAIN.names, "unchanged"),
        "raw_blobs": None,
        **{name: f"skipped: {target.setting}" for name, target in CHAIN.targets.items()},
        "tier_c_triples": "skipped: TABOOT_LLM__URL",
    }
    assert skipped["qdrant_points"] == "skipped: TABOOT_QDRANT__URL"
    assert project.metadata(second, "raw_blobs")["not_modified"] == 1
    assert "plot" not in project.metadata(second, "documents")
    versions = [
        {
            e.asset_key: e.materialization.tags["dagster/data_version"]
            for e in r.get_asset_materialization_events()
        }
        for r in (first, second)
    ]
    assert versions[0] == versions[1]


def test_all_sources_in_one_run_one_of_them_failing(project: Project) -> None:
    project.world.source("broken").rmdir()
    result = project.defs.resolve_job_def("ingest_all").execute_in_process(
        instance=project.instance, raise_on_error=False
    )
    assert not result.success
    # The steps of the stages went on; the source has a step of its own, which says what to do.
    (failure,) = [e for e in result.all_events if e.is_step_failure]
    assert failure.step_key == "failed_source[broken]"
    told = failure.step_failure_data
    assert "broken failed at raw_blobs: E_PATH" in told.user_failure_data.description
    assert told.user_failure_data.metadata["code"].value == "E_PATH"
    assert "broken" in told.user_failure_data.metadata["error"].value["error"]["message"]
    assert told.user_failure_data.metadata["remedy"].value
    # No trace of where in our code it was found out.
    ours = [line for line in told.error.stack if "taboot_pipelines" in line]
    assert told.error.cause is None and len(ours) == 1 and "in failed_source" in ours[0]
    (seen,) = project.instance.fetch_observations(dg.AssetKey("raw_blobs"), limit=5).records
    observed = seen.event_log_entry.asset_observation
    assert observed is not None and observed.partition == "broken"
    assert observed.metadata["code"].value == "E_PATH"
    # The checks were carried out, for the sources that went on.
    evaluated = {(e.asset_key.path[-1], e.check_name) for e in result.get_asset_check_evaluations()}
    assert evaluated == {(check.stage, check.name) for check in CHECKS}
    assert project.partitions() == {"stack", "guides", "broken"}
    done = {(e.asset_key.path[-1], e.partition) for e in result.all_events if e.is_step_materialization}
    assert done >= {("kb_shards", "stack"), ("kb_shards", "guides")} and ("raw_blobs", "broken") not in done
    assert set(project.world.kb().documents().column("source").to_pylist()) == {"stack", "guides"}


def test_sources_whose_names_differ_by_a_hyphen_alone_fail_each_by_itself(project: Project) -> None:
    for name in ("a-b", "a_b", "c-d"):
        project.world.source(name).rmdir()
    result = project.defs.resolve_job_def("ingest_all").execute_in_process(
        instance=project.instance, raise_on_error=False
    )
    failed = [e for e in result.all_events if e.is_step_failure]
    said = {e.step_failure_data.user_failure_data.metadata["source"].value for e in failed}
    assert said == {"a-b", "a_b", "c-d"} and "failed_source[c_d]" in {e.step_key for e in failed}


def test_a_failure_says_its_code_and_is_not_tried_again(project: Project) -> None:
    project.world.source("broken").rmdir()
    result = project.run("broken")
    assert not result.success
    failure = result.failure_data_for_node("raw_blobs").user_failure_data
    assert (
        failure.metadata["code"].value == "E_PATH"
        and failure.metadata["error"].value["error"]["code"] == "E_PATH"
    )
    assert not [e for e in result.all_events if e.is_step_up_for_retry]
    assert [e.asset_key for e in result.get_asset_materialization_events()] == []


def test_a_busy_lease_is_tried_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.sync()
    real, calls = running.run_stage, []

    def once_busy(workspace: Any, stage: str, *args: Any, **options: Any) -> Any:
        calls.append(stage)
        if calls == ["raw_blobs"]:
            with FileLeases(project.world.home, 0).source("default", "guides"):
                return real(workspace, stage, *args, **options)
        return real(workspace, stage, *args, **options)

    monkeypatch.setattr(project.world.workspace.leases, "_wait", 0)
    monkeypatch.setattr(running, "run_stage", once_busy)
    result = project.run("guides")
    assert result.success and calls[:4] == ["raw_blobs", "raw_blobs", "crawl_graph", "documents"]
    assert len([e for e in result.all_events if e.is_step_up_for_retry]) == 1


def test_every_transient_code_exists() -> None:
    for code in ingesting.TRANSIENT:
        TabootError(code, "")


def test_a_defect_shows_its_type_and_place_and_nothing_it_quotes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leak(*_: Any, **__: Any) -> Any:
        raise ValueError("password=hunter2")

    monkeypatch.setattr(running, "run_stage", leak)
    result = project.run("guides")
    failure = result.failure_data_for_node("raw_blobs")
    assert failure.user_failure_data.metadata["code"].value == "E_INTERNAL"
    logs = " ".join(str(entry) for entry in project.instance.all_logs(result.run_id))
    assert "ValueError" in logs and "hunter2" not in logs


def test_false_offsets_stop_what_lies_downstream(project: Project) -> None:
    assert project.run("guides").success
    workspace = project.world.workspace
    pointer = workspace.catalog.pointers.get("default", "guides", "chunks")
    assert pointer is not None
    rows = workspace.tables.read("default", "guides", "chunks", pointer.tables["chunks"])
    moved = rows.set_column(
        rows.schema.get_field_index("start"),
        rows.schema.field("start"),
        [[s + 1 for s in rows.column("start").to_pylist()]],
    )
    version = workspace.tables.replace("default", "guides", "chunks", moved, buckets=None, txn="test")
    workspace.catalog.pointers.publish(
        "default",
        "guides",
        Pointer(
            stage="chunks",
            tables={"chunks": version},
            inputs=pointer.inputs,
            txn=pointer.txn,
            applied=pointer.applied,
        ),
    )
    result = project.run("guides")
    assert not result.success
    assert project.checks(result)["offsets_true"] is False
    done = [e.asset_key.to_user_string() for e in result.get_asset_materialization_events()]
    # Of a source's stages those go on that read no chunks, each once, and no other does.
    stopped = CHAIN.following("chunks")
    assert "embeddings" in {stage.name for stage in stopped}
    assert sorted(done) == sorted(stage.name for stage in CHAIN.of_source if stage not in stopped)


def test_checks_look_at_what_changed_and_once_a_day_at_everything(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.world.directory / "guides"
    for i in range(60):
        (folder / f"more-{i}.md").write_text(f"# More {i}\n\nThe number {i} is at http://h{i}.lan/.\n")

    def checked() -> dict[str, tuple[str, int]]:
        result = project.run("guides")
        assert result.success
        found = {e.check_name: e.metadata for e in result.get_asset_check_evaluations()}
        names = ("offsets_true", "every_chunk_embedded", "no_orphan_node", "no_edge_without_support")
        return {n: (str(found[n]["scope"].value), int(str(found[n]["checked"].value))) for n in names}

    everything = checked()
    assert {scope for scope, _ in everything.values()} == {"everything"}
    assert everything["offsets_true"][1] > 60
    nothing = checked()
    assert set(nothing.values()) == {("what changed since the last check", 0)}
    (folder / "more-7.md").write_text("# More 7\n\nThe number 7 has moved to http://moved.lan/.\n")
    little = checked()
    assert {scope for scope, _ in little.values()} == {"what changed since the last check"}
    assert all(0 < little[name][1] < everything[name][1] / 2 for name in little), little
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_500)
    assert {scope for scope, _ in checked().values()} == {"everything"}


def test_a_missing_vector_and_a_bare_edge_are_found(project: Project) -> None:
    assert project.run("stack").success
    workspace = project.world.workspace
    (name,) = [n for n in workspace.tables.names("default", "_") if n.startswith("vectors.")]
    vectors = workspace.tables.read("default", "_", name, workspace.tables.version("default", "_", name))
    workspace.tables.replace("default", "_", name, vectors.slice(1), buckets=None, txn="test")
    pointer = workspace.catalog.pointers.get("default", "_", "entity_snapshots")
    assert pointer is not None
    relations = workspace.tables.read("default", "_", "relations", pointer.tables["relations"])
    bare = relations.set_column(
        relations.schema.get_field_index("supports"),
        relations.schema.field("supports"),
        [["[]"] * relations.num_rows],
    )
    only = bare.filter([t == "DEPENDS_ON" for t in bare.column("type").to_pylist()])
    version = workspace.tables.replace("default", "_", "relations", only, buckets=None, txn="test")
    workspace.catalog.pointers.publish(
        "default",
        "_",
        Pointer(
            stage="entity_snapshots",
            tables={**pointer.tables, "relations": version},
            inputs=pointer.inputs,
            txn=pointer.txn,
            applied=pointer.applied,
        ),
    )
    selection = [
        dg.AssetCheckKey(dg.AssetKey(a), c)
        for a, c in (
            ("embeddings", "every_chunk_embedded"),
            ("entity_snapshots", "no_orphan_node"),
            ("entity_snapshots", "no_edge_without_support"),
        )
    ]
    job = dg.define_asset_job("checks", selection=dg.AssetSelection.checks(*selection))
    defs = dg.Definitions.merge(project.defs, dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("checks").execute_in_process(
        instance=project.instance, raise_on_error=False
    )
    evaluations = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert {name: e.passed for name, e in evaluations.items()} == {
        "every_chunk_embedded": False,
        "no_orphan_node": False,
        "no_edge_without_support": False,
    }
    assert evaluations["no_edge_without_support"].metadata["broken"].value == 1


def test_broken_links_are_a_warning_that_names_their_places(project: Project) -> None:
    folder = project.world.directory / "guides"
    (folder / "linking.md").write_text("# Linking\n\nSee [the other](other.md) and [more](more.md).\n")
    (folder / "other.md").write_text("# Other\n\nWords.\n")

    def checked() -> dg.AssetCheckEvaluation:
        result = project.run("guides")
        assert result.success
        (found,) = (e for e in result.get_asset_check_evaluations() if e.check_name == "no_broken_links")
        return found

    found = checked()
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["broken"].value == 1
    (place,) = (record.data for record in found.metadata["links"].records)
    # Nothing that a document holds stands in Dagster's storage.
    assert (place["line"], place["target"]) == (3, "") and "linking" not in str(place["document"])
    (folder / "more.md").write_text("# More\n\nWords.\n")
    found = checked()
    assert found.passed and found.metadata["checked"].value == 2
    assert checked().metadata["checked"].value == 0
    # The document that goes breaks the link of one that stays as it is.
    (folder / "other.md").unlink()
    assert checked().metadata["broken"].value == 1


def test_held_deletions_are_a_warning_that_blocks_nothing(project: Project) -> None:
    assert project.run("guides").success
    (project.world.directory / "guides" / "guide.md").unlink()
    held = project.run("guides")
    assert held.success
    (warning,) = [e for e in held.get_asset_check_evaluations() if not e.passed]
    assert (warning.check_name, warning.severity, warning.metadata["held"].value) == (
        "no_deletes_held",
        dg.AssetCheckSeverity.WARN,
        {"guides": 1},
    )
    assert "E_MASS_DELETE" in project.metadata(held, "raw_blobs")["held"].replace("\\", "")
    project.world.workspace.sync_sources()
    confirmed = project.defs.resolve_job_def("ingest_source").execute_in_process(
        instance=project.instance,
        partition_key="guides",
        run_config=dg.RunConfig({"raw_blobs": {"config": {"confirm_deletes": True}}}),
    )
    assert project.metadata(confirmed, "raw_blobs")["removed"] == 1 and all(
        project.checks(confirmed).values()
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_metadata_holds_document_text_only_where_a_setting_says_so(project: Project, allowed: bool) -> None:
    settings = project.world.workspace.settings.model_copy(update={"metadata_text": allowed})
    project.resource.runtime.settings = project.world.workspace.settings = settings
    result = project.run("guides")
    stored = " ".join(str(entry) for entry in project.instance.all_logs(result.run_id))
    assert ("keeps its sessions" in stored) is allowed


def test_a_failed_item_is_listed_by_code_and_id(project: Project) -> None:
    directory: Path = project.world.directory / "stack"
    (directory / "bad").mkdir()
    (directory / "bad" / "compose.yaml").write_text("services: {a: [unclosed\n")
    (directory / "compose.yaml").write_text(COMPOSE)
    result = project.run("stack")
    assert result.success
    problems = project.metadata(result, "tier_a_triples")["problems"].replace("\\", "")
    doc_id = ids.doc_id("default", ids.locator("stack", "bad/compose.yaml"))
    assert (
        "E_PARSE" in problems
        and f"compose:{doc_id}" in problems
        and "bad/" not in problems
        and "unclosed" not in problems
    )
