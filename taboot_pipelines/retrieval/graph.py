"""The graph of one manifest: what the shards observed, resolved by what the names mean, joined with the documents' times."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.resolve import resolve_edges
from taboot_pipelines.model import tables
from taboot_pipelines.model.graph import EDGES
from taboot_pipelines.model.ids import node_key
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.results import Edge, Node, Subgraph
from taboot_pipelines.shards import Shards

Numbers = npt.NDArray[np.int64]

#: The columns of ``KnowledgeBase.nodes()`` and ``edges()`` (DESIGN §7).
NODES_SCHEMA = pa.schema([
    ("label", pa.string()), ("key", pa.string()), ("name", pa.string()), ("scope", pa.string()), ("properties", pa.string()),
    ("doc_ids", pa.list_(pa.string())), ("first_seen", tables.TIME), ("last_seen", tables.TIME),
])
EDGES_SCHEMA = pa.schema([
    ("edge_id", pa.string()), ("type", pa.string()), ("start_label", pa.string()), ("start_key", pa.string()), ("start_name", pa.string()),
    ("end_label", pa.string()), ("end_key", pa.string()), ("end_name", pa.string()), ("properties", pa.string()), ("doc_id", pa.string()),
    ("url", pa.string()), ("confidence", pa.float64()), ("source", pa.string()), ("extraction_method", pa.string()), ("since", tables.TIME),
    ("run_id", pa.string()), ("blob_sha256", pa.string()), ("byte_start", pa.int64()), ("byte_end", pa.int64()), ("line", pa.int32()),
    ("start_basis", pa.string()), ("end_basis", pa.string()), ("supports", pa.string()),
])
_RELATIONS = pa.schema([f for f in tables.RELATIONS if f.name != "bucket"])
_ENTITIES = pa.schema([f for f in tables.ENTITIES if f.name not in {"bucket", "claims"}])
_DOCUMENTS = pa.schema([f for f in tables.DOCUMENTS if f.name not in {"bucket", "text", "offsets", "fingerprint"}])


class Graph:
    """Loaded once per manifest. ``edges``: :data:`EDGES_SCHEMA` and the names as observed; ``nodes``: :data:`NODES_SCHEMA`."""

    def __init__(self, shards: Shards) -> None:
        columns = ", ".join(_DOCUMENTS.names)
        documents, relations = shards.tables("documents", [f"SELECT {columns} FROM documents", "FROM edges"])
        entities, names = shards.tables("entities", ["FROM entities", "FROM names"])
        documents = _conform(documents, _DOCUMENTS).sort_by("doc_id").combine_chunks()
        entities = _conform(entities, _ENTITIES)
        self.names = _conform(names, tables.NAMES)
        self.documents = documents
        edges = resolve_edges(_conform(relations, _RELATIONS), self.names, namespace=shards.manifest.namespace)
        at = pc.index_in(edges.column("doc_id"), value_set=documents.column("doc_id").combine_chunks()).combine_chunks()
        for name in ("url", "since"):
            edges = edges.append_column(name, documents.column(name).combine_chunks().take(at))
        self.edges = edges.combine_chunks()
        # A bare name that could be several services mentions nothing: where it was only mentioned it is listed in `names` and is no node.
        bare = pc.is_in(entities.column("key"), value_set=self.names.filter(pc.is_null(self.names.column("resolved_key"))).column("observed_key").combine_chunks())
        used = pc.unique(pa.concat_arrays([self.edges.column(f"{end}_key").combine_chunks() for end in ("start", "end")]))
        entities = entities.filter(pc.or_(pc.invert(bare), pc.is_in(entities.column("key"), value_set=used)))
        nodes = pa.concat_tables([_document_nodes(documents), entities.filter(pc.not_equal(entities.column("label"), "Document"))])
        nodes = nodes.sort_by([("label", "ascending"), ("key", "ascending")]).combine_chunks()
        self._identity = _identity(nodes.column("label"), nodes.column("key"))
        self.start = self._numbers("start")
        self.end = self._numbers("end")
        self.nodes = _with_documents(nodes, self._supports(nodes, at), documents)

    def _numbers(self, end: str) -> Numbers:
        """The node at this end of each edge; -1 if the snapshot has no such node."""
        found = pc.index_in(_identity(self.edges.column(f"{end}_label"), self.edges.column(f"{end}_key")), value_set=self._identity)
        numbers: Numbers = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def _supports(self, nodes: pa.Table, documents: pa.Array) -> tuple[Numbers, Numbers]:
        """Distinct pairs (node, document), ascending: a document supports the ends of its edges, and itself."""
        owners = pc.fill_null(documents, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        own = np.flatnonzero(pc.equal(nodes.column("label"), "Document").to_numpy(zero_copy_only=False))
        itself = pc.index_in(nodes.column("key").take(pa.array(own)), value_set=self.documents.column("doc_id").combine_chunks()).to_numpy(zero_copy_only=False)
        pairs = np.stack([np.concatenate([self.start, self.end, own]), np.concatenate([owners, owners, itself.astype(np.int64)])])
        pairs = pairs[:, (pairs >= 0).all(axis=0)]
        joined = np.unique(pairs[0] * max(len(self.documents), 1) + pairs[1])
        return np.divmod(joined, max(len(self.documents), 1))

    def find(self, what: str | NodeRef) -> Numbers:
        """The nodes that a key, a name or a reference means: an exact key, else an exact name, else what a bare
        service name resolves to, else the name in any case. ``E_NOT_FOUND`` if there is none."""
        if isinstance(what, NodeRef):
            return self._by_key(node_key(what.key), what.label, what.name)
        if not isinstance(what, str) or not what.strip():
            raise TabootError("E_QUERY", "The node to start from must be a name, a key or a NodeRef.")
        return self._by_key(what, None, what)

    def _by_key(self, key: str, label: str | None, name: str) -> Numbers:
        resolved = self.names.filter(pc.is_valid(self.names.column("resolved_key")))
        meant = [r for o, n, r in zip(*(resolved.column(c).to_pylist() for c in ("observed_key", "name", "resolved_key")), strict=True) if key in (o, n)]
        tries = [("key", [key], label), ("name", [name], label), *([("key", meant, "Service")] if label in (None, "Service") else [])]
        for column, values, wanted in tries:
            mask = pc.is_in(self.nodes.column(column), value_set=pa.array(values, pa.string()))
            if wanted is not None:
                mask = pc.and_(mask, pc.equal(self.nodes.column("label"), wanted))
            found: Numbers = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            if len(found):
                return found
        lower = pc.equal(pc.utf8_lower(self.nodes.column("name")), name.lower())
        if label is not None:
            lower = pc.and_(lower, pc.equal(self.nodes.column("label"), label))
        found = np.flatnonzero(lower.to_numpy(zero_copy_only=False))
        if not len(found):
            raise TabootError("E_NOT_FOUND", f"There is no node named {name!r}.", node=name)
        return found

    def neighbourhood(self, start: Numbers, hops: int, types: Collection[str] | None, limit: int) -> tuple[Numbers, Numbers, bool]:
        """Edges within ``hops`` of the nodes ``start`` in either direction, with their hop: nearest first, then other
        relations before MENTIONS, then by confidence and id; at most ``limit``, and whether there were more."""
        allowed = (self.start >= 0) & (self.end >= 0)
        if types is not None:
            allowed &= pc.is_in(self.edges.column("type"), value_set=pa.array(sorted(types), pa.string())).to_numpy(zero_copy_only=False)
        reached = np.zeros(len(self.nodes), dtype=bool)
        reached[start] = True
        hop = np.zeros(len(self.edges), dtype=np.int64)
        for distance in range(1, hops + 1):
            now = allowed & (hop == 0) & (reached[self.start] | reached[self.end])
            hop[now] = distance
            reached[self.start[now]] = True
            reached[self.end[now]] = True
        found = np.flatnonzero(hop)
        mentions = pc.equal(self.edges.column("type"), "MENTIONS").to_numpy(zero_copy_only=False)[found]
        confidence = self.edges.column("confidence").to_numpy()[found]
        order = found[np.lexsort((found, -confidence, mentions, hop[found]))]
        return order[:limit], hop[order[:limit]], len(order) > limit

    def subgraph(self, start: Numbers, edges: Numbers, hops: Numbers, truncated: bool, urls: Sequence[str]) -> Subgraph:
        """``urls``: as shown, of each edge."""
        ends = np.unique(np.concatenate([start, self.start[edges], self.end[edges]]))
        rows = self.edges.take(pa.array(edges)).to_pylist()
        nodes = {int(n): _node(r) for n, r in zip(ends, self.nodes.take(pa.array(ends)).to_pylist(), strict=True)}
        made = [
            Edge(**{k: row[k] for k in Edge.model_fields if k not in {"properties", "url", "hop"}}, properties=json.loads(row["properties"]), url=url, hop=int(hop))
            for row, hop, url in zip(rows, hops, urls, strict=True)
        ]
        return Subgraph(start=tuple(nodes[int(n)] for n in start), nodes=tuple(nodes.values()), edges=tuple(made), truncated=truncated)

    def edge(self, edge_id: str) -> dict[str, object] | None:
        """The row of an edge, if there is one."""
        at = pc.index(self.edges.column("edge_id"), edge_id).as_py()
        row: dict[str, object] | None = self.edges.slice(at, 1).to_pylist()[0] if at >= 0 else None
        return row


def check_types(types: Collection[str] | str | None) -> frozenset[str] | None:
    """``E_QUERY`` for a relation that the model does not have."""
    if types is None:
        return None
    wanted = frozenset([types] if isinstance(types, str) else types)
    unknown = sorted(str(t) for t in wanted if t not in EDGES)
    if unknown:
        raise TabootError("E_QUERY", f"types names {', '.join(unknown)}, which the model does not have.", types=unknown)
    return wanted


def _node(row: dict[str, object]) -> Node:
    return Node(label=str(row["label"]), key=str(row["key"]), name=str(row["name"]), scope=row["scope"], properties=json.loads(str(row["properties"])))


def _identity(labels: pa.ChunkedArray, keys: pa.ChunkedArray) -> pa.Array:
    joined = pc.binary_join_element_wise(labels, keys, " ")  # a label has no space
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema).combine_chunks() if table.num_columns else schema.empty_table()


def _document_nodes(documents: pa.Table) -> pa.Table:
    columns = ("doc_id", "url", "title", "source_type", "text_sha256", "metadata")
    ids, urls, titles, types, hashes, metadata = (documents.column(c).to_pylist() for c in columns)
    properties = [
        orjson.dumps({"contentHash": h, "metadata": orjson.Fragment(m), "sourceType": t, "title": title, "url": u}).decode()
        for u, title, t, h, m in zip(urls, titles, types, hashes, metadata, strict=True)
    ]
    return pa.table(
        {"label": ["Document"] * len(ids), "key": ids, "name": titles, "scope": [None] * len(ids), "properties": properties}, schema=_ENTITIES
    )


def _with_documents(nodes: pa.Table, pairs: tuple[Numbers, Numbers], documents: pa.Table) -> pa.Table:
    """doc_ids (ascending), first_seen and last_seen of each node."""
    owners, docs = pairs
    counts = np.bincount(owners, minlength=len(nodes))
    offsets = np.concatenate(([0], np.cumsum(counts)))
    ids = documents.column("doc_id").combine_chunks().take(pa.array(docs))
    since = documents.column("since").combine_chunks().cast(pa.int64()).to_numpy()[docs]
    some = np.flatnonzero(counts)
    seen = {name: np.zeros(len(nodes), dtype=np.int64) for name in ("first_seen", "last_seen")}
    if len(some):
        seen["first_seen"][some] = np.minimum.reduceat(since, offsets[some])
        seen["last_seen"][some] = np.maximum.reduceat(since, offsets[some])
    nodes = nodes.append_column("doc_ids", pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), ids))
    for name, values in seen.items():
        nodes = nodes.append_column(name, pa.array(values, mask=counts == 0).cast(tables.TIME))
    return nodes.select(NODES_SCHEMA.names).cast(NODES_SCHEMA)
