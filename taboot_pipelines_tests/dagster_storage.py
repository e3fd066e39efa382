"""Dagster's storage in SQLite as it is, but for what it makes anew for each statement.

An instance on disk makes an engine and a connection for each access to a database, and compiles each
statement for it: a third of what a run in a test takes. Importing this module lets engines be kept for this
process, and connections too but for those to the file of a run, which is removed with the run. What opens a
database also reads all migrations anew; they are kept as well.
"""

from __future__ import annotations

import functools
from typing import Any

import dagster as dg
import sqlalchemy
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from sqlalchemy.pool import NullPool, QueuePool

_OF_ALL_RUNS = ("/index.db", "/runs.db", "/schedules.db")


@functools.lru_cache(maxsize=32)
def _engine(url: str, *options: tuple[str, Any]) -> sqlalchemy.Engine:
    pool = QueuePool if url.endswith(_OF_ALL_RUNS) else NullPool
    return sqlalchemy.create_engine(url, poolclass=pool, connect_args=dict(options))


def _kept(url: str, *, poolclass: type[NullPool], connect_args: dict[str, Any] | None = None) -> Any:
    assert poolclass is NullPool
    return _engine(url, *sorted((connect_args or {}).items()))


for _module in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
    _module.create_engine = _kept


_read_scripts = ScriptDirectory.from_config
_scripts: dict[str | None, ScriptDirectory] = {}


def _kept_scripts(config: Config) -> ScriptDirectory:
    place = config.get_main_option("script_location")
    if place not in _scripts:
        _scripts[place] = _read_scripts(config)
    return _scripts[place]


ScriptDirectory.from_config = _kept_scripts  # type: ignore[method-assign, assignment]


def copy_in_memory(known: dg.DagsterInstance, into: dg.DagsterInstance) -> None:
    """Let an ephemeral instance that knows nothing yet know all that another one knows."""
    for storage in ("run_storage", "event_log_storage"):
        source, target = (
            getattr(instance, storage)._held_conn.connection.driver_connection for instance in (known, into)
        )
        source.backup(target)
