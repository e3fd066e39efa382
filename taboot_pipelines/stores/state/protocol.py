"""What every state backend offers. One conformance suite runs against all of them.

Keys are the seeds' patterns inside a namespace (``extraction:{hash}``, ``cache:query_embed:{hash}``, ``job:{id}``,
``dlq:pending`` …); in Redis they become ``taboot:{namespace}:{pattern}``. Times are seconds; ``due`` times are Unix time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from taboot_pipelines.model.health import Health


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token bucket said: whether the tokens were given, how many are left, else how long until they would be."""

    allowed: bool
    remaining: float
    wait_seconds: float


class State(Protocol):
    """Raises ``E_REDIS`` or ``E_CATALOG`` when the backend does not answer. Every method is one round trip and atomic."""

    def get(self, namespace: str, key: str) -> bytes | None:
        """The value, unless it has expired."""

    def set(self, namespace: str, key: str, value: bytes, ttl_seconds: float) -> None: ...

    def delete(self, namespace: str, keys: Collection[str]) -> int:
        """How many were there."""

    def lock(self, namespace: str, name: str, ttl_seconds: float) -> AbstractContextManager[bool]:
        """Whether this caller holds ``name`` now; never waits. Only the holder's exit releases it, or the time."""

    def take_tokens(self, namespace: str, bucket: str, *, rate: float, burst: float, tokens: float = 1.0) -> Grant:
        """A token bucket that refills by ``rate`` a second up to ``burst`` (seed 001 §8.9), on the backend's clock."""

    def enqueue(self, namespace: str, queue: str, due: Mapping[str, float]) -> None:
        """Put members into a queue ordered by when they are due; a member that is there moves."""

    def due(self, namespace: str, queue: str, now: float, limit: int = 100) -> list[str]:
        """Members due by ``now``, the oldest first. They stay until :meth:`dequeue`."""

    def dequeue(self, namespace: str, queue: str, members: Collection[str]) -> int: ...

    def queued(self, namespace: str, queue: str) -> dict[str, float]:
        """Every member with when it is due."""

    def circuit_open(self, namespace: str, name: str) -> float:
        """Seconds until the circuit may be tried again; 0: go on (closed, or half open and this caller may try)."""

    def circuit_failed(self, namespace: str, name: str, *, threshold: int = 5, rest_seconds: float = 300) -> bool:
        """Count a failure; whether the circuit is open now (seed 001 §8.8: 5 failures, 300 s)."""

    def circuit_succeeded(self, namespace: str, name: str) -> None:
        """Closes the circuit and forgets its failures."""

    def health(self) -> Health: ...

    def close(self) -> None: ...
