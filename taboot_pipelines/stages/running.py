"""Runs the chain for a partition: one stage, as Dagster's assets do, or all stages."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from taboot_pipelines import logs, telemetry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import deletion, housekeeping
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import run_tracked
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.upgrade import upgrade_tables
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog.totals import Amounts

_log = logging.getLogger(__name__)
#: Objects that a stage makes before the garbage collector looks, instead of a few hundred.
_COLLECT_AFTER = 100_000


def run_stage(
    workspace: Workspace,
    stage: str,
    source_id: str,
    progress: Progress = no_progress,
    *,
    confirm_deletes: bool = False,
) -> list[StageReport]:
    """Run one stage of a partition: one report per entry (two while a source moves to another namespace).

    The last of the stages that serve the snapshot also finishes what was requested beside the chain: pending
    deletions, and the retirement of a source, which must have left every target first. Raises ``E_NOT_FOUND``
    for an unknown stage, ``E_SOURCE_UNKNOWN`` for an unknown source, and whatever the stage raises.
    """
    found = CHAIN.stage(stage)
    if isinstance(found, NamespaceStage):
        return run_together(workspace, found, [source_id], progress)
    assert isinstance(found, SourceStage)
    entries = workspace.entries(source_id)
    return run_entries(workspace, found, entries, progress, confirm_deletes=confirm_deletes)


def run_entries(
    workspace: Workspace,
    stage: SourceStage,
    entries: Sequence[Entry],
    progress: Progress = no_progress,
    *,
    confirm_deletes: bool = False,
) -> list[StageReport]:
    """Run one stage of a source for its entries: one, or two while it moves to another namespace."""
    first = entries[0].source_id
    with _logged(workspace, stage.name, first) as reports, _rarely_collecting():
        for entry in entries:
            upgrade_tables(workspace, entry.namespace)
            reports.append(run_tracked(workspace, stage, entry, progress, confirm_deletes=confirm_deletes))
    return reports


def run_together(
    workspace: Workspace, stage: NamespaceStage, source_ids: Sequence[str], progress: Progress = no_progress
) -> list[StageReport]:
    """Run a stage of the namespace for several partitions: once for each namespace that they lie in.

    A run for one partition brings in what is pending of all, so it is not repeated for each; what is to be
    finished for a partition afterwards is finished for all of them. There is one report per namespace. A
    namespace that fails does not stop the others; the first failure is raised at the end. Raises as
    :func:`run_stage`.
    """
    first = source_ids[0]
    with _logged(workspace, stage.name, first) as reports, _rarely_collecting():
        if stage.target is not None and not stage.target.configured(workspace):
            # The answer does not depend on the source, which may be retired by this time.
            reports.append(stage.run(workspace, workspace.settings.namespace, first, progress))
            return reports
        entries = workspace.entries(*source_ids)
        failure: TabootError | None = None
        for namespace in dict.fromkeys(e.namespace for e in entries):
            inside = [e for e in entries if e.namespace == namespace]
            try:
                upgrade_tables(workspace, namespace)
                reports.append(_run_in(workspace, stage, namespace, inside, progress))
            except TabootError as error:
                failure = failure or error
        if failure is not None:
            raise failure
    return reports


@contextmanager
def _logged(workspace: Workspace, stage: str, source_id: str) -> Iterator[list[StageReport]]:
    """Log that a stage begins, and the end of each report that the block adds to the list it is given; add
    how long it worked to the totals."""
    with (
        logs.bind(source=source_id, stage=stage),
        telemetry.span("stage", f"stage {stage}", stage=stage, source=source_id) as span,
    ):
        _log.info("stage begins")
        reports: list[StageReport] = []
        yield reports
        for report in reports:
            span.set(**{f"items.{name}": count for name, count in report.counts.items()})
            if report.changed:
                amounts = Amounts()
                amounts.duration(report.seconds, "stage_duration_seconds", stage)
                # A total is not worth a stage that has done its work.
                with suppress(TabootError):
                    workspace.catalog.totals.add(report.namespace, amounts)
            with logs.bind(namespace=report.namespace):
                _log.info(
                    "stage ends",
                    extra={
                        "seconds": round(report.seconds, 3),
                        "skipped": report.skipped,
                        "counts": report.counts,
                    },
                )


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Make the garbage collector look less often.

    A stage reads what is known of its items, tens of thousands of rows that stay until it ends; to look
    through them at every few hundred new ones takes longer than the work itself.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run_chain(
    workspace: Workspace, source_id: str, progress: Progress = no_progress, *, confirm_deletes: bool = False
) -> list[StageReport]:
    """Run all stages of a partition without Dagster, for tests and notebooks.

    The failure of a server is raised last, since it keeps nothing else from being published.
    """
    reports: list[StageReport] = []
    failure: TabootError | None = None
    for stage in CHAIN.names:
        try:
            reports += run_stage(workspace, stage, source_id, progress, confirm_deletes=confirm_deletes)
        except TabootError as error:
            if stage not in CHAIN.targets:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
    return reports


def _run_in(
    workspace: Workspace,
    stage: NamespaceStage,
    namespace: str,
    entries: Sequence[Entry],
    progress: Progress,
) -> StageReport:
    """Run a stage of one namespace, asked for by these entries of it, and finish what waits for it."""
    asking = entries[0].source_id
    with (
        logs.bind(namespace=namespace),
        tracked(workspace, namespace, asking, stage.name, progress) as shown,
    ):
        report = stage.run(workspace, namespace, asking, shown)
    if stage.serving is not None and _served(workspace, namespace, besides=stage.name):
        deletion.finish_pending(workspace, namespace)
        for entry in entries:
            _finish(workspace, entry, report.skipped is None)
        housekeeping.tidy_shards(workspace, namespace)
    return report


def _served(workspace: Workspace, namespace: str, besides: str) -> bool:
    """Whether all other stages that serve the snapshot have applied the newest one."""
    return all(s.applied(workspace, namespace) for name, s in CHAIN.serving.items() if name != besides)


def _finish(workspace: Workspace, entry: Entry, changed: bool) -> None:
    """Do what may be done once the snapshot is served everywhere."""
    if entry.retiring:
        deletion.finish_retirement(workspace, entry)
        workspace.catalog.dead_letters.forget_retired(entry.namespace)
    else:
        housekeeping.tidy(workspace, entry.namespace, entry.source_id, changed=changed)
