"""The queue of blobs that wait in a local file to be uploaded once more."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.blobs import Blobs
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert


class Uploads:
    """Times are microseconds since the epoch. The record of a blob in the queue says so in its status."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self._blobs = blobs

    @retried
    def enqueue(
        self,
        namespace: str,
        sha256: str,
        path: str,
        size: int,
        *,
        max_retries: int,
        next_retry_at: int,
        error_message: str,
    ) -> None:
        with self.database.begin(namespace) as c:
            upsert(
                c,
                t.upload_queue,
                [
                    {
                        "namespace": namespace,
                        "content_hash": sha256,
                        "temp_file_path": path,
                        "byte_size": size,
                        "retry_count": 0,
                        "max_retries": max_retries,
                        "next_retry_at": next_retry_at,
                        "error_message": error_message,
                        "created_at": now_micros(),
                    }
                ],
            )

    @retried
    def due(self, namespace: str, now: int) -> list[Row]:
        """Uploads to try again, oldest first. One that used up its retries stays due, once a run."""
        q = t.upload_queue
        with self.database.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(q)
                    .where(q.c.namespace == namespace, q.c.next_retry_at <= now)
                    .order_by(q.c.created_at)
                )
            ]

    @retried
    def mark_failed(
        self,
        namespace: str,
        sha256: str,
        retry_count: int,
        next_retry_at: int,
        error_message: str,
        *,
        final: bool,
    ) -> None:
        """Plan the next try; ``final`` if its retries are used up, so that the blob counts as failed."""
        q = t.upload_queue
        with self.database.begin(namespace) as c:
            c.execute(
                sa.update(q)
                .where(q.c.namespace == namespace, q.c.content_hash == sha256)
                .values(retry_count=retry_count, next_retry_at=next_retry_at, error_message=error_message)
            )
            self._blobs.set_status(c, namespace, sha256, "failed" if final else "pending")

    @retried
    def mark_done(self, namespace: str, sha256: str) -> None:
        """Take it off the queue: the blob is uploaded."""
        q = t.upload_queue
        with self.database.begin(namespace) as c:
            c.execute(sa.delete(q).where(q.c.namespace == namespace, q.c.content_hash == sha256))
            self._blobs.set_status(c, namespace, sha256, "uploaded")

    def forget(self, c: Connection, namespace: str, hashes: Collection[str]) -> None:
        """Erase these blobs from the queue."""
        q = t.upload_queue
        for part in parts(sorted(hashes)):
            c.execute(sa.delete(q).where(q.c.namespace == namespace, q.c.content_hash.in_(part)))
