"""What a check of a stage's output is, and which rows it has to look at: those that changed since it last
passed.

Once a day everything is looked at, since a file may be damaged while no version changes. What a check has
passed is kept as a pointer of the table's owner, so that every process knows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.model import ids
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import TableVersion

#: Everything is checked again after this many seconds.
WHOLE_SECONDS = 86_400.0
#: Buckets read at once; bounds the memory of a check.
_TOGETHER = 8
#: Ids, broken links and drifts that a result shows.
SHOWN = 20
CHANGED = "what changed since the last check"


class Rows(list[dict[str, Any]]):
    """Rows of plain values, to be shown as a table."""


@dataclass(frozen=True)
class CheckRun:
    """What a check looks at: (namespace, source id) of sources, in which a namespace counts once.

    ``whole``: a person asks for everything. ``names``: document text may be shown.
    """

    workspace: Workspace
    sources: Sequence[tuple[str, str]]
    whole: bool = False
    names: bool = False

    @property
    def namespaces(self) -> list[str]:
        return sorted({namespace for namespace, _ in self.sources})


@dataclass(frozen=True)
class CheckResult:
    """What a check found. ``metadata`` has plain values, ``Rows`` for tables, other lists and dictionaries as
    they are; none of it is document text unless that was allowed.
    """

    passed: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A check of one stage's asset.

    ``warns``: a failure is a warning. ``blocking``: a failure stops what lies downstream. ``also_of``: other
    stages whose output it reads.
    """

    stage: str
    name: str
    description: str
    look: Callable[[CheckRun], CheckResult]
    warns: bool = False
    blocking: bool = False
    also_of: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.stage}:{self.name}"


@dataclass(frozen=True)
class CheckScope:
    """What one check of one owner's tables looks at.

    ``changed`` names the buckets of each table that changed; None stands for everything.
    """

    check: str
    owner: str
    versions: Mapping[str, TableVersion | None]
    changed: Mapping[str, frozenset[int]] | None
    #: When everything was looked at last, in seconds since the epoch.
    whole_at: float

    def buckets(self, *tables: str) -> frozenset[int] | None:
        """Return the buckets in which one of these tables changed; None for all."""
        if self.changed is None:
            return None
        return frozenset[int]().union(*(self.changed[table] for table in tables))


def check_scope(
    workspace: Workspace,
    namespace: str,
    owner: str,
    check: str,
    versions: Mapping[str, TableVersion | None],
    *,
    whole: bool = False,
) -> CheckScope:
    """Return what the check has to look at, given the published ``versions`` of the tables that it reads.

    ``whole``: a person asks for everything.
    """
    pointer = workspace.catalog.pointers.get(namespace, owner, _stage(check))
    now = time.time()
    everything = CheckScope(check, owner, versions, None, now)
    if whole or pointer is None or not 0 <= now - pointer.applied["whole_at"] < WHOLE_SECONDS:
        return everything
    passed = pointer.applied["versions"]
    changed: dict[str, frozenset[int]] = {}
    for table, version in versions.items():
        buckets = workspace.tables.changed_buckets(namespace, owner, table, passed.get(table), version)
        if buckets is None:
            return everything
        changed[table] = buckets
    return CheckScope(check, owner, versions, changed, pointer.applied["whole_at"])


@dataclass
class Looked:
    """What a check has looked at, over all owners of tables: rows, ids of broken ones, whether everything."""

    rows: int = 0
    broken: list[str] = field(default_factory=list)
    whole: bool = True

    @property
    def result(self) -> CheckResult:
        """The result, which passes if nothing is broken; the first ids are shown."""
        metadata = {
            "checked": self.rows,
            "broken": len(self.broken),
            "scope": "everything" if self.whole else CHANGED,
        }
        ids_shown = {"ids": self.broken[:SHOWN]} if self.broken else {}
        return CheckResult(not self.broken, metadata | ids_shown)


@contextmanager
def looking(
    run: CheckRun,
    namespace: str,
    owner: str,
    check: str,
    versions: Mapping[str, TableVersion | None],
    looked: Looked,
) -> Iterator[CheckScope]:
    """Give the block what it has to look at in an owner's tables; if nothing is broken, remember it.

    ``versions``: those that are published, of the tables that the check reads. The block adds to ``looked``.
    """
    scope = check_scope(run.workspace, namespace, owner, check, versions, whole=run.whole)
    before = len(looked.broken)
    yield scope
    looked.whole &= scope.changed is None
    if len(looked.broken) == before:
        _passed(run.workspace, namespace, scope)


def parts_of(scope: CheckScope, *tables: str) -> Iterator[list[int]]:
    """Yield the buckets in which one of these tables has to be looked at, a few at a time."""
    changed = scope.buckets(*tables)
    buckets = list(range(ids.BUCKETS)) if changed is None else sorted(changed)
    for first in range(0, len(buckets), _TOGETHER):
        yield buckets[first : first + _TOGETHER]


def _passed(workspace: Workspace, namespace: str, scope: CheckScope) -> None:
    """Record that the check found nothing broken where it looked, so that the next one begins there."""
    applied = {"versions": dict(scope.versions), "whole_at": scope.whole_at}
    inputs = ids.digest(applied)
    workspace.catalog.pointers.publish(
        namespace,
        scope.owner,
        Pointer(stage=_stage(scope.check), tables={}, inputs=inputs, txn=inputs, applied=applied),
    )


def _stage(check: str) -> str:
    return f"check.{check}"
