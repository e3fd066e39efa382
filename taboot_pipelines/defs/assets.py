"""The assets: one for each stage of the chain, partitioned by source.

Name, description, dependencies, columns, and whether an I/O manager keeps the value are taken from ``CHAIN``,
as are group, pool, kinds and the version of the code, so that nothing is written down twice.
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
from taboot_pipelines.defs.pools import POOLS
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model.column_notes import note
from taboot_pipelines.model.tables import TABLES
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage

# Dagster calls them beta wherever they are used; who runs the project cannot help it.
warnings.filterwarnings("ignore", message=".*CodeReference.*", category=dg.BetaWarning)


def tagged(asset: dg.AssetsDefinition, op_tags: Mapping[str, Any]) -> dg.AssetsDefinition:
    """The same asset whose step has ``op_tags``, which Dagster lets nobody add later."""
    return _asset(CHAIN.stage(asset.op.name), op_tags)


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


def _asset(
    stage: SourceStage | NamespaceStage, op_tags: Mapping[str, Any] | None = None
) -> dg.AssetsDefinition:
    decorated = dg.asset(
        name=stage.name,
        group_name=stage.group,
        deps=[dg.AssetKey(need) for need in stage.needs],
        partitions_def=sources_partitions,
        pool=POOLS[stage.uses],
        kinds=set(stage.kinds),
        owners=OWNERS,
        # A stage that publishes tables has a value that other code may load; the others have none.
        io_manager_key=KEY if stage.tables else None,
        code_version=stage.version,
        description=stage.holds,
        metadata=described(stage),
        op_tags=op_tags,
        backfill_policy=BACKFILL,
    )
    return decorated(_fetched if stage is CHAIN.first else _derived)


def _fetched(
    context: dg.AssetExecutionContext, config: FetchConfig, workspace: WorkspaceResource
) -> Iterator[Any]:
    yield from materialize(context, workspace, confirm_deletes=config.confirm_deletes)


def _derived(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[Any]:
    yield from materialize(context, workspace)


ASSETS = [_asset(stage) for stage in CHAIN.stages]
#: The asset that fetches, where every chain begins.
raw_blobs = ASSETS[0]
