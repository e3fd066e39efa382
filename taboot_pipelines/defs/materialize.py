"""Turns the run of a stage into a Dagster materialization, errors and retries included.

Every asset goes through the same few lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg

from taboot_pipelines import logs
from taboot_pipelines.defs.metadata import error_metadata, metadata_of, shown_item, text_rows, tier_metadata
from taboot_pipelines.defs.partitions import INGEST_ALL
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines.defs.run_retention import mark_changed
from taboot_pipelines.defs.run_tags import event_tags, tag_run
from taboot_pipelines.defs.stored import stored
from taboot_pipelines.errors import TabootError
from taboot_pipelines.ingesting import MAX_RETRIES, goes_again, log_problems, told
from taboot_pipelines.model.crawl_graph import CrawlProgress
from taboot_pipelines.model.ids import digest
from taboot_pipelines.stages import running
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.crawl_graph import watched
from taboot_pipelines.stages.published import read_published
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.tiers import TierStage
from taboot_pipelines.stages.workspace import Workspace

OWNERS = ["team:taboot"]
#: The tag in which an event of no run gives its data version; a result of a run has an argument for it.
DATA_VERSION_TAG = "dagster/data_version"
#: Each line about a crawl, or a backfill, that goes on is kept as an event of its run.
_SECONDS_BETWEEN_LOGS = 10.0
#: Assets with a text column, and the columns that are shown where TABOOT_METADATA_TEXT allows it.
_TEXT_COLUMNS = {"documents": ["doc_id", "title", "text"], "chunks": ["chunk_id", "section", "text"]}


def materialize(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, **options: Any
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult[Any]]:
    """Run the asset's stage for the run's partitions, of which a backfill has many.

    A stage of a source goes through them one after the other; a stage of the namespace runs once for all of
    them. A partition that fails does not stop the others: what they made is reported, and the step fails at
    the end. An expected failure becomes a ``Failure`` that carries its code.
    """
    stage, keys = context.asset_key.path[-1], list(context.partition_keys)
    if stage in (CHAIN.first.name, CHAIN.of_namespace[0].name):
        tag_run(context.instance, context.run, workspace.open(), keys)
    done: list[tuple[Sequence[str], list[StageReport]]] = []
    failed: list[tuple[Sequence[str], dg.Failure | dg.RetryRequested]] = []
    groups: list[Sequence[str]] = [keys]
    if isinstance(CHAIN.stage(stage), SourceStage):
        groups = [[key] for key in keys]
    told = time.monotonic()
    for number, group in enumerate(groups, 1):
        try:
            done.append((group, _run_partitions(context, workspace, stage, group, options)))
        except (dg.Failure, dg.RetryRequested) as failure:
            failed.append((group, failure))
        if len(groups) > 1 and time.monotonic() >= told + _SECONDS_BETWEEN_LOGS:
            told = time.monotonic()
            context.log.info(f"{number} of {len(groups)} sources done, {len(failed)} of them failed.")
    for _, failed_with in failed:
        # Another try repeats no work of the partitions that are done: their input is unchanged then.
        if isinstance(failed_with, dg.RetryRequested) or len(groups) == 1:
            raise failed_with
    opened = workspace.open()
    metadata = {key: partition_metadata(opened, stage, key, made) for group, made in done for key in group}
    if failed:
        for group, made in done:
            for key in group:
                yield materialization(opened, stage, key, made)
        raise _joined(failed, len(keys))
    if len(keys) > 1:
        for key in keys:
            context.add_asset_metadata(metadata[key], partition_key=key)
    of_all = metadata[keys[0]] if len(keys) == 1 else {"partitions": len(keys)}
    reports = [report for _, made in done for report in made]
    tags = event_tags(opened, keys)
    if CHAIN.stage(stage).tables:
        yield dg.MaterializeResult(metadata=of_all, data_version=_version(reports), tags=tags, value=reports)
    else:
        # Without a table there is no value for an I/O manager to keep.
        yield dg.MaterializeResult(metadata=of_all, data_version=_version(reports), tags=tags)


def materialization(
    workspace: Workspace, stage: str, key: str, reports: Sequence[StageReport]
) -> dg.AssetMaterialization:
    """Return the event that says what a stage did for a partition, whoever ran it."""
    version = _version(reports)
    tags = event_tags(workspace, [key]) | ({} if version is None else {DATA_VERSION_TAG: version.value})
    metadata = partition_metadata(workspace, stage, key, reports)
    return dg.AssetMaterialization(stage, partition=key, metadata=metadata, tags=tags)


def partition_metadata(
    workspace: Workspace, stage: str, key: str, reports: Sequence[StageReport]
) -> dict[str, Any]:
    """Return the metadata of a partition: what the stage did, and what is stored now."""
    names = workspace.settings.metadata_text
    if isinstance(CHAIN.stage(stage), NamespaceStage):
        # The stage ran for several partitions, and the report names the one that asked.
        reports = [replace(report, source_id=key) for report in reports]
    metadata = metadata_of(reports, names=names) | stored(workspace, stage, reports)
    if names and stage in _TEXT_COLUMNS:
        first = read_published(workspace, reports[0].namespace, key, stage, columns=_TEXT_COLUMNS[stage])
        metadata["text"] = text_rows(first.slice(0, 5).to_pylist())
    found = CHAIN.stage(stage)
    # What a run found as it was is shown by the one before.
    if isinstance(found, TierStage) and any(report.changed for report in reports):
        metadata |= tier_metadata(workspace, found, reports, names=names)
    return metadata


def _version(reports: Sequence[StageReport]) -> dg.DataVersion | None:
    versions = [r.data_version for r in reports]
    if not versions or not all(versions):
        return None
    return dg.DataVersion(versions[0] if len(versions) == 1 else digest(*versions))


def _run_partitions(
    context: dg.AssetExecutionContext,
    workspace: WorkspaceResource,
    stage: str,
    keys: Sequence[str],
    options: dict[str, Any],
) -> list[StageReport]:
    with (
        logs.bind(run=context.run.run_id, partition=keys[0]),
        _crawl_watched(context, workspace, stage, keys[0]),
    ):
        reports = run_reported(workspace.runtime, stage, *keys, attempt=context.retry_number, **options)
    if any(report.changed for report in reports):
        mark_changed(context.instance, context.run)
    names = workspace.runtime.settings.metadata_text
    for report in reports:
        for problem in report.problems:
            context.log.warning(f"{problem['code']}: {shown_item(report, problem['item'], names)}")
        for held in report.held:
            context.log.warning(f"{held['code']}: {held['message']} {held.get('remedy', '')}")
        for limit in report.limited:
            context.log.warning(f"{limit['code']}: {limit['message']} {limit['remedy']}")
    return reports


@contextmanager
def _crawl_watched(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, stage: str, source_id: str
) -> Iterator[None]:
    """Log now and then how far the source's crawl has come while the block fetches; tell the observer more
    often.
    """
    if stage != CHAIN.first.name:
        yield
        return
    runtime, last = workspace.runtime, -_SECONDS_BETWEEN_LOGS

    def tell(progress: CrawlProgress) -> None:
        nonlocal last
        if runtime.on_crawl is not None:
            runtime.on_crawl(progress)
        if time.monotonic() >= last + _SECONDS_BETWEEN_LOGS:
            last = time.monotonic()
            context.log.info(f"crawl {progress.crawl_id[:8]}: {progress.sentence}")

    with watched(runtime.workspace, source_id, tell):
        yield


def _joined(failed: Sequence[tuple[Sequence[str], Exception]], partitions: int) -> dg.Failure:
    """Return one failure for those of several partitions."""
    said = {
        key: getattr(failure, "description", None) or type(failure).__name__
        for group, failure in failed
        for key in group
    }
    return dg.Failure(
        f"{len(said)} of {partitions} partitions failed: {', '.join(sorted(said))}. What the others have is"
        f" kept; the job {INGEST_ALL} goes on with them, and stops for none.",
        metadata={"failed": dg.MetadataValue.json(said)},
        allow_retries=False,
    )


def run_reported(
    runtime: Runtime, stage: str, *source_ids: str, attempt: int = MAX_RETRIES, **options: Any
) -> list[StageReport]:
    """Run one stage of one source, or of several if it is the namespace's.

    Raises ``Failure``, or ``RetryRequested`` while ``attempt``, counted from 0, is not the last.
    """
    with failures(runtime, stage, attempt):
        found = CHAIN.stage(stage)
        if isinstance(found, NamespaceStage):
            reports = running.run_together(runtime.workspace(), found, source_ids)
        else:
            (source_id,) = source_ids
            reports = running.run_stage(runtime.workspace(), stage, source_id, **options)
    for report in reports:
        log_problems(report)
    return reports


@contextmanager
def failures(runtime: Runtime, stage: str, attempt: int = MAX_RETRIES) -> Iterator[None]:
    """Turn errors into Dagster's ``Failure``, with the error response as metadata.

    Retries are requested here and not by a ``RetryPolicy``, which would also retry after
    an interrupt (Ctrl-C).
    """
    try:
        with told(runtime.settings, stage):
            yield
    except TabootError as error:
        if goes_again(stage, error, attempt):
            raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=2**attempt) from error
        raise dg.Failure(
            description=str(error), metadata=error_metadata(error), allow_retries=False
        ) from None
