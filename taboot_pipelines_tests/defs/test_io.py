"""Loading assets as Arrow tables."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import CHUNKS, DOCUMENTS, ENTITIES, OBSERVATIONS, RELATIONS, VECTORS
from taboot_pipelines_tests.defs.conftest import GUIDE, Project


def test_each_asset_loads_as_its_published_table(project: Project) -> None:
    assert project.run("stack").success and project.run("guides").success

    def load(asset: str, source: str = "guides", **metadata: object) -> pa.Table:
        with project.defs.get_asset_value_loader(project.instance) as loader:
            table = loader.load_asset_value(
                asset, partition_key=source, input_definition_metadata=metadata or None
            )
        assert isinstance(table, pa.Table)
        return table

    documents = load("documents")
    assert documents.schema.equals(DOCUMENTS) and documents.column("text").to_pylist() == [GUIDE]
    chunks = load("chunks")
    assert chunks.schema.equals(CHUNKS)
    assert [GUIDE[c["start"] : c["end"]] for c in chunks.to_pylist()] == chunks.column("text").to_pylist()
    vectors = load("embeddings")
    assert vectors.schema.equals(VECTORS) and set(chunks.column("sha256").to_pylist()) <= set(
        vectors.column("sha256").to_pylist()
    )
    observations = load("tier_a_triples", "stack")
    assert (
        observations.schema.equals(OBSERVATIONS) and "DEPENDS_ON" in observations.column("type").to_pylist()
    )
    entities = load("entity_snapshots")
    assert entities.schema.equals(ENTITIES) and {"web", "cache"} <= set(entities.column("name").to_pylist())
    assert load("entity_snapshots", table="relations").schema.equals(RELATIONS)
    assert load("documents", columns=["doc_id", "title"]).column_names == ["doc_id", "title"]

    # What was published, not what a killed writer may have left ahead of it.
    tables = project.world.workspace.tables
    tables.replace("default", "guides", "documents", DOCUMENTS.empty_table(), buckets=None, txn="killed")
    assert load("documents").num_rows == 1


def test_an_asset_without_partitions_gets_every_source_from_a_storage_that_saw_no_ingest(
    project: Project,
) -> None:
    project.world.ingest()
    seen: list[object] = []

    @dg.asset(ins={"entity_snapshots": dg.AssetIn(input_manager_key="tables")})
    def report(entity_snapshots: Any) -> None:
        seen.append(entity_snapshots)

    defs = dg.Definitions.merge(project.defs, dg.Definitions(assets=[report]))
    with dg.DagsterInstance.ephemeral() as fresh:
        job = defs.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=fresh, asset_selection=[report.key]).success
    (tables,) = seen
    assert isinstance(tables, dict) and set(tables) == {"guides", "stack"}
    assert all(table.schema.equals(ENTITIES) and table.num_rows for table in tables.values())


def test_what_cannot_be_loaded_is_a_typed_error(project: Project) -> None:
    project.sync()
    for asset, source, metadata, code in (
        ("documents", "nobody", None, "E_SOURCE_UNKNOWN"),
        ("documents", "guides", {"table": "relations"}, "E_TABLE"),
    ):
        project.instance.add_dynamic_partitions("sources", [source])
        with (
            pytest.raises(TabootError) as caught,
            project.defs.get_asset_value_loader(project.instance) as loader,
        ):
            loader.load_asset_value(asset, partition_key=source, input_definition_metadata=metadata)
        assert caught.value.code == code
    empty = project.defs.load_asset_value("documents", partition_key="guides", instance=project.instance)
    assert isinstance(empty, pa.Table) and empty.num_rows == 0 and empty.schema.equals(DOCUMENTS)


def test_the_knowledge_base_is_a_resource(project: Project) -> None:
    assert project.run("guides").success
    resource = (project.defs.resources or {})["knowledge_base"]
    with pytest.raises(TabootError, match="E_KB_UNINITIALIZED"):
        type(resource)(home=resource.home, namespace="elsewhere").open()
    assert resource.open().documents().column("source").to_pylist() == ["guides"]
