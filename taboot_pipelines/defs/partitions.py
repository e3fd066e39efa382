"""One dynamic partition per entry of the sources file, and how the partitions follow the catalog."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from taboot_pipelines.stages.progress import being_ingested
from taboot_pipelines.stages.workspace import Workspace

# Dagster calls the parameter beta wherever an asset is declared with it; who runs the project cannot help it.
warnings.filterwarnings("ignore", message=".*backfill_policy.*", category=dg.BetaWarning)

NAME = "sources"
#: The tag by which Dagster marks the partition of a run.
TAG = "dagster/partition"
#: The tags of a run of several partitions, which are neighbours in the order of the instance.
RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
#: The job of every source, and its step that may be told to take some of them alone.
INGEST_ALL = "ingest_all"
READ_SOURCES = "read_sources_file"
sources_partitions = dg.DynamicPartitionsDefinition(name=NAME)
#: A backfill is one run, since every run brings in what is pending in its namespaces: a run for each source
#: would write the same shards again for each. Within the run the sources follow one another, so it needs no
#: more memory than the largest of them, and each holds its lease only while its own stage runs.
BACKFILL = dg.BackfillPolicy.single_run()

#: So many sources are named to a person.
_NAMED = 5
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


class Busy:
    """The sources that are being taken in: by runs that are queued or under way, and by the command line.

    It is as of one moment; a tick asks once for all its sources.
    """

    def __init__(self, instance: dg.DagsterInstance, workspace: Workspace) -> None:
        self.commands = being_ingested(workspace)
        self._sources, self._all = set(self.commands), False
        for run in instance.get_runs(dg.RunsFilter(statuses=_BUSY)):
            if TAG in run.tags:
                self._sources.add(run.tags[TAG])
            elif RANGE_TAGS[0] in run.tags:
                self._sources.update(_range(instance, run))
            elif run.job_name == INGEST_ALL:
                chosen = _chosen(run)
                self._sources.update(chosen)
                self._all = self._all or not chosen

    def __contains__(self, source_id: str) -> bool:
        return self._all or source_id in self._sources

    def skip_reason(self, source_ids: Iterable[str]) -> str:
        """Say which of these sources the command line is taking in; "" if none."""
        named = sorted(self.commands.intersection(source_ids))
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        told = f"`taboot ingest` is taking in {', '.join(named[:_NAMED])}{more}; it is looked again after it."
        return told if named else ""


def only_sources(source_ids: Collection[str]) -> dict[str, Any]:
    """Return the run configuration by which the job of every source takes these alone."""
    return {"ops": {READ_SOURCES: {"config": {"sources": sorted(source_ids)}}}}


def _chosen(run: dg.DagsterRun) -> list[str]:
    """Return the sources that a run of the job of every source takes; none: all."""
    ops: Any = run.run_config.get("ops", {})
    return list(ops.get(READ_SOURCES, {}).get("config", {}).get("sources") or ())


def _range(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    keys = list(instance.get_dynamic_partitions(NAME))
    first, last = (run.tags[tag] for tag in RANGE_TAGS)
    # A partition that has been dropped since is in no range any more.
    return keys[keys.index(first) : keys.index(last) + 1] if first in keys and last in keys else [first, last]
