"""Keeps Dagster's own storage from growing with every run (settings ``TABOOT_RETENTION__…``).

A run leaves some 0.4 MB: its events, in SQLite a file of its own, and copies of its materializations and
checks in an index. What a person may still look for stays:

* every run that has not ended, and every run of a backfill that has not;
* the last run that materialized an asset partition, so that the UI shows when and how each came about;
* runs that changed something or failed: the newest of each job and partition, for some time.

A run that succeeded and found nothing to do says no more than the next one like it, and goes once every asset
partition that it materialized has been materialized again. No row of ours depends on any of it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import RunsTable
from dagster._core.storage.tags import BACKFILL_ID_TAG, RUN_KEY_TAG

from taboot_pipelines.defs.partitions import RANGE_TAGS, TAG
from taboot_pipelines.settings import RetentionSettings

_log = logging.getLogger(__name__)

#: The tag of a run in which some stage had something to do.
CHANGED_TAG = "taboot/changed"
_ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
_UNDER_WAY = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
#: A sensor may ask for a run by such a key again and again, and is refused because there was one.
_KEYS_ASKED_AGAIN = ("retry:", "qdrant_points:")
_KEY_SECONDS = 24 * 3600.0
#: The file of a run that is not recorded may belong to one that is just being recorded.
_ORPHAN_SECONDS = 24 * 3600.0
#: A sensor has a minute for a tick; the next one goes on.
_MAX_FORGOTTEN = 500
#: A database is rewritten when this much of it is free, and at least half.
_MIN_FREE_BYTES = 4 << 20
_PART = 500


def mark_changed(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Note that a stage had something to do in this run."""
    if CHANGED_TAG not in run.tags:
        instance.add_run_tags(run.run_id, {CHANGED_TAG: "yes"})


