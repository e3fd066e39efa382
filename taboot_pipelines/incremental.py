"""Produce only what changed, in batches that are committed one by one.

A stage knows what it wants (key -> fingerprint of all inputs of that key's rows) and what its table holds.
Only the difference is produced, bucket by bucket, each batch committed before the next. So a killed run
repeats at most one batch, and a run over unchanged input produces nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.ids import doc_bucket
from taboot_pipelines.stores.tables import Tables, TableVersion


@dataclass(frozen=True)
class Difference:
    """Keys to produce again and keys to drop."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def difference(wanted: Mapping[str, str], current: Mapping[str, str]) -> Difference:
    """Compare fingerprints; a wanted key that is not there yet counts as changed."""
    return Difference(
        tuple(sorted(k for k, f in wanted.items() if current.get(k) != f)),
        tuple(sorted(k for k in current if k not in wanted)),
    )


def batches(
    diff: Difference, size: int, bucket_of: Callable[[str], int] = doc_bucket
) -> Iterator[tuple[frozenset[int], list[str], list[str]]]:
    """Whole buckets together until ``size`` changed keys: (buckets, changed keys, removed keys)."""
    changed: dict[int, list[str]] = {}
    removed: dict[int, list[str]] = {}
    for keys, target in ((diff.changed, changed), (diff.removed, removed)):
        for key in keys:
            target.setdefault(bucket_of(key), []).append(key)
    group: set[int] = set()
    load = 0
    for b in sorted(set(changed) | set(removed)):
        if group and load + len(changed.get(b, ())) > size:
            yield _batch(group, changed, removed)
            group, load = set(), 0
        group.add(b)
        load += len(changed.get(b, ()))
    if group:
        yield _batch(group, changed, removed)


def _batch(
    group: set[int], changed: Mapping[int, list[str]], removed: Mapping[int, list[str]]
) -> tuple[frozenset[int], list[str], list[str]]:
    return (
        frozenset(group),
        [k for b in sorted(group) for k in changed.get(b, ())],
        [k for b in sorted(group) for k in removed.get(b, ())],
    )


def replace_keys(
    tables: Tables,
    namespace: str,
    owner: str,
    name: str,
    version: TableVersion | None,
    *,
    key: str,
    buckets: Iterable[int],
    drop: Iterable[str],
    rows: pa.Table,
    txn: str,
    order: Sequence[str] = (),
    leaving: Callable[[pa.Table], None] | None = None,
) -> TableVersion | None:
    """Drop the rows of the ``drop`` keys in the given buckets and put ``rows`` in; return the new version.

    A version of None means that the table is new. Where nothing would change nothing is written. ``leaving``
    is called with the rows that are to be dropped, before they are.
    """
    touched = frozenset(buckets)
    old = tables.read(namespace, owner, name, version, buckets=touched)
    dropped = pc.is_in(old.column(key), pa.array(sorted(set(drop)), pa.string()))
    kept = old.filter(pc.invert(dropped))
    if kept.num_rows == old.num_rows and rows.num_rows == 0:
        return version
    if leaving is not None and kept.num_rows < old.num_rows:
        leaving(old.filter(dropped))
    new = pa.concat_tables([kept, rows])
    if order:
        new = new.sort_by([(column, "ascending") for column in order])
    return tables.replace(namespace, owner, name, new, buckets=touched, txn=txn)


def fingerprints(table: pa.Table, key: str, fingerprint: str = "fingerprint") -> dict[str, str]:
    """{key: fingerprint} of a table whose rows of one key all carry the same fingerprint."""
    return dict(zip(table.column(key).to_pylist(), table.column(fingerprint).to_pylist(), strict=True))
