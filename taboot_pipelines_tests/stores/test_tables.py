"""Delta tables in a directory and on an object store: bucket-wise replacement, pinned versions, removal that
may be killed.
"""

from __future__ import annotations

import io
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import VECTORS, conform
from taboot_pipelines.stores.tables import Tables
from taboot_pipelines_tests.objects import Bucket


class Kept:
    """Tables and the files behind them, whichever the backend."""

    def __init__(self, directory: Path, bucket: Bucket | None) -> None:
        self.directory, self.bucket = directory / "tables", bucket
        self.tables = Tables(directory) if bucket is None else Tables(directory, bucket.url, bucket.storage)

    def files(self) -> dict[str, bytes]:
        if self.bucket is not None:
            return self.bucket.contents()
        return {
            str(p.relative_to(self.directory)): p.read_bytes()
            for p in self.directory.rglob("*")
            if p.is_file()
        }

    def remove(self, path: str) -> None:
        if self.bucket is not None:
            obstore.delete(self.bucket.store, path)
        else:
            (self.directory / path).unlink()

    def write(self, path: str, data: bytes) -> None:
        if self.bucket is not None:
            obstore.put(self.bucket.store, path, data)
        else:
            (self.directory / path).write_bytes(data)

    def texts(self) -> str:
        """All that the files hold, Parquet decoded."""
        return "".join(
            str(pq.read_table(io.BytesIO(d)).to_pydict()) if p.endswith(".parquet") else d.decode()
            for p, d in self.files().items()
        )


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.server)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """One suite for both backends."""
    return Kept(tmp_path, None if request.param == "directory" else Bucket(request.getfixturevalue("s3")))


@pytest.fixture
def tables(kept: Kept) -> Tables:
    return kept.tables


def rows(*items: tuple[int, str]) -> pa.Table:
    return pa.table(
        {
            "bucket": pa.array([b for b, _ in items], pa.int32()),
            "sha256": [s for _, s in items],
            "vector": [[1.0]] * len(items),
        }
    )


def held(tables: Tables, version: str | None, **options: object) -> list[str]:
    return sorted(
        tables.read("n", "s", "vectors.x", version, columns=["sha256"], **options).column(0).to_pylist()
    )


def test_only_the_named_buckets_change_and_old_versions_stay_readable(tables: Tables) -> None:
    assert tables.version("n", "s", "vectors.x") is None and held(tables, None) == []
    first = tables.replace("n", "s", "vectors.x", rows((1, "a"), (2, "b")), buckets={1, 2}, txn="t1")
    second = tables.replace("n", "s", "vectors.x", rows((2, "c")), buckets={2}, txn="t2")
    assert held(tables, second) == ["a", "c"] and held(tables, first) == ["a", "b"]
    assert held(tables, second, buckets=[2]) == ["c"] and held(tables, second, buckets=[]) == []


def test_rollback_takes_back_what_no_pointer_published(tables: Tables) -> None:
    first = tables.append("n", "s", "vectors.x", rows((1, "a")), txn="t1")
    tables.append("n", "s", "vectors.x", rows((1, "b")), txn="t2")
    assert held(tables, tables.rollback("n", "s", "vectors.x", first)) == ["a"]
    assert tables.rollback("n", "s", "vectors.x", None) is None
    assert tables.version("n", "s", "vectors.x") is None


def test_vacuum_leaves_no_byte_of_what_was_replaced(kept: Kept) -> None:
    tables = kept.tables
    tables.append("n", "s", "vectors.x", rows((1, "uniquewordone")), txn="t1")
    tables.replace("n", "s", "vectors.x", rows((1, "other")), buckets={1}, txn="t2")
    assert "uniquewordone" in kept.texts() and tables.stale_files("n", "s", "vectors.x") == 1
    assert tables.vacuum("n", "s", "vectors.x") == 1
    assert "uniquewordone" not in kept.texts() and tables.stale_files("n", "s", "vectors.x") == 0
    assert held(tables, tables.version("n", "s", "vectors.x")) == ["other"]


def test_a_vacuum_keeps_the_versions_that_readers_are_told_to_read(kept: Kept) -> None:
    tables = kept.tables
    versions = [
        tables.replace("n", "s", "vectors.x", rows((1, f"uniqueword{i}")), buckets={1}, txn=str(i))
        for i in range(4)
    ]
    tables.vacuum("n", "s", "vectors.x", keep=[versions[1]])
    assert held(tables, versions[1]) == ["uniqueword1"] and held(tables, versions[3]) == ["uniqueword3"]
    assert "uniqueword0" not in kept.texts() and "uniqueword2" not in kept.texts()
    # A vacuum is a version of its own, with the same rows.
    assert tables.version("n", "s", "vectors.x") != versions[3]
    assert tables.holds("n", "s", "vectors.x", versions[3])
    assert not tables.holds("n", "s", "vectors.x", versions[1])
    assert tables.rollback("n", "s", "vectors.x", versions[3]) == versions[3]
    tables.vacuum("n", "s", "vectors.x", keep=["2.anothertable", versions[3]])
    assert "uniqueword1" not in kept.texts() and held(tables, versions[3]) == ["uniqueword3"]
    assert tables.count("n", "s", "vectors.x", versions[3]) == 1


