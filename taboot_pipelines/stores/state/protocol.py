"""What every state backend offers; one conformance suite runs against all of them.

Keys are patterns inside a namespace (``cache:query_embed:{hash}``, ``job:{id}``, ``dlq:pending``: ``keys``).
In Redis they become ``taboot:{namespace}:{pattern}``. Times are in seconds; ``due`` times are Unix time.
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
    """The answer of a token bucket.

    It says whether the tokens were given, how many are left, and if they were not given, how long
    until they would be.
    """

    allowed: bool
    remaining: float
    wait_seconds: float


def grant(allowed: bool, remaining: float, *, rate: float, burst: float, tokens: float) -> Grant:
    """Return the answer of a bucket that holds ``remaining`` tokens.

    The wait is infinite if the bucket can never hold enough.
    """
    if allowed:
        return Grant(True, remaining, 0.0)
    return Grant(False, remaining, (tokens - remaining) / rate if rate > 0 and tokens <= burst else math.inf)


class State(Protocol):
    """A state backend. Threads may share one.

    A clock that is set back stops nothing: what was stored at a time that now lies in the future counts as
    stored now.

    Every method is atomic and takes one round trip (on the catalog: one transaction; very long lists go in
    parts). Names are whole patterns of :mod:`~taboot_pipelines.stores.state.keys`, so that one name is never
    two kinds of thing. Every method raises ``E_REDIS`` or ``E_CATALOG`` when the backend does not answer,
    ``E_NAMESPACE`` for an invalid namespace.
    """

    def get(self, namespace: str, key: str) -> bytes | None:
        """Return the value; None if there is none, or it has expired."""

    def set(self, namespace: str, key: str, value: bytes, ttl_seconds: float) -> None:
        """Store a value for so many seconds. Raises ``E_TOO_LARGE`` above 50 MB."""

    def delete(self, namespace: str, names: Collection[str]) -> int:
        """Delete keys; return how many of them existed."""

    def lock(self, namespace: str, name: str, ttl_seconds: float) -> AbstractContextManager[bool]:
        """Try to take the lock ``name`` without waiting; give whether this caller holds it.

        Only the end of the holder's block releases it, or its time to live, of which all callers of one name
        give the same.
        """

    def take_tokens(
        self, namespace: str, bucket: str, *, rate: float, burst: float, tokens: float = 1.0
    ) -> Grant:
        """Take tokens from a bucket that refills by ``rate`` a second up to ``burst``.

        The time is the backend's.
        """

    def enqueue(self, namespace: str, queue: str, due: Mapping[str, float]) -> None:
        """Put members into a queue ordered by when they are due; a member that is already there moves."""

    def due(self, namespace: str, queue: str, now: float, limit: int = 100) -> list[str]:
        """Return members due by ``now``, the oldest first, ties by their code points.

        They stay in the queue until :meth:`dequeue`.
        """

    def dequeue(self, namespace: str, queue: str, members: Collection[str]) -> int:
        """Remove members from a queue; return how many of them were there."""

    def queued(self, namespace: str, queue: str) -> dict[str, float]:
        """Return {member: when it is due} of the whole queue."""

    def circuit_open(self, namespace: str, name: str) -> float:
        """Return the seconds until the circuit may be tried again.

        0 means that this caller may go on: the circuit is closed, or half open and this caller is the one to
        try. After the rest one caller gets 0. If it reports neither failure nor success, another may try
        after a further rest.
        """

    def circuit_failed(
        self, namespace: str, name: str, *, threshold: int = 5, rest_seconds: float = 300
    ) -> bool:
        """Count a failure; return whether the circuit is open.

        Failures are forgotten an hour after the last one. A failure after the rest opens the
        circuit again at once.
        """

    def circuit_succeeded(self, namespace: str, name: str) -> None:
        """Close the circuit and forget its failures."""

    def health(self) -> Health: ...

    def close(self) -> None: ...
