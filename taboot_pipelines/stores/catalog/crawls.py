"""Crawls: each with its plan, its ledger and its graph, and what is shown of them in parts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.frontier import Frontier, counts_json, ledger_of
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts
from taboot_pipelines.stores.leases.files import FileLeases

#: Rows read by one statement: URLs, and pages with a hundred links each.
_PAGE = 5_000
_LEADS_PAGE = 100
#: Over how many seconds the rate is measured, at most.
_RATE_SECONDS = 30.0
_U, _L = t.crawl_url.c, t.crawl_lead.c


def crawls_in_memory() -> Crawls:
    """Crawls that no database keeps: they end with the process."""
    engine = sa.create_engine(
        "sqlite://", poolclass=sa.pool.StaticPool, connect_args={"check_same_thread": False}
    )
    t.metadata.create_all(engine, tables=[t.crawl, t.crawl_url, t.crawl_lead, t.total])
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


class CrawlReports:
    """Reads crawls of one namespace at a time, and writes nothing."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def held(self, namespace: str) -> dict[str, int]:
        """{id of a crawl: number of its URLs}, for all whose URLs have not been forgotten."""
        query = sa.select(_U.crawl_id, sa.func.count().label("urls")).where(_U.namespace == namespace)
        with self.database.read(namespace) as c:
            return {r.crawl_id: r.urls for r in c.execute(query.group_by(_U.crawl_id))}

    @retried
    def marks(self, namespace: str, crawl_id: str) -> tuple[int | None, ...]:
        """A few numbers that change with whatever a crawl that runs has done."""
        lead = sa.select(sa.func.count()).where(_L.namespace == namespace, _L.crawl_id == crawl_id)
        query = sa.select(
            sa.func.max(_U.claimed_at),
            sa.func.max(_U.answered_at),
            sa.func.sum(_U.attempts),
            sa.func.sum(_U.depth),
            sa.func.count(_U.outcome),
            lead.scalar_subquery(),
        ).where(_U.namespace == namespace, _U.crawl_id == crawl_id)
        with self.database.read(namespace) as c:
            return tuple(None if value is None else int(value) for value in c.execute(query).one())

    def urls(self, namespace: str, crawl_id: str, state: str | None = None) -> Iterator[list[Row]]:
        """The URLs of a crawl, or those in one state, as the columns of ``crawl_url``; ``parent`` is the key
        of the page that leads to it, and ``parent_seconds`` how long that one took.
        """
        after = b""
        while rows := self._urls(namespace, crawl_id, state, after):
            yield rows
            after = rows[-1]["url_id"]

    @retried
    def _urls(self, namespace: str, crawl_id: str, state: str | None, after: bytes) -> list[Row]:
        u, p = t.crawl_url, t.crawl_url.alias()
        same = sa.and_(p.c.namespace == u.c.namespace, p.c.crawl_id == u.c.crawl_id, p.c.url_id == u.c.parent)
        query = (
            sa.select(
                *(c for c in u.c if c.name != "parent"),
                p.c.key.label("parent"),
                p.c.request_seconds.label("parent_seconds"),
            )
            .select_from(u.outerjoin(p, same))
            .where(u.c.namespace == namespace, u.c.crawl_id == crawl_id, u.c.url_id > after)
            .order_by(u.c.url_id)
            .limit(_PAGE)
        )
        if state is not None:
            query = query.where(u.c.state == state)
        with self.database.read(namespace) as c:
            return [{**r._mapping, "url_id": bytes(r.url_id)} for r in c.execute(query)]

    @retried
    def url(self, namespace: str, crawl_id: str, url_id: bytes) -> Row | None:
        """One URL of a crawl; None if there is none."""
        query = sa.select(t.crawl_url).where(
            _U.namespace == namespace, _U.crawl_id == crawl_id, _U.url_id == url_id
        )
        with self.database.read(namespace) as c:
            row = c.execute(query).one_or_none()
            return None if row is None else dict(row._mapping)

    @retried
    def places(self, namespace: str, crawl_id: str) -> dict[bytes, tuple[str, int]]:
        """{id of a URL: its key and its depth}."""
        query = sa.select(_U.url_id, _U.key, _U.depth).where(
            _U.namespace == namespace, _U.crawl_id == crawl_id
        )
        with self.database.read(namespace) as c:
            return {bytes(r.url_id): (r.key, r.depth) for r in c.execute(query)}

    def leads(self, namespace: str, crawl_id: str) -> Iterator[list[tuple[bytes, list[bytes]]]]:
        """Where the pages of a crawl lead: the id of each with those of the URLs that it has links to."""
        after = b""
        while rows := self._leads(namespace, crawl_id, after):
            yield [(parent, m.split_ids(children)) for parent, children in rows]
            after = rows[-1][0]

    @retried
    def lead_count(self, namespace: str, crawl_id: str) -> int:
        """How many links the pages of a crawl have."""
        query = sa.select(sa.func.sum(sa.func.length(_L.children))).where(
            _L.namespace == namespace, _L.crawl_id == crawl_id
        )
        with self.database.read(namespace) as c:
            return int(c.execute(query).scalar() or 0) // m.ID_BYTES

    @retried
    def _leads(self, namespace: str, crawl_id: str, after: bytes) -> list[tuple[bytes, bytes]]:
        query = (
            sa.select(_L.parent, _L.children)
            .where(_L.namespace == namespace, _L.crawl_id == crawl_id, _L.parent > after)
            .order_by(_L.parent)
            .limit(_LEADS_PAGE)
        )
        with self.database.read(namespace) as c:
            return [(bytes(r.parent), bytes(r.children)) for r in c.execute(query)]

    @retried
    def skipped_as(self, namespace: str, source_id: str, code: str) -> list[str]:
        """The keys of the URLs that the ended crawls of a source passed by with this code."""
        query = (
            sa.select(_U.key)
            .join(
                t.crawl,
                sa.and_(t.crawl.c.namespace == _U.namespace, t.crawl.c.crawl_id == _U.crawl_id),
            )
            .where(_U.namespace == namespace, t.crawl.c.source_id == source_id, _U.code == code)
            .where(t.crawl.c.state != m.CrawlState.RUNNING.value)
        )
        with self.database.read(namespace) as c:
            return sorted(set(c.execute(query).scalars()))

    @retried
    def progress(self, namespace: str, crawl: m.Crawl) -> CrawlProgress:
        """How far a crawl has come."""
        now = now_micros()
        since = now - int(_RATE_SECONDS * 1_000_000)
        recent = sa.func.sum(sa.case((_U.answered_at > since, 1), else_=0))
        first = sa.func.min(sa.case((_U.answered_at > since, _U.answered_at)))
        query = (
            sa.select(_U.state, _U.outcome, _U.code, sa.func.count().label("urls"), recent, first)
            .where(_U.namespace == namespace, _U.crawl_id == crawl.crawl_id)
            .group_by(_U.state, _U.outcome, _U.code)
        )
        with self.database.read(namespace) as c:
            rows = c.execute(query).all()
        return _progress(crawl, rows, now)


