"""Dead letters: items that failed or were passed by on purpose, with the reason."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.runs import unit_name
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts, upsert


@functools.cache
def _letters(*named: str) -> sa.Select[Any]:
    """The query of the letters where each named column has the value of its name.

    Made once: to put such a statement together takes longer than to run it.
    """
    d = t.dead_letter
    return sa.select(d).where(*(d.c[name] == sa.bindparam(name) for name in named))


class DeadLetters:
    """One letter for each item of a source and stage; an item is a path, or the id of a unit."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def find(self, namespace: str, source_id: str | None = None, stage: str | None = None) -> list[Row]:
        """The letters of a namespace, source or stage, by source, stage and item."""
        wanted = {"namespace": namespace, "source_id": source_id, "stage": stage}
        asked = {name: value for name, value in wanted.items() if value is not None}
        names = t.dead_letter.c.keys()
        with self.database.read(namespace) as c:
            # The driver's rows as they are: texts and numbers need no conversion.
            found = c.execute(_letters(*asked), asked).cursor.fetchall()
        rows = [dict(zip(names, row, strict=True)) for row in found]
        return sorted(rows, key=lambda r: (r["source_id"], r["stage"], r["item"]))

    @retried
    def failed(self, namespace: str, sources: Collection[str]) -> dict[str, list[str]]:
        """The items that failed, in order, of each of some sources that has any."""
        d = t.dead_letter.c
        found: dict[str, list[str]] = {}
        with self.database.read(namespace) as c:
            for part in parts(sorted(sources)):
                query = sa.select(d.source_id, d.item).where(
                    d.namespace == namespace, d.kind == "failed", d.source_id.in_(part)
                )
                for source, item in c.execute(query):
                    found.setdefault(source, []).append(item)
        return {source: sorted(set(items)) for source, items in found.items()}

    @retried
    def failing(self, namespace: str, codes: Collection[str]) -> set[str]:
        """The sources of a namespace with a letter of something that failed, or one of these codes."""
        d = t.dead_letter.c
        query = (
            sa.select(d.source_id)
            .where(d.namespace == namespace, sa.or_(d.kind == "failed", d.code.in_(sorted(codes))))
            .distinct()
        )
        with self.database.read(namespace) as c:
            return set(c.execute(query).scalars())

    @retried
    def record(
        self, namespace: str, source_id: str, stage: str, letters: Sequence[Row], cleared: Collection[str]
    ) -> None:
        """Add ``letters``, each {item, code, message, fingerprint, kind}; drop those of ``cleared`` items,
        which are well again.

        An item that fails again with the same code has one more attempt; another code starts over.
        """
        if not letters and not cleared:
            return
        d, now = t.dead_letter, now_micros()
        where = (d.c.namespace == namespace, d.c.source_id == source_id, d.c.stage == stage)
        with self.database.publishing(namespace) as c:
            known = {r.item: r for r in c.execute(sa.select(d).where(*where))}
            gone = sorted(set(cleared) & set(known))
            for part in parts(gone):
                c.execute(sa.delete(d).where(*where, d.c.item.in_(part)))
            rows = []
            for x in letters:
                old = known.get(x["item"])
                same = old is not None and old.code == x["code"]
                rows.append(
                    {
                        "namespace": namespace,
                        "source_id": source_id,
                        "stage": stage,
                        **x,
                        "attempts": old.attempts + 1 if old is not None and same else 1,
                        "first_at": old.first_at if old is not None and same else now,
                        "last_at": now,
                    }
                )
            upsert(c, d, rows)

    @retried
    def start_over(self, namespace: str, letters: Sequence[Row]) -> None:
        """Let these letters be as after a first failure a minute ago: due, with all their retries left."""
        d, then = t.dead_letter, now_micros() - 60_000_000
        with self.database.begin(namespace) as c:
            for letter in letters:
                c.execute(
                    sa.update(d)
                    .where(
                        d.c.namespace == namespace,
                        *(d.c[name] == letter[name] for name in ("source_id", "stage", "item")),
                    )
                    .values(attempts=1, last_at=then)
                )

    @retried
    def forget_retired(self, namespace: str) -> int:
        """Erase the letters of the sources of a namespace that have retired; return how many."""
        d, s = t.dead_letter, t.source_entry
        retired = sa.select(s.c.source_id).where(s.c.namespace == namespace, s.c.state == "retired")
        with self.database.begin(namespace) as c:
            return c.execute(
                sa.delete(d).where(d.c.namespace == namespace, d.c.source_id.in_(retired))
            ).rowcount

    def forget(
        self, c: Connection, namespace: str, source_id: str, names: Collection[str], items: Collection[str]
    ) -> None:
        """Erase the letters of these items, and those of units of these names, which may have no run yet."""
        d, x = t.dead_letter, t.locator
        of_source = (d.c.namespace == namespace, d.c.source_id == source_id)
        # A file may have a colon in its path: what is located is no unit.
        paths = sa.select(x.c.path).where(x.c.namespace == namespace, x.c.source_id == source_id)
        others = sa.select(d.c.item).distinct().where(*of_source, d.c.item.not_in(paths))
        units = {item for item in c.execute(others).scalars() if unit_name(item) in names}
        for part in parts(sorted({*items, *units})):
            c.execute(sa.delete(d).where(*of_source, d.c.item.in_(part)))
