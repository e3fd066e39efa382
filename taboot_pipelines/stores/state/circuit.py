"""Circuit breakers: a server that failed repeatedly is given its rest instead of further requests."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.state.keys import SERVER_REST_SECONDS
from taboot_pipelines.stores.state.protocol import Lenient

_CHECK_SECONDS = 1.0
_CLEAR_SECONDS = 30.0
#: Requests in a row that found no answer, after which the rest of a run's are not made.
_GIVE_UP_AFTER = 5


class Breaker(Protocol):
    """What a client asks before a request, and tells after it."""

    def check(self, who: str, **details: Any) -> None:
        """Raises ``E_CIRCUIT_OPEN`` while the server rests. ``who`` opens the error's sentence; ``details``
        go into it."""

    def failed(self) -> None:
        """The server gave no answer, however often it was asked."""

    def succeeded(self) -> None:
        """The server answered."""


class Circuit:
    """A circuit breaker kept in the state store (open after 5 failures in a row, ``SERVER_REST_SECONDS``
    long), so that all processes give a server that is down its rest. A state store that fails itself lets
    requests through, and hides no error.

    The store is asked at most once a second, and told of successes every 30 s unless there was a failure: a
    request must not cost two writes.
    """

    def __init__(self, hints: Lenient, name: str, namespace: str) -> None:
        self._hints = hints
        self._name = name
        self._namespace = namespace
        self._checked = self._cleared = float("-inf")

    def check(self, who: str, **details: Any) -> None:
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return
        seconds = self._hints.ask(lambda state: state.circuit_open(self._namespace, self._name), 0.0)
        if seconds > 0:
            self._cleared = float("-inf")
            raise TabootError(
                "E_CIRCUIT_OPEN",
                f"{who} failed repeatedly and is not asked for another {seconds:.0f} s.",
                seconds=round(seconds),
                **details,
            )
        self._checked = now

    def failed(self) -> None:
        self._checked = self._cleared = float("-inf")
        self._hints.ask(
            lambda state: state.circuit_failed(self._namespace, self._name, rest_seconds=SERVER_REST_SECONDS),
            False,
        )

    def succeeded(self) -> None:
        now = time.monotonic()
        if now - self._cleared < _CLEAR_SECONDS:
            return
        self._cleared = now
        self._hints.ask(lambda state: state.circuit_succeeded(self._namespace, self._name), None)

    @contextlib.contextmanager
    def guard(self, code: str) -> Iterator[None]:
        """Count an error with the code ``code`` in the block as a failure of the server. Raises
        ``E_CIRCUIT_OPEN`` before the block while the circuit is open."""
        self.check(self._name.rpartition(":")[2].capitalize(), namespace=self._namespace)
        try:
            yield
        except TabootError as error:
            if error.code == code:
                self.failed()
            raise
        self.succeeded()


class RunCircuit:
    """A circuit breaker of one run, by several threads if need be: once open, it stays so."""

    def __init__(self) -> None:
        self._failures = 0
        self._lock = threading.Lock()

    def check(self, who: str, **details: Any) -> None:
        if self._failures >= _GIVE_UP_AFTER:
            raise TabootError(
                "E_CIRCUIT_OPEN", f"{who} failed repeatedly and is not asked again in this run.", **details
            )

    def failed(self) -> None:
        with self._lock:
            self._failures += 1

    def succeeded(self) -> None:
        self._failures = 0
