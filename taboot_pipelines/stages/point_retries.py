"""Schedules the retries of namespaces whose points could not be written to Qdrant.

The queue is a hint and may be lost: the watermark says what is missing.
"""

from __future__ import annotations

import contextlib
import random
import time

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.state import keys

#: Namespaces whose last run failed at the server, each as the one member of its queue.
QUEUE = keys.QUEUE_QDRANT_RETRY()
_ATTEMPTS = f"{QUEUE}:attempts"
_FIRST_WAIT_SECONDS = 30.0
_MAX_WAIT_SECONDS = 3600.0
_ATTEMPTS_TTL_SECONDS = 86_400.0


def enqueue(workspace: Workspace, namespace: str) -> None:
    """Schedule a retry of the namespace after 30 s, doubled with each further failure up to an hour.

    Up to half of the wait is taken off at random (jitter), so that namespaces do not all come at once.
    """
    state = workspace.state
    known = state.get(namespace, _ATTEMPTS)
    attempts = int(known) if known is not None and known.isdigit() else 0
    wait = min(_FIRST_WAIT_SECONDS * 2 ** min(attempts, 20), _MAX_WAIT_SECONDS) * random.uniform(0.5, 1.0)
    state.enqueue(namespace, QUEUE, {namespace: time.time() + wait})
    state.set(namespace, _ATTEMPTS, str(attempts + 1).encode(), _ATTEMPTS_TTL_SECONDS)


def dequeue(workspace: Workspace, namespace: str) -> None:
    """Cancel the retry of a namespace that needs none. A state that does not answer fails nothing."""
    with contextlib.suppress(TabootError):
        if workspace.state.queued(namespace, QUEUE):
            workspace.state.dequeue(namespace, QUEUE, [namespace])
            workspace.state.delete(namespace, [_ATTEMPTS])
