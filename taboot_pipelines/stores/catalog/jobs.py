"""Jobs: one ingest of one source each, by one process."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import canonical_json
from taboot_pipelines.model.jobs import JobState, check_transition
from taboot_pipelines.stores.catalog import schema as t
from taboot_pipelines.stores.catalog import totals
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.writing import Row, now_micros, parts

#: A job that said nothing for so long has failed.
_MAX_SILENCE_MICROS = 24 * 3600 * 1_000_000
#: Old jobs are forgotten together, once there are so many: whether one is named costs a look at the log.
_FORGOTTEN_TOGETHER = 10
#: Of what a job did with the items that it saw. What is held is seen again by the next job.
OUTCOMES = ("fetched", "not_modified", "skipped", "failed", "removed")


class Jobs:
    """The states and counts of jobs; a state changes only as ``model.jobs`` allows (``E_TRANSITION``)."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @retried
    def start(self, namespace: str, source_id: str, configuration: str | None = None) -> str:
        """Record a running job of this process, and return its id.

        ``configuration`` is a hash of what decides what the job reads, for :meth:`last_succeeded` to tell.
        """
        job_id, now = uuid.uuid4().hex, now_micros()
        with self.database.begin(namespace) as c:
            c.execute(
                sa.insert(t.job).values(
                    job_id=job_id,
                    namespace=namespace,
                    source_id=source_id,
                    state=JobState.RUNNING.value,
                    started_at=now,
                    updated_at=now,
                    configuration=configuration,
                    **this_process(),
                )
            )
        return job_id

    @retried
    def end(
        self,
        job_id: str,
        state: JobState,
        counts: Mapping[str, Any] | None = None,
        *,
        error: Mapping[str, Any] | None = None,
        namespace: str | None = None,
    ) -> None:
        """Record how a job ended; ``counts`` are columns of the table ``job``.

        ``namespace`` is the job's, if the caller knows it; without it the job is looked for in all, by
        maintenance. Raises ``E_NOT_FOUND`` and ``E_TRANSITION``.
        """
        with self.database.begin(namespace) as c:
            self._end(c, job_id, state, error, counts or {}, namespace)

    def _end(
        self,
        c: Connection,
        job_id: str,
        state: JobState,
        error: Mapping[str, Any] | None,
        counts: Mapping[str, Any],
        namespace: str | None = None,
    ) -> None:
        where = [t.job.c.job_id == job_id, *([] if namespace is None else [t.job.c.namespace == namespace])]
        columns = (t.job.c.namespace, t.job.c.source_id, t.job.c.state, t.job.c.started_at)
        job = c.execute(sa.select(*columns).where(*where)).one_or_none()
        if job is None:
            raise TabootError("E_NOT_FOUND", "There is no such job here.", job=job_id)
        check_transition(JobState(job.state), state)
        now = now_micros()
        values = {"state": state.value, "updated_at": now, "ended_at": now, **counts}
        if error is not None:
            values["error"] = canonical_json(error)
        c.execute(sa.update(t.job).where(*where).values(**values))
        amounts = _count(totals.Amounts(), job.source_id, state, counts)
        amounts.duration((now - job.started_at) / 1_000_000, "run_duration_seconds")
        totals.add(c, job.namespace, amounts)

    @retried
    def fail_dead(self) -> list[str]:
        """Mark as failed the running jobs of dead processes of this machine, and jobs silent for 24 h, in all
        namespaces; returns their ids.
        """
        dead = []
        with self.database.begin(None) as c:
            for r in c.execute(
                sa.select(t.job)
                .where(t.job.c.state == JobState.RUNNING.value)
                .order_by(t.job.c.namespace, t.job.c.source_id)
                .with_for_update(skip_locked=True)
            ).all():
                alive = not has_ended(r.pid, r.host, r.process_started_at)
                if not alive or now_micros() - r.updated_at > _MAX_SILENCE_MICROS:
                    error = TabootError(
                        "E_TIMEOUT",
                        (
                            "The process of this job ended before the job did."
                            if not alive
                            else "The job ran for more than 24 hours."
                        ),
                    )
                    self._end(c, r.job_id, JobState.FAILED, error.to_response(), {})
                    dead.append(r.job_id)
        return dead

    @retried
    def find(self, namespace: str, source_id: str | None = None, limit: int = 20) -> list[Row]:
        """The last jobs of a namespace or source, newest first."""
        query = (
            sa.select(t.job)
            .where(t.job.c.namespace == namespace)
            .order_by(t.job.c.started_at.desc())
            .limit(limit)
        )
        if source_id is not None:
            query = query.where(t.job.c.source_id == source_id)
        with self.database.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query)]

    @retried
    def ended_since(self, namespace: str, moment: int) -> list[Row]:
        """The jobs of a namespace that ended at a moment (microseconds since the epoch) or later, the first
        to end in front."""
        j = t.job.c
        query = sa.select(t.job).where(j.namespace == namespace, j.ended_at >= moment).order_by(j.ended_at)
        with self.database.read(namespace) as c:
            return [dict(r._mapping) for r in c.execute(query)]

    @retried
    def last(self, namespace: str, source_ids: Collection[str]) -> dict[str, Row]:
        """The newest job of each of these sources that has one, by source."""
        with self.database.read(namespace) as c:
            return self._newest(c, namespace, source_ids)

    def _newest(self, c: Connection, namespace: str, source_ids: Collection[str]) -> dict[str, Row]:
        j = t.job
        found: dict[str, Row] = {}
        for part in parts(sorted(source_ids)):
            own = (j.c.namespace == namespace, j.c.source_id.in_(part))
            newest = sa.select(j.c.source_id, sa.func.max(j.c.started_at).label("at")).where(*own)
            at = newest.group_by(j.c.source_id).subquery()
            same = sa.and_(j.c.source_id == at.c.source_id, j.c.started_at == at.c.at)
            for row in c.execute(sa.select(j).join(at, same).where(*own)):
                found[row.source_id] = dict(row._mapping)
        return found

    @retried
    def confirm(self, namespace: str, found: Mapping[str, Row], started_at: int) -> None:
        """Record that each of these sources, with its newest job, was read again and is as that job left it.

        One job stands for all of a source that found nothing new, so that its history does not grow by them.
        A source that has had another job since is left alone: that one knows better.
        """
        with self.database.begin(namespace) as c:
            now = self._newest(c, namespace, found)
            times = {"started_at": started_at, "updated_at": now_micros(), "ended_at": now_micros()}
            counted = totals.Amounts()
            for source_id, last in found.items():
                if source_id not in now or now[source_id]["job_id"] != last["job_id"]:
                    continue
                _count(counted, source_id, JobState.SUCCEEDED, {"not_modified": last["discovered"]})
                if is_idle(last):
                    own = (t.job.c.namespace == namespace, t.job.c.job_id == last["job_id"])
                    c.execute(sa.update(t.job).where(*own).values(**times, **this_process()))
                else:
                    present = last["discovered"]
                    job = {**last, "job_id": uuid.uuid4().hex, "fetched": 0, "not_modified": present}
                    c.execute(sa.insert(t.job).values({**job, **times, **this_process()}))
            totals.add(c, namespace, counted)

    @retried
    def outdate(self, namespace: str, source_id: str) -> None:
        """Let the last job of a source that succeeded count as that of another configuration, so that the
        source is known to wait for a run."""
        last = self.last_succeeded(namespace, source_id)
        if last is not None:
            with self.database.begin(namespace) as c:
                c.execute(
                    sa.update(t.job).where(t.job.c.job_id == last["job_id"]).values(configuration="outdated")
                )

    def last_succeeded(self, namespace: str, source_id: str) -> Row | None:
        """The last job of a source that succeeded; None if there is none."""
        return self._last(namespace, source_id)

    def last_completed(self, namespace: str, source_id: str) -> Row | None:
        """The last job of a source that succeeded and read all of it; None if there is none."""
        return self._last(namespace, source_id, t.job.c.complete.is_(True))

    @retried
    def first_completed(self, namespace: str) -> dict[str, int]:
        """When the first job of each source ended that brought something and read all of it (microseconds
        since the epoch), by source. Such a job is never forgotten."""
        j = t.job.c
        done = (j.namespace == namespace, j.state == JobState.SUCCEEDED.value, j.complete.is_(True))
        query = sa.select(j.source_id, sa.func.min(j.ended_at)).where(*done, j.fetched > 0)
        with self.database.read(namespace) as c:
            return {row[0]: row[1] for row in c.execute(query.group_by(j.source_id))}

    @retried
    def _last(self, namespace: str, source_id: str, *where: sa.ColumnElement[bool]) -> Row | None:
        query = (
            sa.select(t.job)
            .where(
                t.job.c.namespace == namespace,
                t.job.c.source_id == source_id,
                t.job.c.state == JobState.SUCCEEDED.value,
                *where,
            )
            .order_by(t.job.c.started_at.desc())
            .limit(1)
        )
        with self.database.read(namespace) as c:
            row = c.execute(query).one_or_none()
            return None if row is None else dict(row._mapping)

    @retried
    def forget_old(self, namespace: str, source_id: str, keep: int) -> list[str]:
        """Forget ended jobs of a source beyond its newest ``keep`` that nothing names; return their ids.

        The last job that succeeded stays, and so does each that a locator, the log or a confirmation names.
        """
        j, own = t.job, (t.job.c.namespace == namespace, t.job.c.source_id == source_id)
        # A job that succeeded and changed nothing is named by nobody; of others, the tables below say.
        idle = sa.or_(
            j.c.state != JobState.SUCCEEDED.value, sa.and_(j.c.fetched == 0, j.c.removed == 0, j.c.held == 0)
        )
        query = sa.select(j.c.job_id, j.c.state, idle.label("idle")).where(*own)
        with self.database.read(namespace) as c:
            rows = c.execute(query.order_by(j.c.started_at.desc(), j.c.job_id)).all()
        last = next((r.job_id for r in rows if r.state == JobState.SUCCEEDED.value), None)
        old = {r.job_id for r in rows[keep:] if r.idle and r.state != JobState.RUNNING.value} - {last}
        if len(old) < _FORGOTTEN_TOGETHER:
            return []
        with self.database.begin(namespace) as c:
            for table in (t.fetch, t.locator, t.confirmation):
                named = sa.select(table.c.job_id).where(
                    table.c.namespace == namespace, table.c.source_id == source_id
                )
                old -= set(c.execute(named.distinct()).scalars())
            for part in parts(sorted(old)):
                c.execute(sa.delete(j).where(*own, j.c.job_id.in_(part)))
        return sorted(old)


