"""What every subject needs to write its rows, on both databases: the time, and many rows in one statement or
stream (measured in ``benchmarks/catalog_writes.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

Row = Mapping[str, Any]
T = TypeVar("T")

#: From this many rows on PostgreSQL gets them by COPY: making its temporary table costs as much as about
#: 100 rows.
COPY_FROM = 200

Conflict = Literal["update", "nothing"]

#: How many values one statement may name: each is a bound parameter, which both databases limit.
MAX_PARAMETERS = 500


def now_micros() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000


def parts(items: Sequence[T]) -> Iterator[list[T]]:
    """The items in lists short enough for one statement."""
    for i in range(0, len(items), MAX_PARAMETERS):
        yield list(items[i : i + MAX_PARAMETERS])


def insert(connection: Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    """Begin an INSERT in the database's own words: only those of a dialect know ``ON CONFLICT``."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def write(
    connection: Connection, table: sa.Table, rows: Sequence[Row], conflict: Conflict | None = None
) -> list[tuple[Any, ...]]:
    """Insert rows that all name the same columns. On a conflict of the primary key ``"update"`` replaces the
    row that is there, ``"nothing"`` leaves it, and None fails.

    Returns the keys of the rows that were new, for ``"nothing"`` only. Of rows with the same key the last one
    counts. Unless ``conflict`` is None, rows are written in the order of their keys, so that two writers of
    the same rows wait for each other and cannot deadlock.
    """
    if not rows:
        return []
    keys = [c.name for c in table.primary_key.columns]
    if conflict is not None:
        by_key = {tuple(row[k] for k in keys): row for row in rows}
        rows = [by_key[k] for k in sorted(by_key)]
    postgres = connection.dialect.name == "postgresql"
    if postgres and len(rows) >= COPY_FROM:
        return _copy(connection, table, rows, keys, conflict)
    if conflict == "nothing":
        unless_there = insert(connection, table).on_conflict_do_nothing(index_elements=keys)
        statement = unless_there.returning(*table.primary_key.columns)
        return [tuple(r) for r in connection.execute(statement, list(rows))]
    # The driver's own executemany: SQLAlchemy's handling of each row costs as much as SQLite's.
    quote = connection.dialect.identifier_preparer.quote
    columns = list(rows[0])
    marks = ", ".join(["%s" if postgres else "?"] * len(columns))
    connection.exec_driver_sql(
        f"INSERT INTO {quote(table.name)} ({', '.join(map(quote, columns))}) VALUES"
        f" ({marks}){_on_conflict(quote, columns, keys, conflict)}",
        [tuple([row[name] for name in columns]) for row in rows],
    )
    return []


def upsert(connection: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """:func:`write` that replaces what is there."""
    write(connection, table, rows, "update")


def _copy(
    connection: Connection,
    table: sa.Table,
    rows: Sequence[Row],
    keys: Sequence[str],
    conflict: Conflict | None,
) -> list[tuple[Any, ...]]:
    """Stream the rows into a temporary table and insert them from there: COPY is refused on a table with
    row-level security, and the INSERT meets its policies.
    """
    quote = connection.dialect.identifier_preparer.quote
    columns, target = list(rows[0]), quote(table.name)
    names = ", ".join(map(quote, columns))
    connection.exec_driver_sql(
        f"CREATE TEMP TABLE taboot_incoming ON COMMIT DROP AS SELECT {names} FROM {target} WITH NO DATA"
    )
    raw: Any = connection.connection.driver_connection
    with raw.cursor() as cursor, cursor.copy(f"COPY pg_temp.taboot_incoming ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[name] for name in columns])
    returning = f" RETURNING {', '.join(map(quote, keys))}" if conflict == "nothing" else ""
    result = connection.exec_driver_sql(
        f"INSERT INTO {target} ({names}) SELECT {names} FROM"
        f" pg_temp.taboot_incoming{_on_conflict(quote, columns, keys, conflict)}{returning}"
    )
    new = [tuple(r) for r in result] if conflict == "nothing" else []
    connection.exec_driver_sql("DROP TABLE pg_temp.taboot_incoming")
    return new


def _on_conflict(
    quote: Callable[[str], str], columns: Sequence[str], keys: Sequence[str], conflict: Conflict | None
) -> str:
    if conflict is None:
        return ""
    key = ", ".join(map(quote, keys))
    if conflict == "nothing":
        return f" ON CONFLICT ({key}) DO NOTHING"
    changed = ", ".join(f"{quote(n)} = excluded.{quote(n)}" for n in columns if n not in keys)
    return f" ON CONFLICT ({key}) DO UPDATE SET {changed}"
