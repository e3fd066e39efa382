"""Marks runs whose process is dead as failed and frees what they held (rule ``kill-anywhere``).

A run that is killed inside a step of a pool stays STARTED and keeps its slot; without a daemon the next run
would wait for that slot for ever. The run's process is read from the run's own events: every worker reports
its pid before its first step. Only runs of this machine are judged.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

import dagster as dg
from dagster import DagsterEventType, DagsterRunStatus, RunsFilter
from sqlalchemy.exc import SQLAlchemyError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.catalog.catalog import Catalog

_log = logging.getLogger(__name__)

_UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
#: A run whose process never reported is given up after so long.
_START_SECONDS = 900.0
_INTERVAL_SECONDS = 5.0


def sweep_dead_runs(instance: dg.DagsterInstance, catalog: Catalog | None = None) -> list[str]:
    """Mark dead runs failed and free the pool slots of every ended run; return the ids of the dead runs.

    A dead run that was canceling becomes canceled. With ``catalog``, jobs of dead processes and what they
    were interpreting are marked failed there too, and interpretations without a heartbeat. Safe at any time
    and from several processes.
    """
    if catalog is not None:
        catalog.jobs.fail_dead()
        catalog.batches.fail_stale()
    dead = []
    for record in instance.get_run_records(RunsFilter(statuses=_UNFINISHED)):
        run = record.dagster_run
        if _alive(instance, record):
            continue
        if run.status == DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, "The process of this run ended while it was being canceled.")
        else:
            instance.report_run_failed(run, "The process of this run ended before the run did.")
        _log.warning(
            "the process of a run is dead",
            extra={"run": run.run_id, "partition": run.tags.get("dagster/partition")},
        )
        dead.append(run.run_id)
    holders = instance.event_log_storage.get_concurrency_run_ids()
    if holders:
        unfinished = {
            r.run_id for r in instance.get_runs(RunsFilter(run_ids=sorted(holders))) if not r.is_finished
        }
        for run_id in holders - unfinished:
            _log.warning("pool slots of an ended run are freed", extra={"run": run_id})
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)
    return dead


@contextlib.contextmanager
def sweeping(instance: dg.DagsterInstance, interval: float = _INTERVAL_SECONDS) -> Iterator[None]:
    """Sweep every ``interval`` seconds while the block runs.

    Another run may die while this one waits for its slot.
    """
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(interval):
            # A locked database is no reason to fail the run that waits; the next round tries again.
            with contextlib.suppress(SQLAlchemyError, TabootError, dg.DagsterError):
                sweep_dead_runs(instance)

    thread = threading.Thread(target=work, name="taboot-sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _alive(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Whether somebody may still work on the run: False only if it is certain that nobody does."""
    run = record.dagster_run
    # SQLite belongs to one machine; runs of a shared database are watched by Dagster's own run monitoring.
    if "sqlite" not in type(instance.run_storage).__name__.lower():
        return True
    for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = (
            event.engine_event_data.metadata.get("pid")
            if event is not None and event.step_key is None
            else None
        )
        if pid is not None and str(pid.value).isdigit():
            return _runs(int(str(pid.value)), entry.timestamp) or _step_at_work(instance, run.run_id)
    return (
        run.status != DagsterRunStatus.STARTING
        or time.time() - record.update_timestamp.timestamp() < _START_SECONDS
    )


def _step_at_work(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a step of a multiprocess run goes on though the run's own process is dead.

    Its slot is then still in use.
    """
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_WORKER_STARTED):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is not None and str(pid.value).isdigit() and _runs(int(str(pid.value)), entry.timestamp):
            return True
    return False


def _runs(pid: int, born_by: float) -> bool:
    """Whether process ``pid`` lives and was born by ``born_by`` (seconds since the epoch).

    A process that was born later has only got the same pid.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= born_by + 1)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
