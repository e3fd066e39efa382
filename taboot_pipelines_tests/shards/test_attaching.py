"""Files that are attached to databases which the process keeps."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from taboot_pipelines.shards.attaching import attached

FORKING = """
import os, sys
from pathlib import Path
import pyarrow as pa
from taboot_pipelines.shards.attaching import attached

def write(name):
    with attached(Path(sys.argv[1]) / name, "BLOCK_SIZE 16384") as connection:
        connection.register("rows", pa.table({"a": list(range(200_000))}))
        connection.execute("CREATE TABLE t AS FROM rows")
        connection.unregister("rows")
        connection.execute("CHECKPOINT")

write("before")
child = os.fork()
if child == 0:
    write("in the child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_writes_with_a_database_of_its_own(tmp_path: Path) -> None:
    """It has none of the threads of the database that it inherits, and would wait for them for good."""
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], check=True, timeout=120)
    with attached(tmp_path / "in the child", "READ_ONLY") as connection:
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(200_000,)]


def test_after_a_damaged_file_the_next_is_read(tmp_path: Path) -> None:
    damaged, whole = tmp_path / "damaged", tmp_path / "it's whole"
    damaged.write_bytes(b"no database" * 1000)
    with attached(whole, "BLOCK_SIZE 16384") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(duckdb.Error), attached(damaged, "READ_ONLY"):
        pass
    with attached(whole, "READ_ONLY") as connection:
        assert connection.sql("FROM t").fetchall() == [(1,)]


def test_threads_read_one_file_at_once_and_a_file_within_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path, rows in ((one, 1000), (other, 10)):
        with attached(path, "BLOCK_SIZE 16384") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT * FROM range({rows})")

    def read(_: int) -> tuple[int, int]:
        with attached(one, "READ_ONLY") as outer, attached(other, "READ_ONLY") as inner:
            ((within,),) = inner.sql("SELECT count(*) FROM t").fetchall()
            ((around,),) = outer.sql("SELECT count(*) FROM t").fetchall()
            return around, within

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(64))) == {(1000, 10)}
