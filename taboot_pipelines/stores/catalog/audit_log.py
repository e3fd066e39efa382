"""The audit log: deletions, restorations and the like, by ids and without content."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros


class AuditLog:
    """Grows only: nothing is ever taken out of it, not even by an erasure."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def record(self, namespace: str, kind: str, subject: str, /, **details: Any) -> None:
        """``subject`` and ``details`` are ids and counts, never names or content."""
        with self.database.begin(namespace) as c:
            c.execute(
                sa.insert(t.audit_event).values(
                    namespace=namespace,
                    kind=kind,
                    subject=subject,
                    details=canonical_json(details),
                    at=now_micros(),
                )
            )

    @retried
    def all(self, namespace: str) -> list[Row]:
        """Every event of the namespace, oldest first."""
        with self.database.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(t.audit_event)
                    .where(t.audit_event.c.namespace == namespace)
                    .order_by(t.audit_event.c.id)
                )
            ]
