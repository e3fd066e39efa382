"""Receipts: what a deletion has done in each store, so that the next run carries out what is pending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
import sqlalchemy as sa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, upsert


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
    ) -> None:
        """Write a receipt, or replace it; ``stores`` is {store: done or pending}. A final one names no
        blobs.
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
