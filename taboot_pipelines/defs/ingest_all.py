"""The job of every source: a step for each stage, in which the stages of the namespace run once for all.

A backfill of all partitions of ``ingest_source`` does the same, and stops at the first stage that fails for
any of them; here a source that fails stops no other. Each one that fails is told at its own partition of the
asset, and has a step of its own, ``failed_source[…]``, which fails with what went wrong and what to do. The
job needs no partitions to be chosen, so that a schedule or one click can start it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.checks import evaluations
from taboot_pipelines.defs.materialize import failures, materialization, run_reported
from taboot_pipelines.defs.partitions import INGEST_ALL, READ_SOURCES, apply_change, partition_change
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.defs.run_retention import mark_changed
from taboot_pipelines.defs.run_tags import tag_run
from taboot_pipelines.errors import unknown_sources
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.workspace import Workspace

#: Where the steps leave for each other which sources go on: one process runs them all.
PASSED_ON = "passed_on"


@dataclass(frozen=True)
class Going:
    """The sources that go on to the next stage, those in which something changed, and by source id how those
    failed that did.
    """

    sources: Sequence[str]
    changed: frozenset[str] = frozenset()
    failed: Mapping[str, "Failed"] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """The stage at which a source failed, why in words with the remedy, and the same as metadata."""

    source_id: str
    stage: str
    why: str
    metadata: Mapping[str, Any]


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
    sources = opened.in_order(config.sources or known)
    tag_run(context.instance, context.run, opened, sources)
    return Going(sources)


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
    ) -> Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[Going]]:
        opened, failed = workspace.open(), dict(going.failed)
        sources, changed = list(going.sources), set(going.changed)
        present = context.instance.get_materialized_partitions(dg.AssetKey(stage.name))
        groups: list[list[str]] = _by_namespace(opened, sources)
        if isinstance(stage, SourceStage):
            groups = [[source_id] for source_id in sources]

        def fail(
            group: Collection[str], why: str, metadata: Mapping[str, Any]
        ) -> Iterator[dg.AssetObservation]:
            for source_id in group:
                failed[source_id] = Failed(source_id, stage.name, why, metadata)
                yield dg.AssetObservation(
                    stage.name, description=why, partition=source_id, metadata=dict(metadata)
                )
            if stage.name not in CHAIN.targets:
                sources[:] = [source_id for source_id in sources if source_id not in group]
            context.log.error(f"{', '.join(group)}: {stage.name}: {why}")

        for group in groups:
            try:
                reports = run_reported(workspace.runtime, stage.name, *group)
            except dg.Failure as failure:
                yield from fail(group, failure.description or stage.name, failure.metadata)
                continue
            # What a stage of the namespace did is told of the sources whose change it was.
            news = {s for s in group if s in changed or s not in present}
            if any(report.changed for report in reports):
                mark_changed(context.instance, context.run)
                news |= {reports[0].source_id} if len(group) == 1 or not news else set()
                changed |= set(group) if len(group) == 1 else set()
            for source_id in group:
                if source_id in news:
                    yield materialization(opened, stage.name, source_id, reports)
        if sources:
            try:
                for check, evaluation in evaluations(workspace, stage.name, sources):
                    yield evaluation
                    if check.blocking and not evaluation.passed:
                        why = f"The check {check.name} failed; its last evaluation shows which rows."
                        yield from fail(list(sources), why, {"check": check.name})
            except dg.Failure as failure:
                context.log.error(f"checks of {stage.name}: {failure.description}")
        yield dg.Output(Going(sources, frozenset(changed), failed))

    return step


@dg.op(
    ins={"going": dg.In(Going)},
    out=dg.DynamicOut(Failed, io_manager_key=PASSED_ON),
    description="Drops the partitions of sources that have retired, and hands on each source that failed.",
)
def end_of_sources(
    context: dg.OpExecutionContext, going: Going, workspace: WorkspaceResource
) -> Iterator[dg.DynamicOutput[Failed]]:
    apply_change(context.instance, partition_change(context.instance, workspace.open()))
    for number, (_, found) in enumerate(sorted(going.failed.items())):
        # A step's key takes no hyphen, and two ids may differ by nothing else.
        key = found.source_id.replace("-", "_")
        clash = any(o.replace("-", "_") == key for o in going.failed if o != found.source_id)
        yield dg.DynamicOutput(found, mapping_key=f"{key}__{number}" if clash else key)


@dg.op(
    ins={"found": dg.In(Failed)},
    out=dg.Out(dg.Nothing),
    description="Fails with what went wrong with one source, and what to do about it.",
)
def failed_source(found: Failed) -> None:
    raise dg.Failure(
        f"{found.source_id} failed at {found.stage}: {found.why}",
        metadata={"source": found.source_id, "stage": found.stage, **found.metadata},
        allow_retries=False,
    )


def _by_namespace(workspace: Workspace, source_ids: Collection[str]) -> list[list[str]]:
    """Return the sources by namespace; one that moves between two of them is in the first, and runs both."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    order = {source_id: number for number, source_id in enumerate(source_ids)}
    for row in workspace.catalog.sources.find():
        if row["source_id"] in order and row["source_id"] not in seen:
            seen.add(row["source_id"])
            found.setdefault(row["namespace"], []).append(row["source_id"])
    return [sorted(group, key=order.__getitem__) for group in found.values()]


_STEPS = [_step(stage) for stage in CHAIN.stages]


@dg.job(
    name=INGEST_ALL,
    description="Every source of the sources file, a step for each stage with its checks.",
    executor_def=dg.in_process_executor,
)
def ingest_all() -> None:
    going = read_sources_file()
    for step in _STEPS:
        going = step(going)
    end_of_sources(going).map(failed_source)
