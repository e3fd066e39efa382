"""Records of stored bytes, how many bytes a namespace uses, and the blobs that wait in a local file to be
uploaded once more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, insert, now_micros, parts, upsert, write


def blob_row(
    namespace: str,
    sha256: str,
    byte_size: int,
    storage_url: str,
    source_type: str,
    *,
    mime: str | None,
    file_name: str | None,
    created_at: int,
    status: str = "uploaded",
    agent: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Row:
    """The record of stored bytes; ``storage_url`` is that of the namespace's blobs. ``agent``: the source
    that handed them in first (None: people did, by what ``source_type`` says), ``metadata``: what it told of
    them."""
    return {
        "namespace": namespace,
        "content_hash": sha256,
        "storage_url": f"{storage_url}/{sha256}",
        "storage_status": status,
        "mime_type": mime,
        "file_name": file_name,
        "byte_size": byte_size,
        "source_type": source_type,
        "source_agent_id": agent or source_type,
        "source_metadata": canonical_json({k: v for k, v in (metadata or {}).items() if v}),
        "created_at": created_at,
    }


class Blobs:
    """One record for each hash in a namespace, however many locators hold the bytes."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def all(self, namespace: str) -> list[Row]:
        """Every record of the namespace, by hash."""
        with self.database.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(t.blob).where(t.blob.c.namespace == namespace).order_by(t.blob.c.content_hash)
                )
            ]

    @retried
    def hashes(self, namespace: str, among: Collection[str] | None = None) -> set[str]:
        """The hashes of the namespace's blobs, or those of some that it has."""
        query = sa.select(t.blob.c.content_hash).where(t.blob.c.namespace == namespace)
        queries = (
            [query]
            if among is None
            else [query.where(t.blob.c.content_hash.in_(part)) for part in parts(sorted(among))]
        )
        with self.database.read(namespace) as c:
            return {sha256 for one in queries for sha256 in c.execute(one).scalars()}

    @retried
    def not_stored(self, namespace: str) -> dict[str, str]:
        """By hash: ``pending`` or ``failed``, of the blobs that are not in the store."""
        b = t.blob
        query = sa.select(b.c.content_hash, b.c.storage_status).where(
            b.c.namespace == namespace, b.c.storage_status != "uploaded"
        )
        with self.database.read(namespace) as c:
            return {row.content_hash: row.storage_status for row in c.execute(query)}

    @retried
    def usage(self, namespace: str) -> Row:
        """A row of the table ``storage_usage``; zeros for a namespace without one."""
        with self.database.read(namespace) as c:
            row = c.execute(
                sa.select(t.storage_usage).where(t.storage_usage.c.namespace == namespace)
            ).one_or_none()
            return (
                dict(row._mapping) if row else {"namespace": namespace, "total_bytes": 0, "total_sources": 0}
            )

    @retried
    def reconcile(self, namespace: str) -> bool:
        """Count the namespace's bytes anew from its blobs; whether they were counted wrongly."""
        b, u = t.blob.c, t.storage_usage
        with self.database.publishing(namespace) as c:
            sums = sa.select(sa.func.coalesce(sa.func.sum(b.byte_size), 0), sa.func.count())
            size, count = c.execute(sums.where(b.namespace == namespace)).one()
            own = u.c.namespace == namespace
            row = c.execute(sa.select(u.c.total_bytes, u.c.total_sources).where(own)).one_or_none()
            wrong = row is not None and tuple(row) != (int(size), int(count))
            new = {"total_bytes": int(size), "total_sources": int(count), "last_calculated": now_micros()}
            c.execute(sa.update(u).where(own).values(**new))
        return wrong

    def add(self, c: Connection, namespace: str, blobs: Sequence[Row]) -> None:
        """Record those that are new, and count their bytes once."""
        sizes = {row["content_hash"]: row["byte_size"] for row in blobs}
        new = write(c, t.blob, blobs, "nothing")
        if new:
            self._add_usage(c, namespace, sum(sizes[sha] for _, sha in new), len(new))

    def set_status(self, c: Connection, namespace: str, sha256: str, status: str) -> None:
        """``status`` is uploaded, pending or failed."""
        c.execute(
            sa.update(t.blob)
            .where(t.blob.c.namespace == namespace, t.blob.c.content_hash == sha256)
            .values(storage_status=status)
        )

    def forget(self, c: Connection, namespace: str, hashes: Collection[str]) -> None:
        """Erase the records of these bytes, and count them no more."""
        sizes: list[int] = []
        for part in parts(sorted(hashes)):
            where = (t.blob.c.namespace == namespace, t.blob.c.content_hash.in_(part))
            sizes += c.execute(sa.select(t.blob.c.byte_size).where(*where)).scalars()
            c.execute(sa.delete(t.blob).where(*where))
        if hashes:
            self._add_usage(c, namespace, -sum(sizes), -len(sizes))

    def forget_file_names(self, c: Connection, namespace: str, hashes: Collection[str]) -> None:
        """Erase the file names: a blob that another document still holds keeps its bytes only."""
        for part in parts(sorted(hashes)):
            c.execute(
                sa.update(t.blob)
                .where(t.blob.c.namespace == namespace, t.blob.c.content_hash.in_(part))
                .values(file_name=None)
            )

    def _add_usage(self, c: Connection, namespace: str, size: int, count: int) -> None:
        """Add in the database, not here: two sources of a namespace may do so at once."""
        u = t.storage_usage
        statement = insert(c, u).values(
            namespace=namespace,
            total_bytes=size,
            total_sources=count,
            last_calculated=now_micros(),
            interpretation_count_month=0,
            billing_month=time.strftime("%Y-%m", time.gmtime()),
        )
        new = statement.excluded
        c.execute(
            statement.on_conflict_do_update(
                index_elements=["namespace"],
                set_={
                    "total_bytes": u.c.total_bytes + new.total_bytes,
                    "total_sources": u.c.total_sources + new.total_sources,
                    "last_calculated": new.last_calculated,
                    "interpretation_count_month": sa.case(
                        (u.c.billing_month == new.billing_month, u.c.interpretation_count_month), else_=0
                    ),
                    "billing_month": new.billing_month,
                },
            )
        )


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
