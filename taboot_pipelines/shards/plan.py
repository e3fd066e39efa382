"""Which shards should exist: a function of the content alone (rule ``bounded-rewrite``).

Documents and entities are cut into ranges of their ids, so a change elsewhere never moves a row to another
shard. A shard's key is the hash of what it holds: the fingerprints of its rows, the embedding space, the
analyzer, the format. The same content therefore gives the same keys, whether it was reached by edits or at
once. Planning loads no document's rows.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import ge
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids, tables
from taboot_pipelines.settings import ShardSettings
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.inputs import ShardInput
from taboot_pipelines.shards.manifest import ShardEntry

if TYPE_CHECKING:
    from taboot_pipelines.shards.build import BuiltDocuments

_ENTITY_COLUMNS = ("label", "key", "name", "scope", "properties")
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """A shard that should exist: what the manifest will say of it, but for its files and ``length``, and how
    to write its database into an empty folder. ``write`` returns what was written of documents."""

    entry: ShardEntry
    write: Callable[[Path], BuiltDocuments | None]


def plan(shard_input: ShardInput, settings: ShardSettings) -> dict[str, ShardEntry]:
    """The shards that a publish of ``shard_input`` would name, by key, still without their files."""
    return {shard.entry.key: shard.entry for shard in planned_shards(shard_input, settings)}


def planned_shards(shard_input: ShardInput, settings: ShardSettings) -> Iterator[PlannedShard]:
    """The shards of the documents, then those of the entities, each in the order of their ids.

    Raises ``E_TABLE`` if a doc_id is no UUID or stands twice.
    """
    yield from _document_shards(shard_input, settings)
    yield from _entity_shards(shard_input, settings)


def _document_shards(given: ShardInput, settings: ShardSettings) -> Iterator[PlannedShard]:
    docs = given.docs.select(["doc_id", "chunk_count", "fingerprint"]).sort_by("doc_id").combine_chunks()
    positions, bits = _positions(docs.column("doc_id"))
    space = [given.space.model, given.space.revision, given.space.dimension]
    weights = np.maximum(docs.column("chunk_count").to_numpy(), 1)
    for lo, hi in cut(positions, weights, bits, settings.max_chunks):
        doc_ids, chunk_counts, prints = (column.to_pylist() for column in docs[lo:hi].columns)
        rows = orjson.dumps([doc_ids, chunk_counts, prints])

        def write(
            folder: Path, doc_ids: list[str] = doc_ids, chunk_counts: list[int] = chunk_counts
        ) -> BuiltDocuments:
            # What only writes shards is no part of a search's start.
            from taboot_pipelines.shards.build import build_documents

            return build_documents(folder, doc_ids, chunk_counts, given.load(doc_ids), given.space.dimension)

        entry = ShardEntry(
            key=ids.digest("documents", layout.FORMAT, ANALYZER, space, ids.sha256_hex(rows)),
            kind="documents",
            first=doc_ids[0],
            documents=len(doc_ids),
            chunks=sum(chunk_counts),
        )
        yield PlannedShard(entry, write)


def _positions(doc_ids: pa.ChunkedArray) -> tuple[Sequence[int] | npt.NDArray[np.uint64], int]:
    """The leading bits of ascending doc_ids (hashes in the form of a UUID), and how many: as many as tell
    them apart, 64 but for two ids that begin alike. The order of the bits is that of the texts.
    """
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(doc_ids, _UUID)).as_py() is False:
        raise TabootError("E_TABLE", "A doc_id is not a UUID.", table="docs")
    digits = bytes.fromhex("".join(doc_ids.to_pylist()).replace("-", ""))
    leading = np.frombuffer(digits, ">u8")[::2].astype(np.uint64)
    if np.all(leading[1:] > leading[:-1]):
        return leading, 64
    whole = [int.from_bytes(digits[at : at + 16], "big") for at in range(0, len(digits), 16)]
    if any(map(ge, whole, whole[1:])):
        raise TabootError("E_TABLE", "A document stands twice in the list of documents.", table="docs")
    return whole, 128


def _entity_shards(given: ShardInput, settings: ShardSettings) -> Iterator[PlannedShard]:
    """Entities, names and decisions in one trie over the position of their key as observed, so that a bare
    name and the node that it means are in one shard. Planning reads two columns of the entities, and no row
    of them.
    """
    names = given.names.select(tables.NAMES.names)
    decisions = given.decisions.select(tables.DECISIONS.names)
    of_names = [ids.position(key) for key in names.column("observed_key").to_pylist()]
    of_decisions = [ids.position(key) for key in decisions.column("key").to_pylist()]
    of_entities = given.entities.column("position").to_numpy()
    signed = np.concatenate((of_entities, np.array(of_names + of_decisions, np.int64)))
    of_fingerprints = _fixed(given.entities.column("fingerprint"))
    others = np.zeros(len(of_names) + len(of_decisions), of_fingerprints.dtype)
    prints = np.concatenate((of_fingerprints, others))
    first_name, first_decision = len(of_entities), len(of_entities) + len(of_names)
    # Whatever stands first of one position: entities are told apart below, and names by their keys.
    order = np.argsort(signed)
    ordered = signed[order]
    # Entities of one position, which have one key and different labels, in the order of their fingerprints.
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(tied):
        at = np.unique(np.concatenate((tied, tied + 1)))
        order[at] = order[at][np.lexsort((prints[order[at]], ordered[at]))]
    positions = ordered.view(np.uint64) ^ np.uint64(1 << 63)
    for lo, hi in cut(positions, np.ones(len(positions), np.int64), 64, settings.max_entities):
        rows = order[lo:hi]
        entities = rows[rows < len(of_entities)]
        of_own_names = rows[(rows >= first_name) & (rows < first_decision)] - first_name
        own_names = names.take(pa.array(of_own_names)).sort_by("observed_key").combine_chunks()
        own_decisions = decisions.take(pa.array(rows[rows >= first_decision] - first_decision))
        own_decisions = own_decisions.sort_by("number").combine_chunks()
        first, last = int(ordered[lo]), int(ordered[hi - 1])

        def write(
            folder: Path,
            first: int = first,
            last: int = last,
            names: pa.Table = own_names,
            decisions: pa.Table = own_decisions,
        ) -> None:
            from taboot_pipelines.shards.build import build_entities

            loaded = given.load_entities(first, last).select(list(_ENTITY_COLUMNS))
            build_entities(
                folder,
                loaded.sort_by([("key", "ascending"), ("label", "ascending")]).combine_chunks(),
                names,
                decisions,
            )

        held = hashlib.sha256(prints[entities].tobytes()).hexdigest()
        entry = ShardEntry(
            key=ids.digest(
                "entities",
                layout.ENTITIES_FORMAT,
                held,
                _fingerprint(own_names),
                _fingerprint(own_decisions),
            ),
            kind="entities",
            first=f"{int(positions[lo]):016x}",
            entities=len(entities),
            names=len(own_names),
        )
        yield PlannedShard(entry, write)


def _fixed(texts: pa.ChunkedArray) -> npt.NDArray[np.bytes_]:
    """ASCII texts as bytes of the length of the longest."""
    array = texts.combine_chunks().cast(pa.large_string())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8) if len(array) else None
    width = 0 if bounds is None else int(bounds[1] - bounds[0])
    if bounds is None or width == 0 or array.null_count or not np.all(np.diff(bounds) == width):
        return np.array(array.to_pylist(), dtype="S")
    return np.frombuffer(data, f"S{width}", len(array), int(bounds[0]))


def _fingerprint(table: pa.Table) -> str:
    """SHA-256 of the rows in their order: of each column the lengths of its texts (-1 for null), then the
    texts, numbers written out; of a column of lists the lengths of the lists before that.
    """
    import pyarrow.compute as pc

    h = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_list(column.type):
            h.update(_lengths(pc.list_value_length(column)))
            column = column.flatten()
        if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64()).cast(pa.large_string())
        column = column.cast(pa.large_binary())
        h.update(_lengths(pc.binary_length(column)))
        # Without null values, which have no bytes, the texts stand one behind the other.
        values = column.drop_null()
        if len(values):
            _, offsets, data = values.buffers()
            bounds = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8)
            h.update(memoryview(data)[bounds[0] : bounds[-1]])
    return h.hexdigest()


def _lengths(lengths: pa.Array) -> bytes:
    """Lengths as little-endian 64-bit integers, -1 for null."""
    import pyarrow.compute as pc

    data: bytes = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
    return data


def cut(
    positions: Sequence[int] | npt.NDArray[np.uint64],
    weights: Sequence[int] | npt.NDArray[np.integer[Any]],
    bits: int,
    limit: int,
) -> list[tuple[int, int]]:
    """The leaves of the smallest binary trie over ``positions`` (ascending, ``bits`` wide) that weigh at most
    ``limit``.

    Returns ranges ``[lo, hi)`` of the rows, in order. A leaf whose rows all have one position may weigh more.
    Leaves depend on the rows under their prefix alone, so a change elsewhere never moves them.
    """
    total = np.concatenate(([0], np.cumsum(weights, dtype=np.int64)))
    leaves: list[tuple[int, int]] = []
    stack = [(0, len(positions), 0, 0)] if len(positions) else []
    while stack:
        lo, hi, depth, base = stack.pop()
        if total[hi] - total[lo] <= limit or positions[lo] == positions[hi - 1] or depth == bits:
            leaves.append((lo, hi))
            continue
        middle = base | (1 << (bits - depth - 1))
        split = bisect_left(positions, middle, lo, hi)
        if split < hi:
            stack.append((split, hi, depth + 1, middle))
        if lo < split:
            stack.append((lo, split, depth + 1, base))
    return leaves
