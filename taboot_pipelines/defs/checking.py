"""What all asset checks share: which sources a check is about, and how its errors are shown.

A broken rule is an ERROR and blocks what lies downstream; what a person only has to know of is a WARN.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from taboot_pipelines import logs
from taboot_pipelines.defs.materialize import failures
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages.workspace import Workspace


@contextmanager
def checked(workspace: WorkspaceResource, asset: str) -> Iterator[Workspace]:
    with logs.bind(stage=asset), failures(workspace.runtime, asset):
        yield workspace.open()


def sources_of(context: dg.AssetCheckExecutionContext, workspace: Workspace) -> list[tuple[str, str]]:
    """Return (namespace, source id) of the run's partitions; of every source if the check runs alone."""
    keys = set(context.partition_keys) if context.has_partition_key else None
    return [
        (r["namespace"], r["source_id"])
        for r in workspace.catalog.sources.find()
        if keys is None or r["source_id"] in keys
    ]


def namespaces_of(context: dg.AssetCheckExecutionContext, workspace: Workspace) -> list[str]:
    return sorted({namespace for namespace, _ in sources_of(context, workspace)})


def verdict(checked_rows: int, broken: list[str]) -> dg.AssetCheckResult:
    """Return the result of a check, which passes if nothing is broken.

    ``broken`` holds ids, of which the first twenty are shown.
    """
    metadata = {"checked": checked_rows, "broken": len(broken)}
    return dg.AssetCheckResult(
        passed=not broken,
        metadata={**metadata, "ids": dg.MetadataValue.json(broken[:20])} if broken else metadata,
    )
