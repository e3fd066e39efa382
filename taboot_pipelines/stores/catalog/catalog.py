"""Access to the catalog. One class, no SQL elsewhere; every statement names the namespace."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import canonical_json, digest
from taboot_pipelines.model.jobs import JobState, Lifecycle, check_transition
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog.database import Database, now_micros, retried
from taboot_pipelines.stores.catalog.writing import Row, upsert, write
from taboot_pipelines.stores.leases import LeaseStore


@dataclass(frozen=True, slots=True)
class Locator:
    """The present state of a locator: which bytes are there, since when, and what the origin said of them."""

    path: str
    doc_id: str
    state: str
    role: str
    sha256: str
    byte_size: int
    mime: str | None
    charset: str | None
    url: str | None
    final_url: str | None
    etag: str | None
    last_modified: str | None
    lifecycle: str
    created_at: int
    since: int
    job_id: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a stage has published: the version of each of its tables and the hash of the inputs it has
    applied.
    """

    stage: str
    tables: Mapping[str, int | None]
    inputs: str
    txn: str
    applied: Mapping[str, Any]


_LOCATOR_COLUMNS = [t.locator.c[name] for name in Locator.__slots__]


class Catalog(Database):
    """SQLite by default; any SQLAlchemy URL of SQLite or PostgreSQL. Migrated to the newest revision when
    opened (SQLite) or first used (PostgreSQL). Every method raises ``E_CATALOG`` when the database fails."""

    @classmethod
    def open(
        cls, home: Path, leases: LeaseStore, url: str | None = None, admin_url: str | None = None
    ) -> Catalog:
        """``url`` is the application's role, ``admin_url`` the owner who migrates (default: the same). Raises
        ``E_CONFIG``.
        """
        try:
            catalog = cls(cls.engine(home, url), leases, admin_url)
            if catalog._engine.dialect.name == "sqlite":
                catalog._opened()
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise TabootError(
                "E_CATALOG", "The catalog cannot be opened.", reason=type(error).__name__
            ) from error
        return catalog

    # --- sources --------------------------------------------------------------------------------------------

    @retried
    def sync_sources(self, entries: Mapping[str, Row]) -> list[tuple[str, str]]:
        """Make the entries those of the (valid, non-empty) sources file: {source id: {namespace, type,
        config, root}}.

        A source that left, or changed its namespace, becomes ``retiring`` (rule 15). Returns what is retiring
        now, as (namespace, source id).
        """
        now = now_micros()
        with self.begin(None) as c:
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
    def sources(
        self, namespace: str | None = None, states: Collection[str] = ("active", "retiring")
    ) -> list[Row]:
        """Entries of one namespace or, by maintenance, of all."""
        query = sa.select(t.source_entry).where(t.source_entry.c.state.in_(list(states)))
        if namespace is not None:
            query = query.where(t.source_entry.c.namespace == namespace)
        with self.read(namespace) as c:
            # Sorted here: a server sorts text by its language.
            return sorted(
                (dict(r._mapping) for r in c.execute(query)), key=lambda r: (r["namespace"], r["source_id"])
            )

    @retried
    def set_source_state(self, namespace: str, source_id: str, state: str) -> None:
        with self.begin(namespace) as c:
            c.execute(
                sa.update(t.source_entry)
                .where(t.source_entry.c.namespace == namespace, t.source_entry.c.source_id == source_id)
                .values(state=state, updated_at=now_micros())
            )

    # --- jobs -----------------------------------------------------------------------------------------------

    @retried
    def start_job(self, namespace: str, source_id: str) -> str:
        import psutil

        job_id, now = uuid.uuid4().hex, now_micros()
        with self.begin(namespace) as c:
            c.execute(
                sa.insert(t.job).values(
                    job_id=job_id,
                    namespace=namespace,
                    source_id=source_id,
                    state=JobState.RUNNING.value,
                    started_at=now,
                    updated_at=now,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    process_started_at=psutil.Process().create_time(),
                )
            )
        return job_id

    @retried
    def end_job(
        self,
        job_id: str,
        state: JobState,
        counts: Mapping[str, Any] | None = None,
        *,
        error: Mapping[str, Any] | None = None,
        namespace: str | None = None,
    ) -> None:
        """``namespace``: the job's, if the caller knows it; without it the job is looked for in all, by
        maintenance.
        """
        with self.begin(namespace) as c:
            self._end_job(c, job_id, state, error, counts or {}, namespace)

    def _end_job(
        self,
        c: Connection,
        job_id: str,
        state: JobState,
        error: Mapping[str, Any] | None,
        counts: Mapping[str, Any],
        namespace: str | None = None,
    ) -> None:
        where = [t.job.c.job_id == job_id, *([] if namespace is None else [t.job.c.namespace == namespace])]
        current = c.execute(sa.select(t.job.c.state).where(*where)).scalar_one_or_none()
        if current is None:
            raise TabootError("E_NOT_FOUND", "There is no such job here.", job=job_id)
        check_transition(JobState(current), state)
        now = now_micros()
        values = {"state": state.value, "updated_at": now, "ended_at": now, **counts}
        if error is not None:
            values["error"] = canonical_json(error)
        c.execute(sa.update(t.job).where(*where).values(**values))

    @retried
    def fail_dead_jobs(self) -> list[str]:
        """Mark running jobs of dead processes of this machine, and jobs silent for 24 h (seed 000), as
        failed.
        """
        import psutil

        dead = []
        with self.begin(None) as c:
            for r in c.execute(
                sa.select(t.job)
                .where(t.job.c.state == JobState.RUNNING.value)
                .with_for_update(skip_locked=True)
            ).all():
                alive = True
                if r.host == socket.gethostname():
                    try:
                        alive = abs(psutil.Process(r.pid).create_time() - r.process_started_at) < 1
                    except psutil.NoSuchProcess:
                        alive = False
                if not alive or now_micros() - r.updated_at > 24 * 3600 * 1_000_000:
                    error = TabootError(
                        "E_TIMEOUT",
                        (
                            "The process of this job ended before the job did."
                            if not alive
                            else "The job ran for more than 24 hours."
                        ),
                    )
                    self._end_job(c, r.job_id, JobState.FAILED, error.to_response(), {})
                    dead.append(r.job_id)
        return dead

    @retried
    def jobs(self, namespace: str, source_id: str | None = None, limit: int = 20) -> list[Row]:
        query = (
            sa.select(t.job)
            .where(t.job.c.namespace == namespace)
            .order_by(t.job.c.started_at.desc())
            .limit(limit)
        )
        if source_id is not None:
            query = query.where(t.job.c.source_id == source_id)
        with self.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query)]

    # --- locators, fetch log, blobs -------------------------------------------------------------------------

    @retried
    def locators(
        self, namespace: str, source_id: str, *, state: str | None = "present"
    ) -> dict[str, Locator]:
        query = sa.select(*_LOCATOR_COLUMNS).where(
            t.locator.c.namespace == namespace, t.locator.c.source_id == source_id
        )
        if state is not None:
            query = query.where(t.locator.c.state == state)
        with self.read(namespace) as c:
            return {r.path: Locator(*r) for r in c.execute(query)}

    @retried
    def locators_of(self, namespace: str, doc_ids: Collection[str]) -> list[tuple[str, Locator]]:
        """(source id, locator) of documents by id, whatever their state."""
        found = []
        with self.read(namespace) as c:
            for part in _parts(sorted(doc_ids)):
                query = sa.select(t.locator.c.source_id, *_LOCATOR_COLUMNS).where(
                    t.locator.c.namespace == namespace, t.locator.c.doc_id.in_(part)
                )
                found += [(r[0], Locator(*r[1:])) for r in c.execute(query)]
        return found

    @retried
    def record_fetched(
        self,
        namespace: str,
        source_id: str,
        source_type: str,
        job_id: str,
        locators: Sequence[Locator],
        storage_url: str,
    ) -> None:
        """Log changed bytes and make them the locators' present state, in one transaction."""
        if not locators:
            return
        now = now_micros()
        with self.publishing(namespace) as c:
            write(
                c,
                t.fetch,
                [
                    {
                        "namespace": namespace,
                        "source_id": source_id,
                        "path": x.path,
                        "job_id": job_id,
                        "event": "fetched",
                        "sha256": x.sha256,
                        "role": x.role,
                        "attributes": canonical_json(
                            {
                                "mime": x.mime,
                                "charset": x.charset,
                                "url": x.url,
                                "final_url": x.final_url,
                                "etag": x.etag,
                                "last_modified": x.last_modified,
                                "byte_size": x.byte_size,
                            }
                        ),
                        "fetched_at": x.since if x.job_id == job_id else now,
                    }
                    for x in locators
                ],
            )
            upsert(c, t.locator, [_locator_row(namespace, source_id, x) for x in locators])
            blobs = {x.sha256: x for x in locators}
            pending = set(
                c.execute(
                    sa.select(t.upload_queue.c.content_hash).where(t.upload_queue.c.namespace == namespace)
                ).scalars()
            )
            new = write(
                c,
                t.blob,
                [
                    {
                        "namespace": namespace,
                        "content_hash": x.sha256,
                        "storage_url": f"{storage_url}/{x.sha256}",
                        "storage_status": "pending" if x.sha256 in pending else "uploaded",
                        "mime_type": x.mime,
                        "file_name": x.path.rsplit("/", 1)[-1],
                        "byte_size": x.byte_size,
                        "source_type": source_type,
                        "source_agent_id": None,
                        "source_metadata": "{}",
                        "created_at": now,
                    }
                    for x in blobs.values()
                ],
                "nothing",
            )
            if new:
                self._add_usage(c, namespace, sum(blobs[sha].byte_size for _, sha in new), len(new))

    @retried
    def touch_locators(self, namespace: str, source_id: str, locators: Sequence[Locator]) -> None:
        """Keep what an origin now says of unchanged bytes (a new ETag); no derived row depends on it."""
        with self.publishing(namespace) as c:
            upsert(c, t.locator, [_locator_row(namespace, source_id, x) for x in locators])

    @retried
    def record_absent(
        self,
        namespace: str,
        source_id: str,
        job_id: str,
        locators: Sequence[Locator],
        event: str = "absent",
        *,
        confirmed: int | None = None,
    ) -> None:
        """``confirmed``: how many deletions a person has confirmed, recorded as an input in the same
        transaction.
        """
        now = now_micros()
        if not locators:
            return
        with self.publishing(namespace) as c:
            if confirmed is not None:
                c.execute(
                    sa.insert(t.confirmation).values(
                        namespace=namespace,
                        source_id=source_id,
                        job_id=job_id,
                        deletions=confirmed,
                        confirmed_at=now,
                    )
                )
            write(
                c,
                t.fetch,
                [
                    {
                        "namespace": namespace,
                        "source_id": source_id,
                        "path": x.path,
                        "job_id": job_id,
                        "event": event,
                        "sha256": None,
                        "role": None,
                        "attributes": None,
                        "fetched_at": now,
                    }
                    for x in locators
                ],
            )
            upsert(
                c,
                t.locator,
                [
                    _locator_row(
                        namespace, source_id, replace(x, state="absent", lifecycle=Lifecycle.DELETED.value)
                    )
                    for x in locators
                ],
            )

    @retried
    def activate(self, namespace: str, source_id: str) -> None:
        """INGESTED -> ACTIVE for documents whose extraction is complete and which are queryable (seed
        000).
        """
        with self.publishing(namespace) as c:
            c.execute(
                sa.update(t.locator)
                .where(
                    t.locator.c.namespace == namespace,
                    t.locator.c.source_id == source_id,
                    t.locator.c.state == "present",
                    t.locator.c.lifecycle == Lifecycle.INGESTED.value,
                )
                .values(lifecycle=Lifecycle.ACTIVE.value)
            )

    @retried
    def queue_upload(
        self,
        namespace: str,
        sha256: str,
        path: str,
        size: int,
        *,
        max_retries: int,
        next_retry_at: int,
        error_message: str,
    ) -> None:
        with self.begin(namespace) as c:
            upsert(
                c,
                t.upload_queue,
                [
                    {
                        "namespace": namespace,
                        "content_hash": sha256,
                        "temp_file_path": path,
                        "byte_size": size,
                        "retry_count": 0,
                        "max_retries": max_retries,
                        "next_retry_at": next_retry_at,
                        "error_message": error_message,
                        "created_at": now_micros(),
                    }
                ],
            )

    @retried
    def due_uploads(self, namespace: str, now: int) -> list[Row]:
        """Uploads to try again. One that used up its retries is not forgotten: it stays due once a run."""
        q = t.upload_queue
        with self.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(q)
                    .where(q.c.namespace == namespace, q.c.next_retry_at <= now)
                    .order_by(q.c.created_at)
                )
            ]

    @retried
    def upload_failed(
        self,
        namespace: str,
        sha256: str,
        retry_count: int,
        next_retry_at: int,
        error_message: str,
        *,
        final: bool,
    ) -> None:
        q, b = t.upload_queue, t.blob
        with self.begin(namespace) as c:
            c.execute(
                sa.update(q)
                .where(q.c.namespace == namespace, q.c.content_hash == sha256)
                .values(retry_count=retry_count, next_retry_at=next_retry_at, error_message=error_message)
            )
            c.execute(
                sa.update(b)
                .where(b.c.namespace == namespace, b.c.content_hash == sha256)
                .values(storage_status="failed" if final else "pending")
            )

    @retried
    def upload_done(self, namespace: str, sha256: str) -> None:
        q, b = t.upload_queue, t.blob
        with self.begin(namespace) as c:
            c.execute(sa.delete(q).where(q.c.namespace == namespace, q.c.content_hash == sha256))
            c.execute(
                sa.update(b)
                .where(b.c.namespace == namespace, b.c.content_hash == sha256)
                .values(storage_status="uploaded")
            )

    @retried
    def blobs(self, namespace: str) -> list[Row]:
        with self.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(t.blob).where(t.blob.c.namespace == namespace).order_by(t.blob.c.content_hash)
                )
            ]

    @retried
    def hashes_only_of(self, namespace: str, doc_ids: Collection[str]) -> list[str]:
        """Blobs of these documents, past versions included, that no other document holds now or can be
        restored to.
        """
        wanted = set(doc_ids)
        theirs: set[str] = set()
        restorable = sa.select(t.tombstone.c.doc_id).where(
            t.tombstone.c.namespace == namespace, t.tombstone.c.reason == "deleted"
        )
        held = sa.or_(t.locator.c.state == "present", t.locator.c.doc_id.in_(restorable))
        located = self.locators_of(namespace, wanted)
        with self.read(namespace) as c:
            for source_id in {source for source, _ in located}:
                for part in _parts(sorted(x.path for source, x in located if source == source_id)):
                    theirs |= set(
                        c.execute(
                            sa.select(t.fetch.c.sha256)
                            .distinct()
                            .where(
                                t.fetch.c.namespace == namespace,
                                t.fetch.c.source_id == source_id,
                                t.fetch.c.path.in_(part),
                                t.fetch.c.sha256.is_not(None),
                            )
                        ).scalars()
                    )
            for part in _parts(sorted(theirs)):
                rows = c.execute(
                    sa.select(t.locator.c.sha256, t.locator.c.doc_id).where(
                        t.locator.c.namespace == namespace, t.locator.c.sha256.in_(part), held
                    )
                ).all()
                theirs -= {r.sha256 for r in rows if r.doc_id not in wanted}
        return sorted(theirs)

    @retried
    def blob_hashes(self, namespace: str) -> set[str]:
        with self.read(namespace) as c:
            return set(
                c.execute(sa.select(t.blob.c.content_hash).where(t.blob.c.namespace == namespace)).scalars()
            )

    def _add_usage(self, c: Connection, namespace: str, size: int, count: int) -> None:
        """Added in the database, not here: two sources of a namespace may be at it."""
        u = t.storage_usage
        insert: Any
        if c.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert
        statement = insert(u).values(
            namespace=namespace,
            total_bytes=size,
            total_sources=count,
            last_calculated=now_micros(),
            interpretation_count_month=0,
            billing_month=time.strftime("%Y-%m", time.gmtime()),
        )
        new = statement.excluded
        c.execute(
            statement.on_conflict_do_update(
                index_elements=["namespace"],
                set_={
                    "total_bytes": u.c.total_bytes + new.total_bytes,
                    "total_sources": u.c.total_sources + new.total_sources,
                    "last_calculated": new.last_calculated,
                    "interpretation_count_month": sa.case(
                        (u.c.billing_month == new.billing_month, u.c.interpretation_count_month), else_=0
                    ),
                    "billing_month": new.billing_month,
                },
            )
        )

    @retried
    def usage(self, namespace: str) -> Row:
        with self.read(namespace) as c:
            row = c.execute(
                sa.select(t.storage_usage).where(t.storage_usage.c.namespace == namespace)
            ).one_or_none()
            return (
                dict(row._mapping) if row else {"namespace": namespace, "total_bytes": 0, "total_sources": 0}
            )

    # --- pointers -------------------------------------------------------------------------------------------

    @retried
    def pointer(self, namespace: str, owner: str, stage: str) -> Pointer | None:
        with self.read(namespace) as c:
            r = c.execute(
                sa.select(t.pointer).where(
                    t.pointer.c.namespace == namespace, t.pointer.c.owner == owner, t.pointer.c.stage == stage
                )
            ).one_or_none()
        return (
            None
            if r is None
            else Pointer(r.stage, orjson.loads(r.tables), r.inputs, r.txn, orjson.loads(r.applied))
        )

    @retried
    def pointers(self, namespace: str, stages: Collection[str]) -> dict[tuple[str, str], Pointer]:
        """What every owner has published of these stages, by (owner, stage), all as of one moment."""
        p = t.pointer
        with self.read(namespace) as c:
            rows = c.execute(
                sa.select(p).where(p.c.namespace == namespace, p.c.stage.in_(sorted(stages)))
            ).all()
        return {
            (r.owner, r.stage): Pointer(
                r.stage, orjson.loads(r.tables), r.inputs, r.txn, orjson.loads(r.applied)
            )
            for r in rows
        }

    @retried
    def publish(self, namespace: str, owner: str, pointer: Pointer) -> None:
        with self.publishing(namespace) as c:
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
    def drop_pointers(self, namespace: str, owner: str, stages: Collection[str] | None = None) -> None:
        """Forget what an owner has published (None: all of it)."""
        query = sa.delete(t.pointer).where(t.pointer.c.namespace == namespace, t.pointer.c.owner == owner)
        with self.publishing(namespace) as c:
            c.execute(query if stages is None else query.where(t.pointer.c.stage.in_(list(stages))))

    # --- interpretation runs --------------------------------------------------------------------------------

    @retried
    def unit_states(self, namespace: str, source_id: str, tier: str) -> dict[str, Row]:
        u = t.unit_state
        with self.read(namespace) as c:
            rows = c.execute(
                sa.select(u).where(u.c.namespace == namespace, u.c.source_id == source_id, u.c.tier == tier)
            )
            return {
                r.unit_id: {
                    "run_id": r.run_id,
                    "reads": orjson.loads(r.reads),
                    "fingerprint": r.fingerprint,
                    "subordinates": orjson.loads(r.subordinates),
                    "environment": orjson.loads(r.environment),
                    "problems": orjson.loads(r.problems),
                    "suppressed": r.suppressed,
                }
                for r in rows
            }

    @retried
    def record_runs(
        self,
        namespace: str,
        source_id: str,
        tier: str,
        runs: Sequence[Row],
        states: Sequence[Row],
        gone: Collection[str],
    ) -> None:
        """Record finished runs and make them the states of their units; ``gone`` units lose theirs.

        A run that is not new is activated again (rule 9): equal input, same ``run_id``.
        """
        now = now_micros()
        r, u = t.interpretation_run, t.unit_state
        with self.publishing(namespace) as c:
            units = sorted({x["unit_id"] for x in states} | set(gone))
            for part in _parts(units):
                c.execute(
                    sa.update(r)
                    .where(
                        r.c.namespace == namespace,
                        r.c.source_id == source_id,
                        r.c.tier == tier,
                        r.c.unit_id.in_(part),
                        r.c.archived_at.is_(None),
                    )
                    .values(archived_at=now)
                )
                c.execute(
                    sa.delete(u).where(
                        u.c.namespace == namespace,
                        u.c.source_id == source_id,
                        u.c.tier == tier,
                        u.c.unit_id.in_(part),
                    )
                )
            upsert(
                c,
                r,
                [
                    {
                        "namespace": namespace,
                        "source_id": source_id,
                        "tier": tier,
                        "created_at": now,
                        "archived_at": None,
                        **x,
                    }
                    for x in runs
                ],
            )
            upsert(
                c, u, [{"namespace": namespace, "source_id": source_id, "tier": tier, **x} for x in states]
            )

    @retried
    def set_suppressed(self, namespace: str, source_id: str, tier: str, units: Mapping[str, bool]) -> None:
        """A suppressed unit's run is archived; the run of one that is a unit again is active again."""
        now, r, u = now_micros(), t.interpretation_run, t.unit_state
        with self.publishing(namespace) as c:
            for suppressed in (True, False):
                for part in _parts(sorted(unit for unit, value in units.items() if value is suppressed)):
                    where = (
                        u.c.namespace == namespace,
                        u.c.source_id == source_id,
                        u.c.tier == tier,
                        u.c.unit_id.in_(part),
                    )
                    c.execute(sa.update(u).where(*where).values(suppressed=suppressed))
                    c.execute(
                        sa.update(r)
                        .where(
                            r.c.namespace == namespace, r.c.run_id.in_(sa.select(u.c.run_id).where(*where))
                        )
                        .values(archived_at=now if suppressed else None)
                    )

    @retried
    def runs(self, namespace: str, *, unit_id: str | None = None, active: bool | None = None) -> list[Row]:
        r = t.interpretation_run
        query = sa.select(r).where(r.c.namespace == namespace)
        if unit_id is not None:
            query = query.where(r.c.unit_id == unit_id)
        if active is not None:
            query = query.where(r.c.archived_at.is_(None) if active else r.c.archived_at.is_not(None))
        with self.read(namespace) as c:
            return [dict(x._mapping) for x in c.execute(query.order_by(r.c.created_at, r.c.run_id))]

    # --- dead letters ---------------------------------------------------------------------------------------

    @retried
    def dead_letters(
        self, namespace: str, source_id: str | None = None, stage: str | None = None
    ) -> list[Row]:
        d = t.dead_letter
        query = sa.select(d).where(d.c.namespace == namespace)
        if source_id is not None:
            query = query.where(d.c.source_id == source_id)
        if stage is not None:
            query = query.where(d.c.stage == stage)
        with self.read(namespace) as c:
            return sorted(
                (dict(r._mapping) for r in c.execute(query)),
                key=lambda r: (r["source_id"], r["stage"], r["item"]),
            )

    @retried
    def record_dead(
        self, namespace: str, source_id: str, stage: str, letters: Sequence[Row], cleared: Collection[str]
    ) -> None:
        """``letters``: {item, code, message, fingerprint, kind}; ``cleared`` items are well again."""
        d, now = t.dead_letter, now_micros()
        where = (d.c.namespace == namespace, d.c.source_id == source_id, d.c.stage == stage)
        with self.publishing(namespace) as c:
            known = {r.item: r for r in c.execute(sa.select(d).where(*where))}
            gone = sorted(set(cleared) & set(known))
            for part in _parts(gone):
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

    # --- deletion -------------------------------------------------------------------------------------------

    @retried
    def tombstones(self, namespace: str) -> dict[str, Row]:
        with self.read(namespace) as c:
            return {
                r.doc_id: dict(r._mapping)
                for r in c.execute(sa.select(t.tombstone).where(t.tombstone.c.namespace == namespace))
            }

    @retried
    def add_tombstones(self, namespace: str, doc_ids: Iterable[str], reason: str) -> None:
        now = now_micros()
        with self.publishing(namespace) as c:
            upsert(
                c,
                t.tombstone,
                [
                    {"namespace": namespace, "doc_id": d, "reason": reason, "sha256": None, "created_at": now}
                    for d in doc_ids
                ],
            )

    @retried
    def remove_tombstones(self, namespace: str, doc_ids: Collection[str]) -> list[str]:
        removed = []
        with self.publishing(namespace) as c:
            for part in _parts(sorted(doc_ids)):
                where = (t.tombstone.c.namespace == namespace, t.tombstone.c.doc_id.in_(part))
                removed += list(c.execute(sa.select(t.tombstone.c.doc_id).where(*where)).scalars())
                c.execute(sa.delete(t.tombstone).where(*where))
        return removed

    @retried
    def restore_locators(self, namespace: str, doc_ids: Collection[str]) -> int:
        """Bring soft-deleted locators back to present, as if just fetched; returns how many."""
        now = now_micros()
        back = [
            (source, x, digest("restore", namespace, x.doc_id, now))
            for source, x in self.locators_of(namespace, doc_ids)
            if x.state != "present"
        ]
        if back:
            with self.publishing(namespace) as c:
                write(
                    c,
                    t.fetch,
                    [
                        {
                            "namespace": namespace,
                            "source_id": source,
                            "path": x.path,
                            "job_id": job_id,
                            "event": "restored",
                            "sha256": x.sha256,
                            "role": x.role,
                            "attributes": canonical_json({"byte_size": x.byte_size}),
                            "fetched_at": now,
                        }
                        for source, x, job_id in back
                    ],
                )
                upsert(
                    c,
                    t.locator,
                    [
                        _locator_row(
                            namespace,
                            source,
                            replace(
                                x,
                                state="present",
                                lifecycle=Lifecycle.INGESTED.value,
                                created_at=now,
                                since=now,
                                job_id=job_id,
                                etag=None,
                                last_modified=None,
                            ),
                        )
                        for source, x, job_id in back
                    ],
                )
        return len(back)

    @retried
    def forget(self, namespace: str, doc_ids: Collection[str], blobs: Collection[str]) -> None:
        """Erasure: remove every row that names these documents or blobs, except ids in tombstones, receipts
        and audit.
        """
        by_source: dict[str, list[Locator]] = {}
        for source_id, x in self.locators_of(namespace, doc_ids):
            by_source.setdefault(source_id, []).append(x)
        with self.publishing(namespace) as c:
            for source_id, located in by_source.items():
                paths = {x.path for x in located}

                def of_source(table: sa.Table, source_id: str = source_id) -> tuple[Any, ...]:
                    return table.c.namespace == namespace, table.c.source_id == source_id

                for part in _parts(sorted(paths)):
                    for table in (t.fetch, t.locator):
                        c.execute(sa.delete(table).where(*of_source(table), table.c.path.in_(part)))
                # Units that read one of the files are interpreted again: their memory names its path and
                # hash.
                units = {f"{kind}:{p}" for kind in ("compose", "nginx") for p in paths} | {
                    f"document:{x.doc_id}" for x in located
                }
                units |= {
                    r.unit_id
                    for r in c.execute(
                        sa.select(t.unit_state.c.unit_id, t.unit_state.c.reads).where(
                            *of_source(t.unit_state)
                        )
                    ).all()
                    if not paths.isdisjoint((orjson.loads(r.reads) or {}).get("files", ()))
                }
                for part in _parts(sorted(units)):
                    for table in (t.interpretation_run, t.unit_state):
                        c.execute(sa.delete(table).where(*of_source(table), table.c.unit_id.in_(part)))
                for part in _parts(sorted(paths | units)):
                    c.execute(
                        sa.delete(t.dead_letter).where(
                            *of_source(t.dead_letter), t.dead_letter.c.item.in_(part)
                        )
                    )
                for part in _parts(sorted({x.sha256 for x in located})):
                    # A blob that another document still holds keeps its bytes, not this document's file name.
                    c.execute(
                        sa.update(t.blob)
                        .where(t.blob.c.namespace == namespace, t.blob.c.content_hash.in_(part))
                        .values(file_name=None)
                    )
            for part in _parts(sorted(blobs)):
                # Vanished paths that once held these bytes are forgotten with them.
                c.execute(
                    sa.delete(t.fetch).where(t.fetch.c.namespace == namespace, t.fetch.c.sha256.in_(part))
                )
                c.execute(
                    sa.delete(t.locator).where(
                        t.locator.c.namespace == namespace,
                        t.locator.c.sha256.in_(part),
                        t.locator.c.state == "absent",
                    )
                )
                sizes = (
                    c.execute(
                        sa.select(t.blob.c.byte_size).where(
                            t.blob.c.namespace == namespace, t.blob.c.content_hash.in_(part)
                        )
                    )
                    .scalars()
                    .all()
                )
                c.execute(
                    sa.delete(t.blob).where(t.blob.c.namespace == namespace, t.blob.c.content_hash.in_(part))
                )
                c.execute(
                    sa.delete(t.upload_queue).where(
                        t.upload_queue.c.namespace == namespace, t.upload_queue.c.content_hash.in_(part)
                    )
                )
                self._add_usage(c, namespace, -sum(sizes), -len(sizes))

    def compact(self) -> bool:
        """Rewrite the database file, so that deleted rows leave no bytes behind (SQLite; PostgreSQL vacuums
        itself).

        False if a reader of another process kept the old pages in use: try again later.
        """
        if self._engine.dialect.name != "sqlite":
            return True
        raw = self._engine.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute("PRAGMA busy_timeout=5000")
            cursor.execute("VACUUM")
            return not cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError:
            return False
        finally:
            raw.close()

    @retried
    def save_receipt(
        self,
        namespace: str,
        receipt_id: str,
        doc_ids: Sequence[str],
        erase: bool,
        stores: Mapping[str, str],
        blobs: Sequence[str],
    ) -> None:
        final = all(v == "done" for v in stores.values())
        with self.begin(namespace) as c:
            upsert(
                c,
                t.deletion,
                [
                    {
                        "namespace": namespace,
                        "receipt_id": receipt_id,
                        "doc_ids": canonical_json(list(doc_ids)),
                        "erase": erase,
                        "stores": canonical_json(stores),
                        "blobs": canonical_json([] if final else list(blobs)),
                        "final": final,
                        "created_at": now_micros(),
                    }
                ],
            )

    @retried
    def pending_receipts(self, namespace: str) -> list[Row]:
        with self.read(namespace) as c:
            rows = c.execute(
                sa.select(t.deletion)
                .where(t.deletion.c.namespace == namespace, t.deletion.c.final.is_(False))
                .order_by(t.deletion.c.created_at)
            )
            return [
                {
                    **r._mapping,
                    "doc_ids": orjson.loads(r.doc_ids),
                    "stores": orjson.loads(r.stores),
                    "blobs": orjson.loads(r.blobs),
                }
                for r in rows
            ]

    @retried
    def audit(self, namespace: str, kind: str, subject: str, **details: Any) -> None:
        with self.begin(namespace) as c:
            c.execute(
                sa.insert(t.audit_event).values(
                    namespace=namespace,
                    kind=kind,
                    subject=subject,
                    details=canonical_json(details),
                    at=now_micros(),
                )
            )

    @retried
    def audit_events(self, namespace: str) -> list[Row]:
        with self.read(namespace) as c:
            return [
                dict(r._mapping)
                for r in c.execute(
                    sa.select(t.audit_event)
                    .where(t.audit_event.c.namespace == namespace)
                    .order_by(t.audit_event.c.id)
                )
            ]


def _locator_row(namespace: str, source_id: str, x: Locator) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "source_id": source_id,
        **{name: getattr(x, name) for name in Locator.__slots__},
    }


def _parts(items: Sequence[str], size: int = 500) -> Iterator[list[str]]:
    """Lists short enough for the databases' limits on bound parameters."""
    for i in range(0, len(items), size):
        yield list(items[i : i + size])
