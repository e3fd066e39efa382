"""What is deleted for good, what a deletion has done in each store, and the log of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.ids import canonical_json
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
        """``reason`` is deleted or erased."""
        self._add(namespace, dict.fromkeys(doc_ids), reason)

    @retried
    def expire(self, namespace: str, documents: Mapping[str, str]) -> None:
        """The same for documents that expired, {doc_id: SHA-256}: other bytes bring them back."""
        self._add(namespace, documents, "expired")

    def _add(self, namespace: str, documents: Mapping[str, str | None], reason: str) -> None:
        same = {"namespace": namespace, "reason": reason, "created_at": now_micros()}
        with self.database.publishing(namespace) as c:
            upsert(c, t.tombstone, [{**same, "doc_id": d, "sha256": x} for d, x in documents.items()])

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


class Receipts:
    """A receipt is final once every store says ``done``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def save(
        self,
        namespace: str,
        receipt_id: str,
        doc_ids: Sequence[str],
        erase: bool,
        stores: Mapping[str, str],
        blobs: Sequence[str],
        *,
        expired: bool = False,
    ) -> None:
        """Write a receipt, or replace it; ``stores`` is {store: done or pending}. A final one names no
        blobs. ``expired``: the retention of the documents deletes them.
        """
        final = all(v == "done" for v in stores.values())
        with self.database.begin(namespace) as c:
            upsert(
                c,
                t.deletion,
                [
                    {
                        "namespace": namespace,
                        "receipt_id": receipt_id,
                        "doc_ids": canonical_json(list(doc_ids)),
                        "erase": erase,
                        "expired": expired,
                        "stores": canonical_json(stores),
                        "blobs": canonical_json([] if final else list(blobs)),
                        "final": final,
                        "created_at": now_micros(),
                    }
                ],
            )

    @retried
    def pending(self, namespace: str) -> list[Row]:
        """Receipts that are not final, oldest first."""
        with self.database.read(namespace) as c:
            rows = c.execute(
                sa.select(t.deletion)
                .where(t.deletion.c.namespace == namespace, t.deletion.c.final.is_(False))
                .order_by(t.deletion.c.created_at)
            )
            return [
                {
                    **r._mapping,
                    "doc_ids": orjson.loads(r.doc_ids),
                    "stores": orjson.loads(r.stores),
                    "blobs": orjson.loads(r.blobs),
                }
                for r in rows
            ]


class AuditLog:
    """Grows only: nothing is ever taken out of it, not even by an erasure."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def record(self, namespace: str, kind: str, subject: str, /, **details: Any) -> None:
        """``subject`` and ``details`` are ids and counts, never names or content."""
        with self.database.begin(namespace) as c:
            record_event(c, namespace, kind, subject, details)

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


def record_event(c: Connection, namespace: str, kind: str, subject: str, details: Mapping[str, Any]) -> None:
    """Write into the audit log in the transaction of another subject; see :meth:`AuditLog.record`."""
    c.execute(
        sa.insert(t.audit_event).values(
            namespace=namespace, kind=kind, subject=subject, details=canonical_json(details), at=now_micros()
        )
    )
