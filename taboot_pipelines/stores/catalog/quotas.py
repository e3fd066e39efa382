"""How many questions a namespace has asked of a chat model this month."""

from __future__ import annotations

import time
from typing import NamedTuple

import sqlalchemy as sa

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import insert, now_micros


class Quota(NamedTuple):
    """Questions asked in a month (``2026-03``), and how many may be; None: any number."""

    month: str
    asked: int
    limit: int | None

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.asked)


class Quotas:
    """The columns of ``storage_usage`` that count by the month; a namespace's own limit goes before that of
    the settings."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def of(self, namespace: str, limit: int | None) -> Quota:
        """The present month's. ``limit``: where the namespace has none of its own."""
        u = t.storage_usage
        with self.database.read(namespace) as c:
            row = c.execute(sa.select(u).where(u.c.namespace == namespace)).one_or_none()
        month = _month()
        if row is None:
            return Quota(month, 0, limit)
        asked = row.interpretation_count_month if row.billing_month == month else 0
        own = row.interpretation_limit_month
        return Quota(month, asked, limit if own is None else own)

    @retried
    def count(self, namespace: str, questions: int) -> None:
        """Count questions that are about to be asked, in the database: two sources may do so at once."""
        u = t.storage_usage
        with self.database.begin(namespace) as c:
            counted = insert(c, u).values(
                namespace=namespace,
                total_bytes=0,
                total_sources=0,
                last_calculated=now_micros(),
                interpretation_count_month=questions,
                billing_month=_month(),
            )
            new = counted.excluded
            statement = counted.on_conflict_do_update(
                index_elements=["namespace"],
                set_={
                    "interpretation_count_month": sa.case(
                        (
                            u.c.billing_month == new.billing_month,
                            u.c.interpretation_count_month + new.interpretation_count_month,
                        ),
                        else_=new.interpretation_count_month,
                    ),
                    "billing_month": new.billing_month,
                },
            )
            c.execute(statement)


def _month() -> str:
    return time.strftime("%Y-%m", time.gmtime())
