"""Group operations: reconciliation of all stores, daily and on demand."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.materialize import OWNERS, failures
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.run_retention import mark_changed
from taboot_pipelines.defs.usage import usage
from taboot_pipelines.stages import storage_audit as stage
from taboot_pipelines.stages.chain import CHAIN

GROUP = "operations"
#: Discrepancies that one materialization lists; ``taboot audit --json`` lists all.
_MAX_SHOWN = 100


class AuditConfig(dg.Config):
    """What a person may decide for one audit."""

    repair: bool = Field(False, description="Derive again what differs.")
    deep: bool = Field(False, description="Hash every blob and every shard file.")


@dg.asset(
    group_name=GROUP,
    deps=[dg.AssetKey(stage) for stage in CHAIN.serving],
    pool=KNOWLEDGE,
    kinds={"python"},
    owners=OWNERS,
    code_version="1",
    check_specs=[
        dg.AssetCheckSpec(
            "stores_agree",
            asset="storage_audit",
            description="Catalog, blobs, tables, shards, Qdrant and Neo4j hold the same.",
        )
    ],
    description=(
        "Every namespace's stores compared by id; what differs, and with `repair` what was derived again."
    ),
)
def storage_audit(
    context: dg.AssetExecutionContext, config: AuditConfig, workspace: WorkspaceResource
) -> Iterator[Any]:
    opened = workspace.open()
    reports = []
    for namespace in opened.namespaces():
        with failures(workspace.runtime, "storage_audit", context.retry_number):
            reports.append(stage.run(opened, namespace, repair=config.repair, deep=config.deep))
    rows = [
        dg.TableRecord(
            {
                "namespace": r.namespace,
                "store": d.store,
                "kind": d.kind,
                "id": d.item,
                "what": d.message,
                "repaired": d not in r.left,
            }
        )
        for r in reports
        for d in r.found
    ]
    if rows:
        mark_changed(context.instance, context.run)
    left = [d for r in reports for d in r.left]
    metadata: dict[str, Any] = {
        "namespaces": len(reports),
        "discrepancies": len(rows),
        "left": len(left),
        "checked": dg.MetadataValue.json({r.namespace: r.checked for r in reports}),
    }
    if rows:
        metadata["found"] = dg.MetadataValue.table(rows[:_MAX_SHOWN])
    yield dg.MaterializeResult(
        metadata=metadata,
        check_results=[
            dg.AssetCheckResult(
                check_name="stores_agree",
                passed=not left,
                metadata={"left": len(left), "ids": dg.MetadataValue.json([d.item for d in left[:20]])},
            )
        ],
    )


audit_job = dg.define_asset_job(
    "audit",
    selection=dg.AssetSelection.assets(storage_audit, usage),
    description="Compare all stores of every namespace, and show what each holds of what it may hold.",
)
daily_reconciliation = dg.ScheduleDefinition(
    name="daily_reconciliation",
    job=audit_job,
    cron_schedule="17 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Looks every night whether all stores agree.",
)

ASSETS = [storage_audit, usage]
JOBS = [audit_job]
SCHEDULES = [daily_reconciliation]
