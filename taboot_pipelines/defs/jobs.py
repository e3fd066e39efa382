"""The jobs: one source through the chain, and all sources through it."""

from collections.abc import Iterator

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from taboot_pipelines.defs import documents, ingest, kb, knowledge, readiness, vectors
from taboot_pipelines.defs.materialize import failures, run_reported
from taboot_pipelines.defs.metadata import metadata_of
from taboot_pipelines.defs.partitions import apply_change, partition_change
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.chain import CHAIN

ASSETS = [*ingest.ASSETS, *documents.ASSETS, *vectors.ASSETS, *knowledge.ASSETS, *kb.ASSETS]
CHECKS = [*ingest.CHECKS, *documents.CHECKS, *vectors.CHECKS, *knowledge.CHECKS]

ingest_source = dg.define_asset_job(
    "ingest_source",
    selection=dg.AssetSelection.assets(*ASSETS) - dg.AssetSelection.checks(*readiness.CHECKS),
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
    for stage in CHAIN.names:
        for source_id in alive:
            if source_id in stopped:
                continue
            try:
                reports = run_reported(workspace.runtime, stage, source_id)
            except dg.Failure as failure:
                # A source that fails does not stop the others; the op fails at the end.
                failed[source_id] = failure.description or stage
                if stage not in CHAIN.targets:
                    stopped.add(source_id)
                context.log.error(f"{source_id}: {stage}: {failure.description}")
                continue
            version = (
                {DATA_VERSION_TAG: reports[0].data_version}
                if len(reports) == 1 and reports[0].data_version
                else None
            )
            yield dg.AssetMaterialization(
                stage, partition=source_id, metadata=metadata_of(reports), tags=version
            )
    apply_change(context.instance, partition_change(context.instance, opened))
    if failed:
        raise dg.Failure(
            f"{len(failed)} of {len(alive)} sources failed.",
            metadata={"failed": dg.MetadataValue.json(failed)},
            allow_retries=False,
        )
    yield dg.Output(None)


@dg.job(
    description="Every source of the sources file. The asset checks belong to ingest_source.",
    executor_def=dg.in_process_executor,
)
def ingest_all() -> None:
    ingest_every_source()


JOBS: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = [ingest_source, ingest_all]
