"""Makes the Dagster asset of a stage from the stage's entry in the chain.

Name, description, dependencies, and whether an I/O manager keeps the value are taken from ``CHAIN``, so that
nothing is written down twice. The module of a group adds only the group, the kinds and the pool.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from taboot_pipelines.defs.described import described
from taboot_pipelines.defs.io import KEY
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import BACKFILL, sources_partitions
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.chain import CHAIN

#: What the asset of each stage was made with.
_MADE_WITH: dict[str, dict[str, Any]] = {}


def tagged(asset: dg.AssetsDefinition, op_tags: Mapping[str, Any]) -> dg.AssetsDefinition:
    """The same asset whose step has ``op_tags``, which Dagster lets nobody add later."""
    return stage_asset(asset.op.name, **{**_MADE_WITH[asset.op.name], "op_tags": op_tags})


def stage_asset(
    name: str,
    *,
    group: str,
    pool: str,
    kinds: set[str],
    code_version: str = "1",
    op_tags: Mapping[str, Any] | None = None,
) -> dg.AssetsDefinition:
    """Return the asset of the stage ``name``, partitioned by source.

    Raises ``E_NOT_FOUND`` if there is no such stage.
    """
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
