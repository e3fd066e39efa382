"""The entries of the sources file, and what connectors keep of their sources from one run to the next."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert


@functools.cache
def _entries(*named: str) -> sa.Select[Any]:
    """The query of the entries in some ``states``, where each named column has the value of its name.

    Made once: to put such a statement together takes longer than to run it.
    """
    e = t.source_entry.c
    equal = (e[name] == sa.bindparam(name) for name in named)
    return sa.select(t.source_entry).where(e.state.in_(sa.bindparam("states", expanding=True)), *equal)


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
    def add(self, namespace: str, source_id: str, entry: Row) -> None:
        """Make one entry that the sources file does not list, as :meth:`sync` has them, active."""
        row = {"namespace": namespace, "source_id": source_id, "state": "active", "updated_at": now_micros()}
        with self.database.begin(namespace) as c:
            upsert(c, t.source_entry, [{**row, **{k: entry[k] for k in ("type", "config", "root")}}])

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
        only = {"namespace": namespace, "source_id": source_id}
        asked = {name: value for name, value in only.items() if value is not None}
        query = _entries(*asked)
        with self.database.read(namespace) as c:
            rows = c.execute(query, {**asked, "states": list(states)})
            # Sorted here: a server sorts text by its language.
            return sorted((dict(r._mapping) for r in rows), key=lambda r: (r["namespace"], r["source_id"]))

    @retried
    def set_state(self, namespace: str, source_id: str, state: str) -> None:
        with self.database.begin(namespace) as c:
            c.execute(
                sa.update(t.source_entry)
                .where(t.source_entry.c.namespace == namespace, t.source_entry.c.source_id == source_id)
                .values(state=state, updated_at=now_micros())
            )


class SourceStates:
    """Texts by key, of each source. They hold for one configuration of it: saved under another they are as
    if they were not there."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def load(self, namespace: str, source_id: str, configuration: str) -> dict[str, str]:
        """All that was saved under this configuration."""
        s = t.source_state
        with self.database.read(namespace) as c:
            rows = c.execute(
                sa.select(s.c.key, s.c.value).where(
                    s.c.namespace == namespace,
                    s.c.source_id == source_id,
                    s.c.configuration == configuration,
                )
            )
            return {r.key: r.value for r in rows}

    @retried
    def save(
        self, namespace: str, source_id: str, configuration: str, values: Mapping[str, str | None]
    ) -> None:
        """Keep these values, and forget those that are None, in one transaction."""
        s = t.source_state
        with self.database.begin(namespace) as c:
            for part in parts(sorted(k for k, v in values.items() if v is None)):
                c.execute(
                    sa.delete(s).where(
                        s.c.namespace == namespace, s.c.source_id == source_id, s.c.key.in_(part)
                    )
                )
            kept = [(k, v) for k, v in values.items() if v is not None]
            if kept:
                upsert(
                    c,
                    s,
                    [
                        {
                            "namespace": namespace,
                            "source_id": source_id,
                            "key": key,
                            "configuration": configuration,
                            "value": value,
                        }
                        for key, value in kept
                    ],
                )

    @retried
    def forget(self, namespace: str, source_ids: Iterable[str]) -> None:
        """Forget all of these sources, so that each is enumerated as for the first time."""
        with self.database.begin(namespace) as c:
            for source_id in sorted(set(source_ids)):
                self.forget_within(c, namespace, source_id)

    def forget_within(self, c: Connection, namespace: str, source_id: str) -> None:
        """The same of one source in the transaction of another subject."""
        s = t.source_state
        c.execute(sa.delete(s).where(s.c.namespace == namespace, s.c.source_id == source_id))
