"""State in the catalog's database: the default, with nothing to start.

A call is one transaction. What is read and then written is locked first (a row of PostgreSQL, the database of
SQLite). The clock is the database's; SQLite has none of its own and belongs to one machine, so there it is
the process's. A clock may be set back: a stored time that lies in the future counts as now, and is stored as
such. What has expired is removed in passing, once in a while and a bounded number of rows at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.writing import insert, now_micros
from taboot_pipelines.stores.state import keys
from taboot_pipelines.stores.state.protocol import Grant, grant, pack, unpack

_SECOND = 1_000_000
_PURGE_SECONDS, _PURGE_ROWS = 60.0, 500
#: Buckets and circuits that nobody has touched for so long tell nothing; no bucket takes as long to fill.
_FORGOTTEN = 30 * 24 * 3600 * _SECOND
_PART = 500


class CatalogState:
    """The state as tables of the catalog. Threads may share one.

    The catalog belongs to whoever opened it: :meth:`close` leaves it open.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._purged: dict[str, float] = {}
        self._lock = threading.Lock()

    def get(self, namespace: str, key: str) -> bytes | None:
        v = t.state_value
        with self._read(namespace) as c:
            found = c.execute(
                sa.select(v.c.value).where(*_row(v, namespace, key), v.c.expires_at > _clock(c))
            ).scalar()
        return None if found is None else unpack(found)

    def set(self, namespace: str, key: str, value: bytes, ttl_seconds: float) -> None:
        stored = pack(value)
        with self._begin(namespace) as c:
            expires = _clock(c) + keys.milliseconds(ttl_seconds) * 1000
            c.execute(
                _upsert(
                    c,
                    t.state_value,
                    {
                        "namespace": namespace,
                        "key": keys.check_name(key),
                        "value": stored,
                        "expires_at": expires,
                    },
                )
            )
            self._purge(c, namespace)

    def delete(self, namespace: str, names: Collection[str]) -> int:
        v = t.state_value
        with self._begin(namespace) as c:
            gone = 0
            for part in _parts(sorted({keys.check_name(n) for n in names})):
                where = (v.c.namespace == namespace, v.c.key.in_(part))
                gone += sum(
                    c.execute(sa.delete(v).where(*where).returning(v.c.expires_at > _clock(c))).scalars()
                )
            return gone

    @contextlib.contextmanager
    def lock(self, namespace: str, name: str, ttl_seconds: float) -> Iterator[bool]:
        table, holder = t.state_lock, uuid.uuid4().hex
        with self._begin(namespace) as c:
            expires = _clock(c) + keys.milliseconds(ttl_seconds) * 1000
            row = {
                "namespace": namespace,
                "name": keys.check_name(name),
                "holder": holder,
                "expires_at": expires,
            }
            take = _upsert(c, table, row, where=table.c.expires_at <= _clock(c))
            held = c.execute(take.returning(table.c.holder)).scalar() is not None
            if not held:
                # Nobody holds it for longer than this caller would.
                late = (*_row(table, namespace, name), table.c.expires_at > expires)
                c.execute(sa.update(table).where(*late).values(expires_at=expires))
            self._purge(c, namespace)
        try:
            yield held
        finally:
            if held:
                # If the lock cannot be released, it is free once it expires.
                with contextlib.suppress(TabootError), self._begin(namespace) as c:
                    c.execute(sa.delete(table).where(*_row(table, namespace, name), table.c.holder == holder))

    def take_tokens(
        self, namespace: str, bucket: str, *, rate: float, burst: float, tokens: float = 1.0
    ) -> Grant:
        b = t.state_bucket
        with self._begin(namespace) as c:
            row, now = _locked(c, b, namespace, bucket, tokens=burst, updated_at=_clock(c))
            passed = max(0, now - row.updated_at) / _SECOND
            have = min(burst, row.tokens + passed * max(rate, 0.0))
            allowed = have >= tokens
            left = have - tokens if allowed else have
            c.execute(sa.update(b).where(*_row(b, namespace, bucket)).values(tokens=left, updated_at=now))
            self._purge(c, namespace)
        return grant(allowed, left, rate=rate, burst=burst, tokens=tokens)

    def enqueue(self, namespace: str, queue: str, due: Mapping[str, float]) -> None:
        # One order everywhere, so that two writers of the same members cannot wait for each other.
        rows = [
            {
                "namespace": namespace,
                "queue": keys.check_name(queue),
                "member": keys.check_name(member),
                "due": keys.check_due(due[member]),
            }
            for member in sorted(due)
        ]
        if rows:
            with self._begin(namespace) as c:
                c.execute(_upsert(c, t.state_member, rows[0]), rows)

    def due(self, namespace: str, queue: str, now: float, limit: int = 100) -> list[str]:
        m = t.state_member
        with self._read(namespace) as c:
            query = sa.select(m.c.member).where(*_row(m, namespace, queue), m.c.due <= keys.check_due(now))
            return list(
                c.execute(
                    query.order_by(m.c.due, _by_code_point(c, m.c.member)).limit(max(0, limit))
                ).scalars()
            )

    def dequeue(self, namespace: str, queue: str, members: Collection[str]) -> int:
        m, gone = t.state_member, 0
        if not members:
            return gone
        with self._begin(namespace) as c:
            for part in _parts(sorted({keys.check_name(x) for x in members})):
                where = (*_row(m, namespace, queue), m.c.member.in_(part))
                there = c.execute(
                    sa.select(m.c.member)
                    .where(*where)
                    .order_by(_by_code_point(c, m.c.member))
                    .with_for_update()
                ).all()
                if there:
                    gone += c.execute(sa.delete(m).where(*where)).rowcount
        return gone

    def queued(self, namespace: str, queue: str) -> dict[str, float]:
        m = t.state_member
        with self._read(namespace) as c:
            query = sa.select(m.c.member, m.c.due).where(*_row(m, namespace, queue))
            return {
                r.member: r.due for r in c.execute(query.order_by(m.c.due, _by_code_point(c, m.c.member)))
            }

    def circuit_open(self, namespace: str, name: str) -> float:
        table = t.state_circuit
        # There is hardly ever anything to write: a closed circuit costs one read, which waits for no writer.
        with self._read(namespace) as c:
            row = c.execute(
                sa.select(*table.c, _clock(c).label("now")).where(*_row(table, namespace, name))
            ).one_or_none()
        if row is None or row.state == "closed" or _forgotten(row, row.now):
            return 0.0
        if row.opened_at > row.now:
            with self._begin(namespace) as c:
                # The clock was set back: the rest begins anew, once.
                late = (*_row(table, namespace, name), table.c.opened_at == row.opened_at)
                now = _clock(c)
                anew = {"opened_at": now, "trial_at": now + _rest(row), "last_failure": now}
                c.execute(sa.update(table).where(*late).values(**anew))
            return self.circuit_open(namespace, name)
        if row.trial_at > row.now:
            return float(row.trial_at - row.now) / _SECOND
        with self._begin(namespace) as c:
            # Of the callers who saw the rest end, only one finds the time of the trial unchanged and may try.
            mine = (*_row(table, namespace, name), table.c.trial_at == row.trial_at)
            half = (
                sa.update(table)
                .where(*mine)
                .values(state="half_open", opened_at=_clock(c), trial_at=_clock(c) + _rest(row))
            )
            mine_now = c.execute(half).rowcount > 0
        return 0.0 if mine_now else self.circuit_open(namespace, name)

    def circuit_failed(
        self, namespace: str, name: str, *, threshold: int = 5, rest_seconds: float = 300
    ) -> bool:
        table = t.state_circuit
        with self._begin(namespace) as c:
            row, now = _locked(c, table, namespace, name, failures=0, state="closed")
            fresh = _forgotten(row, now)
            failures = (0 if fresh else row.failures) + 1
            state = "closed" if fresh else row.state
            changed: dict[str, Any] = {"failures": failures, "last_failure": now, "state": state}
            if state == "half_open" or (state == "closed" and failures >= threshold):
                changed |= {
                    "state": "open",
                    "opened_at": now,
                    "trial_at": now + keys.milliseconds(rest_seconds) * 1000,
                }
            c.execute(sa.update(table).where(*_row(table, namespace, name)).values(**changed))
            self._purge(c, namespace)
        return bool(changed["state"] == "open")

    def circuit_succeeded(self, namespace: str, name: str) -> None:
        table = t.state_circuit
        with self._begin(namespace) as c:
            c.execute(sa.delete(table).where(*_row(table, namespace, name)))

    def resting(self, namespace: str) -> dict[str, float]:
        table = t.state_circuit
        with self._read(namespace) as c:
            query = sa.select(*table.c, _clock(c).label("now"))
            rows = c.execute(
                query.where(table.c.namespace == namespace, table.c.state != "closed").order_by(table.c.name)
            ).all()
        return {
            r.name: max(0.0, float(r.trial_at - r.now) / _SECOND) for r in rows if not _forgotten(r, r.now)
        }

    def health(self) -> Health:
        def ask() -> tuple[str | None, str]:
            with self._catalog.database.read(None) as c:
                c.execute(
                    sa.select(sa.func.count()).select_from(sa.select(t.state_lock.c.name).limit(1).subquery())
                )
            return None, ""

        return probe("state", "catalog", ask)

    def close(self) -> None:
        """Do nothing: this class opens nothing of its own."""

    @contextlib.contextmanager
    def _begin(self, namespace: str) -> Iterator[Connection]:
        with self._catalog.database.begin(check_namespace(namespace)) as c:
            yield c

    @contextlib.contextmanager
    def _read(self, namespace: str) -> Iterator[Connection]:
        with self._catalog.database.read(check_namespace(namespace)) as c:
            yield c

    def _purge(self, c: Connection, namespace: str) -> None:
        """Remove what has expired, once in a while, at most a bounded number of rows of each table."""
        with self._lock:
            if time.monotonic() - self._purged.get(namespace, float("-inf")) < _PURGE_SECONDS:
                return
            self._purged[namespace] = time.monotonic()
        now = _clock(c)
        old = (
            (t.state_value, t.state_value.c.key, t.state_value.c.expires_at <= now),
            (t.state_lock, t.state_lock.c.name, t.state_lock.c.expires_at <= now),
            (t.state_bucket, t.state_bucket.c.name, t.state_bucket.c.updated_at <= now - _FORGOTTEN),
            (
                t.state_circuit,
                t.state_circuit.c.name,
                sa.func.coalesce(t.state_circuit.c.trial_at, t.state_circuit.c.last_failure)
                <= now - _FORGOTTEN,
            ),
        )
        for table, name, expired in old:
            # A row that another transaction has locked is left to the next purge, or two purges could
            # wait for each other.
            names = (
                c.execute(
                    sa.select(name)
                    .where(table.c.namespace == namespace, expired)
                    .limit(_PURGE_ROWS)
                    .with_for_update(skip_locked=True)
                )
                .scalars()
                .all()
            )
            for part in _parts(list(names)):
                c.execute(sa.delete(table).where(table.c.namespace == namespace, name.in_(part), expired))


