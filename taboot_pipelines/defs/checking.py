"""What all asset checks share: which sources a check is about, and how its errors are shown.

A broken rule is an ERROR and blocks what lies downstream; what a person only has to know of is a WARN. A
check after a run looks at what changed since it last passed, and once a day at everything; a check that a
person runs by itself looks at everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import dagster as dg

from taboot_pipelines import logs
from taboot_pipelines.defs.materialize import failures
from taboot_pipelines.defs.published import published_versions
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.stages.check_scope import CheckScope, check_scope, passed
from taboot_pipelines.stages.workspace import Workspace

#: Buckets read at once; bounds the memory of a check.
_TOGETHER = 8


@contextmanager
def checked(workspace: WorkspaceResource, asset: str) -> Iterator[Workspace]:
    with logs.bind(stage=asset), failures(workspace.runtime, asset):
        yield workspace.open()


def sources_of(context: dg.AssetCheckExecutionContext, workspace: Workspace) -> list[tuple[str, str]]:
    """Return (namespace, source id) of the run's partitions; of every source if the check runs alone."""
    keys = _partitions(context)
    return [
        (r["namespace"], r["source_id"])
        for r in workspace.catalog.sources.find()
        if keys is None or r["source_id"] in keys
    ]


def _partitions(context: dg.AssetCheckExecutionContext) -> set[str] | None:
    """Return the run's partitions; None if the check runs alone."""
    partitioned = context.has_partition_key or context.has_partition_key_range
    return set(context.partition_keys) if partitioned else None


def namespaces_of(context: dg.AssetCheckExecutionContext, workspace: Workspace) -> list[str]:
    return sorted({namespace for namespace, _ in sources_of(context, workspace)})


@dataclass
class Looked:
    """What a check has looked at, over all owners of tables: rows, ids of broken ones, whether everything."""

    rows: int = 0
    broken: list[str] = field(default_factory=list)
    whole: bool = True


@contextmanager
def looking(
    context: dg.AssetCheckExecutionContext,
    workspace: Workspace,
    namespace: str,
    owner: str,
    check: str,
    assets: Sequence[str],
    looked: Looked,
) -> Iterator[CheckScope]:
    """Give the block what it has to look at in the tables of ``assets``; if nothing is broken, remember it.

    The block adds to ``looked``.
    """
    versions = published_versions(workspace, namespace, owner, *assets)
    scope = check_scope(workspace, namespace, owner, check, versions, whole=_partitions(context) is None)
    before = len(looked.broken)
    yield scope
    looked.whole &= scope.changed is None
    if len(looked.broken) == before:
        passed(workspace, namespace, scope)


def parts_of(scope: CheckScope, *tables: str) -> Iterator[list[int]]:
    """Yield the buckets in which one of these tables has to be looked at, a few at a time."""
    changed = scope.buckets(*tables)
    buckets = list(range(BUCKETS)) if changed is None else sorted(changed)
    for first in range(0, len(buckets), _TOGETHER):
        yield buckets[first : first + _TOGETHER]


def verdict(
    looked: Looked, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
) -> dg.AssetCheckResult:
    """Return the result of a check, which passes if nothing is broken; the first twenty ids are shown."""
    broken = looked.broken
    metadata = {
        "checked": looked.rows,
        "broken": len(broken),
        "scope": "everything" if looked.whole else "what changed since the last check",
    }
    return dg.AssetCheckResult(
        passed=not broken,
        severity=severity,
        metadata={**metadata, "ids": dg.MetadataValue.json(broken[:20])} if broken else metadata,
    )
