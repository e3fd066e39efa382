"""Group knowledge base: what is served."""

import dagster as dg

from taboot_pipelines.defs.knowledge import entity_snapshots
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import sources_partitions
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages import kb_shards as stage

GROUP = "knowledge_base"


@dg.asset(
    group_name=GROUP, deps=[entity_snapshots], partitions_def=sources_partitions, pool=KNOWLEDGE, kinds={"duckdb"}, owners=OWNERS,
    code_version=stage.VERSION, description="Content-addressed DuckDB shards and their manifest: the embedded serving store and the portable copy.",
)
def kb_shards(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
    return materialize(context, workspace)


ASSETS = [kb_shards]
