"""What surrounds a node: Neo4j names the edges where it is configured, the shards' graph makes the result."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.once import Once
from taboot_pipelines.retrieval.results.graph import Subgraph
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.graph_server import GraphServer

_MAX_EDGES = 100_000


class Neighborhoods:
    """Safe to use from several threads."""

    def __init__(self, settings: Settings, namespace: str, session: Session) -> None:
        self._session = session
        self._server = Once(lambda: _open_server(settings, namespace))

    def around(
        self, node: str | NodeRef, hops: int, types: Collection[str] | str | None, limit: int
    ) -> Subgraph:
        """See ``KnowledgeBase.neighbors``."""
        if hops not in (1, 2):
            raise TabootError("E_QUERY", "hops must be 1 or 2.")
        if not isinstance(limit, int) or not 1 <= limit <= _MAX_EDGES:
            raise TabootError("E_QUERY", f"limit must be a whole number from 1 to {_MAX_EDGES}.")
        from taboot_pipelines.retrieval.graph import check_types

        wanted = check_types(types)
        return self._session.ask(lambda view: self._around(view, node, hops, wanted, limit))

    def _around(
        self, view: View, node: str | NodeRef, hops: int, types: frozenset[str] | None, limit: int
    ) -> Subgraph:
        graph = view.graph
        start = graph.find(node)
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
    from taboot_pipelines.retrieval.graph_server import GraphServer

    return GraphServer.open(settings, namespace)
