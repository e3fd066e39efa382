"""Dagster's SQLite storage without its overhead, for many short runs in one process.

For each of a run's four hundred statements Dagster opens a connection, compiles the statement anew and closes
the connection. For each run it makes a database by running its whole migration history. That is most of the
time of a run in which nothing changed.

Here the same statements go to the same files over one connection per database, and the database of a run is
made from the table definitions and the revision of the index beside it. This holds only for a process that
asks for it; other processes use the files in Dagster's own way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

_BUSY_SECONDS = 60
_INDEX = "index"
_PAGE_BYTES = 1024


def keep_connections(instance: dg.DagsterInstance) -> Callable[[], None]:
    """Make the instance keep its SQLite connections; return the function that closes them.

    Storages of other kinds are left alone.
    """
    from dagster._core.storage.event_log import SqliteEventLogStorage
    from dagster._core.storage.runs import SqliteRunStorage

    kept: list[_Kept] = []
    events: Any = instance.event_log_storage
    runs: Any = instance.run_storage
    # Only the exact classes: a subclass or a later class may work differently, and is left as it is.
    stock_events, stock_runs = (
        type(instance.event_log_storage) is SqliteEventLogStorage,
        type(instance.run_storage) is SqliteRunStorage,
    )
    if stock_events and hasattr(events, "_connect") and hasattr(events, "_initialized_dbs"):
        shards = _Shards(events)
        events._connect = shards.connect
        events.has_table = _remembered(events.has_table)
        kept.append(shards)
    if stock_runs and hasattr(runs, "connect") and hasattr(runs, "_conn_string"):
        single = _Kept()
        runs.connect = lambda: single.begin("", runs._conn_string)
        kept.append(single)

    def close() -> None:
        for connections in kept:
            connections.close()

    return close


class _Kept:
    """One pool of connections for each database, by name."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._lock = threading.RLock()

    @contextmanager
    def begin(self, name: str, url: str) -> Iterator[Connection]:
        with self._lock:
            engine = self._engines.get(name)
            if engine is None:
                engine = sa.create_engine(
                    url,
                    poolclass=QueuePool,
                    connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
                )
                sa.event.listen(engine, "connect", _no_wait_for_disk)
                self._engines[name] = engine
        with engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        with self._lock:
            for engine in self._engines.values():
                engine.dispose()
            self._engines.clear()


class _Shards(_Kept):
    """The event log: an index, and one database for each run, of which only the latest stays open."""

    def __init__(self, storage: Any) -> None:
        super().__init__()
        self._storage = storage
        self._original = storage._connect

    @contextmanager
    def connect(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard not in self._engines:
                self._prepare(shard)
        with self.begin(shard, self._storage.conn_string_for_shard(shard)) as connection:
            yield connection

    def _prepare(self, shard: str) -> None:
        for old in [name for name in self._engines if name != _INDEX]:
            self._engines.pop(old).dispose()
        if shard != _INDEX and not Path(self._storage.path_for_shard(shard)).exists():
            self._create(shard)
        # Dagster's own way checks whether everything is there, and adds what is missing.
        elif shard not in self._storage._initialized_dbs:
            with self._original(shard):
                pass

    def _create(self, shard: str) -> None:
        """Make the database of a run in one transaction.

        A kill leaves an empty file, which Dagster's own way completes.
        """
        from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata

        with self.connect(_INDEX) as index:
            revision = index.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
        url = self._storage.conn_string_for_shard(shard)
        with self.begin(shard, url) as connection:
            SqlEventLogStorageMetadata.create_all(connection, checkfirst=False)
            connection.execute(
                sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            )
            connection.execute(
                sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision}
            )
        with self._engines[shard].connect() as plain:
            plain.execute(sa.text("PRAGMA journal_mode=WAL"))
        self._storage._initialized_dbs.add(shard)


def _no_wait_for_disk(connection: Any, _record: Any) -> None:
    # In WAL mode the database stays whole in any case, and every commit survives the death of the process;
    # only a loss of power may take the last events.
    connection.execute("PRAGMA synchronous=NORMAL")
    # Of a database that is yet to be made: Dagster's two dozen tables and indexes take a page each, and in
    # the file of a run most of them stay empty.
    connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")


def _remembered(has_table: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return ``has_table`` with a memory for the tables that exist.

    Dagster asks some eighty times a run whether a table exists.
    """
    present: set[str] = set()

    def remembered(name: str) -> bool:
        if name not in present and has_table(name):
            present.add(name)
        return name in present

    return remembered