def _progress(crawl: m.Crawl, rows: Sequence[Any], now: int) -> CrawlProgress:
    """``rows``: state, outcome, code, URLs, those answered lately, and when the first of these was."""
    ledger = tuple(m.LedgerRow(0, outcome, code, urls) for _, outcome, code, urls, _, _ in rows)
    counts = m.totals(ledger if rows else crawl.counts)
    open_urls = {
        state: sum(urls for s, outcome, _, urls, _, _ in rows if s == state and outcome is None)
        for state in (m.UrlState.PENDING, m.UrlState.IN_PROGRESS)
    }
    errors: dict[str, int] = {}
    for _, outcome, code, urls, _, _ in rows:
        if outcome == m.Outcome.FAILED and code:
            errors[code] = errors.get(code, 0) + urls
    began = [first for *_, first in rows if first is not None]
    if crawl.ended_at is None:
        window = (now - min(began)) / 1e6 if began else 0.0
        lately = sum(int(recent or 0) for *_, recent, _ in rows)
    else:
        window = (crawl.ended_at - crawl.started_at) / 1e6
        lately = counts["discovered"] - counts["open"]
    return CrawlProgress(
        crawl_id=crawl.crawl_id,
        source_id=crawl.source_id,
        state=crawl.state.value,
        seconds=((crawl.ended_at or now) - crawl.started_at) / 1e6,
        counts=counts,
        pending=open_urls[m.UrlState.PENDING],
        in_progress=open_urls[m.UrlState.IN_PROGRESS],
        per_second=lately / max(window, 1.0) if lately else 0.0,
        window=window,
        errors=dict(sorted(errors.items(), key=lambda e: (-e[1], e[0]))),
    )
