"""What people hand over beside the sources file: documents that they upload, and tags of documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.records import UploadedItem
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.blobs import Blobs, blob_row
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, parts, upsert


class Uploaded:
    """The uploaded documents of each namespace: what its source of type ``uploads`` enumerates."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self._blobs = blobs

    @retried
    def all(self, namespace: str) -> list[UploadedItem]:
        """Every uploaded document of the namespace, by path."""
        u = t.uploaded.c
        query = sa.select(u.path, u.sha256, u.byte_size, u.mime, u.charset, u.url, u.final_url)
        with self.database.read(namespace) as c:
            rows = c.execute(query.where(u.namespace == namespace))
            # Sorted here: a server sorts text by its language.
            return sorted(UploadedItem(**row._mapping) for row in rows)

    @retried
    def namespaces(self) -> set[str]:
        """The namespaces that something was uploaded to."""
        with self.database.read(None) as c:
            return set(c.execute(sa.select(t.uploaded.c.namespace).distinct()).scalars())

    @retried
    def put(self, namespace: str, items: Sequence[UploadedItem], storage_url: str) -> None:
        """Record these, in place of what their paths had, with their bytes, which are stored already."""
        now = now_micros()
        with self.database.publishing(namespace) as c:
            blobs = [
                blob_row(
                    namespace,
                    x.sha256,
                    x.byte_size,
                    storage_url,
                    "uploads",
                    mime=x.mime,
                    file_name=x.path,
                    created_at=now,
                )
                for x in items
            ]
            self._blobs.add(c, namespace, blobs)
            rows = [{"namespace": namespace, "uploaded_at": now, **x._asdict()} for x in items]
            upsert(c, t.uploaded, rows)

    def forget(self, c: Connection, namespace: str, paths: Collection[str]) -> None:
        """Erase what was uploaded under these paths."""
        u = t.uploaded
        for part in parts(sorted(paths)):
            c.execute(sa.delete(u).where(u.c.namespace == namespace, u.c.path.in_(part)))


class DocumentTags:
    """The tags of single documents."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def all(self, namespace: str) -> dict[str, tuple[str, ...]]:
        """{doc_id: its tags, in their order} of the documents of the namespace that have any."""
        d = t.document_tag.c
        found: dict[str, list[str]] = {}
        with self.database.read(namespace) as c:
            for doc_id, tag in c.execute(sa.select(d.doc_id, d.tag).where(d.namespace == namespace)):
                found.setdefault(doc_id, []).append(tag)
        return {doc_id: tuple(sorted(tags)) for doc_id, tags in sorted(found.items())}

    @retried
    def change(
        self, namespace: str, doc_ids: Collection[str], *, add: Collection[str], remove: Collection[str]
    ) -> None:
        """Give documents tags, and take others away."""
        now = now_micros()
        d = t.document_tag
        with self.database.begin(namespace) as c:
            for part in parts(sorted(doc_ids)):
                theirs = (d.c.namespace == namespace, d.c.doc_id.in_(part), d.c.tag.in_(sorted(remove)))
                c.execute(sa.delete(d).where(*theirs))
            upsert(
                c,
                d,
                [
                    {"namespace": namespace, "doc_id": doc_id, "tag": tag, "set_at": now}
                    for doc_id in sorted(doc_ids)
                    for tag in sorted(add)
                ],
            )

    def forget(self, c: Connection, namespace: str, doc_ids: Collection[str]) -> None:
        """Erase the tags of these documents."""
        d = t.document_tag
        for part in parts(sorted(doc_ids)):
            c.execute(sa.delete(d).where(d.c.namespace == namespace, d.c.doc_id.in_(part)))
