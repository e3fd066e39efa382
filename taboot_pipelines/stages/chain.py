"""The chain from a sources file to a knowledge base, stage by stage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType

from taboot_pipelines import logs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages import (
    chunks,
    deletion,
    documents,
    embeddings,
    entity_snapshots,
    housekeeping,
    kb_shards,
    neo4j_subgraph,
    qdrant_points,
    raw_blobs,
    tier_a_triples,
)
from taboot_pipelines.stages.progress import tracked
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress

_log = logging.getLogger(__name__)

#: Stages of one source, in order; each takes the source's lease.
OF_SOURCE: dict[str, Callable[[Workspace, Entry, Progress], StageReport]] = {
    "documents": documents.run,
    "chunks": chunks.run,
    "embeddings": embeddings.run,
    "tier_a_triples": tier_a_triples.run,
}
#: Stages of the namespace, in order; each brings in everything pending, under the namespace's lease.
OF_NAMESPACE: dict[str, Callable[[Workspace, str, str, Progress], StageReport]] = {
    "entity_snapshots": entity_snapshots.run,
    "qdrant_points": qdrant_points.run,
    "neo4j_subgraph": neo4j_subgraph.run,
    "kb_shards": kb_shards.run,
}
#: Servers beside the shards: one that does not answer must not keep the shards from being published.
TARGETS: dict[str, ModuleType] = {"qdrant_points": qdrant_points, "neo4j_subgraph": neo4j_subgraph}
#: What serves the snapshot, in no order: Dagster runs them as it likes.
SERVING: dict[str, ModuleType] = {**TARGETS, "kb_shards": kb_shards}
STAGES: tuple[str, ...] = ("raw_blobs", *OF_SOURCE, *OF_NAMESPACE)


def run_stage(
    workspace: Workspace,
    stage: str,
    source_id: str,
    progress: Progress = no_progress,
    *,
    confirm_deletes: bool = False,
) -> list[StageReport]:
    """Run one stage of a partition: one report per entry (two while a source moves to another namespace).

    Whichever stage serves the snapshot last finishes what was asked for beside the chain: pending deletions,
    and the retirement of a source, which must have left every target first.
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


def _run_stage(
    workspace: Workspace, stage: str, source_id: str, progress: Progress, confirm_deletes: bool
) -> list[StageReport]:
    if stage not in STAGES:
        raise TabootError("E_NOT_FOUND", f"There is no stage {stage!r}.", stages=STAGES)
    if stage in TARGETS and not TARGETS[stage].configured(workspace):
        # Said without looking at the source, which may be retired by now.
        return [OF_NAMESPACE[stage](workspace, workspace.settings.namespace, source_id, progress)]
    entries = workspace.entries(source_id)
    reports = []
    if stage not in OF_NAMESPACE:
        for entry in entries:
            with logs.bind(namespace=entry.namespace):
                if stage == "raw_blobs":
                    reports.append(raw_blobs.run(workspace, entry, progress, confirm_deletes=confirm_deletes))
                else:
                    with tracked(workspace, entry.namespace, source_id, stage, progress) as shown:
                        reports.append(OF_SOURCE[stage](workspace, entry, shown))
        return reports
    for namespace in dict.fromkeys(e.namespace for e in entries):
        with (
            logs.bind(namespace=namespace),
            tracked(workspace, namespace, source_id, stage, progress) as shown,
        ):
            reports.append(OF_NAMESPACE[stage](workspace, namespace, source_id, shown))
    if stage in SERVING:
        for entry in entries:
            if not all(SERVING[s].applied(workspace, entry.namespace) for s in SERVING if s != stage):
                continue
            deletion.finish_pending(workspace, entry.namespace)
            if entry.retiring:
                deletion.finish_retirement(workspace, entry)
            elif any(r.skipped is None for r in reports):
                housekeeping.tidy(workspace, entry.namespace, entry.source_id)
    return reports


def run_chain(
    workspace: Workspace, source_id: str, progress: Progress = no_progress, *, confirm_deletes: bool = False
) -> list[StageReport]:
    """All stages of a partition, without Dagster: for deletions, tests and notebooks. The failure of a target
    is raised last.
    """
    reports: list[StageReport] = []
    failure: TabootError | None = None
    for stage in STAGES:
        try:
            reports += run_stage(workspace, stage, source_id, progress, confirm_deletes=confirm_deletes)
        except TabootError as error:
            if stage not in TARGETS:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
    return reports
