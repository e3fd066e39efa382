"""States of jobs, interpretation runs and documents, with the legal transitions only."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from taboot_pipelines.errors import TabootError


class JobState(StrEnum):
    """An ingest job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class RunState(StrEnum):
    """An interpretation run (rule ``versioned-runs``)."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Lifecycle(StrEnum):
    """A document's lifecycle (rule ``deleted-stays-deleted``).

    A document is ``INGESTED`` until it is served, then ``ACTIVE``, and ``EXPIRING`` in the last week before
    its retention ends it. ``MANUAL_DELETE`` is a deletion that is being carried out. One that its origin has
    no more is ``DELETED`` from whichever state it was in. ``DELETED`` is left by ``restore``, when the origin
    has the document again, or when its bytes change after it expired.
    """

    INGESTED = "INGESTED"
    ACTIVE = "ACTIVE"
    EXPIRING = "EXPIRING"
    MANUAL_DELETE = "MANUAL_DELETE"
    DELETED = "DELETED"


# One table per kind: members of different StrEnums with the same text are equal.
TRANSITIONS: dict[type[StrEnum], dict[str, frozenset[StrEnum]]] = {
    JobState: {
        JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELED}),
        JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED}),
        JobState.FAILED: frozenset({JobState.RUNNING}),
        JobState.SUCCEEDED: frozenset(),
        JobState.CANCELED: frozenset(),
    },
    RunState: {
        RunState.PENDING: frozenset({RunState.RUNNING, RunState.FAILED}),
        RunState.RUNNING: frozenset({RunState.COMPLETED, RunState.FAILED}),
        RunState.COMPLETED: frozenset(),
        RunState.FAILED: frozenset(),
    },
    Lifecycle: {
        Lifecycle.INGESTED: frozenset({Lifecycle.ACTIVE, Lifecycle.DELETED, Lifecycle.MANUAL_DELETE}),
        Lifecycle.ACTIVE: frozenset({Lifecycle.EXPIRING, Lifecycle.DELETED, Lifecycle.MANUAL_DELETE}),
        Lifecycle.EXPIRING: frozenset({Lifecycle.ACTIVE, Lifecycle.DELETED, Lifecycle.MANUAL_DELETE}),
        Lifecycle.MANUAL_DELETE: frozenset({Lifecycle.DELETED}),
        Lifecycle.DELETED: frozenset({Lifecycle.INGESTED}),
    },
}


def expiring(lifecycles: Mapping[str, Mapping[str, int]]) -> int:
    """How many documents are ``EXPIRING``, of those that are counted by source and lifecycle."""
    return sum(of_source.get(Lifecycle.EXPIRING, 0) for of_source in lifecycles.values())


def check_transition(current: StrEnum, target: StrEnum) -> None:
    """Raise ``E_TRANSITION`` unless ``current -> target`` is one of ``TRANSITIONS``."""
    if target not in TRANSITIONS[type(current)][current]:
        raise TabootError(
            "E_TRANSITION",
            f"{type(current).__name__} cannot go from {current.value} to {target.value}.",
            current=current.value,
            target=target.value,
            allowed=sorted(s.value for s in TRANSITIONS[type(current)][current]),
        )
