"""The assets: one for each stage of the chain, partitioned by source.

Name, description, dependencies, columns, and whether an I/O manager keeps the value are taken from ``CHAIN``,
so that nothing is written down twice. Written here is only what Dagster adds: group, pool, kinds and the
version of the code.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import getsourcefile, getsourcelines
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from taboot_pipelines.defs.io import KEY
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import BACKFILL, sources_partitions
from taboot_pipelines.defs.pools import EMBED, INGEST, KNOWLEDGE, LLM
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.documents.parse import PARSER_VERSION
from taboot_pipelines.extraction import tier_b, tier_c
from taboot_pipelines.knowledge.reducer import REDUCER_VERSION
from taboot_pipelines.model.column_notes import note
from taboot_pipelines.model.tables import TABLES
from taboot_pipelines.stages import (
    crawl_graph,
    documents,
    entity_snapshots,
    kb_shards,
    links,
    neo4j_subgraph,
    qdrant_points,
    tier_a_triples,
    tier_b_triples,
    tier_c_triples,
)
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage

# Dagster calls them beta wherever they are used; who runs the project cannot help it.
warnings.filterwarnings("ignore", message=".*CodeReference.*", category=dg.BetaWarning)

#: What the asset of each stage was made with.
_MADE_WITH: dict[str, dict[str, Any]] = {}


def tagged(asset: dg.AssetsDefinition, op_tags: Mapping[str, Any]) -> dg.AssetsDefinition:
    """The same asset whose step has ``op_tags``, which Dagster lets nobody add later."""
    return _asset(asset.op.name, **{**_MADE_WITH[asset.op.name], "op_tags": op_tags})


def described(stage: SourceStage | NamespaceStage) -> dict[str, Any]:
    """Return the metadata of a stage's asset: Dagster's own keys where it has some.

    The first table is the one that loading the asset gives; the columns of the others stand under
    ``columns of {table}``.
    """
    schemas = {table.name: _columns(table.schema) for table in stage.tables}
    found: dict[str, Any] = {"dagster/code_references": _code(stage)}
    if schemas:
        first, *others = schemas
        found |= {
            "dagster/storage_kind": "deltalake",
            "dagster/column_schema": schemas[first],
            **{f"columns of {name}": dg.MetadataValue.table_schema(schemas[name]) for name in others},
        }
    return found


def _columns(table: str) -> dg.TableSchema:
    schema, _ = TABLES[table]
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=field.name,
                type=_type(field.type),
                description=note(table, field.name),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema
        ]
    )


def _type(type_: pa.DataType) -> str:
    """Return the name of an Arrow type; a structure's own fields would not fit into a cell."""
    if pa.types.is_list(type_):
        return f"list<{_type(type_.value_type)}>"
    return "struct" if pa.types.is_struct(type_) else str(type_)


def _code(stage: SourceStage | NamespaceStage) -> dg.CodeReferencesMetadataValue:
    """Return where the stage's own code begins, for "Open in editor"."""
    return dg.CodeReferencesMetadataValue(
        code_references=[
            dg.LocalFileCodeReference(
                file_path=getsourcefile(function) or "",
                line_number=getsourcelines(function)[1],
                label=f"{function.__module__}.{function.__qualname__}",
            )
            for function in _unwrapped(stage.run)
        ]
    )


