"""What is known already: URLs that have come to their end, and what the crawl before knew of its pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model import crawls as m
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import retried
from taboot_pipelines.stores.catalog.frontier.rows import CrawlRows, U, settled_url
from taboot_pipelines.stores.catalog.writing import parts

_PAGE = 2000


class LookingBack(CrawlRows):
    """Reads of this crawl and of the one before it."""

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
