"""The URLs of one crawl: those that wait are handed out, what became of them and where they lead is taken in.

Nothing costs a statement per URL. Several processes may work at one crawl: a URL is handed to one of them
(SQLite has one writer at a time; on PostgreSQL the crawl's row is locked while URLs are handed out or taken
in, and rows that others hold are passed by). A URL's depth is the length of the shortest way that leads to it
by the links known so far, whatever the order in which pages answer: where a shorter way turns up, what lies
behind it moves up as well.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, parts, upsert, write

#: A claim whose holder said nothing for so long is handed to another (seed 002, ``stale_timeout_minutes``).
STALE_MICROS = 10 * 60 * 1_000_000
#: Of so many hosts one claim takes URLs; the next claim goes on with others.
_MAX_HOSTS = 32
_PAGE = 2000
#: Where URLs stand that are tried again: behind all others, by the time when they may be.
_AGAIN = 1 << 61

#: Written out and not bound: a partial index serves only where the database sees its condition.
_PENDING = sa.text("state = 'PENDING'")
_IN_PROGRESS = sa.text("state = 'IN-PROGRESS'")
_U = t.crawl_url.c
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


class Frontier:
    """``claimant`` names who asks, by default this process: its claims are given back to others when it is
    dead."""

    def __init__(
        self, database: Database, namespace: str, crawl: m.Crawl, claimant: str | None = None
    ) -> None:
        self.database = database
        self.crawl = crawl
        self._namespace = namespace
        self._claimant = claimant or this_process()
        self._scope = (_U.namespace == namespace, _U.crawl_id == crawl.crawl_id)
        self._order = 0
        self._turn = 0

    # --- handing out ----------------------------------------------------------------------------------------

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
                    c.execute(
                        sa.update(t.crawl_url).where(*self._scope, _U.url_id.in_(part)).values(**values)
                    )
            if taken:
                self._set_crawl(c, taken=crawl.taken + taken, updated_at=now)
            if len(fresh) > left:
                c.execute(
                    sa.update(t.crawl_url)
                    .where(*self._scope, _PENDING, _U.claimed_at.is_(None))
                    .values(**_beyond())
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
                        _U.url_id,
                        _U.key,
                        _U.url,
                        _U.host,
                        _U.depth,
                        _U.attempts,
                        _U.claimed_at,
                        _U.rank,
                    )
                    .where(*self._scope, _PENDING, _U.host == host, _U.due_at <= now)
                    .order_by(_U.rank)
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
                sa.select(sa.func.count(), sa.func.min(_U.due_at)).where(*self._scope, _PENDING)
            ).one()
            busy = c.execute(
                sa.select(sa.func.count()).select_from(t.crawl_url).where(*self._scope, _IN_PROGRESS)
            ).scalar_one()
        return m.Waiting(pending, busy, None if due is None else max(due - now, 0) / 1e6)

    @retried
    def heartbeat(self) -> m.CrawlState:
        """Say that this claimant lives, and hear how the crawl stands."""
        now = now_micros()
        with self.database.begin(self._namespace) as c:
            state = m.CrawlState(self._locked(c).state)
            c.execute(
                sa.update(t.crawl_url)
                .where(*self._scope, _IN_PROGRESS, _U.claimed_by == self._claimant)
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
            return self._release(c, _U.claimed_by == self._claimant)

    @retried
    def reclaim(self, *, alone: bool = False) -> int:
        """Let others have what is held by processes of this machine that are dead, or by any that said
        nothing for ten minutes; ``alone``: by anybody, since the caller knows that nobody else is at work.
        """
        with self.database.begin(self._namespace) as c:
            if alone:
                return self._release(c)
            silent = self._release(c, _U.heartbeat_at < now_micros() - STALE_MICROS)
            holders = c.execute(
                sa.select(_U.claimed_by).distinct().where(*self._scope, _IN_PROGRESS)
            ).scalars()
            dead = [h for h in holders if h is not None and _is_dead(h)]
            return silent + (self._release(c, _U.claimed_by.in_(dead)) if dead else 0)

    def _release(self, c: Connection, *which: sa.ColumnElement[bool]) -> int:
        # The claim that is given back still counts for `max_pages`: `claimed_at` stays.
        values = {"state": m.UrlState.PENDING.value, "claimed_by": None, "heartbeat_at": None}
        return c.execute(
            sa.update(t.crawl_url).where(*self._scope, _IN_PROGRESS, *which).values(**values)
        ).rowcount

    # --- taking in ------------------------------------------------------------------------------------------

    @retried
    def add_roots(self, roots: Sequence[m.FoundUrl], listing: m.Listing) -> None:
        """Take in the URLs that are listed, in their order, and that they were."""
        with self.database.begin(self._namespace) as c:
            crawl = self._locked(c)
            self._insert(c, crawl, [(r, 0) for r in roots])
            written = canonical_json({"reason": listing.reason, "problems": listing.problems})
            self._set_crawl(c, listing=written, updated_at=now_micros())

    @retried
    def finish(self, done: Sequence[m.DoneUrl], found: Sequence[m.FoundUrl]) -> m.Taken:
        """Take in what became of claimed URLs, and what was found on them, in one transaction; hear how the
        crawl stands. Of a crawl that was cancelled meanwhile, and of claims that were lost to another,
        nothing is taken in.
        """
        now = now_micros()
        with self.database.begin(self._namespace) as c:
            crawl = self._locked(c)
            state = m.CrawlState(crawl.state)
            if state is not m.CrawlState.RUNNING:
                return m.Taken(state, len(done))
            depths = self._held(c, [d.claimed.url_id for d in done])
            lost, done = len(done), [d for d in done if d.claimed.url_id in depths]
            lost -= len(done)
            self._settle(c, done, now)
            leads = [
                {
                    "namespace": self._namespace,
                    "crawl_id": self.crawl.crawl_id,
                    "parent": d.claimed.url_id,
                    "content": d.content,
                    "children": d.children,
                }
                for d in done
                if d.children is not None
            ]
            upsert(c, t.crawl_lead, leads)
            children = [(f, depths[f.parent] + 1) for f in found if f.parent in depths]
            nearer = self._insert(c, crawl, children)
            # Found nearer while it was on its way: what it leads to was taken for deeper than it is.
            nearer |= {
                d.claimed.url_id: depths[d.claimed.url_id]
                for d in done
                if d.children and depths[d.claimed.url_id] < d.claimed.depth
            }
            self._move_up(c, crawl, nearer)
            return m.Taken(state, lost)

    def _held(self, c: Connection, url_ids: Sequence[bytes]) -> dict[bytes, int]:
        """The depths of those URLs that this claimant holds."""
        found: dict[bytes, int] = {}
        for part in parts(url_ids):
            query = sa.select(_U.url_id, _U.depth).where(
                *self._scope, _U.url_id.in_(part), _IN_PROGRESS, _U.claimed_by == self._claimant
            )
            found |= {bytes(r.url_id): r.depth for r in c.execute(query)}
        return found

    def _settle(self, c: Connection, done: Sequence[m.DoneUrl], now: int) -> None:
        rows = []
        for d in done:
            attempts = d.claimed.attempts + (d.attempts if d.outcome is m.Outcome.FAILED else 0)
            again = d.outcome is m.Outcome.FAILED and d.retry
            due = now + int(d.wait * 1e6) if again else 0
            state = (
                m.UrlState.PENDING
                if again
                else m.UrlState.FAILED
                if d.outcome is m.Outcome.FAILED
                else m.UrlState.COMPLETED
            )
            rows.append(
                {
                    "b_id": d.claimed.url_id,
                    "state": state.value,
                    "outcome": None if again else d.outcome.value,
                    "code": d.code,
                    "message": d.message,
                    "attempts": attempts,
                    "due_at": due,
                    "http_status": d.http_status,
                    "request_seconds": d.seconds,
                    "ip": d.address,
                    "answered_at": now,
                    "claimed_by": None,
                    "canonical": d.canonical,
                    "fresh_since": d.fresh.since if d.fresh else None,
                    "fresh_until": d.fresh.until if d.fresh else None,
                    "fresh_max_age": d.fresh.max_age if d.fresh else None,
                    "b_rank": max(_AGAIN, _AGAIN + due // 1000) if again else None,
                }
            )
        if not rows:
            return
        names = [n for n in rows[0] if not n.startswith("b_")]
        postgres = c.dialect.name == "postgresql"
        mark = "%s" if postgres else "?"
        assigned = ", ".join(f"{n} = {mark}" for n in names)
        # The driver's own executemany, as in `writing.write`.
        c.exec_driver_sql(
            f"UPDATE crawl_url SET {assigned}, rank = COALESCE({_cast(mark, postgres)}, rank)"
            f" WHERE namespace = {mark} AND crawl_id = {mark} AND url_id = {mark}",
            [
                (
                    *(row[n] for n in names),
                    row["b_rank"],
                    self._namespace,
                    self.crawl.crawl_id,
                    row["b_id"],
                )
                for row in rows
            ],
        )

    def _insert(self, c: Connection, crawl: Any, found: Iterable[tuple[m.FoundUrl, int]]) -> dict[bytes, int]:
        """Take in URLs with their depths. Returns those that were there already, whose page was read and to
        which the way turns out to be shorter, with their new depths.
        """
        best: dict[bytes, tuple[m.FoundUrl, int, float]] = {}
        for url, depth in found:
            have = best.get(url.url_id)
            if have is None:
                best[url.url_id] = (url, depth, url.score)
            elif depth < have[1] or url.score > have[2]:
                nearest = (url, depth) if depth < have[1] else have[:2]
                best[url.url_id] = (*nearest, max(url.score, have[2]))
        if not best:
            return {}
        there = self._present(c, list(best))
        now = now_micros()
        strategy = m.Strategy(crawl.strategy)
        self._order = max(self._order, now - crawl.started_at)
        fresh = [x for i, x in best.items() if i not in there]
        orders = m.orders(strategy, self._order, len(fresh))
        self._order += len(fresh)
        rows = []
        for (url, depth, score), order in zip(fresh, orders, strict=True):
            rows.append(
                {
                    "namespace": self._namespace,
                    "crawl_id": self.crawl.crawl_id,
                    "url_id": url.url_id,
                    "key": url.key,
                    "url": url.url,
                    "host": url.host,
                    "parent": url.parent,
                    "depth": depth,
                    "score": score,
                    "preferred": url.preferred,
                    "rank": m.rank(strategy, depth=depth, score=score, preferred=url.preferred, order=order),
                    "attempts": 0,
                    "due_at": 0,
                    "found_at": now,
                    **_first(crawl, depth, score),
                }
            )
        write(c, t.crawl_url, rows)
        nearer: dict[bytes, int] = {}
        for url_id, row in there.items():
            url, depth, score = best[url_id]
            if depth < row.depth or score > row.score:
                self._improve(c, crawl, row, min(depth, row.depth), max(score, row.score), url.parent, nearer)
        return nearer

    def _present(self, c: Connection, url_ids: Sequence[bytes]) -> dict[bytes, Any]:
        found: dict[bytes, Any] = {}
        columns = (
            _U.url_id,
            _U.depth,
            _U.score,
            _U.preferred,
            _U.state,
            _U.outcome,
            _U.code,
            _U.parent,
            _U.claimed_at,
            _U.found_at,
        )
        for part in parts(url_ids):
            query = sa.select(*columns).where(*self._scope, _U.url_id.in_(part))
            found |= {bytes(r.url_id): r for r in c.execute(query)}
        return found

    def _improve(
        self,
        c: Connection,
        crawl: Any,
        row: Any,
        depth: int,
        score: float,
        parent: bytes | None,
        nearer: dict[bytes, int],
    ) -> None:
        """A shorter way, or a better score, for a URL that is there: a rare thing."""
        values: dict[str, Any] = {"depth": depth, "score": score}
        if depth < row.depth:
            values["parent"] = parent
            if row.outcome is not None:
                nearer[bytes(row.url_id)] = depth
        strategy = m.Strategy(crawl.strategy)
        unasked = row.code in ("E_DEPTH", "E_SCORE") and row.claimed_at is None
        if unasked:
            values |= _first(crawl, depth, score)
        if (unasked or row.state == m.UrlState.PENDING) and strategy is not m.Strategy.DFS:
            order = max(row.found_at - crawl.started_at, 0)
            values["rank"] = m.rank(strategy, depth=depth, score=score, preferred=row.preferred, order=order)
        c.execute(sa.update(t.crawl_url).where(*self._scope, _U.url_id == row.url_id).values(**values))

    def _move_up(self, c: Connection, crawl: Any, nearer: Mapping[bytes, int]) -> None:
        """What a page that lies nearer than thought leads to lies nearer as well."""
        lead = t.crawl_lead.c
        queue = deque(nearer.items())
        while queue:
            url_id, depth = queue.popleft()
            children = c.execute(
                sa.select(lead.children).where(
                    lead.namespace == self._namespace,
                    lead.crawl_id == self.crawl.crawl_id,
                    lead.parent == url_id,
                )
            ).scalar()
            if children is None:
                continue
            further: dict[bytes, int] = {}
            for row in self._present(c, m.split_ids(children)).values():
                if row.depth > depth + 1:
                    self._improve(c, crawl, row, depth + 1, row.score, url_id, further)
            queue.extend(further.items())

    # --- what was before ------------------------------------------------------------------------------------

    def settled(self) -> Iterator[list[m.SettledUrl]]:
        """The URLs that have come to their end, some at a time."""
        after = b""
        while found := self._settled(after):
            yield found
            after = found[-1].url_id

    @retried
    def _settled(self, after: bytes) -> list[m.SettledUrl]:
        query = (
            sa.select(_U.url_id, _U.key, _U.depth, _U.outcome, _U.code, _U.message)
            .where(*self._scope, _U.url_id > after, _U.outcome.is_not(None))
            .order_by(_U.url_id)
            .limit(_PAGE)
        )
        with self.database.read(self._namespace) as c:
            return [
                m.SettledUrl(bytes(r.url_id), r.key, r.depth, m.Outcome(r.outcome), r.code, r.message)
                for r in c.execute(query)
            ]

    @retried
    def reopen(self, url_ids: Sequence[bytes]) -> None:
        """Let URLs be asked for again that had come to their end."""
        with self.database.begin(self._namespace) as c:
            for part in parts(url_ids):
                c.execute(
                    sa.update(t.crawl_url)
                    .where(*self._scope, _U.url_id.in_(part))
                    .values(state=m.UrlState.PENDING.value, outcome=None, code=None, message=None)
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
        plan = self.crawl.plan
        with self.database.read(self._namespace) as c:
            rules = c.execute(
                sa.select(t.crawl.c.configuration, t.crawl.c.link_rules).where(
                    t.crawl.c.namespace == self._namespace, t.crawl.c.crawl_id == before
                )
            ).one_or_none()
            if rules is None or rules.link_rules != plan.link_rules:
                return found
            columns = (_U.url_id, _U.url, _U.canonical, _U.fresh_since, _U.fresh_until, _U.fresh_max_age)
            for part in parts(url_ids):
                query = sa.select(*columns).where(
                    _U.namespace == self._namespace,
                    _U.crawl_id == before,
                    _U.url_id.in_(part),
                    _U.outcome.in_([m.Outcome.FETCHED.value, m.Outcome.NOT_MODIFIED.value]),
                )
                for r in c.execute(query):
                    reusable = r.fresh_until is not None and rules.configuration == plan.configuration
                    fresh = m.Fresh(r.fresh_since, r.fresh_until, r.fresh_max_age) if reusable else None
                    found[bytes(r.url_id)] = m.LastAnswer(r.url, r.canonical, fresh)
        return found

    @retried
    def stored_urls(self, url_ids: Sequence[bytes]) -> list[m.FoundUrl]:
        """URLs of the source's crawl before this one, by their ids."""
        found: list[m.FoundUrl] = []
        if self.crawl.previous is None:
            return found
        with self.database.read(self._namespace) as c:
            for part in parts(url_ids):
                query = sa.select(_U.url_id, _U.key, _U.url, _U.host, _U.score, _U.preferred).where(
                    _U.namespace == self._namespace,
                    _U.crawl_id == self.crawl.previous,
                    _U.url_id.in_(part),
                )
                found += [
                    m.FoundUrl(bytes(r.url_id), r.key, r.url, r.host, None, r.score, r.preferred)
                    for r in c.execute(query)
                ]
        return found

    # --- the end --------------------------------------------------------------------------------------------

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

    # --- the crawl's own row --------------------------------------------------------------------------------

    def _read(self, c: Connection, *, lock: bool = False) -> Any:
        query = sa.select(t.crawl).where(
            t.crawl.c.namespace == self._namespace, t.crawl.c.crawl_id == self.crawl.crawl_id
        )
        row = c.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            raise TabootError("E_NOT_FOUND", "There is no such crawl here.", crawl=self.crawl.crawl_id)
        return row

    def _locked(self, c: Connection) -> Any:
        return self._read(c, lock=True)

    def _set_crawl(self, c: Connection, **values: Any) -> None:
        c.execute(
            sa.update(t.crawl)
            .where(t.crawl.c.namespace == self._namespace, t.crawl.c.crawl_id == self.crawl.crawl_id)
            .values(**values)
        )


