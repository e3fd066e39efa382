"""Runs the chain for a partition: one stage, as Dagster's assets do, or all stages."""

from __future__ import annotations

import logging

from taboot_pipelines import logs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import deletion, housekeeping
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.deriving import run_tracked
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.stage import NamespaceStage, SourceStage
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress

_log = logging.getLogger(__name__)


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
    with logs.bind(source=source_id, stage=stage):
        _log.info("stage begins")
        reports = _run_stage(workspace, stage, source_id, progress, confirm_deletes)
        for report in reports:
            with logs.bind(namespace=report.namespace):
                _log.info(
                    "stage ends",
                    extra={
                        "seconds": round(report.seconds, 3),
                        "skipped": report.skipped,
                        "counts": report.counts,
                    },
                )
    return reports


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


def _run_stage(
    workspace: Workspace, name: str, source_id: str, progress: Progress, confirm_deletes: bool
) -> list[StageReport]:
    stage = CHAIN.stage(name)
    if isinstance(stage, SourceStage):
        return [
            run_tracked(workspace, stage, entry, progress, confirm_deletes=confirm_deletes)
            for entry in workspace.entries(source_id)
        ]
    assert isinstance(stage, NamespaceStage)
    if stage.target is not None and not stage.target.configured(workspace):
        # The answer does not depend on the source, which may be retired by this time.
        return [stage.run(workspace, workspace.settings.namespace, source_id, progress)]
    entries = workspace.entries(source_id)
    reports = []
    for namespace in dict.fromkeys(e.namespace for e in entries):
        with (
            logs.bind(namespace=namespace),
            tracked(workspace, namespace, source_id, name, progress) as shown,
        ):
            reports.append(stage.run(workspace, namespace, source_id, shown))
    if stage.serving is not None:
        for entry in entries:
            if _served(workspace, entry.namespace, besides=name):
                _finish(workspace, entry, any(r.skipped is None for r in reports))
    return reports


def _served(workspace: Workspace, namespace: str, besides: str) -> bool:
    """Whether all other stages that serve the snapshot have applied the newest one."""
    return all(s.applied(workspace, namespace) for name, s in CHAIN.serving.items() if name != besides)


def _finish(workspace: Workspace, entry: Entry, changed: bool) -> None:
    """Do what may be done once the snapshot is served everywhere."""
    deletion.finish_pending(workspace, entry.namespace)
    if entry.retiring:
        deletion.finish_retirement(workspace, entry)
    elif changed:
        housekeeping.tidy(workspace, entry.namespace, entry.source_id)
