"""Dagster's asset checks: those of an ingest, which ``taboot_pipelines.checks`` carries out.

A blocking check that fails stops what lies downstream of its asset in the same run.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import dagster as dg

from taboot_pipelines import logs
from taboot_pipelines.checks import CHECKS as ALL
from taboot_pipelines.defs.materialize import failures
from taboot_pipelines.defs.metadata import shown
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.check_scope import Check, CheckResult, CheckRun
from taboot_pipelines.stages.workspace import Workspace

#: The checks of these stages are one step each: a step of a run costs its events.
_STEPS: dict[str, tuple[str, ...]] = {
    "fetch_checks": ("raw_blobs",),
    "crawl_checks": ("crawl_graph",),
    "text_checks": ("documents", "chunks"),
    "link_checks": ("links",),
    "vector_checks": ("embeddings",),
    "tier_checks": tuple(stage.name for stage in CHAIN.stages if stage.observes),
    "snapshot_checks": ("entity_snapshots",),
    "serving_checks": tuple(CHAIN.serving),
}
_STEPS |= {
    f"{stage.name}_checks": (stage.name,)
    for stage in CHAIN.stages
    if stage.checks and not any(stage.name in together for together in _STEPS.values())
}


def _step(name: str, checks: Sequence[Check]) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name=name,
        specs=[
            dg.AssetCheckSpec(
                check.name,
                asset=check.stage,
                description=check.description,
                blocking=check.blocking,
                additional_deps=list(check.also_of) or None,
            )
            for check in checks
        ],
        can_subset=True,
    )
    def step(
        context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
    ) -> Iterator[dg.AssetCheckResult]:
        wanted = {(key.asset_key.path[-1], key.name) for key in context.selected_asset_check_keys}
        partitioned = context.has_partition_key or context.has_partition_key_range
        keys = set(context.partition_keys) if partitioned else None
        for check in checks:
            if (check.stage, check.name) in wanted:
                with logs.bind(stage=check.stage), failures(workspace.runtime, check.stage):
                    result = _looked(check, _run_of(workspace.open(), keys))
                yield dg.AssetCheckResult(
                    asset_key=dg.AssetKey(check.stage),
                    check_name=check.name,
                    passed=result.passed,
                    severity=severity(check),
                    metadata=_metadata(result),
                )

    return step


def evaluation(check: Check, result: CheckResult) -> dg.AssetCheckEvaluation:
    """Return the result of a check as an event, for what is no step of asset checks."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(check.stage),
        check_name=check.name,
        passed=result.passed,
        severity=severity(check),
        metadata=_metadata(result),
    )


def severity(check: Check) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if check.warns else dg.AssetCheckSeverity.ERROR


def evaluations(
    workspace: WorkspaceResource, stage: str, source_ids: Collection[str]
) -> Iterator[tuple[Check, dg.AssetCheckEvaluation]]:
    """Carry out the checks of a stage for some sources. Raises ``Failure`` as a stage does."""
    for check in ALL:
        if check.stage == stage:
            with logs.bind(stage=stage), failures(workspace.runtime, stage):
                yield check, evaluation(check, _looked(check, _run_of(workspace.open(), source_ids)))


def _looked(check: Check, run: CheckRun) -> CheckResult:
    """Carry out a check; it fails by a table that cannot be read, or whose rows are not what was written."""
    try:
        return check.look(run)
    except TabootError as error:
        if error.code != "E_TABLE":
            raise
        return CheckResult(False, {"code": error.code, "message": error.message, "remedy": error.remedy})


def _run_of(workspace: Workspace, source_ids: Collection[str] | None) -> CheckRun:
    """Return what a check of these sources looks at; of everything if a person runs it alone (None)."""
    return CheckRun(
        workspace,
        [
            (row["namespace"], row["source_id"])
            for row in workspace.catalog.sources.find()
            if source_ids is None or row["source_id"] in source_ids
        ],
        whole=source_ids is None,
        names=workspace.settings.metadata_text,
    )


def _metadata(result: CheckResult) -> dict[str, Any]:
    return {name: shown(value) for name, value in result.metadata.items()}


CHECKS = [_step(name, [c for c in ALL if c.stage in stages]) for name, stages in _STEPS.items()]
