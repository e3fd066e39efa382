"""What is to be seen of crawls, some rows at a time: URLs, links, progress, and what has changed since.

A crawl may know a million URLs; nothing here holds more than a page of them, the ids of :meth:`places`
excepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros

#: Rows read by one statement: URLs, and pages with a hundred links each.
_PAGE = 5_000
_LEADS_PAGE = 100
#: Over how many seconds the rate is measured, at most.
_RATE_SECONDS = 30.0
_U, _L = t.crawl_url.c, t.crawl_lead.c


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
