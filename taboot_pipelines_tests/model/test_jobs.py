"""Only the arrows of the state machines are legal."""

from __future__ import annotations

import itertools

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.jobs import TRANSITIONS, JobState, Lifecycle, RunState, check_transition

LEGAL_PAIRS = [
    (JobState.QUEUED, JobState.RUNNING),
    (JobState.QUEUED, JobState.CANCELED),
    (JobState.RUNNING, JobState.SUCCEEDED),
    (JobState.RUNNING, JobState.FAILED),
    (JobState.RUNNING, JobState.CANCELED),
    (JobState.FAILED, JobState.RUNNING),
    (RunState.PENDING, RunState.RUNNING),
    (RunState.PENDING, RunState.FAILED),
    (RunState.RUNNING, RunState.COMPLETED),
    (RunState.RUNNING, RunState.FAILED),
    (Lifecycle.INGESTED, Lifecycle.ACTIVE),
    (Lifecycle.INGESTED, Lifecycle.DELETED),
    (Lifecycle.INGESTED, Lifecycle.MANUAL_DELETE),
    (Lifecycle.ACTIVE, Lifecycle.EXPIRING),
    (Lifecycle.ACTIVE, Lifecycle.DELETED),
    (Lifecycle.ACTIVE, Lifecycle.MANUAL_DELETE),
    (Lifecycle.EXPIRING, Lifecycle.ACTIVE),
    (Lifecycle.EXPIRING, Lifecycle.DELETED),
    (Lifecycle.EXPIRING, Lifecycle.MANUAL_DELETE),
    (Lifecycle.MANUAL_DELETE, Lifecycle.DELETED),
    (Lifecycle.DELETED, Lifecycle.INGESTED),
]

LEGAL = {(type(a).__name__, a.value, b.value) for a, b in LEGAL_PAIRS}


@pytest.mark.parametrize("kind", [JobState, RunState, Lifecycle])
def test_exactly_the_legal_transitions_pass(kind: type) -> None:
    assert set(TRANSITIONS[kind]) == set(kind)
    for current, target in itertools.product(kind, kind):
        # By the texts of their own kind: members of different StrEnums with one text are equal.
        if (kind.__name__, current.value, target.value) in LEGAL:
            check_transition(current, target)
        else:
            with pytest.raises(TabootError, match="E_TRANSITION"):
                check_transition(current, target)