def test_the_log_tells_in_which_buckets_two_versions_differ(tables: Tables) -> None:
    def changed(before: str | None, after: str | None) -> frozenset[int] | None:
        return tables.changed_buckets("n", "s", "vectors.x", before, after)

    first = tables.replace("n", "s", "vectors.x", rows((1, "a"), (2, "b"), (3, "c")), buckets=None, txn="1")
    second = tables.replace("n", "s", "vectors.x", rows((2, "d")), buckets={2}, txn="2")
    third = tables.replace("n", "s", "vectors.x", rows((2, "d")).slice(1), buckets={3}, txn="3")
    tables.vacuum("n", "s", "vectors.x", keep=[first])
    fourth = tables.version("n", "s", "vectors.x")
    assert changed(first, second) == changed(second, first) == {2}
    assert changed(first, third) == {2, 3} and changed(second, fourth) == {3}
    assert changed(third, fourth) == changed(third, third) == changed(None, None) == frozenset()
    # Nothing is known of a version without a table, of another table, or beyond the log.
    assert changed(None, first) is None and changed(first, None) is None
    assert changed(first, f"99.{first.partition('.')[2]}") is None
    tables.drop("n", "s", "vectors.x")
    again = tables.replace("n", "s", "vectors.x", rows((1, "a")), buckets=None, txn="1")
    assert changed(first, again) is None


def test_a_long_log_has_checkpoints_and_its_old_versions(kept: Kept) -> None:
    tables = kept.tables
    versions = [
        tables.replace("n", "s", "vectors.x", rows((i % 4, f"t{i}")), buckets={i % 4}, txn=str(i))
        for i in range(30)
    ]
    assert sum(".checkpoint" in path for path in kept.files()) >= 3
    assert held(tables, versions[2]) == ["t0", "t1", "t2"] and held(tables, versions[29]) == [
        f"t{i}" for i in range(26, 30)
    ]
    assert tables.changed_buckets("n", "s", "vectors.x", versions[27], versions[29]) == {0, 1}
    tables.drop("n", "s", "vectors.x")
    assert tables.version("n", "s", "vectors.x") is None


def test_wanted_rows_are_found_in_whichever_file_they_are(tables: Tables) -> None:
    for i in range(6):
        tables.append("n", "s", "vectors.x", rows((i % 3, f"t{i}"), (i % 3, f"u{i}")), txn="t")
    version = tables.version("n", "s", "vectors.x")
    for columns in (["sha256"], ["sha256", "vector"]):
        found = tables.read(
            "n", "s", "vectors.x", version, columns=columns, members=("sha256", ["t1", "u4", "t5", "none"])
        )
        assert sorted(found.column("sha256").to_pylist()) == ["t1", "t5", "u4"]
        assert found.column_names == columns


def test_names_existence_and_removal(kept: Kept) -> None:
    tables = kept.tables
    assert (
        tables.names("n", "s") == []
        and not tables.exist("n", "s", {"vectors.x": "0"})
        and tables.exist("n", "s", {"vectors.x": None})
    )
    for name in ("vectors.x", "vectors.y"):
        tables.append("n", "s", name, rows((1, "a")), txn="t1")
    tables.append("n", "s2", "vectors.x", rows((1, "a")), txn="t1")
    assert tables.names("n", "s") == ["vectors.x", "vectors.y"] and tables.exist(
        "n", "s", {"vectors.x": "1", "vectors.y": "1"}
    )
    tables.drop("n", "s", "vectors.y")
    assert tables.names("n", "s") == ["vectors.x"] and not tables.exist(
        "n", "s", {"vectors.x": "1", "vectors.y": "1"}
    )
    tables.append("n", "s", "vectors.y", rows((1, "b")), txn="t2")
    assert held(tables, tables.version("n", "s", "vectors.x")) == ["a"]
    tables.drop_owner("n", "s")
    assert tables.names("n", "s") == [] and tables.version("n", "s", "vectors.y") is None
    assert tables.names("n", "s2") == ["vectors.x"] and all(path.startswith("n/s2/") for path in kept.files())


