"""One dynamic partition per entry of the sources file, and how the partitions follow the catalog."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from taboot_pipelines.stages.workspace import Workspace

NAME = "sources"
#: The tag by which Dagster marks the partition of a run.
TAG = "dagster/partition"
sources_partitions = dg.DynamicPartitionsDefinition(name=NAME)

_BUSY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class Change:
    """The partitions to add and to drop, so that they equal the catalog's sources."""

    add: tuple[str, ...]
    drop: tuple[str, ...]


def partition_change(instance: dg.DagsterInstance, workspace: Workspace) -> Change:
    """Return what has to change in the partitions.

    A source keeps its partition until a run has deleted everything that it held and the catalog calls it
    retired (rule ``complete-enumeration``).
    """
    present = set(instance.get_dynamic_partitions(NAME))
    wanted = {row["source_id"] for row in workspace.catalog.sources.find()}
    return Change(tuple(sorted(wanted - present)), tuple(sorted(present - wanted)))


def apply_change(instance: dg.DagsterInstance, change: Change) -> None:
    if change.add:
        instance.add_dynamic_partitions(NAME, list(change.add))
    for key in change.drop:
        instance.delete_dynamic_partition(NAME, key)


def is_busy(instance: dg.DagsterInstance, source_id: str) -> bool:
    """Whether a run of the source's partition is queued or under way."""
    return bool(instance.get_runs(dg.RunsFilter(tags={TAG: source_id}, statuses=_BUSY), limit=1))
