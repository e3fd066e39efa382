"""What people think of answers: an input, which nothing that is derived depends on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, upsert


class Opinion(NamedTuple):
    """What somebody thinks of the answer to a question. ``verdict``: ``right``, ``wrong``, or ``none`` for
    what the house does not say; ``must``: expressions that a right answer matches; ``doc_ids``: of which it
    cites one; ``at``: in microseconds."""

    question: str
    verdict: str
    must: tuple[str, ...]
    doc_ids: tuple[str, ...]
    note: str
    who: str
    at: int


class Feedback:
    """One opinion of each question, the last one. No text of an answer is kept, which could quote what is
    erased later."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def keep(self, namespace: str, opinion: Opinion) -> None:
        """Keep an opinion in place of an earlier one; its ``at`` is now."""
        row: dict[str, Any] = {**opinion._asdict(), "namespace": namespace, "at": now_micros()}
        row |= {name: orjson.dumps(row[name]).decode() for name in ("must", "doc_ids")}
        with self.database.begin(namespace) as c:
            upsert(c, t.feedback, [row])

    @retried
    def all(self, namespace: str) -> list[Opinion]:
        """Every opinion, the oldest first."""
        f = t.feedback
        query = sa.select(*(f.c[name] for name in Opinion._fields)).where(f.c.namespace == namespace)
        with self.database.read(namespace) as c:
            rows = c.execute(query.order_by(f.c.at, f.c.question)).all()
        return [
            Opinion(*r)._replace(must=tuple(orjson.loads(r.must)), doc_ids=tuple(orjson.loads(r.doc_ids)))
            for r in rows
        ]

    @retried
    def withdraw(self, namespace: str, question: str) -> bool:
        """Erase what was thought of a question; gives whether there was anything."""
        f = t.feedback.c
        with self.database.begin(namespace) as c:
            gone = c.execute(sa.delete(t.feedback).where(f.namespace == namespace, f.question == question))
            return bool(gone.rowcount)

    def forget(self, c: Connection, namespace: str, doc_ids: Collection[str]) -> None:
        """Erase the opinions that name one of these documents: their words may be of it."""
        f = t.feedback.c
        for doc_id in sorted(doc_ids):
            c.execute(
                sa.delete(t.feedback).where(
                    f.namespace == namespace, f.doc_ids.contains(doc_id, autoescape=True)
                )
            )
