"""Interpretation runs, and what the active run of each unit has read.

A unit is what is interpreted at once: a document's prose, or the files of one project. Its id is
``{kind}:{name}``, where the name is the path of its main file or the id of its document. Which kinds there
are is the extractors' matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.jobs import RunState
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.batches import Batches
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert, write

#: What a run has that no person asked for.
_BY_ITSELF: Row = {"number": 0, "overrides": "{}", "outcome": None, "candidate": False}


def unit_name(unit_id: str) -> str:
    """The path or document id in a unit's id; empty if it has no kind."""
    return unit_id.partition(":")[2]


# Made once: to put such a statement together takes longer than to run it.
_STATES = sa.select(
    *(
        t.unit_state.c[name]
        for name in (
            "unit_id",
            "run_id",
            "reads",
            "fingerprint",
            "subordinates",
            "environment",
            "problems",
            "suppressed",
        )
    )
).where(*(t.unit_state.c[name] == sa.bindparam(name) for name in ("namespace", "source_id", "tier")))
_STATES_OF = _STATES.where(t.unit_state.c.unit_id.in_(sa.bindparam("units", expanding=True)))


class Runs:
    """Runs are history, of which each unit has at most one active; states are what the active ones left."""

    def __init__(self, database: Database, batches: Batches) -> None:
        self.database = database
        self._batches = batches

    @retried
    def unit_states(
        self, namespace: str, source_id: str, tier: str, units: Collection[str] | None = None
    ) -> dict[str, Row]:
        """By unit id (None: of all units): the active run, what it read, and what came of it."""
        named: dict[str, Any] = {"namespace": namespace, "source_id": source_id, "tier": tier}
        query, asked = _STATES, [named]
        if units is not None:
            query, asked = _STATES_OF, [{**named, "units": part} for part in parts(sorted(units))]
        found: dict[str, Row] = {}
        with self.database.read(namespace) as c:
            for one in asked:
                # The driver's rows as they are: there may be tens of thousands.
                for row in c.execute(query, one).cursor.fetchall():
                    unit, run, reads, fingerprint, subordinates, environment, problems, suppressed = row
                    found[unit] = {
                        "run_id": run,
                        "reads": orjson.loads(reads),
                        "fingerprint": fingerprint,
                        "subordinates": orjson.loads(subordinates),
                        "environment": orjson.loads(environment),
                        "problems": orjson.loads(problems),
                        "suppressed": bool(suppressed),
                    }
        return found

    @retried
    def record(
        self,
        namespace: str,
        source_id: str,
        tier: str,
        runs: Sequence[Row],
        states: Sequence[Row],
        gone: Collection[str],
        *,
        again: Collection[str] = (),
        batch_id: str | None = None,
    ) -> None:
        """Record ended runs; the completed ones become the states of their units, ``gone`` units lose theirs.

        A run that is not new is activated again (rule ``versioned-runs``): equal input, same ``run_id``.
        ``again``: ids of runs whose record stands, and which become active. ``batch_id``: what ends with it.
        """
        now = now_micros()
        r, u = t.interpretation_run, t.unit_state
        with self.database.publishing(namespace) as c:
            units = sorted({x["unit_id"] for x in states} | set(gone))
            for part in parts(units):
                c.execute(
                    sa.update(r)
                    .where(_of_units(r, namespace, source_id, tier, part), r.c.archived_at.is_(None))
                    .values(archived_at=now)
                )
                c.execute(sa.delete(u).where(_of_units(u, namespace, source_id, tier, part)))
            owner = {"namespace": namespace, "source_id": source_id, "tier": tier}
            rows = [{**owner, **_BY_ITSELF, "created_at": now, "archived_at": None, **x} for x in runs]
            upsert(c, r, [row for row in rows if row["status"] != RunState.FAILED.value])
            # A run that failed has said nothing; it does not take the place of one that has.
            failed = [row for row in rows if row["status"] == RunState.FAILED.value]
            write(c, r, [{**row, "archived_at": now} for row in failed], "nothing")
            for part in parts(sorted(again)):
                c.execute(
                    sa.update(r)
                    .where(r.c.namespace == namespace, r.c.run_id.in_(part))
                    .values(archived_at=None, candidate=False)
                )
            upsert(c, u, [{**owner, **x} for x in states])
            if batch_id is not None:
                self._batches.end(c, namespace, batch_id)

    @retried
    def propose(self, namespace: str, source_id: str, tier: str, runs: Sequence[Row]) -> None:
        """Record ended runs that wait to be promoted, in place of those that their units have waiting."""
        now, r = now_micros(), t.interpretation_run
        owner = {"namespace": namespace, "source_id": source_id, "tier": tier}
        with self.database.publishing(namespace) as c:
            for part in parts(sorted({x["unit_id"] for x in runs})):
                c.execute(
                    sa.update(r)
                    .where(_of_units(r, namespace, source_id, tier, part), r.c.candidate.is_(True))
                    .values(candidate=False)
                )
            rows = [
                {
                    **owner,
                    **_BY_ITSELF,
                    "created_at": now,
                    "archived_at": now,
                    **x,
                    "candidate": x["status"] == RunState.COMPLETED.value,
                }
                for x in runs
            ]
            upsert(c, r, rows)

    @retried
    def numbers(self, namespace: str, source_id: str, tier: str, units: Collection[str]) -> dict[str, int]:
        """By unit id: how often it was interpreted again because a person asked for it, where it was."""
        r = t.interpretation_run
        found: dict[str, int] = {}
        with self.database.read(namespace) as c:
            for part in parts(sorted(units)):
                query = (
                    sa.select(r.c.unit_id, sa.func.max(r.c.number).label("number"))
                    .where(_of_units(r, namespace, source_id, tier, part), r.c.number > 0)
                    .group_by(r.c.unit_id)
                )
                found |= {row.unit_id: row.number for row in c.execute(query)}
        return found

    @retried
    def by_id(self, namespace: str, run_ids: Collection[str]) -> dict[str, Row]:
        """Runs by their ids; those that are not there are left out."""
        r = t.interpretation_run
        found: dict[str, Row] = {}
        with self.database.read(namespace) as c:
            for part in parts(sorted(run_ids)):
                query = sa.select(r).where(r.c.namespace == namespace, r.c.run_id.in_(part))
                found |= {row.run_id: dict(row._mapping) for row in c.execute(query)}
        return found

    @retried
    def set_suppressed(self, namespace: str, source_id: str, tier: str, units: Mapping[str, bool]) -> None:
        """A suppressed unit's run is archived; the run of one that is a unit again is active again."""
        now, r, u = now_micros(), t.interpretation_run, t.unit_state
        with self.database.publishing(namespace) as c:
            for suppressed in (True, False):
                for part in parts(sorted(unit for unit, value in units.items() if value is suppressed)):
                    where = _of_units(u, namespace, source_id, tier, part)
                    c.execute(sa.update(u).where(where).values(suppressed=suppressed))
                    c.execute(
                        sa.update(r)
                        .where(r.c.namespace == namespace, r.c.run_id.in_(sa.select(u.c.run_id).where(where)))
                        .values(archived_at=now if suppressed else None)
                    )

    @retried
    def starting_with(self, namespace: str, beginning: str) -> list[str]:
        """The ids of runs that begin so, two of them at most."""
        r = t.interpretation_run
        query = sa.select(r.c.run_id).where(
            r.c.namespace == namespace, r.c.run_id >= beginning, r.c.run_id < beginning + "~"
        )
        with self.database.read(namespace) as c:
            return list(c.execute(query.order_by(r.c.run_id).limit(2)).scalars())

    @retried
    def find(
        self,
        namespace: str,
        *,
        unit_id: str | None = None,
        active: bool | None = None,
        source_id: str | None = None,
        tier: str | None = None,
        status: str | None = None,
        candidate: bool | None = None,
        newest: int | None = None,
    ) -> list[Row]:
        """Runs of a namespace or unit, oldest first; ``active=False`` for the archived ones only. ``newest``:
        the last so many of them."""
        r = t.interpretation_run
        query = sa.select(r).where(r.c.namespace == namespace)
        for column, value in (
            (r.c.unit_id, unit_id),
            (r.c.source_id, source_id),
            (r.c.tier, tier),
            (r.c.status, status),
        ):
            if value is not None:
                query = query.where(column == value)
        if active is not None:
            query = query.where(r.c.archived_at.is_(None) if active else r.c.archived_at.is_not(None))
        if candidate is not None:
            query = query.where(r.c.candidate.is_(candidate))
        if newest is not None:
            query = query.order_by(r.c.created_at.desc(), r.c.run_id.desc()).limit(newest)
        else:
            query = query.order_by(r.c.created_at, r.c.run_id)
        with self.database.read(namespace) as c:
            rows: list[Row] = [dict(x._mapping) for x in c.execute(query)]
        return rows if newest is None else rows[::-1]

    @retried
    def tally(self, namespace: str, source_id: str, tier: str) -> list[Row]:
        """How many runs of a source and tier there are: status, active, candidate, runs."""
        r = t.interpretation_run
        active = r.c.archived_at.is_(None).label("active")
        query = (
            sa.select(r.c.status, active, r.c.candidate, sa.func.count().label("runs"))
            .where(r.c.namespace == namespace, r.c.source_id == source_id, r.c.tier == tier)
            .group_by(r.c.status, active, r.c.candidate)
        )
        with self.database.read(namespace) as c:
            rows = c.execute(query).all()
        found: list[Row] = [
            {"status": x.status, "active": bool(x.active), "candidate": bool(x.candidate), "runs": x.runs}
            for x in rows
        ]
        return found

    def units_touching(
        self, c: Connection, namespace: str, source_id: str, names: Collection[str], paths: Collection[str]
    ) -> set[str]:
        """The units of these names, and those of which a run, active or not, has read one of the paths."""
        r, u = t.interpretation_run, t.unit_state
        known = (
            sa.select(r.c.unit_id).distinct().where(r.c.namespace == namespace, r.c.source_id == source_id)
        )
        units = {unit for unit in c.execute(known).scalars() if unit_name(unit) in names}
        states = sa.select(u.c.unit_id, u.c.reads).where(
            u.c.namespace == namespace, u.c.source_id == source_id
        )
        for state in c.execute(states):
            read = (orjson.loads(state.reads) or {}).get("files", ())
            if unit_name(state.unit_id) in names or any(path in read for path in paths):
                units.add(state.unit_id)
        left = sa.select(r.c.unit_id, r.c.outcome).where(
            r.c.namespace == namespace, r.c.source_id == source_id, r.c.outcome != ""
        )
        for run in c.execute(left):
            read = orjson.loads(run.outcome)["reads"].get("files", ())
            if any(path in read for path in paths):
                units.add(run.unit_id)
        return units

    @retried
    def touching(
        self, namespace: str, source_id: str, names: Collection[str], paths: Collection[str]
    ) -> set[str]:
        """:meth:`units_touching` in a transaction of its own."""
        with self.database.read(namespace) as c:
            return self.units_touching(c, namespace, source_id, names, paths)

    def forget(
        self, c: Connection, namespace: str, source_id: str, names: Collection[str], paths: Collection[str]
    ) -> set[str]:
        """Erase the units of these names, and those that read one of the paths; returns their ids.

        The latter are interpreted again: their memory names the path and its hash.
        """
        r, u = t.interpretation_run, t.unit_state
        units = self.units_touching(c, namespace, source_id, names, paths)
        for part in parts(sorted(units)):
            for table in (r, u):
                c.execute(
                    sa.delete(table).where(
                        table.c.namespace == namespace,
                        table.c.source_id == source_id,
                        table.c.unit_id.in_(part),
                    )
                )
        return units


def _of_units(
    table: sa.Table, namespace: str, source_id: str, tier: str, units: Sequence[str]
) -> sa.ColumnElement[bool]:
    """Rows of these units of one tier of a source."""
    of = table.c
    return sa.and_(
        of.namespace == namespace, of.source_id == source_id, of.tier == tier, of.unit_id.in_(units)
    )
