"""The sensor that drains Qdrant's retry queue.

A namespace whose points could not be written is tried again. The queue says only when: a run of the stage
compares what is there with what should be, and does nothing if nothing is missing.
"""

import time

import dagster as dg

from taboot_pipelines.defs.jobs import ingest_source
from taboot_pipelines.defs.partitions import NAME, Busy
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.qdrant_points import QUEUE, STAGE


@dg.sensor(
    job=ingest_source,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Writes a namespace's points again after Qdrant did not answer: after 30 s, then twice as long each"
        " time, at most an hour."
    ),
)
def qdrant_retries(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult | dg.SkipReason:
    opened = workspace.open()
    if opened.settings.qdrant.url is None:
        return dg.SkipReason("TABOOT_QDRANT__URL is not set.")
    sources: dict[str, list[str]] = {}
    for row in opened.catalog.sources.find():
        sources.setdefault(row["namespace"], []).append(row["source_id"])
    now, busy = time.time(), Busy(context.instance, opened)
    requests = []
    for namespace, names in sorted(sources.items()):
        due = opened.state.queued(namespace, QUEUE).get(namespace)
        # Any source of the namespace will do, since its run brings in everything that is pending. A run that
        # is under way does so by itself.
        free = next((s for s in sorted(names) if context.instance.has_dynamic_partition(NAME, s)), None)
        if due is not None and due <= now and free is not None and not any(s in busy for s in names):
            # The run key names the failure, so no second run is requested for the same one if the first
            # never retries it.
            requests.append(
                dg.RunRequest(
                    partition_key=free,
                    run_key=f"{STAGE}:{namespace}:{due:.3f}",
                    asset_selection=[dg.AssetKey(STAGE)],
                )
            )
    return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason("No namespace is due.")


SENSORS = [qdrant_retries]
