"""What is told of the graph: a neighbourhood, and the links of a document."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.phrases import Named, names_of, relation
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

    def names(self) -> dict[tuple[str, str], str]:
        """What each node, by (label, key), is called: with its scope where several have the name."""
        return names_of(Named(n.label, n.key, n.name, n.scope) for n in self.nodes)

    def _repr_html_(self) -> str:
        starts = {(n.label, n.key) for n in self.start}
        picture = rendering.picture(
            [DrawnNode(n.label, n.key, n.name, start=(n.label, n.key) in starts) for n in self.nodes],
            [DrawnEdge(e.type, (e.start_label, e.start_key), (e.end_label, e.end_key)) for e in self.edges],
        )
        called = self.names()
        rows = [
            (
                called[e.start_label, e.start_key],
                relation(e.type, e.properties),
                called[e.end_label, e.end_key],
                where(e.url, e.line),
                f"{e.confidence:.2f}",
            )
            for e in self.edges
        ]
        title = f"{len(self.nodes)} nodes, {len(self.edges)} edges" + (
            " (cut at the limit)" if self.truncated else ""
        )
        return picture + rendering.table(title, ("start", "relation", "end", "where", "confidence"), rows)


class Step(Result):
    """One step of a path. ``forward``: the relation leads from the start to the end, else the other way.

    ``edge_id``, ``url`` and ``line`` are empty for DECLARES, by which a service leads to its containers: no
    edge of the graph says so, the same declaration says both.
    """

    type: str
    forward: bool
    start_label: str
    start_key: str
    start_name: str
    end_label: str
    end_key: str
    end_name: str
    properties: dict[str, Any] = Field(default_factory=dict)
    edge_id: str = ""
    url: str = ""
    line: int = 0
    confidence: float = 1.0


class GraphPath(TableResult):
    """A way through the graph, step by step; none where the nodes are not joined, or are the same."""

    steps: tuple[Step, ...]

    def to_arrow(self) -> pa.Table:
        """The steps; ``properties`` as JSON."""
        types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
        schema = pa.schema(
            [
                (n, types.get(f.annotation, pa.string()) if isinstance(f.annotation, type) else pa.string())
                for n, f in Step.model_fields.items()
            ]
        )
        return pa.Table.from_pylist(
            [{**s.model_dump(), "properties": canonical_json(s.properties)} for s in self.steps],
            schema=schema,
        )

    def _repr_html_(self) -> str:
        nodes = [(s.start_label, s.start_key, s.start_name) for s in self.steps[:1]]
        nodes += [(s.end_label, s.end_key, s.end_name) for s in self.steps]
        picture = rendering.chain(
            [DrawnNode(*node, start=at in (0, len(nodes) - 1)) for at, node in enumerate(nodes)],
            [(s.type, s.forward) for s in self.steps],
        )
        rows = [
            (
                f"{s.start_label} {s.start_name}",
                f"{'' if s.forward else '← '}{relation(s.type, s.properties)}",
                f"{s.end_label} {s.end_name}",
                where(s.url, s.line),
                f"{s.confidence:.2f}",
            )
            for s in self.steps
        ]
        return picture + rendering.table(
            f"{len(self.steps)} steps", ("from", "relation", "to", "where", "confidence"), rows
        )


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
