"""The URLs of one crawl: those that wait are handed out, what became of them and where they lead is taken in.

Nothing costs a statement per URL. Several processes may work at one crawl: a URL is handed to one of them
(SQLite has one writer at a time; on PostgreSQL the crawl's row is locked while URLs are handed out or taken
in, and rows that others hold are passed by). One of them leads the crawl, and takes over from the others what
they have read.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import Stored
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.crawl_urls import (
    IN_PROGRESS,
    JOINED,
    PENDING,
    CrawlUrls,
    U,
    past_max_pages,
    settled_url,
)
from taboot_pipelines.stores.catalog.database import retried
from taboot_pipelines.stores.catalog.writing import now_micros, parts

_HANDED = sa.text("handed IS NOT NULL")
#: A claim whose holder said nothing for so long is handed to another.
STALE_MICROS = 10 * 60 * 1_000_000
#: Of so many hosts one claim takes URLs; the next claim goes on with others.
_MAX_HOSTS = 32
_HOSTS = """
WITH RECURSIVE hosts(host) AS (
    SELECT min(host) FROM crawl_url
    WHERE namespace = :namespace AND crawl_id = :crawl AND state = 'PENDING'
    UNION ALL
    SELECT (
        SELECT min(u.host) FROM crawl_url u
        WHERE u.namespace = :namespace AND u.crawl_id = :crawl AND u.state = 'PENDING' AND u.host > hosts.host
    )
    FROM hosts WHERE hosts.host IS NOT NULL
)
SELECT host FROM hosts WHERE host IS NOT NULL
"""
_PAGE = 2000


class Frontier(CrawlUrls):
    """The frontier of one crawl for one claimant, by default this process."""

    #: Where the next claim begins among more hosts than one claim looks at.
    _turn = 0

    @retried
    def claim(self, limit: int, busy: Collection[str] = ()) -> list[m.ClaimedUrl]:
        """At most ``limit`` URLs for this claimant alone, by the crawl's order, each host having its share;
        of the ``busy`` hosts only where no other host has any.

        None are handed out of a crawl that was cancelled. The first claim that would pass ``max_pages`` ends
        the crawl for every URL that was never claimed.
        """
        now = now_micros()
        with self.database.begin(self._namespace) as c:
            crawl = self._locked(c)
            if crawl.state != m.CrawlState.RUNNING:
                return []
            left = crawl.max_pages - crawl.taken
            rows = self._next(c, limit, now, busy)
            fresh = [r for r in rows if r.claimed_at is None]
            if len(fresh) > left:
                beyond = {r.url_id for r in fresh[max(left, 0) :]}
                rows = [r for r in rows if r.url_id not in beyond]
            taken = min(len(fresh), max(left, 0))
            if rows:
                values = {
                    "state": m.UrlState.IN_PROGRESS.value,
                    "claimed_at": now,
                    "heartbeat_at": now,
                    "claimed_by": self._claimant,
                }
                for part in parts([r.url_id for r in rows]):
                    c.execute(sa.update(t.crawl_url).where(*self._scope, U.url_id.in_(part)).values(**values))
            if taken:
                self._set_crawl(c, taken=crawl.taken + taken, updated_at=now)
            if len(fresh) > left:
                c.execute(
                    sa.update(t.crawl_url)
                    .where(*self._scope, PENDING, U.claimed_at.is_(None))
                    .values(**past_max_pages())
                )
        return [m.ClaimedUrl(bytes(r.url_id), r.key, r.url, r.host, r.depth, r.attempts) for r in rows]

    def _next(self, c: Connection, limit: int, now: int, busy: Collection[str]) -> list[Any]:
        names = {"namespace": self._namespace, "crawl": self.crawl.crawl_id}
        every = list(c.execute(sa.text(_HOSTS), names).scalars())
        hosts = [h for h in every if h not in busy] if len(every) > 1 else every
        found: list[Any] = []
        for some in (hosts, [h for h in every if h not in hosts]):
            if found or not some:
                continue
            # Where there are more hosts than one claim looks at, each claim begins behind the last.
            start = self._turn % len(some) if len(some) > _MAX_HOSTS else 0
            chosen = (some[start:] + some[:start])[:_MAX_HOSTS]
            self._turn = start + len(chosen)
            share = -(-limit // len(chosen))
            for host in chosen:
                query = (
                    sa.select(
                        U.url_id,
                        U.key,
                        U.url,
                        U.host,
                        U.depth,
                        U.attempts,
                        U.claimed_at,
                        U.rank,
                    )
                    .where(*self._scope, PENDING, U.host == host, U.due_at <= now)
                    .order_by(U.rank)
                    .limit(share)
                    .with_for_update(skip_locked=True)
                )
                found += c.execute(query).all()
        found.sort(key=lambda r: r.rank)
        return found[:limit]

    @retried
    def waiting(self) -> m.Waiting:
        """What is left to do."""
        now = now_micros()
        with self.database.read(self._namespace) as c:
            pending, due = c.execute(
                sa.select(sa.func.count(), sa.func.min(U.due_at)).where(*self._scope, PENDING)
            ).one()
            busy = c.execute(
                sa.select(sa.func.count()).select_from(t.crawl_url).where(*self._scope, IN_PROGRESS)
            ).scalar_one()
            listed = self._read(c).listing is not None
        return m.Waiting(listed, pending, busy, None if due is None else max(due - now, 0) / 1e6)

    @retried
    def heartbeat(self) -> m.CrawlState:
        """Say that this claimant lives, and hear how the crawl stands."""
        now = now_micros()
        with self.database.begin(self._namespace) as c:
            state = m.CrawlState(self._locked(c).state)
            c.execute(
                sa.update(t.crawl_url)
                .where(*self._scope, IN_PROGRESS, U.claimed_by == self._claimant)
                .values(heartbeat_at=now)
            )
            return state

    @retried
    def state(self) -> m.CrawlState:
        """How the crawl stands."""
        with self.database.read(self._namespace) as c:
            return m.CrawlState(self._read(c).state)

    @retried
    def release(self) -> int:
        """Give back what this claimant holds, as if it had never been claimed, and say how many that are."""
        with self.database.begin(self._namespace) as c:
            return self._release(c, U.claimed_by == self._claimant)

    @retried
    def reclaim(self, *, alone: bool = False) -> int:
        """Let others have what is held by processes of this machine that are dead, or by any that said
        nothing for ten minutes; ``alone``: also by whoever led the crawl before, since there is one leader.
        """
        with self.database.begin(self._namespace) as c:
            led = 0
            if alone:
                led = self._release(c, U.claimed_by.not_like(f"%{JOINED}"))
            silent = self._release(c, U.heartbeat_at < now_micros() - STALE_MICROS)
            holders = c.execute(sa.select(U.claimed_by).distinct().where(*self._scope, IN_PROGRESS)).scalars()
            dead = [h for h in holders if h is not None and _is_dead(h)]
            return led + silent + (self._release(c, U.claimed_by.in_(dead)) if dead else 0)

    def _release(self, c: Connection, *which: sa.ColumnElement[bool]) -> int:
        # The claim that is given back still counts for `max_pages`: `claimed_at` stays.
        values = {"state": m.UrlState.PENDING.value, "claimed_by": None, "heartbeat_at": None}
        return c.execute(
            sa.update(t.crawl_url).where(*self._scope, IN_PROGRESS, *which).values(**values)
        ).rowcount

    @retried
    def handed(self, limit: int) -> list[m.HandedUrl]:
        """What others have settled and the leader has yet to take over, at most ``limit``."""
        query = (
            sa.select(U.url_id, U.key, U.depth, U.outcome, U.code, U.message, U.handed)
            .where(*self._scope, _HANDED)
            .order_by(U.url_id)
            .limit(limit)
        )
        with self.database.read(self._namespace) as c:
            found = []
            for r in c.execute(query):
                page = json.loads(r.handed)
                found.append(m.HandedUrl(settled_url(r), Stored(**page) if page else None))
            return found

    @retried
    def take_over(self, url_ids: Sequence[bytes]) -> None:
        """What was handed over is recorded."""
        with self.database.begin(self._namespace) as c:
            for part in parts(url_ids):
                c.execute(sa.update(t.crawl_url).where(*self._scope, U.url_id.in_(part)).values(handed=None))

    #: What :meth:`_equal` says of the crawl before this one, once it was asked for.
    _before: tuple[bool, bool] | None = None

    def settled(self) -> Iterator[list[m.SettledUrl]]:
        """The URLs that have come to their end, those excepted that are still to be taken over, some at a
        time."""
        after = b""
        while found := self._settled(after):
            yield found
            after = found[-1].url_id

    @retried
    def _settled(self, after: bytes) -> list[m.SettledUrl]:
        query = (
            sa.select(U.url_id, U.key, U.depth, U.outcome, U.code, U.message)
            .where(*self._scope, U.url_id > after, U.outcome.is_not(None), U.handed.is_(None))
            .order_by(U.url_id)
            .limit(_PAGE)
        )
        with self.database.read(self._namespace) as c:
            return [settled_url(r) for r in c.execute(query)]

    @retried
    def reopen(self, url_ids: Sequence[bytes]) -> None:
        """Let URLs be asked for again that had come to their end."""
        with self.database.begin(self._namespace) as c:
            for part in parts(url_ids):
                c.execute(
                    sa.update(t.crawl_url)
                    .where(*self._scope, U.url_id.in_(part))
                    .values(
                        state=m.UrlState.PENDING.value, outcome=None, code=None, message=None, handed=None
                    )
                )

    @retried
    def stored_links(self, url_ids: Sequence[bytes]) -> dict[bytes, tuple[str | None, bytes]]:
        """Where pages led in the source's crawl before this one, as (the bytes it stood on, ids); see
        :class:`~taboot_pipelines.model.crawls.DoneUrl`.
        """
        found: dict[bytes, tuple[str | None, bytes]] = {}
        if self.crawl.previous is None:
            return found
        lead = t.crawl_lead.c
        with self.database.read(self._namespace) as c:
            for part in parts(url_ids):
                query = sa.select(lead.parent, lead.content, lead.children).where(
                    lead.namespace == self._namespace,
                    lead.crawl_id == self.crawl.previous,
                    lead.parent.in_(part),
                )
                found |= {bytes(r.parent): (r.content, bytes(r.children)) for r in c.execute(query)}
        return found

    @retried
    def last_answers(self, url_ids: Sequence[bytes]) -> dict[bytes, m.LastAnswer]:
        """What pages were that the source's crawl before this one read, if it was one under equal rules for
        links; their answers may be reused only if all of its configuration was equal.
        """
        found: dict[bytes, m.LastAnswer] = {}
        if self.crawl.number == 1:
            return found
        before = m.crawl_id(self._namespace, self.crawl.source_id, self.crawl.number - 1)
        columns = (U.url_id, U.url, U.canonical, U.fresh_since, U.fresh_until, U.fresh_max_age)
        with self.database.read(self._namespace) as c:
            if self._before is None:
                self._before = self._equal(c, before)
            equal_rules, equal_configuration = self._before
            for part in parts(url_ids) if equal_rules else ():
                query = sa.select(*columns).where(
                    U.namespace == self._namespace,
                    U.crawl_id == before,
                    U.url_id.in_(part),
                    # What nobody took over of a cancelled crawl is not what is stored.
                    U.handed.is_(None),
                    sa.or_(U.outcome == m.Outcome.FETCHED.value, U.outcome == m.Outcome.NOT_MODIFIED.value),
                )
                for url_id, url, canonical, since, until, max_age in c.execute(query):
                    reusable = until is not None and equal_configuration
                    fresh = m.Fresh(since, until, max_age) if reusable else None
                    found[bytes(url_id)] = m.LastAnswer(url, canonical, fresh)
        return found

    def _equal(self, c: Connection, crawl_id: str) -> tuple[bool, bool]:
        """Whether a crawl had the rules for links of this one, and whether all of its configuration."""
        row = c.execute(
            sa.select(t.crawl.c.link_rules, t.crawl.c.configuration).where(
                t.crawl.c.namespace == self._namespace, t.crawl.c.crawl_id == crawl_id
            )
        ).one_or_none()
        plan = self.crawl.plan
        if row is None or row.link_rules != plan.link_rules:
            return False, False
        return True, bool(row.configuration == plan.configuration)

    @retried
    def stored_urls(self, url_ids: Sequence[bytes]) -> list[m.FoundUrl]:
        """URLs of the source's crawl before this one, by their ids."""
        found: list[m.FoundUrl] = []
        if self.crawl.previous is None:
            return found
        with self.database.read(self._namespace) as c:
            for part in parts(url_ids):
                query = sa.select(U.url_id, U.key, U.url, U.host, U.score, U.preferred).where(
                    U.namespace == self._namespace,
                    U.crawl_id == self.crawl.previous,
                    U.url_id.in_(part),
                )
                found += [
                    m.FoundUrl(bytes(r.url_id), r.key, r.url, r.host, None, r.score, r.preferred)
                    for r in c.execute(query)
                ]
        return found

    @retried
    def ledger(self) -> tuple[m.LedgerRow, ...]:
        """How many URLs came to which end so far, by depth."""
        with self.database.read(self._namespace) as c:
            return ledger_of(c, self._namespace, self.crawl.crawl_id)

    @retried
    def end(self, *, complete: bool, reason: str = "") -> None:
        """The crawl has come to its end; nothing changes if it was cancelled or ended by another."""
        now = now_micros()
        with self.database.begin(self._namespace) as c:
            if self._locked(c).state != m.CrawlState.RUNNING:
                return
            rows = ledger_of(c, self._namespace, self.crawl.crawl_id)
            self._set_crawl(
                c,
                state=m.CrawlState.COMPLETED.value,
                complete=complete,
                reason=reason,
                counts=counts_json(rows),
                ended_at=now,
                updated_at=now,
            )


def ledger_of(c: Connection, namespace: str, crawl_id: str) -> tuple[m.LedgerRow, ...]:
    """The ledger of a crawl as its URLs stand now."""
    groups = (U.depth, U.outcome, U.code)
    rows = c.execute(
        sa.select(*groups, sa.func.count().label("urls"))
        .where(U.namespace == namespace, U.crawl_id == crawl_id)
        .group_by(*groups)
    )
    found = (m.LedgerRow(r.depth, r.outcome, r.code, r.urls) for r in rows)
    return tuple(sorted(found, key=lambda x: (x.depth, x.outcome or "", x.code or "")))


def counts_json(rows: Sequence[m.LedgerRow]) -> str:
    """A ledger as the column ``crawl.counts`` holds it."""
    return canonical_json([[r.depth, r.outcome, r.code, r.urls] for r in rows])


def _is_dead(claimant: str) -> bool:
    """Whether it is a process of this machine that is gone."""
    import psutil

    host, _, rest = claimant.partition(":")
    pid, _, started = rest.removesuffix(JOINED).partition(":")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        return bool(abs(psutil.Process(int(pid)).create_time() - float(started)) >= 1)
    except (psutil.NoSuchProcess, ValueError):
        return True
