"""What is told of the graph: a neighbourhood, and the links of a document."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.picture import DRAWN, Picture
from taboot_pipelines.retrieval.rendering import SourceLocation, SourceLocations, shorten
from taboot_pipelines.retrieval.results.base import Result, TableResult
from taboot_pipelines.retrieval.verbalization import BOOKKEEPING, NodeName, names_of, plain, relation

#: Characters of a property that are told of a relation under the pointer.
_TOLD = 200


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
        return names_of(NodeName(n.label, n.key, n.name, n.scope) for n in self.nodes)

    def show(self, limit: int = DRAWN) -> Picture:
        """The neighbourhood as a picture of at most ``limit`` relations (up to 200), the nearest of each type
        first and mentions last; below it stands how many there are. Raises ``E_QUERY`` for another limit.
        """
        starts = {(n.label, n.key) for n in self.start}
        # Many files have one name; the folder tells them apart.
        folders = {
            e.start_key: e.url.split("/")[-2]
            for e in self.edges
            if e.start_label == "Document" and e.url.count("/") > 1
        }
        nodes = [
            DrawnNode(n.label, n.key, n.name, (n.label, n.key) in starts, n.scope or folders.get(n.key))
            for n in sorted(self.nodes, key=lambda n: (n.label, n.name, n.key))
        ]
        note = "not all of its edges are known here: neighbors() cut them at its limit"
        return Picture.around(
            self._title(), nodes, [_drawn(e) for e in self.edges], limit, note if self.truncated else ""
        )

    def _title(self) -> str:
        names = ", ".join(dict.fromkeys(n.name for n in self.start))
        return f"{names}: {len(self.nodes):,} nodes, {len(self.edges):,} edges" + (
            " (cut at the limit)" if self.truncated else ""
        )

    def _table(self) -> str:
        called = self.names()
        # Statements of one relation are one row, in the order of the first.
        groups: dict[tuple[str, str, str], list[Edge]] = {}
        for e in self.edges:
            start, end = called[e.start_label, e.start_key], called[e.end_label, e.end_key]
            groups.setdefault((start, relation(e.type, e.properties), end), []).append(e)
        rows = [
            (
                *said,
                SourceLocations(tuple(dict.fromkeys(SourceLocation(e.url, e.line) for e in edges))),
                f"{max(e.confidence for e in edges):.2f}",
            )
            for said, edges in groups.items()
        ]
        return rendering.table(self._title(), ("start", "relation", "end", "where", "confidence"), rows)

    def _repr_html_(self) -> str:
        return self.show().svg + self._table()

    def _ipython_display_(self) -> None:
        rendering.display(self.show(), self._table())


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

    def show(self) -> Picture:
        """The way as a picture, from top to bottom."""
        nodes = [(s.start_label, s.start_key, s.start_name) for s in self.steps[:1]]
        nodes += [(s.end_label, s.end_key, s.end_name) for s in self.steps]
        return Picture.way(
            self._title(),
            [DrawnNode(*node, start=at in (0, len(nodes) - 1)) for at, node in enumerate(nodes)],
            [_drawn(s) for s in self.steps],
        )

    def _title(self) -> str:
        return f"{len(self.steps)} steps" if len(self.steps) != 1 else "1 step"

    def _table(self) -> str:
        rows = [
            (
                f"{s.start_label} {s.start_name}",
                f"{'' if s.forward else '← '}{relation(s.type, s.properties)}",
                f"{s.end_label} {s.end_name}",
                SourceLocation(s.url, s.line),
                f"{s.confidence:.2f}",
            )
            for s in self.steps
        ]
        return rendering.table(self._title(), ("from", "relation", "to", "where", "confidence"), rows)

    def _repr_html_(self) -> str:
        return self.show().svg + self._table()

    def _ipython_display_(self) -> None:
        rendering.display(self.show(), self._table())


def _drawn(edge: Edge | Step) -> DrawnEdge:
    """An edge with everything that is told of it on request."""
    ends = (
        (edge.start_label, edge.start_key, edge.start_name),
        (edge.end_label, edge.end_key, edge.end_name),
    )
    if isinstance(edge, Step) and not edge.forward:
        ends = (ends[1], ends[0])
    (start_label, start_key, start_name), (end_label, end_key, end_name) = ends
    told = [
        ("relation", edge.type),
        ("from", f"{start_label} {start_name}"),
        ("to", f"{end_label} {end_name}"),
        *((name, plain(value)) for name, value in sorted(edge.properties.items()) if name not in BOOKKEEPING),
    ]
    if edge.url:
        told += [
            ("where", f"{edge.url}:{edge.line}" if edge.line else edge.url),
            ("confidence", f"{edge.confidence:.2f}"),
        ]
    return DrawnEdge(
        edge.type,
        (start_label, start_key),
        (end_label, end_key),
        relation(edge.type, edge.properties).removeprefix(edge.type).strip(),
        tuple((name, shorten(value, _TOLD)) for name, value in told),
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
                SourceLocation(link.url if direction == "incoming" else self.url, link.line),
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
