"""Leases that die with their holder: an OS file lock, one per source and one per namespace (DESIGN §2).

The order is always the source's, then the namespace's. Waiting is bounded; ``E_BUSY`` means work is still pending.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from taboot_pipelines.errors import TabootError


class Leases:
    """File locks under ``{home}/locks``; released by the kernel when the process ends, however it ends."""

    def __init__(self, home: Path, wait_seconds: float) -> None:
        self._directory = home / "locks"
        self._wait = wait_seconds
        self._local = threading.local()

    @contextlib.contextmanager
    def source(self, namespace: str, source_id: str, *, wait: float | None = None) -> Iterator[None]:
        with self._hold(f"{namespace}.source.{source_id}", f"source {source_id}", wait):
            yield

    @contextlib.contextmanager
    def namespace(self, namespace: str, *, wait: float | None = None) -> Iterator[None]:
        with self._hold(f"{namespace}.namespace", f"namespace {namespace}", wait):
            yield

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """A lease outside the two of the chain, such as creating the catalog."""
        with self._hold(f"_{name}", name):
            yield

    @contextlib.contextmanager
    def _hold(self, name: str, what: str, wait: float | None = None) -> Iterator[None]:
        wait = self._wait if wait is None else wait
        held: set[str] = self._local.__dict__.setdefault("held", set())
        if name in held:
            # This thread holds it already, further up the call stack.
            yield
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + wait
            delay = 0.01
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() >= deadline:
                        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                        raise TabootError(
                            "E_BUSY", f"The lease of {what} is held by process {holder}; waited {wait:g} s.", holder=holder
                        ) from None
                    time.sleep(delay)
                    delay = min(delay * 1.5, 0.5)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            held.add(name)
            try:
                yield
            finally:
                held.discard(name)
        finally:
            os.close(descriptor)
