"""The tags by which runs are found in the UI: the namespaces and the types of their sources."""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from taboot_pipelines.stages.workspace import Workspace

NAMESPACE_TAG = "taboot/namespace"
TYPE_TAG = "taboot/source_type"


def event_tags(workspace: Workspace, source_ids: Collection[str]) -> dict[str, str]:
    """Return the tags of a materialization: those that are the same for all of its sources."""
    return {tag: values[0] for tag, values in _values(workspace, source_ids).items() if len(values) == 1}


def tag_run(
    instance: dg.DagsterInstance, run: dg.DagsterRun, workspace: Workspace, source_ids: Collection[str]
) -> None:
    """Give a run the tags of its sources, whichever way it was launched; several values joined by commas."""
    if source_ids and NAMESPACE_TAG not in run.tags:
        values = _values(workspace, source_ids)
        instance.add_run_tags(run.run_id, {tag: ",".join(several) for tag, several in values.items()})


def _values(workspace: Workspace, source_ids: Collection[str]) -> dict[str, list[str]]:
    # At the end of the run that retires a source it is retired already.
    only = next(iter(source_ids)) if len(source_ids) == 1 else None
    known = workspace.catalog.sources.find(states=("active", "retiring", "retired"), source_id=only)
    rows = [row for row in known if row["source_id"] in source_ids]
    return {
        NAMESPACE_TAG: sorted({row["namespace"] for row in rows}),
        TYPE_TAG: sorted({row["type"] for row in rows}),
    }
