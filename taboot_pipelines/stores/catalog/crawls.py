"""Crawls: one row for each crawl of a source, and what it came to by its ledger.

The URLs that a crawl still has to ask for are handed out by :mod:`taboot_pipelines.stores.catalog.frontier`;
:mod:`taboot_pipelines.stores.catalog.crawl_reports` reads what became of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.frontier import Frontier
from taboot_pipelines.stores.catalog.frontier.ending import counts_json, ledger_of
from taboot_pipelines.stores.catalog.writing import now_micros, parts
from taboot_pipelines.stores.leases import FileLeases


def crawls_in_memory() -> Crawls:
    """Crawls that no database keeps: they end with the process."""
    engine = sa.create_engine(
        "sqlite://", poolclass=sa.pool.StaticPool, connect_args={"check_same_thread": False}
    )
    t.metadata.create_all(engine, tables=[t.crawl, t.crawl_url, t.crawl_lead])
    return Crawls(Database(engine, FileLeases(Path(), 0)))


class Crawls:
    """Crawls of one namespace at a time; a crawl that is not there is ``E_NOT_FOUND``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def frontier(
        self, namespace: str, crawl: m.Crawl, claimant: str | None = None, *, leads: bool = True
    ) -> Frontier:
        """The URLs of a crawl that runs; ``claimant`` is who asks for them, by default this process."""
        return Frontier(self.database, namespace, crawl, claimant, leads=leads)

    @retried
    def begin(self, namespace: str, source_id: str, plan: m.CrawlPlan) -> m.Crawl:
        """The source's crawl that has not ended, if it was begun under this configuration; else its next.

        One under another configuration is cancelled: what it found may not be wanted any more.
        """
        now = now_micros()
        own = (t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id)
        with self.database.begin(namespace) as c:
            last = c.execute(
                sa.select(t.crawl).where(*own).order_by(t.crawl.c.number.desc()).limit(1)
            ).first()
            if last is not None and last.state == m.CrawlState.RUNNING:
                if last.configuration == plan.configuration:
                    return _crawl(last)
                self._cancel(c, namespace, last.crawl_id, "the source was configured anew")
            previous = c.execute(
                sa.select(t.crawl.c.crawl_id)
                .where(*own, t.crawl.c.link_rules == plan.link_rules)
                .where(
                    sa.exists().where(
                        t.crawl_lead.c.namespace == namespace, t.crawl_lead.c.crawl_id == t.crawl.c.crawl_id
                    )
                )
                .order_by(t.crawl.c.number.desc())
                .limit(1)
            ).scalar()
            number = (last.number if last is not None else 0) + 1
            crawl_id = m.crawl_id(namespace, source_id, number)
            row = {
                "namespace": namespace,
                "crawl_id": crawl_id,
                "source_id": source_id,
                "number": number,
                "roots": canonical_json(plan.roots),
                "requested_depth": plan.requested_depth,
                "max_pages": plan.max_pages,
                "strategy": plan.strategy.value,
                "score_threshold": plan.score_threshold,
                "configuration": plan.configuration,
                "link_rules": plan.link_rules,
                "previous": previous,
                "state": m.CrawlState.RUNNING.value,
                "taken": 0,
                "reason": "",
                "started_at": now,
                "updated_at": now,
            }
            c.execute(sa.insert(t.crawl).values(row))
            return _crawl(c.execute(sa.select(t.crawl).where(*_is(namespace, crawl_id))).one())

    @retried
    def running(self, namespace: str, source_id: str) -> m.Crawl | None:
        """The source's crawl that has not ended; None if there is none."""
        query = (
            sa.select(t.crawl)
            .where(t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id)
            .where(t.crawl.c.state == m.CrawlState.RUNNING.value)
            .order_by(t.crawl.c.number.desc())
            .limit(1)
        )
        with self.database.read(namespace) as c:
            row = c.execute(query).first()
            return None if row is None else _crawl(row)

    @retried
    def find(self, namespace: str, source_id: str | None = None, limit: int = 20) -> list[m.Crawl]:
        """The last crawls of a namespace or source, newest first."""
        query = sa.select(t.crawl).where(t.crawl.c.namespace == namespace)
        if source_id is not None:
            query = query.where(t.crawl.c.source_id == source_id)
        query = query.order_by(t.crawl.c.started_at.desc(), t.crawl.c.number.desc()).limit(limit)
        with self.database.read(namespace) as c:
            return [_crawl(r) for r in c.execute(query)]

    @retried
    def get(self, namespace: str, crawl_id: str) -> m.Crawl:
        """One crawl by its id."""
        with self.database.read(namespace) as c:
            return _one(c, namespace, crawl_id)

    @retried
    def ledger(self, namespace: str, crawl_id: str) -> tuple[m.LedgerRow, ...]:
        """How many URLs came to which end, by depth: as it stands now while the crawl runs, or as it was."""
        with self.database.read(namespace) as c:
            crawl = _one(c, namespace, crawl_id)
            return crawl.counts if crawl.ended_at is not None else ledger_of(c, namespace, crawl_id)

    @retried
    def cancel(self, namespace: str, crawl_id: str, reason: str = "it was cancelled") -> bool:
        """Stop a crawl for good, unless :meth:`resume` goes on with it; False if it has ended already.

        A process that works at it notices at its next checkpoint.
        """
        with self.database.begin(namespace) as c:
            if _one(c, namespace, crawl_id).state is not m.CrawlState.RUNNING:
                return False
            self._cancel(c, namespace, crawl_id, reason)
            return True

    def _cancel(self, c: Connection, namespace: str, crawl_id: str, reason: str) -> None:
        now = now_micros()
        end = {"state": m.CrawlState.CANCELLED.value, "complete": False, "reason": reason, "ended_at": now}
        c.execute(sa.update(t.crawl).where(*_is(namespace, crawl_id)).values(**end, updated_at=now))
        u = t.crawl_url.c
        c.execute(
            sa.update(t.crawl_url)
            .where(u.namespace == namespace, u.crawl_id == crawl_id)
            .where(u.state.in_([m.UrlState.PENDING.value, m.UrlState.IN_PROGRESS.value]))
            .values(state=m.UrlState.CANCELLED.value, claimed_by=None)
        )
        counts = counts_json(ledger_of(c, namespace, crawl_id))
        c.execute(sa.update(t.crawl).where(*_is(namespace, crawl_id)).values(counts=counts))

    @retried
    def resume(self, namespace: str, crawl_id: str) -> m.Crawl:
        """Let a cancelled crawl go on where it was, at its source's next run.

        Raises ``E_TRANSITION`` for one that came to its end, or that is not its source's last.
        """
        with self.database.begin(namespace) as c:
            crawl = _one(c, namespace, crawl_id)
            newest = sa.select(sa.func.max(t.crawl.c.number)).where(
                t.crawl.c.namespace == namespace, t.crawl.c.source_id == crawl.source_id
            )
            if crawl.state is m.CrawlState.RUNNING:
                return crawl
            if crawl.state is not m.CrawlState.CANCELLED or c.execute(newest).scalar_one() != crawl.number:
                raise TabootError(
                    "E_TRANSITION",
                    f"The crawl {crawl_id} has come to its end, or a later one has begun.",
                    remedy="Start a new crawl by `taboot ingest`.",
                    crawl=crawl_id,
                )
            u = t.crawl_url.c
            c.execute(
                sa.update(t.crawl_url)
                .where(u.namespace == namespace, u.crawl_id == crawl_id)
                .where(u.state == m.UrlState.CANCELLED.value, u.outcome.is_(None))
                .values(state=m.UrlState.PENDING.value)
            )
            c.execute(
                sa.update(t.crawl)
                .where(*_is(namespace, crawl_id))
                .values(
                    state=m.CrawlState.RUNNING.value,
                    complete=None,
                    reason="",
                    ended_at=None,
                    counts=None,
                    updated_at=now_micros(),
                )
            )
            return _one(c, namespace, crawl_id)

    # --- forgetting -----------------------------------------------------------------------------------------

    @retried
    def forget_old(self, namespace: str, source_id: str, keep: int) -> int:
        """Forget the URLs and links of a source's ended crawls beyond its newest ``keep``, and say of how
        many; the crawls themselves and their counts stay.
        """
        with self.database.begin(namespace) as c:
            crawls = c.execute(
                sa.select(t.crawl.c.crawl_id, t.crawl.c.state)
                .where(t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id)
                .order_by(t.crawl.c.number.desc())
            ).all()
            running = [r for r in crawls if r.state == m.CrawlState.RUNNING]
            ended = [r.crawl_id for r in crawls if r.state != m.CrawlState.RUNNING][keep:]
            # A crawl that runs reads the links of the one before it.
            needed = {_one(c, namespace, r.crawl_id).previous for r in running}
            gone = 0
            for crawl_id in ended:
                if crawl_id not in needed:
                    found = sum(
                        c.execute(
                            sa.delete(table).where(
                                table.c.namespace == namespace, table.c.crawl_id == crawl_id
                            )
                        ).rowcount
                        for table in (t.crawl_url, t.crawl_lead)
                    )
                    gone += found > 0
            return gone

    @retried
    def forget_source(self, namespace: str, source_id: str) -> None:
        """Forget every crawl of a source."""
        crawls = sa.select(t.crawl.c.crawl_id).where(
            t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id
        )
        with self.database.begin(namespace) as c:
            for table in (t.crawl_url, t.crawl_lead):
                c.execute(
                    sa.delete(table).where(table.c.namespace == namespace, table.c.crawl_id.in_(crawls))
                )
            c.execute(
                sa.delete(t.crawl).where(t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id)
            )

    def forget(self, c: Connection, namespace: str, source_id: str, keys: Collection[str]) -> None:
        """Forget URLs by their keys in every crawl of a source.

        Where the page led stays, by ids alone: else what is reachable only through it would vanish with it.
        """
        u = t.crawl_url.c
        crawls = sa.select(t.crawl.c.crawl_id).where(
            t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id
        )
        of_source = (u.namespace == namespace, u.crawl_id.in_(crawls))
        for part in parts(sorted(keys)):
            gone = u.url_id.in_([m.url_id(k) for k in part])
            urls = set(c.execute(sa.select(u.url).where(*of_source, gone)).scalars())
            c.execute(sa.delete(t.crawl_url).where(*of_source, gone))
            # Another page may say that its own URL is one of these.
            for named in parts(sorted(urls.union(part))):
                c.execute(
                    sa.update(t.crawl_url).where(*of_source, u.canonical.in_(named)).values(canonical=None)
                )
        # A root may be the page that is erased.
        for row in c.execute(
            sa.select(t.crawl.c.crawl_id, t.crawl.c.roots).where(
                t.crawl.c.namespace == namespace, t.crawl.c.source_id == source_id
            )
        ).all():
            roots = json.loads(row.roots)
            kept = [r for r in roots if r not in keys]
            if kept != roots:
                c.execute(
                    sa.update(t.crawl).where(*_is(namespace, row.crawl_id)).values(roots=canonical_json(kept))
                )


