"""Shows how far a job is (``job:{job_id}`` in the state), and which sources the command line is taking in.

``raw_blobs`` opens the job in the catalog. The stages that follow write into the same record, at most
once a second, and a stage that is quicker than that writes nothing. The record may be lost, and a state
that does not answer never fails a stage: what must last (that there was a job, how it ended, its counts)
is in the catalog.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import Any

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import JobState
from taboot_pipelines.stages.workspace import Progress, Workspace
from taboot_pipelines.stores.state.keys import INGEST, JOB, QUEUE_INGESTS
from taboot_pipelines.stores.state.protocol import State

_SECONDS_BETWEEN_WRITES = 1.0
#: A record of a process on another machine is given up after so long without an update, like jobs.
_SILENT_SECONDS = 24 * 3600


class _Tracker:
    """A ``Progress`` that passes on what it is told and keeps the job's record up to date."""

    def __init__(
        self,
        workspace: Workspace,
        namespace: str,
        source_id: str,
        stage: str,
        shown: Progress,
        job_id: str | None,
    ) -> None:
        self._workspace, self._namespace, self._source_id, self._stage = (
            workspace,
            namespace,
            source_id,
            stage,
        )
        self._shown = shown
        self._given = job_id
        self._started = self._last = time.monotonic()
        self._written = False
        self._done = self._total = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._done, self._total = done, total
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_WRITES:
            self.write(JobState.RUNNING)
        self._shown(stage, done, total)

    def end(self, status: JobState, code: str | None = None) -> None:
        """Write how this stage ended into the record, unless the stage was too quick to be shown at all."""
        if self._written or status is not JobState.SUCCEEDED:
            self.write(status, code)

    def write(self, status: JobState, code: str | None = None) -> None:
        self._written = (
            self._workspace.hints.ask(lambda state: self._write(state, status, code), False) or self._written
        )
        self._last = time.monotonic()

    def _write(self, state: State, status: JobState, code: str | None) -> bool:
        if self._job is None:
            return False
        key = JOB(self._job["job_id"])
        record = _read(state, self._namespace, key) or {
            "job_id": self._job["job_id"],
            "namespace": self._namespace,
            "source": self._source_id,
            "started_at": _iso(self._job["started_at"] / 1_000_000),
            "stages": {},
        }
        stages: dict[str, Any] = record["stages"]
        stages[self._stage] = {
            "status": status.value,
            "done": self._done,
            "total": self._total,
            "seconds": round(time.monotonic() - self._started, 1),
            **({} if code is None else {"code": code}),
        }
        record |= {"status": _overall(stages), "updated_at": _iso(time.time()), **_process()}
        state.set(self._namespace, key, orjson.dumps(record), JOB.ttl_seconds or 0)
        return True

    @cached_property
    def _job(self) -> Mapping[str, Any] | None:
        jobs = self._workspace.catalog.jobs.find(self._namespace, self._source_id, limit=1)
        if self._given is not None and (not jobs or jobs[0]["job_id"] != self._given):
            return {"job_id": self._given, "started_at": time.time() * 1_000_000}
        return jobs[0] if jobs else None


@contextlib.contextmanager
def tracked(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    stage: str,
    shown: Progress,
    *,
    job_id: str | None = None,
) -> Iterator[Progress]:
    """Give a ``Progress`` for a stage, which passes on to ``shown`` and keeps the job's record up to date.

    The job is by default the source's last.
    """
    tracker = _Tracker(workspace, namespace, source_id, stage, shown, job_id)
    if job_id is not None:
        tracker.write(JobState.RUNNING)
    try:
        yield tracker
    except TabootError as error:
        tracker.end(JobState.FAILED, error.code)
        raise
    except BaseException as error:
        tracker.end(JobState.FAILED if isinstance(error, Exception) else JobState.CANCELED)
        raise
    tracker.end(JobState.SUCCEEDED)


