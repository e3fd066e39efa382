"""Interpretation batches: units that one process interprets at present, and those that one died over.

Tens of thousands of units are interpreted in seconds, so what is going on is recorded for as many of them as
are committed together: one row when they begin, one statement for a heartbeat, and none when they are done,
since then each has its run.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.jobs import has_ended, this_process
from taboot_pipelines.stores.catalog.writing import Row, now_micros

#: After so long without a heartbeat what is interpreted counts as failed.
TIMEOUT_SECONDS = 600
_TIMEOUT = TIMEOUT_SECONDS * 1_000_000
_ENDED = "The process that interpreted it ended before it did."
_SILENT = "Timeout - no heartbeat"
#: Failed batches that are kept of a source and tier.
_KEPT = 20
_UNDER_WAY = (RunState.PENDING.value, RunState.RUNNING.value)


class Batches:
    """A batch is pending until its process holds the lease of the source, and running from then on."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def begin(self, namespace: str, source_id: str, tier: str, units: Collection[str]) -> str:
        """Record a running batch of this process, which holds the source's lease, and return its id. Whoever
        was recorded as running before is dead, since the lease dies with its holder."""
        with self.database.publishing(namespace) as c:
            self._fail_others(c, namespace, source_id, tier)
            return self._insert(c, namespace, source_id, tier, units, RunState.RUNNING)

    @retried
    def announce(
        self, namespace: str, source_id: str, tier: str, units: Collection[str]
    ) -> tuple[str | None, Row | None]:
        """Record a pending batch of this process, unless another is under way that has one of the units.

        Returns its id and None, or None and the other batch.
        """
        wanted = set(units)
        with self.database.begin(namespace) as c:
            for row in self._find(c, namespace, source_id, tier, _UNDER_WAY):
                if wanted.intersection(row["units"]) and _ended(row) is None:
                    return None, row
            return self._insert(c, namespace, source_id, tier, units, RunState.PENDING), None

    @retried
    def start(self, namespace: str, batch_id: str) -> None:
        """Let a pending batch run; this process holds the source's lease now. Raises ``E_NOT_FOUND``, and
        ``E_TIMEOUT`` for one that counts as failed meanwhile, as where its machine slept."""
        b, now = t.interpretation_batch, now_micros()
        with self.database.publishing(namespace) as c:
            own = (b.c.namespace == namespace, b.c.batch_id == batch_id)
            found = c.execute(sa.select(b.c.source_id, b.c.tier, b.c.status).where(*own)).one_or_none()
            if found is None:
                raise TabootError("E_NOT_FOUND", "There is no such interpretation here.", batch=batch_id)
            if found.status != RunState.PENDING.value:
                raise TabootError(
                    "E_TIMEOUT",
                    f"Nothing was heard of this interpretation for {TIMEOUT_SECONDS} s, so it has failed.",
                    remedy="Ask for it again.",
                )
            self._fail_others(c, namespace, found.source_id, found.tier)
            beat = {"started_at": now, "heartbeat_at": now, "timeout_at": now + _TIMEOUT}
            c.execute(sa.update(b).where(*own).values(status=RunState.RUNNING.value, **beat))

    @retried
    def beat(self, namespace: str, batch_id: str) -> None:
        """Say that the process of a batch is alive."""
        b, now = t.interpretation_batch, now_micros()
        with self.database.begin(namespace) as c:
            c.execute(
                sa.update(b)
                .where(b.c.namespace == namespace, b.c.batch_id == batch_id, b.c.status.in_(_UNDER_WAY))
                .values(heartbeat_at=now, timeout_at=now + _TIMEOUT)
            )

    def end(self, c: Connection, namespace: str, batch_id: str) -> None:
        """Forget a batch that is done: its units have their runs."""
        b = t.interpretation_batch
        c.execute(sa.delete(b).where(b.c.namespace == namespace, b.c.batch_id == batch_id))

    @retried
    def withdraw(self, namespace: str, batch_id: str) -> None:
        """Forget a batch in which nothing was done."""
        with self.database.begin(namespace) as c:
            self.end(c, namespace, batch_id)

    @retried
    def fail(self, namespace: str, batch_id: str, message: str) -> None:
        """Keep a batch as failed, and the newest of those before it. ``message``: ids and codes only."""
        b = t.interpretation_batch
        with self.database.begin(namespace) as c:
            own = (b.c.namespace == namespace, b.c.batch_id == batch_id)
            # What failed before failed by what is said there.
            c.execute(sa.update(b).where(*own, b.c.status.in_(_UNDER_WAY)).values(**_failed(message)))
            place = c.execute(sa.select(b.c.source_id, b.c.tier).where(*own)).one_or_none()
            if place is not None:
                self._forget_old(c, namespace, place.source_id, place.tier)

    @retried
    def fail_stale(self) -> list[str]:
        """Keep as failed, in all namespaces, the batches of dead processes of this machine and those that
        were silent for :data:`TIMEOUT_SECONDS`; return their ids."""
        b = t.interpretation_batch
        found = []
        with self.database.begin(None) as c:
            under_way = sa.select(b).where(b.c.status.in_(_UNDER_WAY)).with_for_update(skip_locked=True)
            for row in c.execute(under_way).all():
                message = _ended(dict(row._mapping))
                if message is not None:
                    c.execute(
                        sa.update(b)
                        .where(b.c.namespace == row.namespace, b.c.batch_id == row.batch_id)
                        .values(**_failed(message))
                    )
                    self._forget_old(c, row.namespace, row.source_id, row.tier)
                    found.append(row.batch_id)
        return found

    @retried
    def find(self, namespace: str, source_id: str | None = None, tier: str | None = None) -> list[Row]:
        """Batches under way and failed, oldest first, with ``units`` as a list."""
        with self.database.read(namespace) as c:
            return self._find(c, namespace, source_id, tier, None)

    def forget(self, c: Connection, namespace: str, source_id: str, units: Collection[str]) -> None:
        """Erase the batches that name one of the units. None of them runs: that takes the source's lease."""
        for row in self._find(c, namespace, source_id, None, None):
            if not set(units).isdisjoint(row["units"]):
                self.end(c, namespace, row["batch_id"])

    def _find(
        self,
        c: Connection,
        namespace: str,
        source_id: str | None,
        tier: str | None,
        states: Sequence[str] | None,
    ) -> list[Row]:
        b = t.interpretation_batch
        query = sa.select(b).where(b.c.namespace == namespace)
        for column, value in ((b.c.source_id, source_id), (b.c.tier, tier)):
            if value is not None:
                query = query.where(column == value)
        if states is not None:
            query = query.where(b.c.status.in_(states))
        rows = c.execute(query.order_by(b.c.created_at, b.c.batch_id)).all()
        return [{**row._mapping, "units": orjson.loads(row.units)} for row in rows]

    def _insert(
        self,
        c: Connection,
        namespace: str,
        source_id: str,
        tier: str,
        units: Collection[str],
        state: RunState,
    ) -> str:
        batch_id, now = uuid.uuid4().hex, now_micros()
        c.execute(
            sa.insert(t.interpretation_batch).values(
                namespace=namespace,
                batch_id=batch_id,
                source_id=source_id,
                tier=tier,
                units=canonical_json(sorted(units)),
                status=state.value,
                created_at=now,
                started_at=now if state == RunState.RUNNING else None,
                heartbeat_at=now,
                timeout_at=now + _TIMEOUT,
                **this_process(),
            )
        )
        return batch_id

    def _forget_old(self, c: Connection, namespace: str, source_id: str, tier: str) -> None:
        failed = self._find(c, namespace, source_id, tier, [RunState.FAILED.value])
        for row in failed[:-_KEPT]:
            self.end(c, namespace, row["batch_id"])

    def _fail_others(self, c: Connection, namespace: str, source_id: str, tier: str) -> None:
        b = t.interpretation_batch
        c.execute(
            sa.update(b)
            .where(
                b.c.namespace == namespace,
                b.c.source_id == source_id,
                b.c.tier == tier,
                b.c.status == RunState.RUNNING.value,
            )
            .values(**_failed(_ENDED))
        )


def _failed(message: str) -> Row:
    return {"status": RunState.FAILED.value, "error_message": message, "completed_at": now_micros()}


def _ended(row: Row) -> str | None:
    """Why a batch under way counts as failed; None if it goes on."""
    if has_ended(row["pid"], row["host"], row["process_started_at"]):
        return _ENDED
    return _SILENT if row["timeout_at"] < now_micros() else None
