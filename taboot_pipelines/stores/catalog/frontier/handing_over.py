"""Handing over: what others have settled reaches the process that leads the crawl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa

from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.records import Stored
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import retried
from taboot_pipelines.stores.catalog.frontier.rows import CrawlRows, U, settled_url
from taboot_pipelines.stores.catalog.writing import parts

#: Written out, as in ``rows``.
_HANDED = sa.text("handed IS NOT NULL")


class HandingOver(CrawlRows):
    """What waits for the leader."""

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


def handed_text(page: Stored | None) -> str:
    """A page as the column ``handed`` holds it; an empty object stands for a URL without bytes."""
    return canonical_json({} if page is None else asdict(page))
