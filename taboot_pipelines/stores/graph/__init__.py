"""The graph of a namespace in Neo4j, where ``TABOOT_NEO4J__URL`` is set (rule ``support``).

There is one backend, ``neo4j``, and no protocol: without it neighbourhoods are read from ``shards``, which
offers other operations. ``cypher`` has every statement, the constraints and the indexes, and ``rows`` turns
tables into their parameters and back. What a node or an edge is says ``model.graph``; which of them there
should be is for the stage that writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stores.graph.neo4j import Neo4jGraph


def open_graph(settings: Settings, timeout_seconds: float | None = None) -> Neo4jGraph | None:
    """Open the graph in Neo4j; None where no URL is set. Touches no network.

    ``timeout_seconds``: how long to wait for an answer, by default and at most
    ``TABOOT_NEO4J__TIMEOUT_SECONDS``. Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra
    ``neo4j``.
    """
    from taboot_pipelines.stores.graph.neo4j import Neo4jGraph

    given = settings.neo4j
    if not given.url:
        return None
    if timeout_seconds is not None:
        given = given.model_copy(update={"timeout_seconds": min(timeout_seconds, given.timeout_seconds)})
    return Neo4jGraph(given)
