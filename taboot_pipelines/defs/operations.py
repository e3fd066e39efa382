"""Sensors: partitions that follow the sources file, due sources, dead runs, failed runs."""

import time
import warnings
from datetime import UTC, datetime

import dagster as dg
import orjson

from taboot_pipelines.defs.ingest_all import ingest_all
from taboot_pipelines.defs.jobs import ingest_source
from taboot_pipelines.defs.partitions import (
    INGEST_ALL,
    NAME,
    TAG,
    Busy,
    only_sources,
    partition_change,
    sources_partitions,
)
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.run_retention import forget_old
from taboot_pipelines.defs.sweeper import sweep_dead_runs
from taboot_pipelines.model.ids import digest
from taboot_pipelines.sources.sources_file import load_sources
from taboot_pipelines.stages import dead_letters
from taboot_pipelines.stages import notifications as notifying
from taboot_pipelines.stages.schedules import last_fires, schedules
from taboot_pipelines.stages.source_state import fingerprint
from taboot_pipelines.stages.workspace import Workspace, stored_entry
from taboot_pipelines.stores.catalog.writing import now_micros

# Dagster calls the parameter beta wherever a sensor with several jobs is copied; it is not used here.
warnings.filterwarnings("ignore", message=".*`owners` of initializer `Sensor.*", category=dg.BetaWarning)

#: How long one tick looks for due sources: the daemon gives up one that takes a minute.
_BUDGET_SECONDS = 20.0
#: The tag by which Dagster orders the runs that wait in its queue.
PRIORITY_TAG = "dagster/priority"
#: The entry of the cursor that names the source to begin with; no source is called so.
_NEXT = ""
#: Of so many new sources each has a run of its own, with its partition and its checks.
_MOST_RUNS = 4


@dg.sensor(
    jobs=[ingest_source, ingest_all],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Keeps the partitions equal to the sources file. Runs a source that is new, was put back or reads"
        " something else than it did, and one that left the file, which is held until a person confirms it."
        f" More than {_MOST_RUNS} of them are taken by one run of {INGEST_ALL}."
    ),
)
def sources_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult | dg.SkipReason:
    opened = workspace.open()
    file = workspace.runtime.settings.sources_file
    if not file.exists():
        # As after a fresh install: nothing is wrong yet, and nothing changes.
        return dg.SkipReason(f"There is no sources file at {file}; `taboot init` begins one.")
    # An invalid or empty file raises E_SOURCES here: the tick fails visibly, and nothing has
    # changed (rule ``complete-enumeration``).
    opened.sync_sources()
    change = partition_change(context.instance, opened)
    busy = Busy(context.instance, opened)
    drop = [key for key in change.drop if key not in busy]
    unread = _unread(opened)
    # A run that is under way may have begun before the change. If so, another is asked for after it.
    wanted = {source_id: key for source_id, key in sorted(unread.items()) if source_id not in busy}
    requests = [_request(opened, source_id, run_key) for source_id, run_key in wanted.items()]
    if len(wanted) > _MOST_RUNS:
        # A run takes longer to begin than a small source takes, and each would publish the shards anew.
        run_key = f"several:{digest(*wanted.values())}"
        requests = [dg.RunRequest(run_key, only_sources(wanted), job_name=INGEST_ALL)]
    changes: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if change.add:
        changes.append(sources_partitions.build_add_request(list(change.add)))
    if drop:
        changes.append(sources_partitions.build_delete_request(drop))
    if not requests and not changes:
        return dg.SkipReason(
            busy.skip_reason(unread)
            or f"{len(context.instance.get_dynamic_partitions(NAME))} sources, as in the sources file."
        )
    return dg.SensorResult(run_requests=requests, dynamic_partitions_requests=changes)