def _count(
    amounts: totals.Amounts, source_id: str, state: JobState, counts: Mapping[str, Any]
) -> totals.Amounts:
    """Add what a job that ended has to be counted, and return the amounts."""
    amounts.count(1, "runs_total", source_id, state.value)
    for outcome in OUTCOMES:
        amounts.count(counts.get(outcome) or 0, "items_total", source_id, outcome)
    return amounts


def is_idle(job: Row) -> bool:
    """Whether a job succeeded, read all of its source, and found each item as it was."""
    counts = ("fetched", "removed", "held", "skipped", "failed")
    return bool(job["state"] == JobState.SUCCEEDED.value and job["complete"]) and not any(
        job[name] for name in counts
    )


# --- the process that works at a job, or at a batch of interpretation ---


def this_process() -> dict[str, Any]:
    """The columns that name this process: ``pid``, ``host``, ``process_started_at``."""
    import psutil

    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "process_started_at": psutil.Process().create_time(),
    }


def has_ended(pid: int, host: str, started_at: float | None) -> bool:
    """Whether it is certain that the process has ended; of a process of another machine it never is."""
    import psutil

    if host != socket.gethostname():
        return False
    try:
        # A process with the same id that started at another time is another process.
        return started_at is not None and abs(psutil.Process(pid).create_time() - started_at) >= 1
    except psutil.NoSuchProcess:
        return True
