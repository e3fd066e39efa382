"""From relations by the names as observed to the edges of the graph (rules ``deterministic-reducer``,
``support`` and ``bounded-rewrite``).

A bare service name becomes the service it means, edges that thereby become equal are joined, and only then
edge ids are computed: when a name changes its meaning, equal edges merge and part again without any stored
row having changed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.merges import NO_MERGES, Merges
from taboot_pipelines.model import tables
from taboot_pipelines.model.graph import PRIORITY, EdgeSource
from taboot_pipelines.model.ids import canonical_json

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
    meant = pa.array(
        [_service_name(k) for k in resolved.column("resolved_key").to_pylist()], type=pa.string()
    )
    for end in ("start", "end"):
        table = table.append_column(f"{end}_observed", table.column(f"{end}_name"))
        at = pc.index_in(
            table.column(f"{end}_key"), value_set=resolved.column("observed_key").combine_chunks()
        )
        at = pc.if_else(pc.equal(table.column(f"{end}_label"), "Service"), at, pa.scalar(None, pa.int32()))
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


def _service_name(key: str) -> str:
    parts = json.loads(key)
    return str(parts[-1])


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
