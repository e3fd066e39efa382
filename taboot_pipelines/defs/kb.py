"""Group of what is served, all from the snapshot: points in Qdrant, the graph in Neo4j, and the shards.

The shards need no server.
"""

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.stages import kb_shards as shards_stage
from taboot_pipelines.stages import neo4j_subgraph as graph_stage
from taboot_pipelines.stages import qdrant_points as points_stage

GROUP = "knowledge_base"


qdrant_points = stage_asset(
    "qdrant_points",
    group="vectors",
    pool=KNOWLEDGE,
    kinds={"qdrant"},
    code_version=points_stage.VERSION,
)


neo4j_subgraph = stage_asset(
    "neo4j_subgraph",
    group="knowledge",
    pool=KNOWLEDGE,
    kinds={"neo4j"},
    code_version=graph_stage.VERSION,
)


kb_shards = stage_asset(
    "kb_shards",
    group=GROUP,
    pool=KNOWLEDGE,
    kinds={"duckdb"},
    code_version=shards_stage.VERSION,
)


ASSETS = [qdrant_points, neo4j_subgraph, kb_shards]
