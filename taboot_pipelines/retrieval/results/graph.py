"""What is told of the graph: a neighbourhood, and the links of a document."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.rendering import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.results.base import Result, TableResult, where


class Node(Result):
    """A node of the graph; ``properties`` as extracted."""

    label: str
    key: str
    name: str
    scope: str | None
    properties: dict[str, Any]


class Edge(Result):
    """An edge of the graph; ``hop``: its distance from the start of a neighbourhood."""

    edge_id: str
    type: str
    start_label: str
    start_key: str
    start_name: str
    end_label: str
    end_key: str
    end_name: str
    properties: dict[str, Any]
    doc_id: str
    url: str
    line: int
    confidence: float
    source: str
    hop: int


class Subgraph(TableResult):
    """What surrounds a node. ``start``: the nodes that the name means; ``truncated``: the limit cut edges."""

    start: tuple[Node, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """The edges; ``properties`` as JSON."""
        columns = [(n, f.annotation) for n, f in Edge.model_fields.items()]
        types = {int: pa.int64(), float: pa.float64()}
        schema = pa.schema(
            [(n, types.get(t, pa.string()) if isinstance(t, type) else pa.string()) for n, t in columns]
        )
        return pa.Table.from_pylist(
            [{**e.model_dump(), "properties": canonical_json(e.properties)} for e in self.edges],
            schema=schema,
        )

    def _repr_html_(self) -> str:
        starts = {(n.label, n.key) for n in self.start}
        picture = rendering.picture(
            [DrawnNode(n.label, n.key, n.name, start=(n.label, n.key) in starts) for n in self.nodes],
            [DrawnEdge(e.type, (e.start_label, e.start_key), (e.end_label, e.end_key)) for e in self.edges],
        )
        rows = [
            (
                f"{e.start_label} {e.start_name}",
                e.type,
                f"{e.end_label} {e.end_name}",
                where(e.url, e.line),
                f"{e.confidence:.2f}",
            )
            for e in self.edges
        ]
        title = f"{len(self.nodes)} nodes, {len(self.edges)} edges" + (
            " (cut at the limit)" if self.truncated else ""
        )
        return picture + rendering.table(title, ("start", "relation", "end", "where", "confidence"), rows)


class Link(Result):
    """A link between a document and another, which ``doc_id``, ``title`` and ``url`` name; they are empty
    where no document is meant.

    ``kind``: ``hyperlink``, or ``title`` where the other's title stands in the text. ``target``: what it
    leads to as observed, and ``fragment`` the place there; ``text``: what a reader sees of a hyperlink. It
    stands at code points ``[start, end)``, ``section`` and ``line`` (of the file, from 1, where that is
    known) of the document that holds it, first of ``count`` times.
    """

    kind: str
    target: str
    doc_id: str = ""
    title: str = ""
    url: str = ""
    fragment: str
    text: str
    section: str
    line: int | None
    start: int
    end: int
    count: int


_LINK_TYPES = {"line": pa.int32(), "start": pa.int64(), "end": pa.int64(), "count": pa.int32()}


class DocumentLinks(TableResult):
    """The links of one document: to others, from others, and those that lead to no document of the namespace.
    ``truncated``: the limit cut one of them.
    """

    doc_id: str
    title: str
    url: str
    outgoing: tuple[Link, ...]
    incoming: tuple[Link, ...]
    unresolved: tuple[Link, ...]
    truncated: bool = False

    def to_arrow(self) -> pa.Table:
        """All links, with their ``direction``: outgoing, incoming or unresolved."""
        schema = pa.schema(
            [("direction", pa.string()), *((n, _LINK_TYPES.get(n, pa.string())) for n in Link.model_fields)]
        )
        return pa.Table.from_pylist(
            [{"direction": direction, **link.model_dump()} for direction, link in self._links()],
            schema=schema,
        )

    def _links(self) -> list[tuple[str, Link]]:
        return [
            (direction, link)
            for direction, links in (
                ("outgoing", self.outgoing),
                ("incoming", self.incoming),
                ("unresolved", self.unresolved),
            )
            for link in links
        ]

    def _repr_html_(self) -> str:
        rows = [
            (
                direction,
                link.kind,
                link.title or link.target,
                where(link.url if direction == "incoming" else self.url, link.line),
                link.section,
                str(link.count),
            )
            for direction, link in self._links()
        ]
        caption = (
            f"{self.title}: {len(self.outgoing)} links to others, {len(self.incoming)} from others,"
            f" {len(self.unresolved)} to no document"
        )
        return rendering.table(
            caption + (" (cut at the limit)" if self.truncated else ""),
            ("", "kind", "document", "where", "section", "count"),
            rows,
        )
