"""The nodes and edges of a snapshot: relations resolved by what the names mean, joined with the documents'
times.

The shards' reader and the Neo4j stage both build their graph here, so that they cannot differ. Relations may
be given in parts (a document's rows together), so that a large namespace's edges need not be in memory at
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.edge_decisions import EdgeDecisions
from taboot_pipelines.knowledge.merges import merges_of
from taboot_pipelines.knowledge.reducer import resolve_key
from taboot_pipelines.knowledge.resolve import resolve_edges, resolve_ends
from taboot_pipelines.model import tables
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA, rows_of

Numbers = npt.NDArray[np.int64]

#: The columns that each input must have; further ones are kept out.
DOCUMENT_COLUMNS = ("doc_id", "url", "title", "source_type", "text_sha256", "metadata", "since")
ENTITY_COLUMNS = ("label", "key", "name", "scope", "properties")
RELATION_COLUMNS = tuple(f.name for f in tables.RELATIONS if f.name != "bucket")
#: What :meth:`Assembly.note` needs of a relation.
_END_COLUMNS = ("start_label", "start_key", "start_name", "end_label", "end_key", "end_name", "doc_id")
END_COLUMNS = ("type", "source", *_END_COLUMNS)
#: The result of :meth:`Assembly.edges`: the edges, the names of their ends as written, and what makes each
#: another fact.
OBSERVED_EDGES = pa.schema(
    [
        *EDGES_SCHEMA,
        ("start_observed", pa.string()),
        ("end_observed", pa.string()),
        ("discriminator", pa.string()),
    ]
)

_NODES = pa.schema([tables.ENTITIES.field(c).with_nullable(True) for c in ENTITY_COLUMNS])


class Assembly:
    """The graph of one snapshot of a namespace.

    ``documents``, ``entities`` (rows of ``tables.DOCUMENTS`` and ``ENTITIES``, see the columns above) and
    ``names`` (``tables.NAMES``) and ``decisions`` (``tables.DECISIONS``; None: nobody decided anything) are
    whole. First :meth:`note` all relations, in any parts; then :meth:`nodes` is complete.
    """

    def __init__(
        self,
        namespace: str,
        documents: pa.Table,
        entities: pa.Table,
        names: pa.Table,
        decisions: pa.Table | None = None,
    ) -> None:
        self._namespace, self._names = namespace, names
        decided = tables.empty("decisions") if decisions is None else decisions
        self._merges = merges_of(decided)
        #: What people decided of edges.
        resolved: dict[str, str] = dict(_resolved(names))
        self.decided = EdgeDecisions(
            decided, lambda label, key: resolve_key(label, key, resolved, self._merges)
        )
        self._documents = documents.select(DOCUMENT_COLUMNS).sort_by("doc_id").combine_chunks()
        self._doc_ids = self._documents.column("doc_id").combine_chunks()
        entities = entities.select(ENTITY_COLUMNS).cast(_NODES)
        self._nodes = pa.concat_tables(
            [
                _document_nodes(self._documents),
                entities.filter(pc.not_equal(entities.column("label"), "Document")),
            ]
        )
        self._nodes = self._nodes.sort_by([("label", "ascending"), ("key", "ascending")]).combine_chunks()
        self._identity = identity(self._nodes.column("label"), self._nodes.column("key"))
        # A document supports itself.
        own = np.flatnonzero(pc.equal(self._nodes.column("label"), "Document").to_numpy(zero_copy_only=False))
        itself = self._document_numbers(self._nodes.column("key").take(pa.array(own)))
        self._pairs: list[Numbers] = [self._joined(own, itself)]

    def edges(self, relations: pa.Table) -> pa.Table:
        """The edges (:data:`OBSERVED_EDGES`, ascending by edge_id) of some documents' relations, all of each
        document.
        """
        edges = resolve_edges(
            relations.select(RELATION_COLUMNS), self._names, self._merges, namespace=self._namespace
        )
        edges = self.decided.apply(edges)
        at = pc.index_in(edges.column("doc_id"), value_set=self._doc_ids).combine_chunks()
        for name in ("url", "since"):
            edges = edges.append_column(name, self._documents.column(name).combine_chunks().take(at))
        return edges.select(OBSERVED_EDGES.names).cast(OBSERVED_EDGES).combine_chunks()

    def note(self, relations: pa.Table) -> None:
        """Count the documents of these relations (:data:`END_COLUMNS`) as support of their ends."""
        ends = resolve_ends(relations.select(END_COLUMNS), self._names, self._merges)
        owners = self._document_numbers(ends.column("doc_id"))
        for end in ("start", "end"):
            self._pairs.append(
                self._joined(
                    find(self._identity, ends.column(f"{end}_label"), ends.column(f"{end}_key")), owners
                )
            )

    def nodes(self) -> pa.Table:
        """The nodes (:data:`NODES_SCHEMA`), ascending by label and key."""
        owners, docs = np.divmod(np.unique(np.concatenate(self._pairs)), max(len(self._documents), 1))
        # A bare name that could be several services mentions nothing: where it was only mentioned it is
        # listed in `names` and is no node.
        unknown = (
            self._names.filter(pc.is_null(self._names.column("resolved_key")))
            .column("observed_key")
            .combine_chunks()
        )
        used = np.zeros(len(self._nodes), dtype=bool)
        used[owners] = True
        keep = used | ~pc.is_in(self._nodes.column("key"), value_set=unknown).to_numpy(zero_copy_only=False)
        number = np.cumsum(keep) - 1
        return _with_documents(
            self._nodes.filter(pa.array(keep)).combine_chunks(), number[owners], docs, self._documents
        )

    def _document_numbers(self, doc_ids: pa.ChunkedArray) -> Numbers:
        return _numbers(pc.index_in(doc_ids, value_set=self._doc_ids))

    def _joined(self, owners: Numbers, docs: Numbers) -> Numbers:
        """Distinct pairs (node, document) as one number each; -1 on either side is no pair."""
        known = (owners >= 0) & (docs >= 0)
        return np.unique(owners[known] * max(len(self._documents), 1) + docs[known])


def _resolved(names: pa.Table) -> Iterator[tuple[Any, ...]]:
    """(key of a bare service, key of the one it means) of ``tables.NAMES``."""
    return rows_of(names.filter(pc.is_valid(names.column("resolved_key"))), "observed_key", "resolved_key")


def identity(labels: pa.ChunkedArray, keys: pa.ChunkedArray) -> pa.Array:
    """Label and key of each row as one string."""
    joined = pc.binary_join_element_wise(labels, keys, " ")  # a label has no space
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def find(identities: pa.Array, labels: pa.ChunkedArray, keys: pa.ChunkedArray) -> Numbers:
    """The row of :func:`identity` that each (label, key) is; -1 where there is none."""
    return _numbers(pc.index_in(identity(labels, keys), value_set=identities))


def _numbers(found: pa.Array | pa.ChunkedArray) -> Numbers:
    numbers: Numbers = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _document_nodes(documents: pa.Table) -> pa.Table:
    columns = ("doc_id", "url", "title", "source_type", "text_sha256", "metadata")
    ids, urls, titles, types, hashes, metadata = (documents.column(c).to_pylist() for c in columns)
    properties = [
        orjson.dumps(
            {"contentHash": h, "metadata": orjson.Fragment(m), "sourceType": t, "title": title, "url": u}
        ).decode()
        for u, title, t, h, m in zip(urls, titles, types, hashes, metadata, strict=True)
    ]
    return pa.table(
        {
            "label": ["Document"] * len(ids),
            "key": ids,
            "name": titles,
            "scope": [None] * len(ids),
            "properties": properties,
        },
        schema=_NODES,
    )


def _with_documents(nodes: pa.Table, owners: Numbers, docs: Numbers, documents: pa.Table) -> pa.Table:
    """doc_ids (ascending), first_seen and last_seen of each node; the pairs (node, document) ascend."""
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
