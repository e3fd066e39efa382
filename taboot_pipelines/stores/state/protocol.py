"""What every state backend offers; one conformance suite runs against all of them.

Keys are patterns inside a namespace (``cache:query_embed:{hash}``, ``job:{id}``, ``dlq:pending``: ``keys``).
In Redis they become ``taboot:{namespace}:{pattern}``. Times are in seconds; ``due`` times are Unix time.

A value is stored as it is, or gzip-compressed beyond 10 KB; it has at most 50 MB. :class:`Lenient` is for
uses that can do without state: progress, caches, politeness.
"""

from __future__ import annotations

import gzip
import logging
import math
import threading
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health

COMPRESS_BYTES = 10 * 1024
MAX_BYTES = 50 * 1024 * 1024
_MAGIC = b"\x1f\x8b"
T = TypeVar("T")
_LOG = logging.getLogger(__name__)


def pack(value: bytes) -> bytes:
    """Return the bytes to store. Raises ``E_TOO_LARGE``.

    A short value that looks like gzip is compressed, too, so that it is not mistaken when read.
    """
    if len(value) > MAX_BYTES:
        raise TabootError(
            "E_TOO_LARGE",
            f"A value of {len(value)} bytes is more than the state holds ({MAX_BYTES}).",
            remedy="Nothing needs to be done: it is not cached.",
        )
    if len(value) > COMPRESS_BYTES or value.startswith(_MAGIC):
        return gzip.compress(value, 1, mtime=0)
    return value


def unpack(stored: bytes) -> bytes | None:
    """Return the value; None if the stored bytes are damaged, since state may be lost."""
    if not stored.startswith(_MAGIC):
        return stored
    machine = zlib.decompressobj(31)
    try:
        value = machine.decompress(stored, MAX_BYTES + 1)
    except zlib.error:
        return None
    return value if machine.eof and len(value) <= MAX_BYTES else None


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

    def resting(self, namespace: str) -> dict[str, float]:
        """Return {circuit: the seconds until it may be tried} of all that are not closed.

        To look changes nothing, so that it takes nobody's trial.
        """

    def health(self) -> Health: ...

    def close(self) -> None: ...


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
