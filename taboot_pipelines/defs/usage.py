"""What every namespace holds of what it may hold, and whether the notifications arrive."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from taboot_pipelines.defs.materialize import OWNERS, failures
from taboot_pipelines.defs.metadata import records
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model.notifications import DeliveryState
from taboot_pipelines.stages import quotas
from taboot_pipelines.stages.chain import CHAIN


@dg.asset(
    group_name="operations",
    deps=[dg.AssetKey(stage) for stage in CHAIN.serving],
    kinds={"python"},
    owners=OWNERS,
    code_version="1",
    check_specs=[
        dg.AssetCheckSpec(
            "below_quotas", asset="usage", description="No namespace has used nine tenths of a quota."
        ),
        dg.AssetCheckSpec(
            "deliveries_arrive",
            asset="usage",
            description="No notification of the last 30 days was given up: `taboot notifications list`.",
        ),
    ],
    description="Bytes, documents and questions of every namespace beside its quotas, and deliveries.",
)
def usage(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[Any]:
    opened = workspace.open()
    with failures(workspace.runtime, "usage", context.retry_number):
        found = [quotas.usage(opened, namespace) for namespace in opened.namespaces()]
        deliveries = {u.namespace: opened.catalog.notifications.counts(u.namespace) for u in found}
    rows = [
        {
            "namespace": u.namespace,
            "what": what,
            "used": used,
            "limit": "none" if limit is None else str(limit),
        }
        for u in found
        for what, (used, limit) in u.amounts().items()
    ]
    almost = [f"{u.namespace}: {what}" for u in found for what in u.almost_used()]
    given_up = sum(counts.get(DeliveryState.FAILED.value, 0) for counts in deliveries.values())
    metadata: dict[str, Any] = {"deliveries": dg.MetadataValue.json(deliveries)}
    if rows:
        metadata["usage"] = records(rows)
    yield dg.MaterializeResult(
        metadata=metadata,
        check_results=[
            dg.AssetCheckResult(
                check_name="below_quotas",
                passed=not almost,
                severity=dg.AssetCheckSeverity.WARN,
                description=", ".join(almost) or "Every quota has room, or there is none.",
            ),
            dg.AssetCheckResult(
                check_name="deliveries_arrive",
                passed=not given_up,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"{given_up:,} deliveries were given up (`taboot notifications list`).",
            ),
        ],
    )