def forget_superseded(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """Forget the runs of the same partitions that this run leaves nothing to say; return their ids.

    It is called at the end of every run, so that the storage is bounded without a daemon.
    """
    partition = {name: run.tags[name] for name in (TAG, *RANGE_TAGS) if name in run.tags}
    found = instance.get_run_records(
        RunsFilter(job_name=run.job_name, tags=partition, statuses=[DagsterRunStatus.SUCCESS]), limit=_PART
    )
    return _forget(instance, [r.dagster_run.run_id for r in found if _says_nothing(r)])


def forget_old(instance: dg.DagsterInstance, settings: RetentionSettings) -> list[str]:
    """Forget every run that is not to be kept, and what killed removals have left; return the runs' ids."""
    before = time.time() - settings.run_days * 24 * 3600
    seen: Counter[tuple[object, ...]] = Counter()
    doomed = []
    for record in instance.get_run_records(RunsFilter(statuses=_ENDED)):
        run = record.dagster_run
        if _says_nothing(record):
            doomed.append(run.run_id)
            continue
        kind = (run.job_name, *(run.tags.get(name) for name in (TAG, *RANGE_TAGS)))
        seen[kind] += 1
        if seen[kind] > settings.runs or record.update_timestamp.timestamp() < before:
            doomed.append(run.run_id)
    # The oldest first: where a tick has no time for all, the next one goes on with younger ones.
    forgotten = _forget(instance, doomed[::-1][:_MAX_FORGOTTEN])
    _forget_orphans(instance)
    _rewrite(instance)
    return forgotten


def _says_nothing(record: dg.RunRecord) -> bool:
    run = record.dagster_run
    if run.status != DagsterRunStatus.SUCCESS or CHANGED_TAG in run.tags:
        return False
    asked_again = run.tags.get(RUN_KEY_TAG, "").startswith(_KEYS_ASKED_AGAIN)
    return not asked_again or time.time() - record.update_timestamp.timestamp() > _KEY_SECONDS


def _forget(instance: dg.DagsterInstance, run_ids: Collection[str]) -> list[str]:
    """Delete these runs but those that are still needed."""
    events = instance.event_log_storage
    if not run_ids or not isinstance(events, SqlEventLogStorage):
        return []
    needed = _last_materializers(events) | _of_backfills(instance, run_ids)
    gone = [run_id for run_id in run_ids if run_id not in needed]
    for run_id in gone:
        _delete(instance, events, run_id)
    if gone:
        _log.debug("runs are forgotten", extra={"runs": len(gone)})
    return gone


def _last_materializers(events: SqlEventLogStorage) -> set[str]:
    """Return the runs that were the last to materialize some partition of some asset."""
    e = SqlEventLogStorageTable.c
    newest = (
        sa.select(sa.func.max(e.id))
        .where(e.dagster_event_type == dg.DagsterEventType.ASSET_MATERIALIZATION.value)
        .group_by(e.asset_key, e.partition)
    )
    with events.index_connection() as connection:
        return set(connection.execute(sa.select(e.run_id).where(e.id.in_(newest))).scalars())


def _of_backfills(instance: dg.DagsterInstance, run_ids: Collection[str]) -> set[str]:
    """Return those of the runs that belong to a backfill which is under way: it counts them."""
    active = {b.backfill_id for status in _UNDER_WAY for b in instance.get_backfills(status=status)}
    return {
        run.run_id
        for backfill in active
        for run in instance.get_runs(RunsFilter(tags={BACKFILL_ID_TAG: backfill}))
        if run.run_id in run_ids
    }


def _delete(instance: dg.DagsterInstance, events: SqlEventLogStorage, run_id: str) -> None:
    """Delete a run: first its record, so that nobody finds one without events."""
    if type(events) is SqliteEventLogStorage:
        # Dagster itself would empty the file of the run and leave it there.
        instance.run_storage.delete_run(run_id)
        _forget_events(events, [run_id])
        _unlink(events, run_id)
    else:
        instance.delete_run(run_id)
        _forget_checks(events, [run_id])


def _forget_events(events: SqlEventLogStorage, run_ids: Iterable[str]) -> None:
    with events.index_connection() as connection:
        for run_id in run_ids:
            events.delete_events_for_run(connection, run_id)
    _forget_checks(events, run_ids)


def _forget_checks(events: SqlEventLogStorage, run_ids: Iterable[str]) -> None:
    """Delete the results of checks of these runs, but the last one of each check."""
    c = AssetCheckExecutionsTable.c
    newest = sa.select(sa.func.max(c.id)).group_by(c.asset_key, c.check_name, c.partition)
    with events.index_connection() as connection:
        last = list(connection.execute(newest).scalars())
        for run_id in run_ids:
            connection.execute(
                sa.delete(AssetCheckExecutionsTable).where(c.run_id == run_id, c.id.not_in(last))
            )


def _unlink(events: SqliteEventLogStorage, run_id: str) -> None:
    path = Path(events.path_for_shard(run_id))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _forget_orphans(instance: dg.DagsterInstance) -> None:
    """Delete what a killed removal has left: events, results of checks and files of runs without a record."""
    events, runs = instance.event_log_storage, instance.run_storage
    if type(events) is not SqliteEventLogStorage or not isinstance(runs, SqlRunStorage):
        return
    before = time.time() - _ORPHAN_SECONDS
    files = {}
    for run_id in events.get_all_run_ids():
        with contextlib.suppress(FileNotFoundError):
            files[run_id] = Path(events.path_for_shard(run_id)).stat().st_mtime
    with runs.connect() as connection:
        known = set(connection.execute(sa.select(RunsTable.c.run_id)).scalars())
    for run_id in [r for r, changed in files.items() if r not in known and changed < before]:
        _forget_events(events, [run_id])
        _unlink(events, run_id)


def _rewrite(instance: dg.DagsterInstance) -> None:
    """Give the pages that deleted rows leave back to the disk, where they are many."""
    events, runs = instance.event_log_storage, instance.run_storage
    if type(events) is not SqliteEventLogStorage or not isinstance(runs, SqlRunStorage):
        return
    for connect in (events.index_connection, runs.connect):
        # Another process may be writing; its pages are used again in any case.
        with contextlib.suppress(sa.exc.OperationalError), connect() as connection:
            free, size, page = (
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("freelist_count", "page_count", "page_size")
            )
            if free * page >= _MIN_FREE_BYTES and 2 * free >= size:
                _vacuum(connection)


def _vacuum(connection: Any) -> None:
    raw = connection.connection.dbapi_connection
    connection.commit()
    raw.execute("VACUUM")
