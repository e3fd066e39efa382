"""Pointers: what each stage has published last, for a source or for the namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa

from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import now_micros, upsert

# Made once: to put such a statement together takes longer than to run it.
_OWN = sa.select(t.pointer).where(
    t.pointer.c.namespace == sa.bindparam("namespace"), t.pointer.c.owner == sa.bindparam("owner")
)
_ONE = _OWN.where(t.pointer.c.stage == sa.bindparam("stage"))
_OF_OWNER = _OWN.where(t.pointer.c.stage.in_(sa.bindparam("stages", expanding=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What a stage has published, and of what it was made: readers follow it, and it is replaced whole.

    - ``stage``: the name of the stage.
    - ``tables``: the version of each table that it has published (None: there is no row, hence no table).
    - ``inputs``: one hash of all inputs that it has applied. While the stage computes the same hash from what
      is there now, it has nothing to do.
    - ``txn``: the transaction id that the commits of those tables carry, by which a repair sees whether all
      of them were made by the same run. Often equal to ``inputs``.
    - ``applied``: what the stage notes of single inputs, for example the version of an upstream table by its
      source, so that readers and audits can see what exactly was applied.
    """

    stage: str
    tables: Mapping[str, str | None]
    inputs: str
    txn: str
    applied: Mapping[str, Any]


class Pointers:
    """``owner`` is a source id, or ``_`` for what belongs to the namespace (``stores.tables.NAMESPACE``)."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def get(self, namespace: str, owner: str, stage: str) -> Pointer | None:
        with self.database.read(namespace) as c:
            named = {"namespace": namespace, "owner": owner, "stage": stage}
            row = c.execute(_ONE, named).one_or_none()
        return None if row is None else _pointer(row)

    @retried
    def of_owner(self, namespace: str, owner: str, stages: Collection[str]) -> dict[str, Pointer]:
        """What one owner has published of these stages, by stage, all as of one moment."""
        with self.database.read(namespace) as c:
            named = {"namespace": namespace, "owner": owner, "stages": sorted(stages)}
            return {row.stage: _pointer(row) for row in c.execute(_OF_OWNER, named)}

    @retried
    def of_stages(
        self,
        namespace: str,
        stages: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> dict[tuple[str, str], Pointer]:
        """What these owners have published of these stages (None: all of them), by (owner, stage), all as of
        one moment.
        """
        p = t.pointer
        query = sa.select(p).where(p.c.namespace == namespace)
        if owners is not None:
            query = query.where(p.c.owner.in_(sorted(owners)))
        with self.database.read(namespace) as c:
            rows = c.execute(query if stages is None else query.where(p.c.stage.in_(sorted(stages)))).all()
        return {(r.owner, r.stage): _pointer(r) for r in rows}

    @retried
    def publish(self, namespace: str, owner: str, pointer: Pointer) -> None:
        """Make this what readers see, if this thread still holds its leases."""
        with self.database.publishing(namespace) as c:
            upsert(
                c,
                t.pointer,
                [
                    {
                        "namespace": namespace,
                        "owner": owner,
                        "stage": pointer.stage,
                        "tables": canonical_json(pointer.tables),
                        "inputs": pointer.inputs,
                        "txn": pointer.txn,
                        "applied": canonical_json(pointer.applied),
                        "updated_at": now_micros(),
                    }
                ],
            )

    @retried
    def drop(self, namespace: str, owner: str, stages: Collection[str] | None = None) -> None:
        """Forget what an owner has published (None: all of it)."""
        query = sa.delete(t.pointer).where(t.pointer.c.namespace == namespace, t.pointer.c.owner == owner)
        with self.database.publishing(namespace) as c:
            c.execute(query if stages is None else query.where(t.pointer.c.stage.in_(list(stages))))


def _pointer(row: sa.Row[Any]) -> Pointer:
    return Pointer(
        stage=row.stage,
        # Earlier releases wrote versions as bare numbers.
        tables={k: None if v is None else str(v) for k, v in orjson.loads(row.tables).items()},
        inputs=row.inputs,
        txn=row.txn,
        applied=orjson.loads(row.applied),
    )
