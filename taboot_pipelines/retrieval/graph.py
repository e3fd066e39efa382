"""Queries over the graph of one manifest: what the shards observed, assembled by
:mod:`taboot_pipelines.knowledge.graph`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.knowledge.graph import (
    ENTITY_COLUMNS,
    RELATION_COLUMNS,
    Assembly,
    Numbers,
    find,
    identity,
)
from taboot_pipelines.knowledge.names import merges_of
from taboot_pipelines.model import tables
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.model.ids import node_key
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.prefixes import ambiguous, is_prefix
from taboot_pipelines.retrieval.request import check_texts
from taboot_pipelines.retrieval.results.graph import Edge, Node, Subgraph
from taboot_pipelines.retrieval.verbalization import NodeName, node
from taboot_pipelines.shards.reader import Shards

_RELATIONS = pa.schema([tables.RELATIONS.field(c) for c in RELATION_COLUMNS])
_ENTITIES = pa.schema([tables.ENTITIES.field(c) for c in ENTITY_COLUMNS])
_DOCUMENTS = pa.schema(
    [f for f in tables.DOCUMENTS if f.name not in {"bucket", "text", "offsets", "fingerprint"}]
)


class Neighbourhood(NamedTuple):
    """Numbers of edges in their order, how many hops each is from the start, and whether there were more."""

    edges: Numbers
    hops: Numbers
    truncated: bool


class Graph:
    """Loaded once per manifest.

    ``edges``: ``knowledge.graph.OBSERVED_EDGES``, ascending by edge_id; ``nodes``: ``NODES_SCHEMA``;
    ``documents``: ``model.tables.DOCUMENTS`` without what only the stages read; ``names``: what bare names
    mean; ``decisions``: what people decided. Nodes and edges go by their row here, their *number*.
    """

    def __init__(self, shards: Shards) -> None:
        columns = ", ".join(_DOCUMENTS.names)
        documents, relations = shards.tables("documents", [f"SELECT {columns} FROM documents", "FROM edges"])
        entities, names, decisions = shards.tables(
            "entities", ["FROM entities", "FROM names", "FROM decisions"]
        )
        self.documents = _conform(documents, _DOCUMENTS).sort_by("doc_id").combine_chunks()
        self.names = _conform(names, tables.NAMES)
        self.decisions = _conform(decisions, tables.DECISIONS).sort_by("number")
        relations = _conform(relations, _RELATIONS)
        assembly = Assembly(
            shards.manifest.namespace,
            self.documents,
            _conform(entities, _ENTITIES),
            self.names,
            self.decisions,
            shards.manifest.policies().days(rows_of(self.documents, "source_id", "doc_id")),
        )
        self._merges = merges_of(self.decisions)
        #: What people decided of edges.
        self.decided = assembly.decided
        assembly.note(relations)
        self.edges = assembly.edges(relations)
        self.nodes = assembly.nodes()
        identities = identity(self.nodes.column("label"), self.nodes.column("key"))
        #: The node at each end of each edge; -1 if the snapshot has no such node.
        self.start = find(identities, self.edges.column("start_label"), self.edges.column("start_key"))
        self.end = find(identities, self.edges.column("end_label"), self.edges.column("end_key"))

    @cached_property
    def stating(self) -> frozenset[str]:
        """The documents that state an edge which is no mention."""
        related = pc.not_equal(self.edges.column("type"), "MENTIONS")
        return frozenset(self.edges.column("doc_id").filter(related).unique().to_pylist())

    def find(self, what: str | NodeRef, label: str | None = None) -> Numbers:
        """The nodes that a key, a name or a reference means, of one ``label`` (None: of any).

        Of each label the node with that exact key, else those with that exact name, since the key of one
        thing (a host's is its name) is often the name of another. Where no label has either: what a bare
        service name resolves to, else the name in any case. Raises ``E_NOT_FOUND`` if there is none,
        ``E_QUERY`` if ``what`` is neither text nor a reference, or ``label`` no type of node.
        """
        check_texts(node=what if isinstance(what, str) else None)
        check_label(label)
        if isinstance(what, NodeRef):
            return self._by_key(node_key(what.key), what.label, what.name)
        if not isinstance(what, str) or not what.strip():
            raise TabootError("E_QUERY", "The node to start from must be a name, a key or a NodeRef.")
        return self._by_key(what, label, what)

    def _by_key(self, key: str, label: str | None, name: str) -> Numbers:
        resolved = self.names.filter(pc.is_valid(self.names.column("resolved_key")))
        meant = [r for o, n, r in rows_of(resolved, "observed_key", "name", "resolved_key") if key in (o, n)]
        merged = [m.key for (its, k), m in self._merges.items() if k == key and label in (None, its)]
        labels, names = self.nodes.column("label"), self.nodes.column("name")

        def among(column: pa.ChunkedArray, values: Sequence[str], wanted: str | None) -> Numbers:
            mask = pc.is_in(column, value_set=pa.array(values, pa.string()))
            if wanted is not None:
                mask = pc.and_(mask, pc.equal(labels, wanted))
            rows: Numbers = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            return rows

        keys = self.nodes.column("key")
        found = among(keys, [key], label)
        if not len(found):
            found = among(keys, merged, label)
        taken = {labels[int(n)].as_py() for n in found}
        called = [n for n in among(names, [name], label).tolist() if labels[n].as_py() not in taken]
        found = np.sort(np.concatenate([found, np.array(called, dtype=np.int64)]))
        if not len(found) and label in (None, "Service"):
            found = among(keys, meant, "Service")
        if not len(found):
            found = among(pc.utf8_lower(names), [name.lower()], label)
        if not len(found) and label in (None, "Network"):
            # The network of ``x.network`` (podman-systemd.unit(5), "Network units").
            found = among(names, [f"systemd-{name}"], "Network")
        if not len(found):
            others = {labels[int(n)].as_py() for n in among(names, [name], None)}
            hint = or_near(name, set(names.to_pylist()))
            if others:
                hint = f" That is the name of: {', '.join(sorted(others))}."
            raise TabootError(
                "E_NOT_FOUND", f"There is no {label or 'node'} named {name!r}.{hint}", node=name
            )
        return found

    def neighbourhood(
        self,
        start: Numbers,
        hops: int,
        types: Collection[str] | None,
        limit: int,
        among: Numbers | None = None,
    ) -> Neighbourhood:
        """The edges of the relations ``types`` (None: all) within ``hops`` of the nodes ``start``, in either
        direction, at most ``limit``: nearest first, then other relations before MENTIONS, then by confidence
        and id. ``among``: ascending numbers of the edges it may be made of; None: all.
        """
        edges = np.arange(len(self.edges)) if among is None else among
        starts, ends = self.start[edges], self.end[edges]
        kinds = self.edges.column("type").combine_chunks().take(pa.array(edges))
        allowed = (starts >= 0) & (ends >= 0)
        if types is not None:
            allowed &= pc.is_in(kinds, value_set=pa.array(sorted(types), pa.string())).to_numpy(
                zero_copy_only=False
            )
        reached = np.zeros(len(self.nodes), dtype=bool)
        reached[start] = True
        hop = np.zeros(len(edges), dtype=np.int64)
        for distance in range(1, hops + 1):
            now = allowed & (hop == 0) & (reached[starts] | reached[ends])
            hop[now] = distance
            reached[starts[now]] = True
            reached[ends[now]] = True
        found = np.flatnonzero(hop)
        mentions = pc.equal(kinds, "MENTIONS").to_numpy(zero_copy_only=False)[found]
        confidence = self.edges.column("confidence").to_numpy()[edges[found]]
        order = found[np.lexsort((found, -confidence, mentions, hop[found]))]
        return Neighbourhood(edges[order[:limit]], hop[order[:limit]], truncated=len(order) > limit)

    def subgraph(self, start: Numbers, found: Neighbourhood, urls: Sequence[str]) -> Subgraph:
        """A neighbourhood of ``start`` as it is returned. ``urls``: of each edge's document, as shown."""
        edges = found.edges
        ends = np.unique(np.concatenate([start, self.start[edges], self.end[edges]]))
        rows = self.edges.take(pa.array(edges)).to_pylist()
        nodes = {
            int(n): _node(r) for n, r in zip(ends, self.nodes.take(pa.array(ends)).to_pylist(), strict=True)
        }
        made = [
            Edge(
                **{k: row[k] for k in Edge.model_fields if k not in {"properties", "url", "hop"}},
                properties=json.loads(row["properties"]),
                url=url,
                hop=int(hop),
            )
            for row, hop, url in zip(rows, found.hops, urls, strict=True)
        ]
        return Subgraph(
            start=tuple(nodes[int(n)] for n in start),
            nodes=tuple(nodes.values()),
            edges=tuple(made),
            truncated=found.truncated,
        )

    def node(self, number: int) -> Node:
        """The node of this number."""
        return _node(self.nodes.slice(number, 1).to_pylist()[0])

    def edge(self, edge_id: str) -> dict[str, object] | None:
        """The row of an edge by its id or the beginning of it, if there is one.

        Raises ``E_QUERY`` where several begin so.
        """
        check_texts(edge=edge_id)
        ids = self.edges.column("edge_id")
        at = pc.index(ids, edge_id).as_py()
        if at < 0 and is_prefix(edge_id):
            found = np.flatnonzero(pc.starts_with(ids, edge_id.lower()).to_numpy(zero_copy_only=False))
            if len(found) > 1:
                raise ambiguous(edge_id, (ids[int(n)].as_py() for n in found))
            at = int(found[0]) if len(found) else -1
        row: dict[str, object] | None = self.edges.slice(at, 1).to_pylist()[0] if at >= 0 else None
        return row

    def called(self, label: str, key: str, name: str) -> str:
        """What a node is called, with its scope where another of its label has the name."""
        same = pc.and_(pc.equal(self.nodes.column("label"), label), pc.equal(self.nodes.column("name"), name))
        return node(NodeName(label, key, name), alone=pc.sum(same).as_py() in (None, 0, 1))


def check_label(label: object) -> None:
    """Raise ``E_QUERY`` if ``label`` is neither None nor a type of node of the model."""
    if label is not None and (not isinstance(label, str) or label not in NODES):
        raise TabootError(
            "E_QUERY", f"{str(label)[:100]!r} is no type of entity; there are {', '.join(sorted(NODES))}."
        )


def check_types(types: Collection[str] | str | None) -> frozenset[str] | None:
    """The relations that a caller named; None: all. ``E_QUERY`` for one that the model does not have."""
    if types is None:
        return None
    wanted = frozenset([types] if isinstance(types, str) else types)
    unknown = sorted(str(t) for t in wanted if t not in EDGES)
    if unknown:
        raise TabootError(
            "E_QUERY",
            f"types names {', '.join(unknown)}, which the model does not have; it has"
            f" {', '.join(sorted(EDGES))}.",
            types=unknown,
        )
    return wanted


def _node(row: dict[str, object]) -> Node:
    return Node(
        label=str(row["label"]),
        key=str(row["key"]),
        name=str(row["name"]),
        scope=row["scope"],
        properties=json.loads(str(row["properties"])),
    )


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return (
        table.select(schema.names).cast(schema).combine_chunks()
        if table.num_columns
        else schema.empty_table()
    )
