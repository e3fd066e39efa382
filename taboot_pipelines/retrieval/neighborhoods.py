"""What surrounds a node: Neo4j names the edges where it is configured, the shards' graph makes the result."""

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
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.results.graph import Subgraph
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stores.graph.neo4j import Neo4jGraph


# --- Neighbourhoods out of Neo4j: it names the edges, and the shards' rows and our order make the result
#
# Only a graph of exactly the pinned manifest's snapshot is of use. Where it is of another one, is being
# changed, or does not answer, the shards walk themselves, with the same result.

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


_MAX_EDGES = 100_000


class Neighborhoods:
    """Safe to use from several threads."""

    def __init__(self, settings: Settings, namespace: str, session: Session) -> None:
        self._session = session
        self._server = Lazy(lambda: _open_server(settings, namespace))

    def around(
        self,
        node: str | NodeRef,
        hops: int,
        types: Collection[str] | str | None,
        limit: int,
        label: str | None = None,
    ) -> Subgraph:
        """See ``KnowledgeBase.neighbors``."""
        if hops not in (1, 2):
            raise TabootError("E_QUERY", "hops must be 1 or 2.")
        if not isinstance(limit, int) or not 1 <= limit <= _MAX_EDGES:
            raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {_MAX_EDGES}.")
        from taboot_pipelines.retrieval.graph import check_types

        wanted = check_types(types)
        return self._session.ask(lambda view: self._around(view, node, hops, wanted, limit, label))

    def _around(
        self,
        view: View,
        node: str | NodeRef,
        hops: int,
        types: frozenset[str] | None,
        limit: int,
        label: str | None,
    ) -> Subgraph:
        graph = view.graph
        start = graph.find(node, label)
        server = self._server()
        among = (
            None
            if server is None
            else server.candidates(graph, view.manifest.snapshot, start, hops, types, limit)
        )
        found = graph.neighbourhood(start, hops, types, limit, among)
        documents = graph.edges.column("doc_id").take(pa.array(found.edges)).to_pylist()
        urls = {d: view.document_url(d) for d in dict.fromkeys(documents)}
        return graph.subgraph(start, found, urls=[urls[d] for d in documents])


def _open_server(settings: Settings, namespace: str) -> GraphServer | None:
    """Neo4j as the source of neighbourhoods; None where ``TABOOT_NEO4J__URL`` is not set."""
    if settings.neo4j.url is None:
        return None

    return GraphServer.open(settings, namespace)
