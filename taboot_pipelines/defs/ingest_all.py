"""The job of every source: a step for each stage, in which the stages of the namespace run once for all.

A backfill of all partitions of ``ingest_source`` does the same, the asset checks included, and stops at the
first stage that fails for any of them; here a source that fails stops no other. The job needs no partitions
to be chosen, so that a schedule or one click can start it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.materialize import failures, run_reported, version_tags
from taboot_pipelines.defs.metadata import metadata_of
from taboot_pipelines.defs.partitions import INGEST_ALL, READ_SOURCES, apply_change, partition_change
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.retention import mark_changed
from taboot_pipelines.defs.run_tags import event_tags, tag_run
from taboot_pipelines.defs.stored import stored
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.dry_run import unknown_sources
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.workspace import Workspace

#: Where the steps leave for each other which sources go on: one process runs them all.
PASSED_ON = "passed_on"


@dataclass(frozen=True)
class Going:
    """The sources that go on to the next stage, and {source id: why} of those that failed at one."""

    sources: Sequence[str]
    failed: Mapping[str, str]


class Chosen(dg.Config):
    """What a person, or a sensor, may decide for one run."""

    sources: list[str] = Field([], description="The ids of the sources to take; none given: all of them.")


@dg.op(
    name=READ_SOURCES,
    out=dg.Out(Going, io_manager_key=PASSED_ON),
    description="Reads the sources file and makes the partitions equal to it.",
)
def read_sources_file(context: dg.OpExecutionContext, config: Chosen, workspace: WorkspaceResource) -> Going:
    opened = workspace.open()
    with failures(workspace.runtime, "sources"):
        opened.sync_sources()
        known = {row["source_id"] for row in opened.catalog.sources.find()}
        if unknown := set(config.sources) - known:
            raise unknown_sources(sorted(unknown), known)
    apply_change(context.instance, partition_change(context.instance, opened))
    sources = sorted(config.sources or known)
    tag_run(context.instance, context.run, opened, sources)
    return Going(sources, {})


def _step(stage: SourceStage | NamespaceStage) -> dg.OpDefinition:
    """Return the step of a stage; a source that fails in it goes no further and stops no other."""

    @dg.op(
        name=f"all_{stage.name}",
        ins={"going": dg.In(Going)},
        out=dg.Out(Going, io_manager_key=PASSED_ON),
        description=stage.holds,
    )
    def step(
        context: dg.OpExecutionContext, going: Going, workspace: WorkspaceResource
    ) -> Iterator[dg.AssetMaterialization | dg.Output[Going]]:
        opened, failed = workspace.open(), dict(going.failed)
        sources = list(going.sources)
        groups: list[list[str]] = _by_namespace(opened, sources)
        if isinstance(stage, SourceStage):
            groups = [[source_id] for source_id in sources]
        for group in groups:
            try:
                reports = run_reported(workspace.runtime, stage.name, *group)
            except dg.Failure as failure:
                failed |= dict.fromkeys(group, failure.description or stage.name)
                if stage.name not in CHAIN.targets:
                    sources = [source_id for source_id in sources if source_id not in group]
                context.log.error(f"{', '.join(group)}: {stage.name}: {failure.description}")
                continue
            if any(report.changed for report in reports):
                mark_changed(context.instance, context.run)
            metadata: dict[str, Any] = metadata_of(reports) | stored(opened, stage.name, reports)
            for source_id in group:
                tags = event_tags(opened, [source_id]) | version_tags(reports)
                yield dg.AssetMaterialization(stage.name, partition=source_id, metadata=metadata, tags=tags)
        yield dg.Output(Going(sources, failed))

    return step


@dg.op(
    ins={"going": dg.In(Going)},
    out=dg.Out(dg.Nothing),
    description="Drops the partitions of sources that have retired, and fails if any source failed.",
)
def tell_failures(context: dg.OpExecutionContext, going: Going, workspace: WorkspaceResource) -> None:
    apply_change(context.instance, partition_change(context.instance, workspace.open()))
    if going.failed:
        of = len({*going.sources, *going.failed})
        raise dg.Failure(
            f"{len(going.failed)} of {of} sources failed: {', '.join(sorted(going.failed))}.",
            metadata={"failed": dg.MetadataValue.json(dict(going.failed))},
            allow_retries=False,
        )


def _by_namespace(workspace: Workspace, source_ids: Collection[str]) -> list[list[str]]:
    """Return the sources by namespace; one that moves between two of them is in the first, and runs both."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for row in workspace.catalog.sources.find():
        if row["source_id"] in source_ids and row["source_id"] not in seen:
            seen.add(row["source_id"])
            found.setdefault(row["namespace"], []).append(row["source_id"])
    return list(found.values())


_STEPS = [_step(stage) for stage in CHAIN.stages]


@dg.job(
    name=INGEST_ALL,
    description=(
        "Every source of the sources file, a step for each stage. The asset checks belong to ingest_source."
    ),
    executor_def=dg.in_process_executor,
)
def ingest_all() -> None:
    going = read_sources_file()
    for step in _STEPS:
        going = step(going)
    tell_failures(going)
