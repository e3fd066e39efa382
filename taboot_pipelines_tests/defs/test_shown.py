"""What the UI shows of an asset: how much is stored and where, tags, and checks that can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from taboot_pipelines.defs.run_tags import NAMESPACE_TAG, TYPE_TAG
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE
from taboot_pipelines_tests.defs.conftest import Project


def stored(project: Project, result: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    """Return what each asset's materialization says of what is stored."""
    names = ("dagster/row_count", "dagster/partition_row_count", "bytes stored", "dagster/uri")
    return {
        asset: {
            name: value
            for name, value in project.metadata(result, asset).items()
            if name in names or name.startswith("rows of ")
        }
        for asset in CHAIN.names
    }


def test_each_run_says_what_is_stored_and_an_unchanged_one_says_the_same(project: Project) -> None:
    first = project.run("stack")
    said = stored(project, first)
    workspace = project.world.workspace
    for asset, metadata in said.items():
        tables = CHAIN.stage(asset).tables
        assert bool(metadata) == bool(tables), asset
        for table in tables:
            owner = NAMESPACE if table.owner == "namespace" else "stack"
            pointer = workspace.catalog.pointers.get("default", owner, asset)
            if pointer is None or table.per_space:
                continue
            rows = workspace.tables.read("default", owner, table.name, pointer.tables[table.name]).num_rows
            key = "row_count" if table.owner == "namespace" else "partition_row_count"
            shown = metadata[f"dagster/{key}" if table is tables[0] else f"rows of {table.name}"]
            assert shown == rows, (asset, table.name)
        if tables and any(isinstance(value, int) and value for value in metadata.values()):
            at = Path(url2pathname(urlsplit(str(metadata["dagster/uri"])).path))
            assert (at / "_delta_log").is_dir()
    assert said["documents"]["dagster/partition_row_count"] == 1
    assert said["embeddings"]["dagster/row_count"] == said["chunks"]["dagster/partition_row_count"]

    second = project.run("stack")
    assert stored(project, second) == said
    shards = [project.metadata(result, "kb_shards") for result in (first, second)]
    for name in ("documents", "chunks", "entities", "bytes_stored"):
        assert shards[0][name] == shards[1][name] > 0, name


def test_runs_and_materializations_are_found_by_namespace_and_type(project: Project) -> None:
    result = project.run("stack")
    run = project.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert {tag: run.tags[tag] for tag in (NAMESPACE_TAG, TYPE_TAG)} == {
        NAMESPACE_TAG: "default",
        TYPE_TAG: "compose",
    }
    for event in result.get_asset_materialization_events():
        tags = event.materialization.tags or {}
        assert (tags[NAMESPACE_TAG], tags[TYPE_TAG]) == ("default", "compose")
    everything = project.defs.resolve_job_def("ingest_all").execute_in_process(instance=project.instance)
    run = project.instance.get_run_by_id(everything.run_id)
    assert run is not None and run.tags[TYPE_TAG] == "compose,files"


def test_the_job_of_every_source_has_a_step_for_each_stage(project: Project) -> None:
    result = project.defs.resolve_job_def("ingest_all").execute_in_process(instance=project.instance)
    done = [event.step_key for event in result.all_events if event.is_step_success]
    assert done == ["read_sources_file", *(f"all_{stage}" for stage in CHAIN.names), "end_of_sources"]


def spoil(
    project: Project, asset: str, column: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> pa.ChunkedArray:
    """Publish the table of an asset of ``guides`` with a column that is not as the stage made it; return what
    it was."""
    workspace = project.world.workspace
    pointer = workspace.catalog.pointers.get("default", "guides", asset)
    assert pointer is not None
    (table,) = (table.name for table in CHAIN.stage(asset).tables)
    rows = workspace.tables.read("default", "guides", table, pointer.tables[table])
    number = rows.schema.get_field_index(column)
    assert rows.num_rows
    changed = rows.set_column(number, rows.schema.field(column), change(rows.column(column)))
    txn = f"test {pointer.tables[table]}"
    version = workspace.tables.replace("default", "guides", table, changed, buckets=None, txn=txn)
    workspace.catalog.pointers.publish(
        "default",
        "guides",
        Pointer(
            stage=asset,
            tables={table: version},
            inputs=pointer.inputs,
            txn=pointer.txn,
            applied=pointer.applied,
        ),
    )
    return rows.column(column)


def check(project: Project, asset: str, name: str) -> bool:
    """Run the checks alone, as a person does from the UI; return what one of them says."""
    job = dg.define_asset_job("checks_only", selection=dg.AssetSelection.checks_for_assets(asset))
    defs = dg.Definitions.merge(project.defs, dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("checks_only").execute_in_process(instance=project.instance)
    (found,) = (
        e
        for e in result.get_asset_check_evaluations()
        if (e.asset_key.path[-1], e.check_name) == (asset, name)
    )
    return found.passed


@pytest.mark.parametrize(
    ("asset", "column", "change"),
    [
        ("documents", "text", lambda texts: pc.utf8_upper(texts)),
        ("documents", "blob_sha256", lambda blobs: pa.chunked_array([["0" * 64] * len(blobs)])),
    ],
)
def test_a_document_that_does_not_lead_to_its_blob_is_told(
    project: Project, asset: str, column: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> None:
    assert project.run("guides").success and check(project, asset, "lead_to_blobs")
    spoil(project, asset, column, change)
    assert not check(project, asset, "lead_to_blobs")


def test_an_observation_that_quotes_nothing_is_told(project: Project) -> None:
    guide = project.world.directory / "guides" / "more.md"
    guide.write_text("# More\n\nThe registry is at http://registry.lan:5000/ and nowhere else.\n")
    assert project.run("guides").success and check(project, "tier_a_triples", "quotes_stand")
    for column, change in (
        ("span_end", lambda ends: pa.chunked_array([[0] * len(ends)], pa.int64())),
        ("blob_sha256", lambda blobs: pa.chunked_array([["0" * 64] * len(blobs)])),
        ("doc_id", lambda ids: pa.chunked_array([["00000000-0000-4000-8000-000000000000"] * len(ids)])),
        ("start_basis", lambda bases: pa.chunked_array([["bytes"] * len(bases)])),
    ):
        before = spoil(project, "tier_a_triples", column, change)
        assert not check(project, "tier_a_triples", "quotes_stand"), column
        spoil(project, "tier_a_triples", column, lambda _, before=before: before)
        assert check(project, "tier_a_triples", "quotes_stand"), column


def test_what_is_served_and_is_not_the_newest_is_told(project: Project) -> None:
    assert project.run("guides").success
    for stage in CHAIN.serving:
        assert check(project, stage, "serves_newest_snapshot")
    (project.world.directory / "guides" / "guide.md").write_text("# Guide\n\nAll is new.\n")
    for stage in CHAIN.names:
        if stage not in CHAIN.serving:
            run_stage(project.world.workspace, stage, "guides")
    assert not check(project, "kb_shards", "serves_newest_snapshot")
    # Servers that are not configured are behind nothing.
    assert check(project, "neo4j_subgraph", "serves_newest_snapshot")
    assert project.run("guides").success and check(project, "kb_shards", "serves_newest_snapshot")
