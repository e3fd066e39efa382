"""Choices: which run of a unit a person promoted over the one that the settings in force would give.

They are inputs: from them and the bytes everything is derived again. A choice is made for one input of its
unit, holds while the unit has that input, and holds again when it has it again. A unit may have several:
taking back the newest leaves the one before.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts

# Made once: to put such a statement together takes longer than to run it.
_OF_TIER = (
    sa.select(t.chosen_run)
    .where(
        *(t.chosen_run.c[name] == sa.bindparam(name) for name in ("namespace", "source_id", "tier")),
        t.chosen_run.c.withdrawn_at.is_(None),
    )
    .order_by(t.chosen_run.c.id.desc())
)


class Choices:
    """``promotion`` is the id that the choices made together share."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def of_tier(self, namespace: str, source_id: str, tier: str) -> list[Row]:
        """The choices of a source and tier that were not taken back, newest first."""
        with self.database.read(namespace) as c:
            named = {"namespace": namespace, "source_id": source_id, "tier": tier}
            return [dict(row._mapping) for row in c.execute(_OF_TIER, named)]

    @retried
    def sources(self, namespace: str) -> set[str]:
        """The sources for which something was chosen that was not taken back."""
        h = t.chosen_run.c
        query = sa.select(h.source_id).where(h.namespace == namespace, h.withdrawn_at.is_(None)).distinct()
        with self.database.read(namespace) as c:
            return set(c.execute(query).scalars())

    @retried
    def add(self, namespace: str, choices: Sequence[Row]) -> str:
        """Record choices: source_id, tier, unit_id, run_id, number, input_fingerprint, overrides, reads.
        Returns the id of the promotion."""
        promotion, now = uuid.uuid4().hex, now_micros()
        own = {"namespace": namespace, "promotion": promotion, "chosen_at": now}
        with self.database.publishing(namespace) as c:
            if choices:
                c.execute(sa.insert(t.chosen_run), [{**choice, **own} for choice in choices])
        return promotion

    @retried
    def last_promotion(self, namespace: str, source_id: str, tier: str) -> str | None:
        """The newest promotion of a source and tier of which something still stands."""
        h = t.chosen_run
        query = (
            sa.select(h.c.promotion)
            .where(
                h.c.namespace == namespace,
                h.c.source_id == source_id,
                h.c.tier == tier,
                h.c.withdrawn_at.is_(None),
            )
            .order_by(h.c.id.desc())
            .limit(1)
        )
        with self.database.read(namespace) as c:
            return c.execute(query).scalar_one_or_none()

    @retried
    def find(
        self, namespace: str, *, promotion: str | None = None, run_ids: Collection[str] | None = None
    ) -> list[Row]:
        """The choices of a promotion, or of these runs, that were not taken back, newest first."""
        h = t.chosen_run
        query = sa.select(h).where(h.c.namespace == namespace, h.c.withdrawn_at.is_(None))
        if promotion is not None:
            query = query.where(h.c.promotion == promotion)
        queries = [query]
        if run_ids is not None:
            queries = [query.where(h.c.run_id.in_(part)) for part in parts(sorted(run_ids))]
        with self.database.read(namespace) as c:
            rows = [dict(row._mapping) for one in queries for row in c.execute(one)]
        return sorted(rows, key=lambda row: row["id"], reverse=True)

    @retried
    def withdraw(self, namespace: str, choice_ids: Collection[int]) -> None:
        """Take choices back."""
        h, now = t.chosen_run, now_micros()
        with self.database.publishing(namespace) as c:
            for part in parts(sorted(choice_ids)):
                c.execute(
                    sa.update(h).where(h.c.namespace == namespace, h.c.id.in_(part)).values(withdrawn_at=now)
                )

    def forget(self, c: Connection, namespace: str, source_id: str, units: Collection[str]) -> None:
        """Erase the choices of these units: they name what the units read."""
        h = t.chosen_run
        for part in parts(sorted(units)):
            c.execute(
                sa.delete(h).where(
                    h.c.namespace == namespace, h.c.source_id == source_id, h.c.unit_id.in_(part)
                )
            )
