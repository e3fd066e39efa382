"""What every backend of leases offers, and what all have in common: names, order, and that a thread may enter
again what it holds.

The order is always the source's lease, then the namespace's. Waiting is bounded; ``E_BUSY`` means that work
is still pending.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager


class _Held(threading.local):
    """The names of the leases that the calling thread holds."""

    def __init__(self) -> None:
        self.names: set[str] = set()


class LeaseStore(ABC):
    """Leases of sources and namespaces. Threads may share it: each holds its own.

    ``wait_seconds``: how long to wait for a lease unless the call says otherwise; 0 means not at all.
    """

    def __init__(self, wait_seconds: float) -> None:
        self._wait = wait_seconds
        self._held = _Held()

    @contextlib.contextmanager
    def source(self, namespace: str, source_id: str, *, wait: float | None = None) -> Iterator[None]:
        """Hold the lease of a source. Raises ``E_BUSY`` after ``wait`` seconds, ``E_CATALOG`` when lost."""
        with self._hold(f"{namespace}.source.{source_id}", f"source {source_id}", wait):
            yield

    @contextlib.contextmanager
    def namespace(self, namespace: str, *, wait: float | None = None) -> Iterator[None]:
        """Hold the lease of a namespace. Raises as :meth:`source`."""
        with self._hold(f"{namespace}.namespace", f"namespace {namespace}", wait):
            yield

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold a lease outside the two of the chain, such as that of a namespace's vectors."""
        with self._hold(f"_{name}", name):
            yield

    @contextlib.contextmanager
    def several(self, namespace: str, source_ids: Iterable[str]) -> Iterator[None]:
        """Hold the leases of sources in ascending order, then the namespace's. Nobody takes them in another
        order.
        """
        with contextlib.ExitStack() as stack:
            for source_id in sorted(set(source_ids)):
                stack.enter_context(self.source(namespace, source_id))
            stack.enter_context(self.namespace(namespace))
            yield

    @abstractmethod
    def confirm(self) -> None:
        """Raise ``E_CATALOG`` unless this thread still holds every lease that it took. Called before anything
        is published.
        """

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _take(self, name: str, what: str, wait: float) -> AbstractContextManager[None]:
        """Hold ``name``, which this thread does not hold yet; ``what`` is its name for people."""

    @contextlib.contextmanager
    def _hold(self, name: str, what: str, wait: float | None = None) -> Iterator[None]:
        held = self._held.names
        if name in held:
            # This thread holds it already, further up the call stack.
            yield
            return
        with self._take(name, what, self._wait if wait is None else wait):
            held.add(name)
            try:
                yield
            finally:
                held.discard(name)
