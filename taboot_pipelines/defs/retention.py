"""Retention in Dagster: the asset, its check, the daily schedule, the sensor for what is due before it."""

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg

from taboot_pipelines.defs.materialize import OWNERS, failures
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.run_retention import mark_changed
from taboot_pipelines.model.jobs import Lifecycle
from taboot_pipelines.model.retention import moment_of
from taboot_pipelines.stages import retention as stage
from taboot_pipelines.stages.chain import CHAIN

GROUP = "operations"
#: Documents that one materialization lists; ``taboot retention --json`` lists all.
_MAX_SHOWN = 100


@dg.asset(
    group_name=GROUP,
    deps=[dg.AssetKey(stage) for stage in CHAIN.serving],
    pool=KNOWLEDGE,
    kinds={"python"},
    owners=OWNERS,
    code_version="1",
    check_specs=[
        dg.AssetCheckSpec(
            "nothing_expires_soon",
            asset="retention",
            description="No document is EXPIRING: in the last week before its retention deletes it.",
        )
    ],
    description=(
        "Documents that are not kept for good: EXPIRING in their last week, then deleted until their bytes"
        " change. Every transition is in the audit log."
    ),
)
def retention(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[Any]:
    opened = workspace.open()
    opened.sync_sources()
    with failures(workspace.runtime, "retention", context.retry_number):
        passes = stage.run_all(opened, opened.namespaces())
    if any(done.changed for done in passes):
        mark_changed(context.instance, context.run)
    shown = workspace.runtime.settings.metadata_text
    expiring = [
        (namespace, kept)
        for namespace in opened.namespaces()
        for kept in stage.kept(opened, namespace)
        if kept.locator.lifecycle == Lifecycle.EXPIRING and kept.expires_at is not None
    ]
    rows = [
        dg.TableRecord(
            {
                "namespace": namespace,
                "source": kept.source_id,
                "document": kept.locator.path if shown else kept.locator.doc_id,
                "expires": moment_of(kept.expires_at or 0).isoformat(timespec="minutes"),
            }
        )
        for namespace, kept in expiring[:_MAX_SHOWN]
    ]
    metadata: dict[str, Any] = {
        "expired": sum(done.expired for done in passes),
        "announced": sum(done.announced for done in passes),
        "kept after all": sum(done.withdrawn for done in passes),
        "expiring": len(expiring),
    }
    if rows:
        metadata["expiring soon"] = dg.MetadataValue.table(rows)
    yield dg.MaterializeResult(
        metadata=metadata,
        check_results=[
            dg.AssetCheckResult(
                check_name="nothing_expires_soon",
                passed=not expiring,
                severity=dg.AssetCheckSeverity.WARN,
                description=(
                    f"{len(expiring):,} documents expire within 7 days; `taboot retain` keeps one."
                    if expiring
                    else "No document expires within 7 days."
                ),
                metadata={"expiring": len(expiring)},
            )
        ],
    )


expire_job = dg.define_asset_job(
    "expire",
    selection=dg.AssetSelection.assets(retention),
    description="Announce and delete the documents whose retention is over.",
)
daily_retention = dg.ScheduleDefinition(
    name="daily_retention",
    job=expire_job,
    cron_schedule="43 2 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Looks every night which documents expire.",
)


@dg.sensor(
    job=expire_job,
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs the retention where a document is past its time before the night has come.",
)
def due_retention(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.RunRequest | dg.SkipReason:
    opened = workspace.open()
    due = [namespace for namespace in opened.namespaces() if stage.is_due(opened, namespace)]
    if not due:
        return dg.SkipReason("No document is due.")
    # By the hour, so that a run that fails is not the last one.
    return dg.RunRequest(f"retention:{int(time.time() // 3600)}")


ASSETS = [retention]
JOBS = [expire_job]
SCHEDULES = [daily_retention]
SENSORS = [due_retention]