@dg.sensor(
    job=ingest_source,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Runs each source at the times of its `schedule` (cron, UTC). What was missed is caught up by one"
        " run."
    ),
)
def due_sources(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    seen: dict[str, str] = orjson.loads(context.cursor or "{}")
    now, requests = _now(), list[dg.RunRequest]()
    cursor: dict[str, str] = {}
    # A tick that found no time for all of them left the one to begin with.
    opened = workspace.open()
    begin, due = seen.pop(_NEXT, ""), schedules(opened)
    order = sorted(due, key=lambda source_id: (source_id < begin, source_id))
    end, busy, waiting = time.monotonic() + _BUDGET_SECONDS, Busy(context.instance, opened), list[str]()
    for number, source_id in enumerate(order):
        if number and time.monotonic() > end:
            cursor |= {left: seen[left] for left in order[number:] if left in seen}
            cursor[_NEXT] = source_id
            break
        fire = last_fires(due[source_id], now)[0].isoformat()
        # A source that is seen for the first time has just been run by the other sensor. One that is busy is
        # due as soon as it is free.
        if seen.get(source_id, fire) == fire:
            cursor[source_id] = fire
        elif source_id in busy or not context.instance.has_dynamic_partition(NAME, source_id):
            waiting.append(source_id)
            cursor[source_id] = seen[source_id]
        else:
            cursor[source_id] = fire
            requests.append(_request(opened, source_id, f"due:{source_id}:{fire}"))
    return dg.SensorResult(
        run_requests=requests,
        cursor=orjson.dumps(cursor).decode(),
        skip_reason=(None if requests else dg.SkipReason(busy.skip_reason(waiting) or "No source is due.")),
    )


@dg.sensor(
    job=ingest_source,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Runs a source again whose failed items may be mended by another try: after 1, 5 and 25 s, then no"
        " more."
    ),
)
def due_dead_letters(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult | dg.SkipReason:
    opened = workspace.open()
    namespaces = sorted({row["namespace"] for row in opened.catalog.sources.find(states=("active",))})
    busy = Busy(context.instance, opened)
    due = [(namespace, d) for namespace in namespaces for d in dead_letters.due(opened, namespace)]
    # The run key names the failure, so no second run is requested for the same one if the first
    # never retries it.
    requests = [
        _request(opened, d.source_id, f"retry:{namespace}:{d.source_id}:{d.attempt}:{d.last_at}")
        for namespace, d in due
        if context.instance.has_dynamic_partition(NAME, d.source_id) and d.source_id not in busy
    ]
    if not requests:
        return dg.SkipReason(busy.skip_reason(d.source_id for _, d in due) or "No dead letter is due.")
    return dg.SensorResult(run_requests=requests)


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    name="stale_runs",
    description=(
        "Marks runs and interpretations whose process is dead, or silent for 10 minutes, as failed and frees"
        " what they held."
    ),
)
def stale_runs(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SkipReason:
    dead = sweep_dead_runs(context.instance, workspace.open().catalog)
    return dg.SkipReason(f"Marked as failed: {', '.join(dead)}." if dead else "No dead run.")


@dg.sensor(
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Forgets runs that say nothing any more, so that Dagster's own storage stays bounded.",
)
def run_retention(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SkipReason:
    gone = forget_old(context.instance, workspace.runtime.settings.retention)
    return dg.SkipReason(f"{len(gone)} runs are forgotten." if gone else "No run is too old.")


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Tells the endpoints of `notifications` in the sources file what a person should hear of; what was"
        " not taken is tried again after 1, 5 and 30 minutes, 2 and 12 hours."
    ),
)
def notifications(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SkipReason:
    if not workspace.runtime.settings.sources_file.exists():
        return dg.SkipReason("There is no sources file.")
    opened = workspace.open()
    endpoints = load_sources(workspace.runtime.settings.sources_file).notifications
    done = notifying.run(opened, endpoints)
    if not any((done.new, done.delivered, done.again, done.failed)):
        return dg.SkipReason("There is nothing to tell." if endpoints else "Nobody is to be told.")
    said = (
        f"{done.new} new, {done.delivered} delivered, {done.again} to be tried again, {done.failed} failed."
    )
    return dg.SkipReason(said)


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Logs which source failed, with its error code and what to do about it.",
)
def run_failures(context: dg.RunFailureSensorContext) -> None:
    source = context.dagster_run.tags.get(TAG, context.dagster_run.job_name)
    for event in context.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        said = failure.description if failure is not None and failure.description else event.message
        context.log.error(f"{source}: {event.step_key}: {said}")


@dg.sensor(
    job=ingest_source,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs a source where bytes wait for their object store, when they are due again.",
)
def due_uploads(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> list[dg.RunRequest] | dg.SkipReason:
    opened = workspace.open()
    requests = []
    for namespace in opened.namespaces() if opened.blobs.waiting is not None else ():
        due = opened.catalog.uploads.due(namespace, now_micros())
        sources = [entry.source_id for entry in opened.entries_of(namespace) if not entry.paused]
        if due and sources:
            # A run tries all that are due; each wait that has passed is one reason to run.
            newest = max(row["next_retry_at"] for row in due)
            requests.append(_request(opened, sources[0], f"uploads:{namespace}:{newest}"))
    return requests or dg.SkipReason("No bytes wait, or none are due.")


def _unread(workspace: Workspace) -> dict[str, str]:
    """Return {source id: run key} of the sources that no run has read as their entry is now.

    A source that is put back counts as new, since the last job that succeeded was the one that retired it.
    The key changes with the entry and each hour, so that a run that fails is not the last one.
    """
    found = {}
    for row in workspace.catalog.sources.find():
        namespace, source_id = row["namespace"], row["source_id"]
        entry = stored_entry(row)
        if entry.paused:
            continue
        wanted = fingerprint(workspace.settings, entry)
        last = workspace.catalog.jobs.last_succeeded(namespace, source_id)
        if wanted is None and last is not None and last["configuration"] is None and last["held"]:
            # A run has seen that it left, and what it would delete waits for a person.
            continue
        if wanted is None or last is None or last["configuration"] != wanted:
            kind = "retire" if wanted is None else "new"
            hour = int(_now().timestamp() // 3600)
            found[source_id] = f"{kind}:{namespace}:{source_id}:{row['updated_at']}:{wanted or ''}:{hour}"
    return found


def _request(workspace: Workspace, source_id: str, run_key: str) -> dg.RunRequest:
    """Ask for a run of one source, which starts by its priority. A sensor with several jobs must name the
    job, or its tick fails.
    """
    priority = max(entry.config.run_priority for entry in workspace.entries(source_id))
    tags = {PRIORITY_TAG: str(priority)} if priority else None
    return dg.RunRequest(run_key, partition_key=source_id, job_name=ingest_source.name, tags=tags)


def _now() -> datetime:
    return datetime.now(UTC)


SENSORS = [
    sources_sensor,
    due_sources,
    due_dead_letters,
    due_uploads,
    stale_runs,
    run_retention,
    notifications,
    run_failures,
]
