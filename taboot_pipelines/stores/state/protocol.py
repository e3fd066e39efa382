"""What every state backend offers. One conformance suite runs against all of them.

Keys are the seeds' patterns inside a namespace (``extraction:{hash}``, ``cache:query_embed:{hash}``,
``job:{id}``, ``dlq:pending`` …); in Redis they become ``taboot:{namespace}:{pattern}``. Times are seconds;
``due`` times are Unix time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from taboot_pipelines.model.health import Health


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token bucket said: whether the tokens were given, how many are left, else how long until they
    would be.
    """

    allowed: bool
    remaining: float
    wait_seconds: float


def grant(allowed: bool, remaining: float, *, rate: float, burst: float, tokens: float) -> Grant:
    """The answer of a bucket that holds ``remaining`` now; the wait is endless where it can never hold
    enough.
    """
    if allowed:
        return Grant(True, remaining, 0.0)
    return Grant(False, remaining, (tokens - remaining) / rate if rate > 0 and tokens <= burst else math.inf)


class State(Protocol):
    """Raises ``E_REDIS`` or ``E_CATALOG`` when the backend does not answer, ``E_NAMESPACE`` for what is no
    namespace.

    Every method is atomic and one round trip (on the catalog: one transaction; very long lists go in parts).
    Names are whole patterns of :mod:`~taboot_pipelines.stores.state.keys`, so that one name is never two
    kinds of thing. Safe to share by threads.
    """

    def get(self, namespace: str, key: str) -> bytes | None:
        """The value, unless it has expired."""

    def set(self, namespace: str, key: str, value: bytes, ttl_seconds: float) -> None:
        """Raises ``E_TOO_LARGE`` above 50 MB."""

    def delete(self, namespace: str, names: Collection[str]) -> int:
        """How many were there."""

    def lock(self, namespace: str, name: str, ttl_seconds: float) -> AbstractContextManager[bool]:
        """Whether this caller holds ``name`` now; never waits. Only the holder's exit releases it, or the
        time.
        """

    def take_tokens(
        self, namespace: str, bucket: str, *, rate: float, burst: float, tokens: float = 1.0
    ) -> Grant:
        """A token bucket that refills by ``rate`` a second up to ``burst`` (seed 001 §8.9), on the backend's
        clock.
        """

    def enqueue(self, namespace: str, queue: str, due: Mapping[str, float]) -> None:
        """Put members into a queue ordered by when they are due; a member that is there moves."""

    def due(self, namespace: str, queue: str, now: float, limit: int = 100) -> list[str]:
        """Members due by ``now``, the oldest first, ties by their code points. They stay until
        :meth:`dequeue`.
        """

    def dequeue(self, namespace: str, queue: str, members: Collection[str]) -> int:
        """How many were there."""

    def queued(self, namespace: str, queue: str) -> dict[str, float]:
        """Every member with when it is due."""

    def circuit_open(self, namespace: str, name: str) -> float:
        """Seconds until the circuit may be tried again; 0: go on (closed, or half open and this caller may
        try).

        After the rest one caller gets 0. If it says neither that it failed nor that it succeeded, another may
        try after a further rest.
        """

    def circuit_failed(
        self, namespace: str, name: str, *, threshold: int = 5, rest_seconds: float = 300
    ) -> bool:
        """Count a failure; whether the circuit is open now (seed 001 §8.8: 5 failures, 300 s).

        Failures are forgotten an hour after the last; one after the rest opens the circuit again at once.
        """

    def circuit_succeeded(self, namespace: str, name: str) -> None:
        """Closes the circuit and forgets its failures."""

    def health(self) -> Health: ...

    def close(self) -> None: ...