@contextlib.contextmanager
def ingesting(workspace: Workspace, source_ids: Sequence[str]) -> Iterator[None]:
    """Let others see, while the block runs, that this process takes these sources in.

    Whoever would start the same work may then wait; nobody has to, since leases order what is written.
    """
    wanted = set(source_ids)
    by_namespace: dict[str, list[str]] = {}
    for row in workspace.catalog.sources.find():
        if row["source_id"] in wanted:
            by_namespace.setdefault(row["namespace"], []).append(row["source_id"])
    name = uuid.uuid4().hex

    def tell(state: State) -> None:
        for namespace, sources in by_namespace.items():
            record = {**_process(), "sources": sources, "updated_at": _iso(time.time())}
            state.set(namespace, INGEST(name), orjson.dumps(record), INGEST.ttl_seconds or 0)
            state.enqueue(namespace, QUEUE_INGESTS(), {name: time.time() + _SILENT_SECONDS})

    def end(state: State) -> None:
        for namespace in by_namespace:
            _forget_ingest(state, namespace, name)

    workspace.hints.ask(tell, None)
    try:
        yield
    finally:
        workspace.hints.ask(end, None)


def being_ingested(workspace: Workspace) -> set[str]:
    """Return the sources that ingests of the command line, on any machine, are taking in."""

    def ask(state: State) -> set[str]:
        found: set[str] = set()
        for namespace in workspace.namespaces():
            for name in state.queued(namespace, QUEUE_INGESTS()):
                record = _object(state.get(namespace, INGEST(name)))
                if record is not None and _alive(record):
                    found.update(record.get("sources", ()))
                else:
                    # Its process was killed, and nobody else takes it out.
                    _forget_ingest(state, namespace, name)
        return found

    return workspace.hints.ask(ask, set())


def _forget_ingest(state: State, namespace: str, name: str) -> None:
    state.dequeue(namespace, QUEUE_INGESTS(), [name])
    state.delete(namespace, [INGEST(name)])


def running(workspace: Workspace, namespace: str) -> list[dict[str, Any]]:
    """Return what is being worked on at present, one job per source.

    A job has job_id, namespace, source, status, started_at and updated_at (ISO 8601, UTC), stages ({stage:
    status, done, total, seconds}; ``total`` is 0 when it is not known), pid and host. If there is no record,
    the catalog says what is known.
    """
    found = []
    for row in workspace.catalog.sources.find(namespace):
        for job in workspace.catalog.jobs.find(namespace, row["source_id"], limit=1):
            record = workspace.hints.ask(
                partial(_read, namespace=namespace, key=JOB(job["job_id"])), None
            ) or {
                "job_id": job["job_id"],
                "namespace": namespace,
                "source": row["source_id"],
                "status": job["state"],
                "stages": {},
                "started_at": _iso(job["started_at"] / 1_000_000),
                "updated_at": _iso(job["updated_at"] / 1_000_000),
                **{k: job[k] for k in ("pid", "host", "process_started_at")},
            }
            if record["status"] == JobState.RUNNING.value and _alive(record):
                found.append(record)
    return found


def _read(state: State, namespace: str, key: str) -> dict[str, Any] | None:
    """Return the record; None if there is none, or it is not one of ours."""
    record = _object(state.get(namespace, key))
    whole = record is not None and isinstance(record.get("stages"), dict) and "status" in record
    return record if whole else None


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        record = orjson.loads(value) if value is not None else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _overall(stages: Mapping[str, Mapping[str, Any]]) -> str:
    said = {s["status"] for s in stages.values()}
    return next(
        (s.value for s in (JobState.RUNNING, JobState.FAILED, JobState.CANCELED) if s.value in said),
        JobState.SUCCEEDED.value,
    )


def _alive(record: Mapping[str, Any]) -> bool:
    import psutil

    try:
        if record.get("host") != socket.gethostname():
            return time.time() - datetime.fromisoformat(record["updated_at"]).timestamp() < _SILENT_SECONDS
        return bool(abs(psutil.Process(record["pid"]).create_time() - record["process_started_at"]) < 1)
    except (psutil.Error, KeyError, ValueError, TypeError):
        return False


def _process() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "process_started_at": _born(os.getpid())}


@cache
def _born(pid: int) -> float:
    import psutil

    return float(psutil.Process(pid).create_time())


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