_PG_NOW = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * _SECOND, sa.BigInteger)


def _clock(c: Connection) -> sa.ColumnElement[int]:
    """Return the time as microseconds since the epoch when the statement runs.

    If the statement locks a row, that is after the lock.
    """
    return _PG_NOW if c.dialect.name == "postgresql" else sa.literal(now_micros(), sa.BigInteger)


def _row(table: sa.Table, namespace: str, name: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions for the row of a name, which is the second column of every table's key."""
    return table.c.namespace == namespace, list(table.c)[1] == keys.check_name(name)


def _upsert(
    c: Connection, table: sa.Table, row: Mapping[str, Any], *, where: sa.ColumnElement[bool] | None = None
) -> Any:
    """Return a statement that inserts the row, or replaces the existing one if that fits ``where``."""
    statement = insert(c, table).values(row)
    changed = {n: statement.excluded[n] for n in row if not table.c[n].primary_key}
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=changed, where=where
    )


def _locked(c: Connection, table: sa.Table, namespace: str, name: str, **initial: Any) -> tuple[Any, int]:
    """Return a row and the time once it is locked; the lock lasts until the end of the transaction.

    If there is no such row, it is inserted with the values in ``initial``.
    """
    statement = insert(c, table).values(namespace=namespace, name=keys.check_name(name), **initial)
    # An update that changes nothing locks the row, while `do nothing` would not even return it.
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_={"name": table.c.name}
    )
    row = c.execute(statement.returning(*table.c, _clock(c).label("now"))).one()
    return row, row.now


def _rest(row: Any) -> int:
    return int(row.trial_at - row.opened_at)


def _forgotten(row: Any, now: int) -> bool:
    """Whether a circuit has had no failure for so long that its earlier ones do not count."""
    rest = _rest(row) if row.state != "closed" else 0
    last = min(max(row.last_failure or 0, row.opened_at or 0), now)
    return bool(last + keys.circuit_life(rest / _SECOND) * _SECOND <= now)


def _by_code_point(c: Connection, column: sa.Column[Any]) -> Any:
    """Return the column in the order of code points: PostgreSQL orders text by its locale otherwise."""
    return sa.collate(column, "C") if c.dialect.name == "postgresql" else column


def _parts(items: list[str]) -> Iterator[list[str]]:
    for i in range(0, len(items), _PART):
        yield items[i : i + _PART]
