"""URLs of one crawl as rows: what every part of the frontier stands on, and what is taken in.

A URL's depth is the length of the shortest way that leads to it by the links known so far, whatever the order
in which pages answer: where a shorter way turns up, what lies behind it moves up as well.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import Stored
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog import totals
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, parts, upsert, write

#: Written out and not bound: a partial index serves only where the database sees its condition.
PENDING = sa.text("state = 'PENDING'")
IN_PROGRESS = sa.text("state = 'IN-PROGRESS'")
#: Ends the name of a claimant that does not lead its crawl.
JOINED = ":joined"
#: The columns of the URLs.
U = t.crawl_url.c

#: So many hosts of a namespace have totals of their own, those that were asked first; all others share one.
MAX_HOSTS, OTHER_HOSTS = 50, "other"

#: Where URLs stand that are tried again: behind all others, by the time when they may be.
_AGAIN = 1 << 61


class CrawlUrls:
    """``claimant`` names who asks, by default this process: its claims are given back to others when it is
    dead.

    One process at most ``leads`` a crawl, which holds its source's lease: it alone records what was fetched.
    """

    def __init__(
        self,
        database: Database,
        namespace: str,
        crawl: m.Crawl,
        claimant: str | None = None,
        *,
        leads: bool = True,
    ) -> None:
        self.database = database
        self.crawl = crawl
        self.leads = leads
        self._namespace = namespace
        self._claimant = (claimant or this_process()) + ("" if leads else JOINED)
        self._scope = (U.namespace == namespace, U.crawl_id == crawl.crawl_id)
        #: {host: the name that it is counted under}.
        self._counted: dict[str, str] = {}

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

    #: The order of the URL that was found last.
    _order = 0

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
            self._count(c, done)
            return m.Taken(state, lost)

    def _count(self, c: Connection, done: Sequence[m.DoneUrl]) -> None:
        """Add what became of URLs to the totals of their hosts."""
        amounts = totals.Amounts()
        for d in done:
            host = self._counted_as(c, d.claimed.host)
            again = d.outcome is m.Outcome.FAILED and d.retry
            amounts.count(1, "crawl_pages_total", host, "tried_again" if again else d.outcome.value)
            amounts.count(d.size, "crawl_bytes_total", host)
            if d.seconds is not None:
                amounts.count(1, "crawl_answers_total", host)
                amounts.count(d.seconds, "crawl_answer_seconds_total", host)
                amounts.duration(d.seconds, "crawl_duration_seconds")
        totals.add(c, self._namespace, amounts)

    def _counted_as(self, c: Connection, host: str) -> str:
        """The name that a host is counted under: :data:`OTHER_HOSTS` where there are too many before it."""
        if host not in self._counted:
            known = totals.labels_of(c, self._namespace, "crawl_pages_total")
            others = {name for name, *_ in known} | set(self._counted.values())
            fits = host in others or len(others - {OTHER_HOSTS}) < MAX_HOSTS
            self._counted[host] = host if fits else OTHER_HOSTS
        return self._counted[host]

    def _held(self, c: Connection, url_ids: Sequence[bytes]) -> dict[bytes, int]:
        """The depths of those URLs that this claimant holds."""
        found: dict[bytes, int] = {}
        for part in parts(url_ids):
            query = sa.select(U.url_id, U.depth).where(
                *self._scope, U.url_id.in_(part), IN_PROGRESS, U.claimed_by == self._claimant
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
                    "handed": None if self.leads or again else handed_text(d.page),
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
            U.url_id,
            U.depth,
            U.score,
            U.preferred,
            U.state,
            U.outcome,
            U.code,
            U.parent,
            U.claimed_at,
            U.found_at,
        )
        for part in parts(url_ids):
            query = sa.select(*columns).where(*self._scope, U.url_id.in_(part))
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
        c.execute(sa.update(t.crawl_url).where(*self._scope, U.url_id == row.url_id).values(**values))

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


def this_process() -> str:
    """A name for this process that no other has, while machines have names of their own."""
    import psutil

    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time()}"


def settled_url(row: Any) -> m.SettledUrl:
    """The URL of a row that has an outcome."""
    return m.SettledUrl(bytes(row.url_id), row.key, row.depth, m.Outcome(row.outcome), row.code, row.message)


def past_max_pages() -> dict[str, Any]:
    """The end of a URL that lies beyond the limit of pages."""
    return {
        "state": m.UrlState.CANCELLED.value,
        "outcome": m.Outcome.SKIPPED.value,
        "code": "E_PAGES",
    }


def handed_text(page: Stored | None) -> str:
    """A page as the column ``handed`` holds it; an empty object stands for a URL without bytes."""
    return canonical_json({} if page is None else asdict(page))


def _first(crawl: Any, depth: int, score: float) -> dict[str, Any]:
    """The state of a URL that nobody has claimed: those that will not be asked for have come to their end."""
    if depth and depth >= crawl.requested_depth:
        end = (m.UrlState.COMPLETED, m.Outcome.SKIPPED, "E_DEPTH")
    elif depth and score < crawl.score_threshold:
        end = (m.UrlState.COMPLETED, m.Outcome.SKIPPED, "E_SCORE")
    elif crawl.taken >= crawl.max_pages:
        return past_max_pages()
    else:
        return {"state": m.UrlState.PENDING.value, "outcome": None, "code": None}
    return {"state": end[0].value, "outcome": end[1].value, "code": end[2]}


def _cast(mark: str, postgres: bool) -> str:
    # PostgreSQL has to be told the type of a null that nothing else shows.
    return f"CAST({mark} AS BIGINT)" if postgres else mark
