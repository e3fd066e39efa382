"""The entries of the sources file, as the catalog remembers them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, upsert


class Sources:
    """A source is ``active``, then ``retiring`` once it has left the file, then ``retired``."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def sync(self, entries: Mapping[str, Row]) -> list[tuple[str, str]]:
        """Make the entries those of the (valid, non-empty) sources file: {source id: {namespace, type,
        config, root}}.

        A source that left, or changed its namespace, becomes ``retiring`` (rule ``complete-enumeration``).
        Returns what is retiring now, as (namespace, source id).
        """
        now = now_micros()
        with self.database.begin(None) as c:
            known = {
                (r.namespace, r.source_id): r for r in c.execute(sa.select(t.source_entry).with_for_update())
            }
            wanted = {(e["namespace"], s): e for s, e in entries.items()}
            changed = []
            for (namespace, source_id), entry in wanted.items():
                old = known.get((namespace, source_id))
                new = {
                    "type": entry["type"],
                    "config": entry["config"],
                    "root": entry["root"],
                    "state": "active",
                }
                if old is None or any(getattr(old, k) != v for k, v in new.items()):
                    changed.append({"namespace": namespace, "source_id": source_id, "updated_at": now, **new})
            changed += [
                {**old._mapping, "state": "retiring", "updated_at": now}
                for key, old in known.items()
                if key not in wanted and old.state == "active"
            ]
            upsert(c, t.source_entry, changed)
            rows = c.execute(
                sa.select(t.source_entry.c.namespace, t.source_entry.c.source_id).where(
                    t.source_entry.c.state == "retiring"
                )
            )
            return sorted((r.namespace, r.source_id) for r in rows)

    @retried
    def find(
        self,
        namespace: str | None = None,
        states: Collection[str] = ("active", "retiring"),
        *,
        source_id: str | None = None,
    ) -> list[Row]:
        """The entries of one namespace or (None, for maintenance) of all, by namespace and source id; those
        of one source where its id is given.
        """
        query = sa.select(t.source_entry).where(t.source_entry.c.state.in_(list(states)))
        if source_id is not None:
            query = query.where(t.source_entry.c.source_id == source_id)
        if namespace is not None:
            query = query.where(t.source_entry.c.namespace == namespace)
        with self.database.read(namespace) as c:
            # Sorted here: a server sorts text by its language.
            return sorted(
                (dict(r._mapping) for r in c.execute(query)), key=lambda r: (r["namespace"], r["source_id"])
            )

    @retried
    def set_state(self, namespace: str, source_id: str, state: str) -> None:
        with self.database.begin(namespace) as c:
            c.execute(
                sa.update(t.source_entry)
                .where(t.source_entry.c.namespace == namespace, t.source_entry.c.source_id == source_id)
                .values(state=state, updated_at=now_micros())
            )
