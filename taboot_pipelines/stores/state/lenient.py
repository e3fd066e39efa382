"""State for uses that can do without it: progress, caches, politeness.

A backend that does not answer never fails the work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.state.protocol import State

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class Lenient:
    """A state backend whose failures are passed over, or none at all. Threads may share one.

    After a failure the backend is left alone for ``rest_seconds``, so that work does not wait for its
    time-outs one by one. The first failure and the return are logged, by their code only.
    """

    def __init__(self, state: State | None, *, rest_seconds: float = 30.0) -> None:
        self._state = state
        self._rest = rest_seconds
        self._until = 0.0
        self._failing = False
        self._lock = threading.Lock()

    def ask(self, use: Callable[[State], T], otherwise: T) -> T:
        """Return what ``use`` gives; ``otherwise`` if the backend does not answer or is left alone."""
        if self._state is None or time.monotonic() < self._until:
            return otherwise
        try:
            found = use(self._state)
        except TabootError as error:
            with self._lock:
                self._until = time.monotonic() + self._rest
                first, self._failing = not self._failing, True
            if first:
                _LOG.warning(
                    "State is not available (%s): caches, progress and rate limits do without it.", error.code
                )
            return otherwise
        if self._failing:
            with self._lock:
                again, self._failing = self._failing, False
            if again:
                _LOG.info("State is available again.")
        return found
