"""Handing out: URLs that wait go to one claimant each, by the crawl's order, and come back from the dead."""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model import crawls as m
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import retried
from taboot_pipelines.stores.catalog.frontier.rows import (
    IN_PROGRESS,
    JOINED,
    PENDING,
    CrawlRows,
    U,
    past_max_pages,
)
from taboot_pipelines.stores.catalog.writing import now_micros, parts

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


class HandingOut(CrawlRows):
    """Claims of one claimant."""

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
