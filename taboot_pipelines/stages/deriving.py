"""Runs the stages of one source: what they have in common before their work, and all that follows a fetch,
or a change of the catalog alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from taboot_pipelines import logs
from taboot_pipelines.embedding.remembered import UNANSWERED
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import raw_blobs
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.stage import SourceStage, SourceWork
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog.pointers import Pointer


def run_source_stage(
    workspace: Workspace,
    stage: SourceStage,
    entry: Entry,
    progress: Progress = no_progress,
    *,
    confirm_deletes: bool = False,
) -> StageReport:
    """Run one stage of one source under the source's lease.

    Raises ``E_NOT_FOUND`` if a stage that it needs has published nothing yet, and whatever the stage raises.
    """
    namespace, source_id = entry.namespace, entry.source_id
    with (
        reporting(stage.name, source_id, namespace) as report,
        workspace.leases.source(namespace, source_id),
    ):
        pointers = workspace.catalog.pointers.of_owner(namespace, source_id, (stage.name, *stage.needs))
        work = SourceWork(
            workspace,
            entry,
            stage.name,
            report,
            upstream=_upstream(stage, entry, pointers),
            old=_published(workspace, entry, pointers.get(stage.name)),
            progress=progress,
            confirm_deletes=confirm_deletes,
        )
        stage.run(work)
    return report


def run_tracked(
    workspace: Workspace,
    stage: SourceStage,
    entry: Entry,
    progress: Progress = no_progress,
    *,
    confirm_deletes: bool = False,
) -> StageReport:
    """Do as :func:`run_source_stage` and write the progress into the record of the source's job."""
    with logs.bind(namespace=entry.namespace):
        if stage.opens_job:
            return run_source_stage(workspace, stage, entry, progress, confirm_deletes=confirm_deletes)
        with tracked(workspace, entry.namespace, entry.source_id, stage.name, progress) as shown:
            return run_source_stage(workspace, stage, entry, shown)


def derive(workspace: Workspace, namespace: str, source_ids: Collection[str]) -> None:
    """Run the stages of these sources that follow from the catalog alone, without fetching anything.

    This is for changes of the catalog that no fetch made: deletions, repairs, and replays from scratch. A
    source that fails keeps none of the others; the first failure is raised last.
    """
    failure: TabootError | None = None
    for entry in workspace.entries_of(namespace):
        if entry.source_id in source_ids:
            try:
                raw_blobs.publish_listing(workspace, entry)
                for stage in CHAIN.derived:
                    run_source_stage(workspace, stage, entry)
            except TabootError as error:
                failure = failure or error
    if failure is not None:
        raise failure


@dataclass(frozen=True)
class Followed:
    """What the chain could not do: ``pending`` stores, and why a source could not be completed."""

    pending: dict[str, str]
    failure: TabootError | None


def follow(workspace: Workspace, namespace: str, sources: Collection[str]) -> Followed:
    """Run the stages that follow from a change of the catalog alone, without fetching anything.

    A server that does not answer, an embedder included, does not keep anything else from being done. It is
    returned as ``pending``, and the next run of the namespace does what is left.
    """
    pending: dict[str, str] = {}
    failure: TabootError | None = None
    try:
        derive(workspace, namespace, sources)
    except TabootError as error:
        if error.code not in UNANSWERED:
            raise
        failure = error
    for stage in CHAIN.of_namespace:
        try:
            stage.run(workspace, namespace, "")
        except TabootError as error:
            server_failed = stage.target is not None and error.code in stage.target.failures
            if stage.serving is None or not (server_failed or error.code in UNANSWERED):
                raise
            pending[stage.serving.store] = "pending"
    return Followed(pending, failure)


def _upstream(stage: SourceStage, entry: Entry, pointers: Mapping[str, Pointer]) -> dict[str, Pointer]:
    for name in stage.needs:
        if name not in pointers:
            raise TabootError(
                "E_NOT_FOUND",
                f"{name} of source {entry.source_id} has not been materialized yet.",
                remedy=f"Materialize {name} first.",
            )
    return {name: pointers[name] for name in stage.needs}


def _published(workspace: Workspace, entry: Entry, pointer: Pointer | None) -> Pointer | None:
    """Return what the stage has published; None if it has published nothing or a table of it is lost.

    A table that is made again has other versions, so the stages that follow are compared anew as well.
    """
    if pointer is None or workspace.tables.exist(entry.namespace, entry.source_id, pointer.tables):
        return pointer
    return None
