"""Dagster's SQLite storage with connections that are kept open, for many short runs in one process.

Dagster opens a connection, compiles its statements anew and closes it for every one of a run's four hundred statements:
half the processor time of a run in which nothing changed. Here the same statements go to the same files over one
connection per database. Only for the process that asks for it; other processes use the files as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import dagster as dg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

_BUSY_SECONDS = 60
#: The index shard is used throughout, the shard of a run until the next one begins.
_INDEX = "index"


def keep_connections(instance: dg.DagsterInstance) -> Callable[[], None]:
    """Make the instance keep its SQLite connections; returns what closes them. Other storages are left alone."""
    from dagster._core.storage.event_log import SqliteEventLogStorage
    from dagster._core.storage.runs import SqliteRunStorage

    kept: list[_Kept] = []
    for storage, kind, method, of in (
        (instance.event_log_storage, SqliteEventLogStorage, "_connect", _shard_url),
        (instance.run_storage, SqliteRunStorage, "connect", _runs_url),
    ):
        # The exact class: a subclass or a successor may connect in another way, and then is used as it is.
        if type(storage) is kind and hasattr(storage, method):
            original = getattr(storage, method)
            connections = _Kept(lambda *shard, s=storage, o=of: o(s, *shard), original)
            setattr(storage, method, connections.connect)
            kept.append(connections)
    if type(instance.event_log_storage) is SqliteEventLogStorage:
        _remember_tables(instance.event_log_storage)

    def close() -> None:
        for connections in kept:
            connections.close()

    return close


def _remember_tables(storage: Any) -> None:
    """Dagster asks some eighty times a run whether a table exists; one that does is not asked for again."""
    original: Callable[[str], bool] = storage.has_table
    present: set[str] = set()

    def has_table(name: str) -> bool:
        if name not in present and original(name):
            present.add(name)
        return name in present

    storage.has_table = has_table


def _shard_url(storage: Any, shard: str) -> str:
    url: str = storage.conn_string_for_shard(shard)
    return url


def _runs_url(storage: Any) -> str:
    url: str = storage._conn_string
    return url


class _Kept:
    """One connection per database; its users take turns, as Dagster's own lock makes them."""

    def __init__(self, url: Callable[..., str], original: Callable[..., AbstractContextManager[Connection]]) -> None:
        self._url, self._original = url, original
        self._engines: dict[tuple[str, ...], Engine] = {}
        self._lock = threading.Lock()

    @contextmanager
    def connect(self, *shard: str) -> Iterator[Connection]:
        with self._engine(shard).connect() as connection, connection.begin():
            yield connection

    def _engine(self, shard: tuple[str, ...]) -> Engine:
        with self._lock:
            engine = self._engines.get(shard)
            if engine is None:
                # Dagster's own way first: it creates the tables of a new database.
                with self._original(*shard):
                    pass
                engine = sa.create_engine(
                    self._url(*shard), poolclass=QueuePool, connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False}
                )
                for old in [k for k in self._engines if k not in ((), (_INDEX,))]:
                    self._engines.pop(old).dispose()
                self._engines[shard] = engine
            return engine

    def close(self) -> None:
        with self._lock:
            for engine in self._engines.values():
                engine.dispose()
            self._engines.clear()
