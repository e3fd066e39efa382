"""How long documents are kept: the policy of each source, and those that people gave single documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.model.retention import Policies, Policy
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, parts, upsert


class Retention:
    """A policy that is set again as it is keeps the time since when it holds."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def all(self, namespace: str) -> Policies:
        """Every policy of the namespace."""
        p = t.retention_policy.c
        query = sa.select(p.kind, p.subject, p.days, p.set_at).where(p.namespace == namespace)
        found: dict[str, dict[str, Policy]] = {"source": {}, "document": {}}
        with self.database.read(namespace) as c:
            for kind, subject, days, set_at in c.execute(query):
                found[kind][subject] = Policy(days, set_at)
        return Policies(found["source"], found["document"])

    @retried
    def sync(self, namespace: str, sources: Mapping[str, int]) -> None:
        """Make the policies of the namespace's sources those of the sources file: {source id: days}."""
        with self.database.read(namespace) as c:
            if self._held(c, namespace, "source") == sources:
                return
        with self.database.begin(namespace) as c:
            held = self._held(c, namespace, "source")
            self._write(c, namespace, "source", {s: d for s, d in sources.items() if held.get(s) != d})
            self._remove(c, namespace, "source", held.keys() - sources.keys())

    @retried
    def keep(self, namespace: str, doc_ids: Collection[str], days: int | None) -> None:
        """Give documents a policy of their own; ``days`` is None for those that are kept for good."""
        with self.database.begin(namespace) as c:
            held = self._held(c, namespace, "document")
            changed = {d: days for d in doc_ids if d not in held or held[d] != days}
            self._write(c, namespace, "document", changed)

    @retried
    def keep_as_source(self, namespace: str, doc_ids: Collection[str]) -> None:
        """Take the documents' own policies away: that of their source holds for them."""
        with self.database.begin(namespace) as c:
            self._remove(c, namespace, "document", doc_ids)

    def forget(self, c: Connection, namespace: str, doc_ids: Collection[str]) -> None:
        """Erase what names these documents."""
        self._remove(c, namespace, "document", doc_ids)

    def _held(self, c: Connection, namespace: str, kind: str) -> dict[str, int | None]:
        p = t.retention_policy.c
        query = sa.select(p.subject, p.days).where(p.namespace == namespace, p.kind == kind)
        return dict(iter(c.execute(query)))

    def _write(self, c: Connection, namespace: str, kind: str, days: Mapping[str, int | None]) -> None:
        now = now_micros()
        upsert(
            c,
            t.retention_policy,
            [
                {"namespace": namespace, "kind": kind, "subject": subject, "days": d, "set_at": now}
                for subject, d in sorted(days.items())
            ],
        )

    def _remove(self, c: Connection, namespace: str, kind: str, subjects: Collection[str]) -> None:
        p = t.retention_policy
        for part in parts(sorted(subjects)):
            c.execute(sa.delete(p).where(p.c.namespace == namespace, p.c.kind == kind, p.c.subject.in_(part)))