def test_many_appends_are_joined(tables: Tables) -> None:
    for i in range(12):
        tables.append("n", "s", "vectors.x", rows((1, str(i))), txn="t")
    assert tables.files("n", "s", "vectors.x") == 12
    tables.compact("n", "s", "vectors.x")
    assert tables.files("n", "s", "vectors.x") == 1
    assert held(tables, tables.version("n", "s", "vectors.x")) == sorted(map(str, range(12)))


def test_a_removal_killed_after_any_step_leaves_the_table_or_none(s3, tmp_path: Path) -> None:
    """On an object store a removal is many requests: cut off after each, the table is whole or not there, and
    can be made anew.
    """
    kept = Kept(tmp_path, Bucket(s3))
    tables = kept.tables
    for i in range(4):
        tables.replace("n", "s", "vectors.x", rows((1, f"{i}")), buckets={1}, txn="t")
    tables._open("n", "s", "vectors.x", None).create_checkpoint()
    tables.replace("n", "s", "vectors.x", rows((1, "last")), buckets={1}, txn="t")
    tables.vacuum("n", "s", "vectors.x")
    whole = kept.files()
    removed: list[str] = []
    delete = obstore.delete

    def killed(store: object, paths: str | list[str], left: int) -> None:
        for path in [paths] if isinstance(paths, str) else paths:
            if len(removed) >= left:
                raise KeyboardInterrupt
            delete(store, path)
            removed.append(path)

    seen = set()
    for steps in range(len(whole)):
        for path, data in whole.items():
            obstore.put(kept.bucket.store, path, data)
        removed.clear()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(obstore, "delete", lambda store, paths, steps=steps: killed(store, paths, steps))
            tables.drop("n", "s", "vectors.x")
        version = tables.version("n", "s", "vectors.x")
        seen.add(version is None)
        if version is None:
            fresh = tables.append("n", "s", "vectors.x", rows((1, "new")), txn="t")
            assert held(tables, fresh) == ["new"] and "last" not in kept.texts()
            tables.drop("n", "s", "vectors.x")
        else:
            assert held(tables, version) == ["last"]
        for path in kept.files():
            kept.remove(path)
    assert seen == {True, False}


def test_what_a_killed_removal_left_is_trash(s3, tmp_path: Path) -> None:
    kept = Kept(tmp_path, Bucket(s3))
    for namespace, owner in (("n", "s"), ("n", "t"), ("n-2", "s")):
        kept.tables.append(namespace, owner, "vectors.x", rows((1, "a")), txn="t")
        if owner == "s":
            kept.remove(f"{namespace}/s/vectors.x/_delta_log/00000000000000000000.json")
    kept.tables.empty_trash("n")
    assert {tuple(p.split("/")[:2]) for p in kept.files()} == {("n", "t"), ("n-2", "s")}
    assert kept.tables.version("n", "t", "vectors.x") is not None


def test_a_file_that_is_gone_is_the_tables_fault(kept: Kept) -> None:
    version = kept.tables.append("n", "s", "vectors.x", rows((1, "a")), txn="t")
    for path in kept.files():
        if path.endswith(".parquet"):
            kept.remove(path)
    with pytest.raises(TabootError) as caught:
        held(kept.tables, version)
    assert caught.value.code == "E_TABLE" and "vectors.x" in caught.value.message


@pytest.mark.parametrize(
    "bad",
    [
        pa.table({"bucket": [1], "sha256": ["a"]}),
        pa.table({"bucket": ["x"], "sha256": ["a"], "vector": [[1.0]]}),
        pa.table({"bucket": [1], "sha256": pa.array([None], pa.string()), "vector": [[1.0]]}),
        pa.table({"bucket": [1], "sha256": ["a"], "vector": [[1.0]], "more": [1]}),
    ],
)
def test_a_table_that_does_not_conform_is_refused(bad: pa.Table) -> None:
    with pytest.raises(TabootError, match="E_TABLE"):
        conform(bad, "vectors")
    assert conform(rows((1, "a")), "vectors").schema == VECTORS


def test_a_text_that_is_no_text_any_more_is_a_damaged_table(kept: Kept) -> None:
    tables = kept.tables
    version = tables.replace("n", "s", "vectors.x", rows((1, "abcdefgh")), buckets={1}, txn="t1")
    (path,) = (p for p in kept.files() if p.endswith(".parquet"))
    kept.write(path, kept.files()[path].replace(b"abcdefgh", b"abc\xffefgh"))
    with pytest.raises(TabootError) as caught:
        tables.read("n", "s", "vectors.x", version)
    assert caught.value.code == "E_TABLE" and "--deep --repair" in caught.value.remedy