def this_process() -> str:
    """A name for this process that no other has, while machines have names of their own."""
    import psutil

    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time()}"


def ledger_of(c: Connection, namespace: str, crawl_id: str) -> tuple[m.LedgerRow, ...]:
    """The ledger of a crawl as its URLs stand now."""
    groups = (_U.depth, _U.outcome, _U.code)
    rows = c.execute(
        sa.select(*groups, sa.func.count().label("urls"))
        .where(_U.namespace == namespace, _U.crawl_id == crawl_id)
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
    pid, _, started = rest.partition(":")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        return bool(abs(psutil.Process(int(pid)).create_time() - float(started)) >= 1)
    except (psutil.NoSuchProcess, ValueError):
        return True


def _first(crawl: Any, depth: int, score: float) -> dict[str, Any]:
    """The state of a URL that nobody has claimed: those that will not be asked for have come to their end."""
    if depth and depth >= crawl.requested_depth:
        end = (m.UrlState.COMPLETED, m.Outcome.SKIPPED, "E_DEPTH")
    elif depth and score < crawl.score_threshold:
        end = (m.UrlState.COMPLETED, m.Outcome.SKIPPED, "E_SCORE")
    elif crawl.taken >= crawl.max_pages:
        return _beyond()
    else:
        return {"state": m.UrlState.PENDING.value, "outcome": None, "code": None}
    return {"state": end[0].value, "outcome": end[1].value, "code": end[2]}


def _beyond() -> dict[str, Any]:
    return {
        "state": m.UrlState.CANCELLED.value,
        "outcome": m.Outcome.SKIPPED.value,
        "code": "E_PAGES",
    }


def _cast(mark: str, postgres: bool) -> str:
    # PostgreSQL has to be told the type of a null that nothing else shows.
    return f"CAST({mark} AS BIGINT)" if postgres else mark
