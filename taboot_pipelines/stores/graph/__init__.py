"""The graph in Neo4j, where ``TABOOT_NEO4J__URL`` is set (DESIGN rule 11)."""

from __future__ import annotations

from taboot_pipelines.settings import Neo4jSettings
from taboot_pipelines.stores.graph.neo4j import Neo4jGraph

__all__ = ["Neo4jGraph", "open_graph"]


def open_graph(settings: Neo4jSettings) -> Neo4jGraph | None:
    """Touches no network. Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra
    ``neo4j``.
    """
    return Neo4jGraph(settings) if settings.url else None
