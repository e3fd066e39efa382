"""What people decided, in the order in which they did: rows that are added and never changed.

What a kind of row means, and which are in force, is for ``knowledge.assertions``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from taboot_pipelines.model import ids
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.blobs import Blobs, blob_row
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, write

#: What stands in the payload of a fact with which something was handed in, and of one whose was erased.
_RAW, _RAW_ERASED = '"shown_bytes":', '"raw_erased":true'


class NewAssertion(NamedTuple):
    """What is to be recorded; ``payload`` is canonical JSON."""

    kind: str
    payload: str
    who: str
    reason: str


class HandedIn(NamedTuple):
    """A blob that no connector fetched."""

    sha256: str
    byte_size: int
    mime: str


class Assertions:
    """A row's ``number`` counts from 1 in its namespace; its ``id`` is the hash of namespace, kind, payload
    and number. ``at`` ascends with the number (microseconds).
    """

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self._blobs = blobs

    @retried
    def add(self, namespace: str, new: Sequence[NewAssertion]) -> list[Row]:
        """Record decisions, all or none, and return their rows. Only under the namespace's lease."""
        a = t.assertion
        with self.database.publishing(namespace) as c:
            query = sa.select(sa.func.max(a.c.number), sa.func.max(a.c.at))
            last = c.execute(query.where(a.c.namespace == namespace)).one()
            number, at = (last[0] or 0) + 1, max(now_micros(), (last[1] or 0) + 1)
            rows: list[Row] = [
                {
                    "namespace": namespace,
                    "number": number + i,
                    "id": ids.digest(namespace, row.kind, row.payload, number + i),
                    **row._asdict(),
                    "at": at + i,
                    "erased_at": None,
                }
                for i, row in enumerate(new)
            ]
            write(c, a, rows)
        return rows

    @retried
    def record_blobs(self, namespace: str, blobs: Sequence[HandedIn], storage_url: str) -> None:
        """Record bytes that are in the store already: what people handed in, and the records of it."""
        now = now_micros()
        with self.database.publishing(namespace) as c:
            rows = [
                blob_row(
                    namespace,
                    x.sha256,
                    x.byte_size,
                    storage_url,
                    "structured",
                    mime=x.mime,
                    file_name=None,
                    created_at=now,
                )
                for x in blobs
            ]
            self._blobs.add(c, namespace, rows)

    @retried
    def all(self, namespace: str) -> list[Row]:
        """Every row of the namespace, in order, the erased ones included."""
        a = t.assertion
        with self.database.read(namespace) as c:
            query = sa.select(a).where(a.c.namespace == namespace).order_by(a.c.number)
            return [dict(row._mapping) for row in c.execute(query)]

    @retried
    def position(self, namespace: str) -> str:
        """What changes with every row that is added or erased, be it in part; empty where there is none."""
        a = t.assertion
        without_raw = sa.case((a.c.payload.contains(_RAW_ERASED, autoescape=True), 1))
        with self.database.read(namespace) as c:
            query = sa.select(
                sa.func.max(a.c.number), sa.func.count(a.c.erased_at), sa.func.count(without_raw)
            )
            number, erased, emptied = c.execute(query.where(a.c.namespace == namespace)).one()
        if number is None:
            return ""
        return f"{number}.{erased}" + (f".{emptied}" if emptied else "")

    @retried
    def handing(self) -> set[str]:
        """The namespaces in which something was handed in with a fact."""
        a = t.assertion
        with self.database.read(None) as c:
            query = sa.select(a.c.namespace).where(a.c.payload.contains(_RAW, autoescape=True))
            return set(c.execute(query.distinct()).scalars())

    @retried
    def erase_raw(self, namespace: str, assertion_ids: Collection[str]) -> None:
        """Take out what was handed in with these facts: the facts stay."""
        a = t.assertion
        with self.database.publishing(namespace) as c:
            for id_ in sorted(assertion_ids):
                ours = (a.c.namespace == namespace, a.c.id == id_, a.c.payload.is_not(None))
                for payload in c.execute(sa.select(a.c.payload).where(*ours)).scalars().all():
                    said = {**json.loads(payload), "raw": None, "raw_erased": True}
                    c.execute(sa.update(a).where(*ours).values(payload=ids.canonical_json(said)))

    @retried
    def erase(self, namespace: str, assertion_ids: Collection[str]) -> None:
        """Take out what was typed; the ids, the kind and the time stay."""
        a, now = t.assertion, now_micros()
        with self.database.publishing(namespace) as c:
            for part in parts(sorted(assertion_ids)):
                c.execute(
                    sa.update(a)
                    .where(a.c.namespace == namespace, a.c.id.in_(part), a.c.erased_at.is_(None))
                    .values(payload=None, who=None, reason=None, erased_at=now)
                )
