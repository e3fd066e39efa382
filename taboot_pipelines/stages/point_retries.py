"""When a namespace whose points could not be written to Qdrant is tried again (seed 001 §5.5).

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
    """Try the namespace again after 30 s, and twice as long after each further failure, at most an hour.

    Up to half of the wait is left off at random, so that not all namespaces come at once.
    """
    state = workspace.state
    known = state.get(namespace, _ATTEMPTS)
    attempts = int(known) if known is not None and known.isdigit() else 0
    wait = min(_FIRST_WAIT_SECONDS * 2 ** min(attempts, 20), _MAX_WAIT_SECONDS) * random.uniform(0.5, 1.0)
    state.enqueue(namespace, QUEUE, {namespace: time.time() + wait})
    state.set(namespace, _ATTEMPTS, str(attempts + 1).encode(), _ATTEMPTS_TTL_SECONDS)


def dequeue(workspace: Workspace, namespace: str) -> None:
    """The namespace needs no further try. A state that does not answer fails nothing."""
    with contextlib.suppress(TabootError):
        if workspace.state.queued(namespace, QUEUE):
            workspace.state.dequeue(namespace, QUEUE, [namespace])
            workspace.state.delete(namespace, [_ATTEMPTS])
