"""What has been counted since the catalog was made, by all processes together.

What is added within the transaction that it counts is counted exactly once; it is added last there, since
whoever adds to the same total waits for the end of that transaction.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import insert

#: Upper bounds in seconds of the steps of every histogram, from a request to a night's run.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
#: Ends the names of what a histogram consists of: how many durations fell into a step, whose number is the
#: last label, and the sum of all.
STEP, SUM = "_step", "_sum"


class Amounts(dict[tuple[str, ...], float]):
    """{(name, value of each label): how much} is to be added."""

    def count(self, amount: float, *key: str) -> None:
        self[key] = self.get(key, 0) + amount

    def duration(self, seconds: float, name: str, *labels: str) -> None:
        """Count a duration in a histogram."""
        self.count(1, name + STEP, *labels, str(bisect.bisect_left(BUCKETS, seconds)))
        self.count(seconds, name + SUM, *labels)


def add(c: Connection, namespace: str, amounts: Mapping[tuple[str, ...], float]) -> None:
    """Add to totals in the transaction of another."""
    rows = [
        {"namespace": namespace, "name": name, "labels": canonical_json(labels), "value": amount}
        # In one order, so that two who add to the same wait for each other and cannot deadlock.
        for (name, *labels), amount in sorted(amounts.items())
        if amount
    ]
    if rows:
        new = insert(c, t.total)
        more = {"value": t.total.c.value + new.excluded.value}
        c.execute(new.on_conflict_do_update(index_elements=["namespace", "name", "labels"], set_=more), rows)


def labels_of(c: Connection, namespace: str, name: str) -> list[list[str]]:
    """The values of the labels of a total, each combination that there is."""
    own = (t.total.c.namespace == namespace, t.total.c.name == name)
    return [orjson.loads(labels) for labels in c.execute(sa.select(t.total.c.labels).where(*own)).scalars()]


class Totals:
    """The totals of one namespace at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def add(self, namespace: str, amounts: Mapping[tuple[str, ...], float]) -> None:
        """Add to totals, in a transaction of its own."""
        with self.database.begin(namespace) as c:
            add(c, namespace, amounts)

    @retried
    def all(self, namespace: str) -> dict[tuple[str, ...], float]:
        """{(name, value of each label): how much}."""
        query = sa.select(t.total.c.name, t.total.c.labels, t.total.c.value)
        with self.database.read(namespace) as c:
            rows = c.execute(query.where(t.total.c.namespace == namespace)).all()
        return {(name, *orjson.loads(labels)): value for name, labels, value in rows}
