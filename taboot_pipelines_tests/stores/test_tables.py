"""Delta tables: bucket-wise replacement, pinned versions, rollback to what was published."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import VECTORS, conform
from taboot_pipelines.stores.tables import Tables


def rows(*items: tuple[int, str]) -> pa.Table:
    return pa.table({"bucket": pa.array([b for b, _ in items], pa.int32()), "sha256": [s for _, s in items], "vector": [[1.0]] * len(items)})


def held(tables: Tables, version: int | None, **options: object) -> list[str]:
    return sorted(tables.read("n", "s", "vectors.x", version, columns=["sha256"], **options).column(0).to_pylist())  # type: ignore[arg-type]


def test_only_the_named_buckets_change_and_old_versions_stay_readable(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    assert tables.version("n", "s", "vectors.x") is None and held(tables, None) == []
    first = tables.replace("n", "s", "vectors.x", rows((1, "a"), (2, "b")), buckets={1, 2}, txn="t1")
    second = tables.replace("n", "s", "vectors.x", rows((2, "c")), buckets={2}, txn="t2")
    assert held(tables, second) == ["a", "c"] and held(tables, first) == ["a", "b"]
    assert held(tables, second, buckets=[2]) == ["c"] and held(tables, second, buckets=[]) == []
    assert tables.transaction("n", "s", "vectors.x") == "t2"


def test_rollback_takes_back_what_no_pointer_published(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    first = tables.append("n", "s", "vectors.x", rows((1, "a")), txn="t1")
    tables.append("n", "s", "vectors.x", rows((1, "b")), txn="t2")
    assert held(tables, tables.rollback("n", "s", "vectors.x", first)) == ["a"]
    assert tables.rollback("n", "s", "vectors.x", None) is None
    assert tables.version("n", "s", "vectors.x") is None


def test_vacuum_leaves_no_byte_of_what_was_replaced(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append("n", "s", "vectors.x", rows((1, "uniquewordone")), txn="t1")
    tables.replace("n", "s", "vectors.x", rows((1, "other")), buckets={1}, txn="t2")
    tables.vacuum("n", "s", "vectors.x")
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"uniquewordone" in p.read_bytes()]
    assert held(tables, tables.version("n", "s", "vectors.x")) == ["other"]


@pytest.mark.parametrize("bad", [
    pa.table({"bucket": [1], "sha256": ["a"]}),
    pa.table({"bucket": ["x"], "sha256": ["a"], "vector": [[1.0]]}),
    pa.table({"bucket": [1], "sha256": pa.array([None], pa.string()), "vector": [[1.0]]}),
    pa.table({"bucket": [1], "sha256": ["a"], "vector": [[1.0]], "more": [1]}),
])
def test_a_table_that_does_not_conform_is_refused(bad: pa.Table) -> None:
    with pytest.raises(TabootError, match="E_TABLE"):
        conform(bad, "vectors")
    assert conform(rows((1, "a")), "vectors").schema == VECTORS
