"""The ending: the ledger of a crawl, and its last word."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model import crawls as m
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog.database import retried
from taboot_pipelines.stores.catalog.frontier.rows import CrawlRows, U
from taboot_pipelines.stores.catalog.writing import now_micros


class Ending(CrawlRows):
    """Counts what came to which end, and ends the crawl."""

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
