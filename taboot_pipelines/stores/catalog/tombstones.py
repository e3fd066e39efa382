"""Tombstones: documents that were deleted for good. Connectors pass them by until they are restored."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert


class Tombstones:
    """A tombstone holds the id of a document, a reason and a time, and nothing else of it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def all(self, namespace: str) -> dict[str, Row]:
        """Every tombstone of the namespace, by document id."""
        with self.database.read(namespace) as c:
            return {
                r.doc_id: dict(r._mapping)
                for r in c.execute(sa.select(t.tombstone).where(t.tombstone.c.namespace == namespace))
            }

    @retried
    def add(self, namespace: str, doc_ids: Iterable[str], reason: str) -> None:
        """``reason`` is deleted, erased or expired."""
        now = now_micros()
        with self.database.publishing(namespace) as c:
            upsert(
                c,
                t.tombstone,
                [
                    {"namespace": namespace, "doc_id": d, "reason": reason, "sha256": None, "created_at": now}
                    for d in doc_ids
                ],
            )

    @retried
    def remove(self, namespace: str, doc_ids: Collection[str]) -> list[str]:
        """Take the tombstones of these documents away; returns the ids of those that had one."""
        removed = []
        with self.database.publishing(namespace) as c:
            for part in parts(sorted(doc_ids)):
                where = (t.tombstone.c.namespace == namespace, t.tombstone.c.doc_id.in_(part))
                removed += list(c.execute(sa.select(t.tombstone.c.doc_id).where(*where)).scalars())
                c.execute(sa.delete(t.tombstone).where(*where))
        return removed