def _is(namespace: str, crawl_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return t.crawl.c.namespace == namespace, t.crawl.c.crawl_id == crawl_id


def _one(c: Connection, namespace: str, crawl_id: str) -> m.Crawl:
    row = c.execute(sa.select(t.crawl).where(*_is(namespace, crawl_id))).one_or_none()
    if row is None:
        raise TabootError("E_NOT_FOUND", "There is no such crawl here.", crawl=crawl_id)
    return _crawl(row)


def _crawl(r: Any) -> m.Crawl:
    listing = None if r.listing is None else json.loads(r.listing)
    return m.Crawl(
        crawl_id=r.crawl_id,
        source_id=r.source_id,
        number=r.number,
        plan=m.CrawlPlan(
            roots=tuple(json.loads(r.roots)),
            requested_depth=r.requested_depth,
            max_pages=r.max_pages,
            strategy=m.Strategy(r.strategy),
            score_threshold=r.score_threshold,
            configuration=r.configuration,
            link_rules=r.link_rules,
        ),
        state=m.CrawlState(r.state),
        started_at=r.started_at,
        ended_at=r.ended_at,
        complete=r.complete,
        reason=r.reason,
        previous=r.previous,
        listing=(
            None
            if listing is None
            else m.Listing(listing["reason"], tuple(tuple(p) for p in listing["problems"]))
        ),
        counts=() if r.counts is None else tuple(m.LedgerRow(*x) for x in json.loads(r.counts)),
    )
