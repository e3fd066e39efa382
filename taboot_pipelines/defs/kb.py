"""What is served, all from the snapshot: the points in Qdrant, the graph in Neo4j, and the shards, which need
no server.
"""

import dagster as dg

from taboot_pipelines.defs.knowledge import entity_snapshots
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import sources_partitions
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages import kb_shards as shards_stage
from taboot_pipelines.stages import neo4j_subgraph as graph_stage
from taboot_pipelines.stages import qdrant_points as points_stage

GROUP = "knowledge_base"


@dg.asset(
    group_name="vectors",
    deps=[entity_snapshots],
    partitions_def=sources_partitions,
    pool=KNOWLEDGE,
    kinds={"qdrant"},
    owners=OWNERS,
    code_version=points_stage.VERSION,
    description="The points in Qdrant equal the live chunks. Zero rows where TABOOT_QDRANT__URL is not set.",
)
def qdrant_points(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    return materialize(context, workspace)


@dg.asset(
    group_name="knowledge",
    deps=[entity_snapshots],
    partitions_def=sources_partitions,
    pool=KNOWLEDGE,
    kinds={"neo4j"},
    owners=OWNERS,
    code_version=graph_stage.VERSION,
    description="The graph in Neo4j equals the snapshot. Zero rows where TABOOT_NEO4J__URL is not set.",
)
def neo4j_subgraph(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    return materialize(context, workspace)


@dg.asset(
    group_name=GROUP,
    deps=[entity_snapshots],
    partitions_def=sources_partitions,
    pool=KNOWLEDGE,
    kinds={"duckdb"},
    owners=OWNERS,
    code_version=shards_stage.VERSION,
    description=(
        "Content-addressed DuckDB shards and their manifest: the embedded serving store and the portable"
        " copy."
    ),
)
def kb_shards(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
    return materialize(context, workspace)


ASSETS = [qdrant_points, neo4j_subgraph, kb_shards]
