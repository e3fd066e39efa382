"""What is kept of past searches, in this process and, where there is one, in Redis: bounded, for a time, and
made by one while the others wait.

The embedded set-up keeps it in this process alone: no search opens the catalog.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from taboot_pipelines import telemetry
from taboot_pipelines.stores.state.keys import LOCK_QUERY, Pattern
from taboot_pipelines.stores.state.protocol import Lenient

if TYPE_CHECKING:
    from taboot_pipelines.stores.state.redis import RedisState

T = TypeVar("T")

#: How long to wait for another thread or process that makes the same before making it too, and how often to
#: look whether another process has.
_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Counts:
    """``hits`` and ``misses``: of this process, since it opened the cache; ``entries`` and ``bytes``: what is
    kept now.
    """

    hits: int
    misses: int
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What a cache keeps. ``pattern``: its names in Redis, and how long it is kept anywhere; ``load`` returns
    None for bytes that are none of ``dump``'s; ``size``: bytes that a value takes in this process.
    """

    pattern: Pattern
    dump: Callable[[T], bytes]
    load: Callable[[bytes], T | None]
    size: Callable[[T], int]


class Cache(Generic[T]):
    """Values by name, the least recently used dropped beyond ``max_bytes``. Safe to use from several threads.

    ``state``: Redis, shared with other processes; where it does not answer, this process does without.
    """

    def __init__(self, kind: Kind[T], namespace: str, max_bytes: int, state: RedisState | None) -> None:
        self._kind = kind
        self._called = kind.pattern.prefix.strip(":").rpartition(":")[2]
        self._namespace = namespace
        self._max_bytes = max_bytes
        self._state = state
        self._hints = None if state is None else Lenient(state)
        #: Name -> (value, bytes, monotonic seconds at which it ends).
        self._kept: OrderedDict[str, tuple[T, int, float]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self._lock = threading.Lock()
        #: What is being made: name -> its lock, and how many threads hold it or wait for it.
        self._making: dict[str, tuple[threading.Lock, int]] = {}

    @property
    def shared(self) -> bool:
        """Whether other processes share it."""
        return self._state is not None

    @property
    def ttl_seconds(self) -> float:
        """How long an entry is kept."""
        return self._kind.pattern.ttl_seconds or 0.0

    def get(
        self,
        name: str,
        make: Callable[[], T],
        *,
        keep: Callable[[T], bool] = lambda _: True,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> tuple[T, bool]:
        """The value called ``name``, made by ``make`` where none is kept, and whether it was kept.

        ``keep`` says of a new value whether it may be kept; ``still_wanted`` is asked after it was written to
        Redis and takes it away again. Raises what ``make`` does; nothing is kept then.
        """
        found = self._known(name)
        if found is None:
            with self._turn(name):
                found = self._known(name)
                if found is None:
                    found = self._shared(name)
                if found is None:
                    with self._lock:
                        self._misses += 1
                    telemetry.event("cache", "miss", cache=self._called)
                    return self._made(name, make, keep, still_wanted)
        with self._lock:
            self._hits += 1
        telemetry.event("cache", "hit", cache=self._called)
        return found, True

    def counts(self) -> Counts:
        """Raises ``E_REDIS``."""
        with self._lock:
            hits, misses, entries, size = self._hits, self._misses, len(self._kept), self._bytes
        if self._state is not None:
            there = [n for _, n in self._state.find(self._namespace, self._kind.pattern.prefix)]
            entries, size = len(there), sum(there)
        return Counts(hits, misses, entries, size)

    def clear(self, which: Callable[[T], bool] | None = None) -> int:
        """Drop everything, or the values of which ``which`` holds; returns how many were dropped, where there
        is a Redis those there. Raises ``E_REDIS``.
        """
        with self._lock:
            gone = [n for n, (value, _, _) in self._kept.items() if which is None or which(value)]
            for name in gone:
                self._bytes -= self._kept.pop(name)[1]
        if self._state is None:
            return len(gone)
        names = [name for name, _ in self._state.find(self._namespace, self._kind.pattern.prefix)]
        if which is not None:
            names = [n for n in names if (v := self._read(self._state, n)) is not None and which(v)]
        return self._state.delete(self._namespace, names)

    def forget(self) -> None:
        """Drop what this process keeps."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _known(self, name: str) -> T | None:
        with self._lock:
            entry = self._kept.get(name)
            if entry is None:
                return None
            if entry[2] < time.monotonic():
                self._bytes -= self._kept.pop(name)[1]
                return None
            self._kept.move_to_end(name)
            return entry[0]

    def _keep(self, name: str, value: T) -> None:
        size = self._kind.size(value) + len(name)
        if size > self._max_bytes:
            return
        with self._lock:
            old = self._kept.pop(name, None)
            self._bytes += size - (old[1] if old is not None else 0)
            self._kept[name] = (value, size, time.monotonic() + (self._kind.pattern.ttl_seconds or 0.0))
            while self._bytes > self._max_bytes:
                self._bytes -= self._kept.popitem(last=False)[1][1]

    @contextlib.contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """One thread at a time for each name; whoever has waited long enough goes on all the same."""
        with self._lock:
            lock, users = self._making.get(name, (threading.Lock(), 0))
            self._making[name] = (lock, users + 1)
        mine = lock.acquire(timeout=_PATIENCE_SECONDS)
        try:
            yield
        finally:
            if mine:
                lock.release()
            with self._lock:
                lock, users = self._making.pop(name)
                if users > 1:
                    self._making[name] = (lock, users - 1)

    def _made(
        self, name: str, make: Callable[[], T], keep: Callable[[T], bool], still_wanted: Callable[[], bool]
    ) -> tuple[T, bool]:
        if self._hints is None:
            value = make()
            if keep(value):
                self._keep(name, value)
            return value, False
        with contextlib.ExitStack() as until_kept:
            lock = LOCK_QUERY(name), LOCK_QUERY.ttl_seconds or 0.0
            mine = self._hints.ask(lambda s: until_kept.enter_context(s.lock(self._namespace, *lock)), True)
            # Whoever held the lock may just have kept what is wanted here.
            found = self._shared(name) if mine else self._awaited(name)
            if found is not None:
                return found, True
            value = make()
            if keep(value):
                self._keep(name, value)
                self._share(name, value, still_wanted)
            return value, False

    def _share(self, name: str, value: T, still_wanted: Callable[[], bool]) -> None:
        if self._hints is None:
            return
        there, ttl = self._kind.pattern(name), self._kind.pattern.ttl_seconds or 0.0
        data = self._kind.dump(value)
        self._hints.ask(lambda s: s.set(self._namespace, there, data, ttl), None)
        if not still_wanted():
            self._hints.ask(lambda s: s.delete(self._namespace, [there]), 0)

    def _awaited(self, name: str) -> T | None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
            found = self._shared(name)
            if found is not None:
                return found
        return None

    def _shared(self, name: str) -> T | None:
        """What another process kept; None where nothing is there that could be the value."""
        if self._hints is None:
            return None
        data = self._hints.ask(lambda s: s.get(self._namespace, self._kind.pattern(name)), None)
        value = None if data is None else self._kind.load(data)
        if value is not None:
            self._keep(name, value)
        return value

    def _read(self, state: RedisState, name: str) -> T | None:
        data = state.get(self._namespace, name)
        return None if data is None else self._kind.load(data)
