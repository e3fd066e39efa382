"""A crawl's own row and its URLs, for one who works at it: what every part of the frontier stands on."""

from __future__ import annotations

import os
import socket
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import crawls as m
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database

#: Written out and not bound: a partial index serves only where the database sees its condition.
PENDING = sa.text("state = 'PENDING'")
IN_PROGRESS = sa.text("state = 'IN-PROGRESS'")
#: Ends the name of a claimant that does not lead its crawl.
JOINED = ":joined"
#: The columns of the URLs.
U = t.crawl_url.c


class CrawlRows:
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
