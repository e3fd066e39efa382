"""The catalog's lasting rows as records: read in one state of the database, and loaded into an empty one.

What is derived is left out, since it is made again: pointers, interpretation runs and what their units read;
so are uploads that wait, whose bytes a backup holds, and state that may be lost.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, create_engine
from taboot_pipelines.stores.catalog.deletions import record_event
from taboot_pipelines.stores.catalog.migrator import HEAD, REVISIONS, Migrator
from taboot_pipelines.stores.catalog.writing import write
from taboot_pipelines.stores.leases.files import FileLeases

#: (table, {column: value}); bytes as base64 under the key :data:`BYTES`.
Record = tuple[str, dict[str, Any]]
BYTES = "base64"

_LEFT_OUT = frozenset({"pointer", "interpretation_run", "unit_state", "interpretation_batch", "upload_queue"})
#: The first table of a copy, so that which blobs it needs is read without the rest.
FIRST = "blob"
#: The tables of a copy, in the order in which they are read.
TABLES = (
    FIRST,
    *(
        name
        for name in t.metadata.tables
        if name not in _LEFT_OUT and name != FIRST and not name.startswith("state_")
    ),
)
_TOGETHER = 2000
#: Kinds of events: rows were loaded, and all that follows from them was made.
LOADED, RESTORED = "backup_loaded", "backup_restored"


def records(database: Database) -> Iterator[Record]:
    """Yield every lasting row, of all namespaces, as of one moment; writers go on meanwhile."""
    with database.read(None) as c:
        for name in TABLES:
            for row in c.execution_options(yield_per=_TOGETHER).execute(sa.select(t.metadata.tables[name])):
                yield name, {str(k): _encoded(v) for k, v in row._mapping.items()}


def is_empty(database: Database) -> bool:
    """Whether no source was ever read into this catalog, nor anything decided or deleted."""
    kept = (t.source_entry, t.locator, t.fetch, t.tombstone, t.assertion, t.audit_event)
    with database.read(None) as c:
        return not any(
            c.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() for table in kept
        )


def loaded(database: Database, namespace: str) -> str | None:
    """Return the event with which rows were loaded that nothing was made of yet; None if there is none."""
    e = t.audit_event.c
    query = (
        sa.select(e.kind, e.subject)
        .where(e.namespace == namespace, e.kind.in_((LOADED, RESTORED)))
        .order_by(e.id.desc())
        .limit(1)
    )
    with database.read(namespace) as c:
        last = c.execute(query).first()
    return None if last is None or last.kind != LOADED else last.subject


def load(
    database: Database, rows: Iterable[Record], revision: str, *, namespace: str = "", event: str = ""
) -> None:
    """Write the records of a catalog of ``revision`` into an empty one, in one transaction, and with them
    ``event`` into the audit log of ``namespace``, where one is named.

    Records of an earlier release are migrated on their way. Raises ``E_BACKUP`` for those of a newer one.
    """
    if revision not in REVISIONS:
        raise TabootError(
            "E_BACKUP",
            f"The backup was made by a newer release (catalog revision {revision}; this one has {HEAD}).",
            remedy="Install that release or a newer one, and restore with it.",
            revision=revision,
        )
    if revision != HEAD:
        with TemporaryDirectory() as folder:
            migrated = _migrated(Path(folder), rows, revision)
            load(database, migrated, HEAD, namespace=namespace, event=event)
        return
    with database.begin(None) as c:
        for name, part in _parts(rows):
            if name in TABLES:
                write(c, t.metadata.tables[name], [_ended(name, row) for row in part])
        if c.dialect.name == "postgresql":
            _advance_sequences(c)
        if event:
            record_event(c, namespace, LOADED, event, {})


def _ended(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row; a job that was running when the copy was made has ended with it."""
    if name == "job" and row["state"] in {JobState.RUNNING.value, JobState.QUEUED.value}:
        return {**row, "state": JobState.CANCELED.value, "ended_at": row["updated_at"]}
    return row


def _migrated(folder: Path, rows: Iterable[Record], revision: str) -> Iterator[Record]:
    """Yield the records as the newest revision has them: by way of a file of SQLite, which is migrated."""
    engine = create_engine(folder, None)
    leases = FileLeases(folder / "locks", 0.0)
    try:
        migrator = Migrator(engine, leases, None, lambda: None)
        migrator.migrate()
        migrator.migrate(revision)
        old = sa.MetaData()
        old.reflect(bind=engine)
        with engine.begin() as c:
            for name, part in _parts(rows):
                if name in old.tables:
                    write(c, old.tables[name], part)
        migrator.migrate()
        yield from records(Database(engine, leases))
    finally:
        engine.dispose()
        leases.close()


def _parts(rows: Iterable[Record]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows of one table at a time, in parts of bounded length."""
    name, part = "", list[dict[str, Any]]()
    for table, row in rows:
        if part and (table != name or len(part) == _TOGETHER):
            yield name, part
            part = []
        name = table
        part.append({k: _decoded(v) for k, v in row.items()})
    if part:
        yield name, part


def _advance_sequences(c: Connection) -> None:
    """Let the next number of each table follow those that were loaded. Who may use a sequence may ask it for
    numbers, and need not be its owner."""
    for name in TABLES:
        (key, *others) = t.metadata.tables[name].primary_key.columns
        if others or not isinstance(key.type, sa.Integer) or key.autoincrement is not True:
            continue
        top = c.execute(sa.select(sa.func.max(key))).scalar() or 0
        if top:
            c.execute(
                sa.text("SELECT count(nextval(:sequence)) FROM generate_series(1, :top)"),
                {"sequence": f"{name}_{key.name}_seq", "top": top},
            )


def _encoded(value: Any) -> Any:
    return {BYTES: base64.b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _decoded(value: Any) -> Any:
    return base64.b64decode(value[BYTES]) if isinstance(value, dict) else value
