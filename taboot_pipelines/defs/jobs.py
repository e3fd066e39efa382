"""The jobs: one source through the chain, and all sources through it."""

from collections.abc import Collection, Iterator

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from taboot_pipelines.defs import documents, drift, freshness, ingest, kb, knowledge, readiness, vectors
from taboot_pipelines.defs.materialize import failures, run_reported, version_tags
from taboot_pipelines.defs.metadata import metadata_of
from taboot_pipelines.defs.partitions import apply_change, partition_change
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.retention import mark_changed
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.stage import SourceStage
from taboot_pipelines.stages.workspace import Workspace

ASSETS = [*ingest.ASSETS, *documents.ASSETS, *vectors.ASSETS, *knowledge.ASSETS, *kb.ASSETS]
CHECKS = [*ingest.CHECKS, *documents.CHECKS, *vectors.CHECKS, *knowledge.CHECKS, *drift.CHECKS]

ingest_source = dg.define_asset_job(
    "ingest_source",
    selection=dg.AssetSelection.assets(*ASSETS)
    - dg.AssetSelection.checks(*readiness.CHECKS, *freshness.CHECKS),
    description="The whole chain for one source, its checks included.",
)


@dg.op(
    out=dg.Out(dg.Nothing),
    description=(
        "Every source through the chain, stage by stage: the namespace's stages run once for all that"
        " changed."
    ),
)
def ingest_every_source(
    context: dg.OpExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
    opened = workspace.open()
    with failures(workspace.runtime, "sources"):
        opened.sync_sources()
    apply_change(context.instance, partition_change(context.instance, opened))
    alive = sorted({row["source_id"] for row in opened.catalog.sources.find()})
    failed: dict[str, str] = {}
    stopped: set[str] = set()
    for stage in CHAIN.stages:
        going = [source_id for source_id in alive if source_id not in stopped]
        for group in [[s] for s in going] if isinstance(stage, SourceStage) else _by_namespace(opened, going):
            try:
                reports = run_reported(workspace.runtime, stage.name, *group)
            except dg.Failure as failure:
                # A source that fails does not stop the others; the op fails at the end.
                failed |= dict.fromkeys(group, failure.description or stage.name)
                if stage.name not in CHAIN.targets:
                    stopped.update(group)
                context.log.error(f"{', '.join(group)}: {stage.name}: {failure.description}")
                continue
            if any(report.changed for report in reports):
                mark_changed(context.instance, context.run)
            metadata = metadata_of(reports)
            for source_id in group:
                yield dg.AssetMaterialization(
                    stage.name, partition=source_id, metadata=metadata, tags=version_tags(reports)
                )
    apply_change(context.instance, partition_change(context.instance, opened))
    if failed:
        raise dg.Failure(
            f"{len(failed)} of {len(alive)} sources failed.",
            metadata={"failed": dg.MetadataValue.json(failed)},
            allow_retries=False,
        )
    yield dg.Output(None)


def _by_namespace(workspace: Workspace, source_ids: Collection[str]) -> list[list[str]]:
    """Return the sources by namespace; one that moves between two of them is in the first, and runs both."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for row in workspace.catalog.sources.find():
        if row["source_id"] in source_ids and row["source_id"] not in seen:
            seen.add(row["source_id"])
            found.setdefault(row["namespace"], []).append(row["source_id"])
    return list(found.values())


@dg.job(
    description="Every source of the sources file. The asset checks belong to ingest_source.",
    executor_def=dg.in_process_executor,
)
def ingest_all() -> None:
    ingest_every_source()


JOBS: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = [ingest_source, ingest_all]
