"""What endpoints are told of, each event once for each of them, until it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from taboot_pipelines.model.notifications import DeliveryState
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog import totals
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, write


class Notifications:
    """A delivery is named by a hash of its endpoint and event, so that an event that is seen again makes no
    second one. Its payload has ids, counts and codes, and nothing of what a document says."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def add(self, namespace: str, deliveries: Sequence[Row]) -> int:
        """Keep deliveries that are not known yet (id, endpoint, kind, payload); return how many are new."""
        now = now_micros()
        rows = [
            {
                "namespace": namespace,
                **delivery,
                "state": DeliveryState.PENDING.value,
                "attempts": 0,
                "next_at": now,
                "code": None,
                "created_at": now,
                "updated_at": now,
            }
            for delivery in deliveries
        ]
        with self.database.begin(namespace) as c:
            return len(write(c, t.notification, rows, "nothing"))

    @retried
    def known(self, namespace: str, ids: Collection[str]) -> set[str]:
        """Those of the ids that deliveries have."""
        n, found = t.notification.c, set[str]()
        with self.database.read(namespace) as c:
            for part in parts(sorted(ids)):
                found |= set(
                    c.execute(sa.select(n.id).where(n.namespace == namespace, n.id.in_(part))).scalars()
                )
        return found

    @retried
    def due(self, namespace: str, endpoint: str, now: int, limit: int = 1000) -> list[Row]:
        """The deliveries to an endpoint that are to be tried by ``now``, the oldest first."""
        n = t.notification.c
        pending = (n.state == DeliveryState.PENDING.value, n.next_at <= now)
        query = (
            sa.select(t.notification)
            .where(n.namespace == namespace, n.endpoint == endpoint, *pending)
            .order_by(n.created_at, n.id)
            .limit(limit)
        )
        with self.database.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query)]

    @retried
    def find(
        self, namespace: str, states: Collection[DeliveryState] = tuple(DeliveryState), limit: int = 1000
    ) -> list[Row]:
        """The deliveries in these states, the newest first."""
        n = t.notification.c
        query = (
            sa.select(t.notification)
            .where(n.namespace == namespace, n.state.in_([s.value for s in states]))
            .order_by(n.created_at.desc(), n.id)
            .limit(limit)
        )
        with self.database.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query)]

    @retried
    def counts(self, namespace: str) -> dict[str, int]:
        """How many deliveries there are in each state that any is in."""
        n = t.notification.c
        query = sa.select(n.state, sa.func.count()).where(n.namespace == namespace).group_by(n.state)
        with self.database.read(namespace) as c:
            return dict(iter(c.execute(query)))

    @retried
    def tried(
        self, namespace: str, delivery_id: str, state: DeliveryState, attempts: int, next_at: int, code: str
    ) -> None:
        """Note how a try ended, unless another process has tried it meanwhile."""
        n = t.notification
        mine = (n.c.state == DeliveryState.PENDING.value, n.c.attempts == attempts - 1)
        values = {"state": state.value, "attempts": attempts, "next_at": next_at, "code": code}
        with self.database.begin(namespace) as c:
            changed = c.execute(
                sa.update(n)
                .where(n.c.namespace == namespace, n.c.id == delivery_id, *mine)
                .values(**values, updated_at=now_micros())
                .returning(n.c.endpoint)
            ).scalar_one_or_none()
            if changed is not None:
                outcome = "tried_again" if state is DeliveryState.PENDING else state.value
                totals.add(c, namespace, {("deliveries_total", changed, outcome): 1})

    @retried
    def start_over(self, namespace: str, ids: Collection[str]) -> None:
        """Let deliveries be tried at once, as if for the first time."""
        n, now = t.notification, now_micros()
        with self.database.begin(namespace) as c:
            for part in parts(sorted(ids)):
                c.execute(
                    sa.update(n)
                    .where(n.c.namespace == namespace, n.c.id.in_(part))
                    .values(state=DeliveryState.PENDING.value, attempts=0, next_at=now, updated_at=now)
                )

    @retried
    def forget_old(
        self, namespace: str, before: int, seen: Collection[str], endpoints: Collection[str]
    ) -> None:
        """Forget what was delivered, or failed for good, before a moment, and what has waited since then for
        an endpoint that is none of ``endpoints``. What is ``seen`` still is kept: it would be told again."""
        n = t.notification.c
        over = sa.or_(n.state != DeliveryState.PENDING.value, n.endpoint.not_in(sorted(endpoints)))
        query = sa.select(n.id).where(n.namespace == namespace, over, n.updated_at < before)
        with self.database.read(namespace) as c:
            old = set(c.execute(query).scalars()) - set(seen)
        if old:
            with self.database.begin(namespace) as c:
                for part in parts(sorted(old)):
                    c.execute(sa.delete(t.notification).where(n.namespace == namespace, n.id.in_(part)))
