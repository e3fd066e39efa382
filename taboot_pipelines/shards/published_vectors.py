"""The vectors of texts in the shards in force: a shard that is built anew takes most of its own from them.

The table of vectors is bucketed by text, so the texts of a few documents lie all over it; a shard has those
of its documents side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

import pyarrow as pa

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards.access import load_manifest
from taboot_pipelines.shards.protocol import ShardStore
from taboot_pipelines.shards.reader import DocumentShard, Shards

_SCHEMA = pa.schema([("sha256", pa.string()), ("vector", pa.list_(pa.float32()))])


class PublishedVectors:
    """The vectors of one namespace's shards, if they are of ``space``. Nothing is read yet."""

    def __init__(self, store: ShardStore, namespace: str, space: Space) -> None:
        try:
            manifest = load_manifest(store, namespace)
        except TabootError:
            manifest = None
        usable = manifest is not None and manifest.space.space() == space
        self._shards: Sequence[DocumentShard] = (
            Shards.open(store, manifest).documents if manifest is not None and usable else ()
        )
        self._firsts = [shard.entry.first for shard in self._shards]

    def of(self, doc_ids: Sequence[str], texts: Collection[str]) -> pa.Table:
        """Return (sha256, vector) of those of the ``texts`` that the shards of these documents hold.

        A shard that is missing or damaged holds none.
        """
        first, last = (bisect_right(self._firsts, d) - 1 for d in (min(doc_ids), max(doc_ids)))
        wanted = pa.array([bytes.fromhex(sha256) for sha256 in sorted(set(texts))], pa.binary(32))
        found = [_SCHEMA.empty_table()]
        for shard in self._shards[max(first, 0) : last + 1]:
            try:
                found.append(_rows(shard, wanted))
            except TabootError:
                continue
        return pa.concat_tables(found)


def _rows(shard: DocumentShard, wanted: pa.Array) -> pa.Table:
    import pyarrow.compute as pc

    held = shard.chunks.column("sha256").combine_chunks()
    at = pc.index_in(wanted, value_set=held)
    here = pc.is_valid(at)
    vectors = shard.float32[at.filter(here).to_numpy()]
    offsets = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32())
    return pa.table(
        [
            pa.array([value.hex() for value in wanted.filter(here).to_pylist()], pa.string()),
            pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1), pa.float32())),
        ],
        schema=_SCHEMA,
    )
