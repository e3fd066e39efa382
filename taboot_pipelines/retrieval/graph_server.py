"""Neighbourhoods out of Neo4j: it names the edges, and the shards' rows and our order make the result.

Only a graph of exactly the pinned manifest's snapshot is of use. Where it is of another one, is being
changed, or does not answer, the shards walk themselves, with the same result.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.graph import Numbers
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stores.graph import Neo4jGraph

_log = logging.getLogger(__name__)

#: Seconds to wait for an answer: a reader has the shards to turn to.
_PATIENCE = 5.0
#: Seconds for which a server that failed is not asked.
_REST = 30.0


class GraphServer:
    """The graph of one namespace in Neo4j. Safe to use from several threads."""

    def __init__(self, graph: Neo4jGraph, namespace: str) -> None:
        self._graph = graph
        self._namespace = namespace
        self._not_before = 0.0
        self._warned = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, settings: Settings, namespace: str) -> GraphServer | None:
        """None where ``TABOOT_NEO4J__URL`` is not set."""
        if settings.neo4j.url is None:
            return None
        from taboot_pipelines.stores.graph import open_graph

        graph = open_graph(settings, _PATIENCE)
        return None if graph is None else cls(graph, namespace)

    def candidates(
        self,
        graph: Graph,
        snapshot: str,
        start: Numbers,
        hops: int,
        types: Collection[str] | None,
        limit: int,
    ) -> Numbers | None:
        """Ascending numbers of the edges that the neighbourhood of the nodes ``start`` is made of, and one
        more if there are more than ``limit``; None: let the shards answer.
        """
        if time.monotonic() < self._not_before:
            return None
        rows = graph.nodes.take(pa.array(start))
        nodes = list(zip(rows.column("label").to_pylist(), rows.column("key").to_pylist(), strict=True))
        try:
            found = self._graph.neighbourhood(self._namespace, nodes, hops, types, limit + 1, snapshot)
        except TabootError as error:
            if error.code != "E_NEO4J":
                raise
            with self._lock:
                self._not_before = time.monotonic() + _REST
                if not self._warned:
                    _log.warning("Neighbourhoods come from the shards: %s", error)
                self._warned = True
            return None
        self._warned = False
        if found is None:
            return None
        numbers = pc.index_in(
            pa.array([edge for edge, _ in found], pa.string()),
            value_set=graph.edges.column("edge_id").combine_chunks(),
        )
        # An edge that the shards do not have: the graph is not that of the snapshot after all.
        return None if numbers.null_count else np.sort(numbers.to_numpy().astype(np.int64))

    def close(self) -> None:
        self._graph.close()
