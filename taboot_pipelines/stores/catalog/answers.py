"""What a chat model answered about windows of text, which documents hold them, and how many questions a
namespace has asked this month.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, insert, now_micros, parts, upsert


class KeptAnswer(NamedTuple):
    """An answer, and the tokens that it cost."""

    value: Any
    input_tokens: int
    output_tokens: int


class OpenWindow(NamedTuple):
    """A window that its document was last read without; ``answered``: by now there is an answer."""

    doc_id: str
    key: str
    answered: bool


class Answers:
    """Answers by key, each kept as soon as it is there; and the windows of documents, by which answers are
    found again for an erasure."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def known(self, namespace: str, keys: Collection[str]) -> dict[str, KeptAnswer]:
        """{key: answer} of those keys that have one."""
        a, found = t.llm_answer, dict[str, KeptAnswer]()
        with self.database.read(namespace) as c:
            for part in parts(sorted(set(keys))):
                query = sa.select(a.c.key, a.c.answer, a.c.input_tokens, a.c.output_tokens).where(
                    a.c.namespace == namespace, a.c.key.in_(part)
                )
                for row in c.execute(query):
                    value = orjson.loads(row.answer)
                    found[row.key] = KeptAnswer(value, row.input_tokens, row.output_tokens)
        return found

    @retried
    def keep(self, namespace: str, answers: Sequence[Row]) -> None:
        """Keep answers, each {key, model, prompt_version, schema_version, answer (JSON), input_tokens,
        output_tokens}."""
        now = now_micros()
        with self.database.begin(namespace) as c:
            upsert(c, t.llm_answer, [{"namespace": namespace, "created_at": now, **x} for x in answers])

    @retried
    def record_windows(
        self, namespace: str, source_id: str, doc_ids: Collection[str], windows: Sequence[Row]
    ) -> None:
        """Record the windows of documents, each {doc_id, blob_sha256, key, span_start, span_end, tokens,
        open}; of all other windows of these documents none is open."""
        w = t.llm_window
        with self.database.publishing(namespace) as c:
            self._close(c, namespace, source_id, doc_ids)
            owner = {"namespace": namespace, "source_id": source_id}
            upsert(c, w, [{**owner, **x} for x in windows])

    @retried
    def close_windows(self, namespace: str, source_id: str, doc_ids: Collection[str]) -> None:
        """The documents are gone, or are not read: none of their windows is open."""
        if doc_ids:
            with self.database.publishing(namespace) as c:
                self._close(c, namespace, source_id, doc_ids)

    @retried
    def open_windows(self, namespace: str, source_id: str) -> list[OpenWindow]:
        """The open windows of a source, by document and key."""
        w, a = t.llm_window, t.llm_answer
        joined = w.outerjoin(a, sa.and_(a.c.namespace == w.c.namespace, a.c.key == w.c.key))
        query = (
            sa.select(w.c.doc_id, w.c.key, a.c.key.is_not(None))
            .select_from(joined)
            .where(w.c.namespace == namespace, w.c.source_id == source_id, w.c.open)
            .order_by(w.c.doc_id, w.c.key)
        )
        with self.database.read(namespace) as c:
            return [OpenWindow(doc_id, key, bool(answered)) for doc_id, key, answered in c.execute(query)]

    @retried
    def open_count(self, namespace: str) -> int:
        """How many windows are open, in all sources."""
        w = t.llm_window.c
        query = sa.select(sa.func.count()).where(w.namespace == namespace, w.open)
        with self.database.read(namespace) as c:
            return int(c.execute(query).scalar_one())

    @retried
    def places(self, namespace: str, source_id: str, key: str) -> list[Mapping[str, Any]]:
        """Where an open window stands: {doc_id, blob_sha256, span_start, span_end, tokens}."""
        w = t.llm_window
        query = sa.select(w.c.doc_id, w.c.blob_sha256, w.c.span_start, w.c.span_end, w.c.tokens).where(
            w.c.namespace == namespace, w.c.source_id == source_id, w.c.key == key, w.c.open
        )
        with self.database.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query.order_by(w.c.doc_id))]

    def forget(self, c: Connection, namespace: str, source_id: str, doc_ids: Collection[str]) -> set[str]:
        """Erase the windows of these documents, in every version, and the answers that only they had; returns
        the keys of these answers, by which dead letters are called."""
        w = t.llm_window
        return self._forget(c, namespace, [w.c.source_id == source_id], w.c.doc_id, doc_ids)

    def forget_blobs(self, c: Connection, namespace: str, blobs: Collection[str]) -> set[str]:
        """The same of every document that held these bytes."""
        return self._forget(c, namespace, [], t.llm_window.c.blob_sha256, blobs)

    def _forget(
        self,
        c: Connection,
        namespace: str,
        where: Sequence[sa.ColumnElement[bool]],
        column: sa.ColumnElement[str],
        values: Collection[str],
    ) -> set[str]:
        w, a = t.llm_window, t.llm_answer
        keys: set[str] = set()
        for part in parts(sorted(values)):
            of_part = (w.c.namespace == namespace, *where, column.in_(part))
            keys |= set(c.execute(sa.select(w.c.key).where(*of_part)).scalars())
            c.execute(sa.delete(w).where(*of_part))
        for part in parts(sorted(keys)):
            held = sa.select(w.c.key).where(w.c.namespace == namespace, w.c.key.in_(part))
            keys -= set(c.execute(held).scalars())
        for part in parts(sorted(keys)):
            c.execute(sa.delete(a).where(a.c.namespace == namespace, a.c.key.in_(part)))
        return keys

    @staticmethod
    def _close(c: Connection, namespace: str, source_id: str, doc_ids: Collection[str]) -> None:
        w = t.llm_window
        for part in parts(sorted(doc_ids)):
            c.execute(
                sa.update(w)
                .where(w.c.namespace == namespace, w.c.source_id == source_id, w.c.doc_id.in_(part), w.c.open)
                .values(open=False)
            )


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
