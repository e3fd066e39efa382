"""The observations of runs that are not active: archived ones, and those that wait to be promoted.

Each tier of a source has one table of them beside that of the active runs, and nothing that is derived reads
it (rule ``versioned-runs``). A run's rows come in once and stay until an erasure: by them runs are compared
and activated again without reading a document. No pointer names the table, so its newest version counts, and
a vacuum keeps that one.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.incremental import replace_keys
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.model.tables import empty
from taboot_pipelines.stores.tables import Tables

#: What the names of these tables begin with.
ARCHIVES = "observations.archive."


def archive_table(tier: Tier) -> str:
    """The name of a tier's archive, which has the schema of ``observations``."""
    return f"{ARCHIVES}{tier.source.value}"


class Archive:
    """The archive of one tier of a source. Writes happen under the source's lease."""

    def __init__(self, tables: Tables, namespace: str, source_id: str, tier: Tier) -> None:
        self._tables = tables
        self._place = (namespace, source_id, archive_table(tier))

    @property
    def exists(self) -> bool:
        return self._tables.version(*self._place) is not None

    def keep(self, rows: pa.Table, txn: str) -> None:
        """Add the rows of runs, of which those that are there already stay as they are."""
        if rows.num_rows == 0:
            return
        version = self._tables.version(*self._place)
        if version is not None:
            runs = pc.unique(rows.column("run_id")).to_pylist()
            buckets = pc.unique(rows.column("bucket")).to_pylist()
            held = self._tables.read(
                *self._place, version, columns=["run_id"], buckets=buckets, members=("run_id", runs)
            )
            there = pc.unique(held.column("run_id").combine_chunks())
            rows = rows.filter(pc.invert(pc.is_in(rows.column("run_id"), there)))
        if rows.num_rows:
            self._tables.append(*self._place, rows, txn=txn)

    def replace(self, rows: pa.Table, runs: Collection[str], buckets: Collection[int], txn: str) -> None:
        """Put the rows of these runs in, in place of those that a killed attempt has left of them."""
        replace_keys(
            self._tables,
            *self._place,
            self._tables.version(*self._place),
            key="run_id",
            buckets=buckets,
            drop=runs,
            rows=rows,
            txn=txn,
        )

    def rows(self, runs: Collection[str], buckets: Collection[int] | None = None) -> pa.Table:
        """The rows of these runs, in their order; ``buckets``: where they lie, if that is known."""
        found = self._tables.read(
            *self._place,
            self._tables.version(*self._place),
            buckets=buckets,
            members=("run_id", sorted(runs)),
        )
        return found.sort_by([("run_id", "ascending"), ("type", "ascending"), ("span_start", "ascending")])

    def erase(self, units: Collection[str], doc_ids: Collection[str], blobs: Collection[str]) -> None:
        """Take out every run of these units, and of every other unit that quotes a document or a blob.

        The bytes go with the vacuum that follows. Only under the leases of an erasure.
        """
        version = self._tables.version(*self._place)
        if version is None:
            return
        held = self._tables.read(
            *self._place, version, columns=["bucket", "unit_id", "doc_id", "blob_sha256"]
        )
        hit = pc.is_in(held.column("unit_id"), pa.array(sorted(units), pa.string()))
        for column, values in (("doc_id", doc_ids), ("blob_sha256", blobs)):
            hit = pc.or_(hit, pc.is_in(held.column(column), pa.array(sorted(values), pa.string())))
        gone = held.filter(hit)
        if gone.num_rows:
            replace_keys(
                self._tables,
                *self._place,
                version,
                key="unit_id",
                buckets=pc.unique(gone.column("bucket")).to_pylist(),
                drop=pc.unique(gone.column("unit_id")).to_pylist(),
                rows=empty("observations"),
                txn="erased",
            )