def _unwrapped(run: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the function that a stage runs, and the functions that it was given to run."""
    if not isinstance(run, partial):
        return [run]
    given = [value for value in run.keywords.values() if callable(value) and hasattr(value, "__code__")]
    return [*_unwrapped(run.func), *(f for f in given if f.__name__ != "<lambda>")]


class FetchConfig(dg.Config):
    """What a person may decide for one run."""

    confirm_deletes: bool = Field(False, description="Carry out deletions that were held as E_MASS_DELETE.")


@dg.asset(
    group_name="ingest",
    partitions_def=sources_partitions,
    pool=INGEST,
    kinds={"python", "sqlite"},
    owners=OWNERS,
    code_version="1",
    description=CHAIN.first.holds,
    metadata=described(CHAIN.first),
    backfill_policy=BACKFILL,
)
def raw_blobs(
    context: dg.AssetExecutionContext, config: FetchConfig, workspace: WorkspaceResource
) -> Iterator[Any]:
    yield from materialize(context, workspace, confirm_deletes=config.confirm_deletes)


def _asset(
    name: str,
    *,
    group: str,
    pool: str,
    kinds: set[str],
    code_version: str = "1",
    op_tags: Mapping[str, Any] | None = None,
) -> dg.AssetsDefinition:
    """Return the asset of the stage ``name``. Raises ``E_NOT_FOUND`` if there is no such stage."""
    stage = CHAIN.stage(name)
    _MADE_WITH[name] = {"group": group, "pool": pool, "kinds": kinds, "code_version": code_version}

    @dg.asset(
        name=name,
        group_name=group,
        deps=[dg.AssetKey(need) for need in stage.needs],
        partitions_def=sources_partitions,
        pool=pool,
        kinds=kinds,
        owners=OWNERS,
        # A stage that publishes tables has a value that other code may load; the others have none.
        io_manager_key=KEY if stage.tables else None,
        code_version=code_version,
        description=stage.holds,
        metadata=described(stage),
        op_tags=op_tags,
        backfill_policy=BACKFILL,
    )
    def asset(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[Any]:
        yield from materialize(context, workspace)

    return asset


_TABLE = {"deltalake", "python"}
_TIER_B = (tier_b_triples.VERSION, tier_b.VERSION, tier_b.grammar_version())
_TIER_C = (tier_c_triples.VERSION, tier_c.WINDOWS_VERSION, tier_c.PROMPT_VERSION, tier_c.READING_VERSION)

ASSETS = [
    raw_blobs,
    _asset(
        "crawl_graph",
        group="ingest",
        pool=INGEST,
        kinds={"python", "sqlite"},
        code_version=crawl_graph.VERSION,
    ),
    _asset(
        "documents",
        group="documents",
        pool=INGEST,
        kinds={"deltalake", "markdown"},
        code_version=f"{documents.VERSION}.{PARSER_VERSION}",
    ),
    _asset("chunks", group="documents", pool=INGEST, kinds=_TABLE),
    _asset("links", group="documents", pool=INGEST, kinds=_TABLE, code_version=links.VERSION),
    _asset("embeddings", group="vectors", pool=EMBED, kinds={"deltalake", "openvino"}),
    _asset(
        "tier_a_triples",
        group="knowledge",
        pool=KNOWLEDGE,
        kinds=_TABLE,
        code_version=tier_a_triples.VERSION,
    ),
    _asset("tier_b_triples", group="knowledge", pool=KNOWLEDGE, kinds=_TABLE, code_version=".".join(_TIER_B)),
    _asset("tier_c_triples", group="knowledge", pool=LLM, kinds=_TABLE, code_version=".".join(_TIER_C)),
    _asset(
        "entity_snapshots",
        group="knowledge",
        pool=KNOWLEDGE,
        kinds=_TABLE,
        code_version=f"{entity_snapshots.VERSION}.{REDUCER_VERSION}",
    ),
    _asset(
        "qdrant_points",
        group="vectors",
        pool=KNOWLEDGE,
        kinds={"qdrant"},
        code_version=qdrant_points.VERSION,
    ),
    _asset(
        "neo4j_subgraph",
        group="knowledge",
        pool=KNOWLEDGE,
        kinds={"neo4j"},
        code_version=neo4j_subgraph.VERSION,
    ),
    _asset(
        "kb_shards",
        group="knowledge_base",
        pool=KNOWLEDGE,
        kinds={"duckdb"},
        code_version=kb_shards.VERSION,
    ),
]
