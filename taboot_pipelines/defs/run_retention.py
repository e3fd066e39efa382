"""Keeps Dagster's own storage from growing with every run (settings ``TABOOT_RETENTION__…``).

A run leaves its events, in SQLite a file of its own, and copies of its materializations and checks in an
index. What a person may still look for stays:

* every run that has not ended, and every run of a backfill that has not;
* the last run that materialized an asset partition, so that the UI shows when and how each came about;
* runs that changed something or failed: the newest of each job and partition, for some time.

A run that succeeded and found nothing to do says no more than the next one like it, and goes once every asset
partition that it materialized has been materialized again. No row of ours depends on any of it. Runs are
deleted as Dagster itself deletes them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from taboot_pipelines.defs.partitions import RANGE_TAGS, TAG
from taboot_pipelines.settings import RetentionSettings

_log = logging.getLogger(__name__)

#: The tag of a run in which some stage had something to do.
CHANGED_TAG = "taboot/changed"
_ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
#: The tags by which Dagster marks the runs of a backfill, and those that a sensor asked for by a key.
BACKFILL_ID_TAG, RUN_KEY_TAG = "dagster/backfill", "dagster/run_key"
_UNDER_WAY = ("REQUESTED", "CANCELING", "FAILING")
#: A sensor may ask for a run by such a key again and again, and is refused because there was one.
_KEYS_ASKED_AGAIN = ("retry:", "qdrant_points:")
_KEY_SECONDS = 24 * 3600.0
#: A sensor has a minute for a tick; the next one goes on.
_MAX_FORGOTTEN = 200
#: Of a run of more partitions it is not asked of each whether another run has materialized it since.
_MAX_LOOKED = 100
_PART = 100


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
    return _forget(instance, [r.dagster_run for r in found if _says_nothing(r)])


def forget_old(instance: dg.DagsterInstance, settings: RetentionSettings) -> list[str]:
    """Forget every run that is not to be kept; return their ids."""
    before = time.time() - settings.run_days * 24 * 3600
    seen: Counter[tuple[object, ...]] = Counter()
    doomed = []
    for record in instance.get_run_records(RunsFilter(statuses=_ENDED)):
        run = record.dagster_run
        if _says_nothing(record):
            doomed.append(run)
            continue
        kind = (run.job_name, *(run.tags.get(name) for name in (TAG, *RANGE_TAGS)))
        seen[kind] += 1
        if seen[kind] > settings.runs or record.update_timestamp.timestamp() < before:
            doomed.append(run)
    # The oldest first: where a tick has no time for all, the next one goes on with younger ones.
    return _forget(instance, doomed[::-1][:_MAX_FORGOTTEN])


def _says_nothing(record: dg.RunRecord) -> bool:
    run = record.dagster_run
    if run.status != DagsterRunStatus.SUCCESS or CHANGED_TAG in run.tags:
        return False
    asked_again = run.tags.get(RUN_KEY_TAG, "").startswith(_KEYS_ASKED_AGAIN)
    return not asked_again or time.time() - record.update_timestamp.timestamp() > _KEY_SECONDS


def _forget(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun]) -> list[str]:
    """Delete these runs but those that are still needed."""
    active = {b.backfill_id for b in instance.get_backfills() if b.status.value in _UNDER_WAY}
    gone = []
    for run in runs:
        # A backfill that is under way counts its runs.
        if run.tags.get(BACKFILL_ID_TAG) in active or _is_last_materializer(instance, run.run_id):
            continue
        instance.delete_run(run.run_id)
        _remove_file(instance, run.run_id)
        gone.append(run.run_id)
    if gone:
        _log.debug("runs are forgotten", extra={"runs": len(gone)})
    return gone


def _remove_file(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove the file of a run's events: where they are kept in SQLite, Dagster only empties it.

    Nothing of Dagster's public interface removes it (docs/design.md, "Dagster by its public interface"); only
    the storage itself knows its path. A storage without such files has no such method.
    """
    path_of = getattr(instance.event_log_storage, "path_for_shard", None)
    if path_of is not None:
        path = Path(path_of(run_id))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)


def _is_last_materializer(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether the run was the last to materialize some partition of some asset."""
    made = {
        (event.dagster_event.asset_key, event.dagster_event.partition)
        for event in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        if event.dagster_event is not None and event.dagster_event.asset_key is not None
    }
    for asset, partition in sorted(made, key=str)[:_MAX_LOOKED]:
        only = dg.AssetRecordsFilter(
            asset_key=asset, asset_partitions=None if partition is None else [partition]
        )
        last = instance.fetch_materializations(only, limit=1).records
        if last and last[0].run_id == run_id:
            return True
    return False
