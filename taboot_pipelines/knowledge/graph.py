"""The nodes and edges of a snapshot: relations resolved by what the names mean, joined with the documents'
times.

The shards' reader and the Neo4j stage both build their graph here, so that they cannot differ. Relations may
be given in parts (a document's rows together), so that a large namespace's edges need not be in memory at
once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.names import BARE, NO_MERGES, Merges, merges_of
from taboot_pipelines.knowledge.reducer import resolve_key
from taboot_pipelines.model import tables
from taboot_pipelines.model.graph import PRIORITY, EdgeSource, weakness
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.tables import EDGES_SCHEMA, NODES_SCHEMA, rows_of

# --- Corrections of edges: a fact that is not so, and a property of a fact that is another (rule
#     ``deterministic-reducer``)
#
# A fact is an edge without its document: type, ends, and what makes it another fact. A correction holds
# for all documents that state the fact, and for those that come to state it; it is applied after
# resolution, so it follows its ends wherever these lead.

#: The columns that name a fact.
FACT = ("type", "start_label", "start_key", "end_label", "end_key", "discriminator")
#: Between the parts of a fact as one text: no label has it, and JSON escapes it.
_SEPARATOR = "\x1f"
#: The port at the end of what makes a route another fact, and that without it: decisions of release 0.1 were
#: about routes of any port.
_PORT = (r",[0-9]+\]$", "]")


@dataclass
class _Edit:
    """What was decided of one fact: ids of the decisions, by number."""

    retracted: bool = False
    properties: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)


class EdgeDecisions:
    """The corrections of edges of ``tables.DECISIONS``. ``resolve``: (label, key) to the key after resolution
    and merging."""

    def __init__(self, decisions: pa.Table, resolve: Callable[[str, str], str]) -> None:
        self._edits: dict[str, _Edit] = {}
        rows = decisions.filter(pc.equal(decisions.column("kind"), "edge")).sort_by("number")
        columns = ("id", "type", "label", "key", "end_label", "end_key", "discriminator", "property", "value")
        for id_, type_, label, key, end_label, end_key, discriminator, name, value in rows_of(rows, *columns):
            start, end = resolve(label, key), resolve(end_label, end_key)
            fact = _SEPARATOR.join((type_, label, start, end_label, end, discriminator))
            edit = self._edits.setdefault(fact, _Edit())
            edit.ids.append(id_)
            if name is None:
                edit.retracted = True
            else:
                edit.properties[name] = json.loads(value)

    def about(self, edge: Mapping[str, Any]) -> list[str]:
        """The ids of the decisions about an edge, which has the columns :data:`FACT`."""
        return [id_ for edit in self._about(edge) for id_ in edit.ids]

    def _about(self, edge: Mapping[str, Any]) -> list[_Edit]:
        """What was decided of an edge: first, where it is a route, before its port told it from others."""
        fact = _SEPARATOR.join(edge[c] for c in FACT)
        facts = [fact]
        if edge["type"] == "ROUTES_TO":
            facts = list(dict.fromkeys((re.sub(*_PORT, fact), fact)))
        return [self._edits[fact] for fact in facts if fact in self._edits]

    def apply(self, edges: pa.Table) -> pa.Table:
        """Edges (``resolve.RESOLVED``) without those of retracted facts; what a person corrected is said by
        ``correction``, with certainty, and stands where the document states the fact.
        """
        if not self._edits or not edges.num_rows:
            return edges
        facts = pc.binary_join_element_wise(*(edges.column(c) for c in FACT), _SEPARATOR)
        known = pa.array(sorted(self._edits), pa.string())
        is_known = pc.is_in(facts, value_set=known)
        routes = pc.equal(edges.column("type"), "ROUTES_TO")
        before = pc.and_(routes, pc.is_in(pc.replace_substring_regex(facts, *_PORT), value_set=known))
        is_known = pc.or_(is_known, before)
        found = pc.indices_nonzero(is_known).to_pylist()
        if not found:
            return edges
        changed = edges.take(pa.array(found)).to_pylist()
        kept = []
        for row in changed:
            edits = self._about(row)
            if not any(edit.retracted for edit in edits):
                corrected = {n: v for edit in edits for n, v in edit.properties.items()}
                kept.append({**row, **_corrected(row, corrected)})
        mask = pc.invert(is_known)
        rest = [edges.filter(mask), pa.Table.from_pylist(kept, schema=edges.schema)]
        return pa.concat_tables(rest).sort_by("edge_id").combine_chunks()


def _corrected(row: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    after = {**json.loads(row["properties"]), **properties}
    return {
        "properties": canonical_json(
            {k: v for k, v in after.items() if v is not None or k not in properties}
        ),
        "source": EdgeSource.CORRECTION.value,
        "confidence": 1.0,
    }


# --- From relations by the names as observed to the edges of the graph (rules ``deterministic-reducer``,
#     ``support`` and ``bounded-rewrite``)
#
# A bare service name becomes the service it means, edges that thereby become equal are joined, and only
# then edge ids are computed: when a name changes its meaning, equal edges merge and part again without
# any stored row having changed.

_ORDER = {source.value: priority for source, priority in PRIORITY.items()}

#: Columns of the result: an id, the columns of ``tables.RELATIONS`` after resolution, and the names as
#: written.
RESOLVED = pa.schema(
    [
        pa.field("edge_id", pa.string(), False),
        *(f for f in tables.RELATIONS if f.name != "bucket"),
        pa.field("start_observed", pa.string(), False),
        pa.field("end_observed", pa.string(), False),
    ]
)


def resolve_edges(
    relations: pa.Table, names: pa.Table, merges: Merges = NO_MERGES, *, namespace: str
) -> pa.Table:
    """The edges (:data:`RESOLVED`, ascending by edge_id) of ``tables.RELATIONS`` rows under ``tables.NAMES``
    and the merges of entities.

    A MENTIONS of a name with several candidates is dropped: an ambiguous name mentions nothing. Of equal
    edges the one with the higher confidence stays, then the one of the source with the higher priority, then
    the first by method; its ``supports`` lists those of all.
    """
    table = resolve_ends(
        relations.select([f.name for f in RESOLVED if f.name in relations.column_names]), names, merges
    )
    identity = ("type", "start_label", "start_key", "end_label", "end_key", "discriminator", "doc_id")
    # The same text as ids.edge_id hashes, by a faster writer of JSON.
    edge_ids = [
        hashlib.sha256(orjson.dumps((namespace, *parts))).hexdigest()
        for parts in zip(*(table.column(c).to_pylist() for c in identity), strict=True)
    ]
    table = (
        table.add_column(0, "edge_id", pa.array(edge_ids, type=pa.string()))
        .sort_by("edge_id")
        .combine_chunks()
    )
    return _join_equal(table).select(RESOLVED.names).cast(RESOLVED)


def resolve_ends(relations: pa.Table, names: pa.Table, merges: Merges = NO_MERGES) -> pa.Table:
    """The rows of ``relations`` that stand, with the keys and names of their ends after resolution and
    ``start_observed`` and ``end_observed`` as written. Needs type, source, start_* and end_* only; rows that
    thereby become equal are not joined.
    """
    table = relations.combine_chunks()
    known = names.combine_chunks()
    ambiguous = known.filter(
        pc.and_(
            pc.is_null(known.column("resolved_key")),
            pc.greater(pc.list_value_length(known.column("candidates")), 1),
        )
    )
    vague = pc.and_(
        pc.and_(pc.equal(table.column("type"), "MENTIONS"), pc.equal(table.column("end_label"), "Service")),
        pc.is_in(table.column("end_key"), value_set=ambiguous.column("observed_key").combine_chunks()),
    )
    # What a person states of a bare name is about that name, whatever else is called so.
    vague = pc.and_(vague, pc.not_equal(table.column("source"), EdgeSource.STRUCTURED.value))
    table = table.filter(pc.invert(vague))
    resolved = known.filter(pc.is_valid(known.column("resolved_key")))
    meant = pa.array([_name_in(k) for k in resolved.column("resolved_key").to_pylist()], type=pa.string())
    for end in ("start", "end"):
        table = table.append_column(f"{end}_observed", table.column(f"{end}_name"))
        at = pc.index_in(
            table.column(f"{end}_key"), value_set=resolved.column("observed_key").combine_chunks()
        )
        bare = pc.is_in(table.column(f"{end}_label"), value_set=pa.array(BARE))
        at = pc.if_else(bare, at, pa.scalar(None, pa.int32()))
        table = _replace(table, f"{end}_key", resolved.column("resolved_key").combine_chunks(), at)
        table = _replace(table, f"{end}_name", meant, at)
        table = _merge(table, end, merges)
    return table


def _merge(table: pa.Table, end: str, merges: Merges) -> pa.Table:
    """Lead one end of the rows to what it was merged into."""
    for label in sorted({label for label, _ in merges}):
        keys = sorted(key for its, key in merges if its == label)
        found = pc.index_in(table.column(f"{end}_key"), value_set=pa.array(keys, pa.string()))
        at = pc.if_else(pc.equal(table.column(f"{end}_label"), label), found, pa.scalar(None, pa.int32()))
        into = [merges[label, key] for key in keys]
        table = _replace(table, f"{end}_key", pa.array([m.key for m in into], pa.string()), at)
        table = _replace(table, f"{end}_name", pa.array([m.name for m in into], pa.string()), at)
    return table


def _name_in(key: str) -> str | None:
    """The name that a key holds, of a service or a network; None for a hash, whose node is called as
    written."""
    if key.startswith("["):
        return str(json.loads(key)[-1])
    return key.rpartition("/")[2] or None if "/" in key else None


def _replace(table: pa.Table, column: str, values: pa.Array, at: pa.ChunkedArray) -> pa.Table:
    taken = values.take(at.combine_chunks() if isinstance(at, pa.ChunkedArray) else at)
    return table.set_column(
        table.column_names.index(column), column, pc.coalesce(taken, table.column(column))
    )


def _join_equal(table: pa.Table) -> pa.Table:
    """One row per edge_id (the table is sorted by it): the strongest, with the supports of all."""
    if len(table) < 2:
        return table
    ids = table.column("edge_id")
    first = np.concatenate(([True], pc.not_equal(ids[1:], ids[:-1]).to_numpy()))
    if first.all():
        return table
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(table))
    keep = starts.copy()
    supports = table.column("supports").to_pylist()
    for group in np.flatnonzero(ends - starts > 1).tolist():
        lo, hi = int(starts[group]), int(ends[group])
        rows = table.slice(lo, hi - lo).to_pylist()
        best = min(range(len(rows)), key=lambda i: _strength(rows[i]))
        keep[group] = lo + best
        distinct = {canonical_json(s): s for row in rows for s in json.loads(row["supports"])}
        supports[lo + best] = canonical_json(
            [distinct[k] for k in sorted(distinct, key=lambda k: _place(distinct[k], k))]
        )
    table = table.set_column(
        table.column_names.index("supports"), "supports", pa.array(supports, type=pa.string())
    )
    return table.take(pa.array(keep))


def _strength(row: dict[str, Any]) -> tuple[Any, ...]:
    """Ascending: the strongest first; the rest of the row breaks ties, so that order of arrival never
    does.
    """
    return (
        weakness(row["type"], json.loads(row["properties"])),
        -row["confidence"],
        -_ORDER.get(row["source"], 0),
        row["extraction_method"],
        row["blob_sha256"],
        row["byte_start"],
        row["byte_end"],
        row["start_observed"],
        row["end_observed"],
        row["properties"],
        row["run_id"],
    )


def _place(support: dict[str, Any], text: str) -> tuple[Any, ...]:
    return str(support.get("blob")), support.get("start") or 0, support.get("end") or 0, text


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
    ``names`` (``tables.NAMES``) and ``decisions`` (``tables.DECISIONS``; None: nobody decided anything)
    are whole. ``retention``: {doc_id: days} of the documents that are not kept for good. First
    :meth:`note` all relations, in any parts; then :meth:`nodes` is complete.
    """

    def __init__(
        self,
        namespace: str,
        documents: pa.Table,
        entities: pa.Table,
        names: pa.Table,
        decisions: pa.Table | None = None,
        retention: Mapping[str, int] | None = None,
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
                _document_nodes(self._documents, retention or {}),
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
    """(key of a bare name, key of the node it means) of ``tables.NAMES``."""
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


def _document_nodes(documents: pa.Table, retention: Mapping[str, int]) -> pa.Table:
    columns = ("doc_id", "url", "title", "source_type", "text_sha256", "metadata")
    ids, urls, titles, types, hashes, metadata = (documents.column(c).to_pylist() for c in columns)
    properties = [
        orjson.dumps(
            {
                "contentHash": h,
                "metadata": orjson.Fragment(m),
                **({"retentionPolicy": retention[d]} if d in retention else {}),
                "sourceType": t,
                "title": title,
                "url": u,
            }
        ).decode()
        for d, u, title, t, h, m in zip(ids, urls, titles, types, hashes, metadata, strict=True)
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
