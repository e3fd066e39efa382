"""Checks of what readers are served from: the shards, and each server beside them."""

from collections.abc import Iterator

import dagster as dg

from taboot_pipelines.defs.checking import checked, namespaces_of
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.chain import CHAIN

NAME = "serves_newest_snapshot"


@dg.multi_asset_check(
    # One step for all: each step of a run costs its events.
    name="serving_checks",
    specs=[
        dg.AssetCheckSpec(
            NAME,
            asset=stage,
            description=(
                f"What readers get from {serving.store} is the newest snapshot of each namespace, or it is a"
                " server that is not configured."
            ),
        )
        for stage, serving in CHAIN.serving.items()
    ],
    can_subset=True,
)
def serving_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    wanted = {key.asset_key.path[-1] for key in context.selected_asset_check_keys}
    for stage, serving in CHAIN.serving.items():
        if stage not in wanted:
            continue
        with checked(workspace, stage) as opened:
            namespaces = namespaces_of(context, opened)
            behind = [n for n in namespaces if not serving.applied(opened, n)]
            target = CHAIN.targets.get(stage)
            configured = target is None or target.configured(opened)
        metadata: dict[str, dg.MetadataValue] = {
            "configured": dg.MetadataValue.bool(configured),
            "namespaces": dg.MetadataValue.int(len(namespaces)),
        }
        if behind:
            metadata |= {
                "behind": dg.MetadataValue.json(behind),
                "remedy": dg.MetadataValue.text(
                    f"Materialize {stage} for any source of the namespace; `taboot audit` says what differs."
                ),
            }
        yield dg.AssetCheckResult(
            asset_key=dg.AssetKey(stage),
            check_name=NAME,
            passed=not behind,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        )


CHECKS = [serving_checks]
