"""Leases as OS file locks: the default, for processes of one machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import waiting
from taboot_pipelines.stores.disk import on_disk, refusal, storage_error
from taboot_pipelines.stores.leases.protocol import LeaseStore

_HOLDER_BYTES = 32


class FileLeases(LeaseStore):
    """File locks under ``{home}/locks``; released by the kernel when the process ends, however it ends.

    Taking one raises ``E_STORAGE`` where the disk does not let its file be made.
    """

    def __init__(self, home: Path, wait_seconds: float) -> None:
        super().__init__(wait_seconds)
        self._directory = home / "locks"

    def confirm(self) -> None:
        """A file lock is not lost while its process lives."""

    def close(self) -> None:
        """Nothing stays open between leases."""

    @contextlib.contextmanager
    def _take(self, name: str, what: str, wait: float) -> Iterator[None]:
        path = self._directory / f"{name}.lock"
        with on_disk(f"The lease of {what} cannot be taken", path):
            self._directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + wait
            first = delay = 0.01
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        holder = (
                            os.pread(descriptor, _HOLDER_BYTES, 0).decode("ascii", "replace").strip()
                            or "unknown"
                        )
                        raise TabootError(
                            "E_BUSY",
                            f"The lease of {what} is held by process {holder}; waited {wait:g} s.",
                            holder=holder,
                        ) from None
                    waiting.tell(f"the lease of {what}")
                    time.sleep(delay)
                    delay = min(delay * 1.5, 0.5)
                except OSError as error:
                    raise storage_error(
                        f"The lease of {what} cannot be taken",
                        refusal(error),
                        path,
                        reason=type(error).__name__,
                    ) from error
            if delay > first:
                waiting.tell("")
            # The lock is held, whether or not a full disk takes the name of its holder.
            with contextlib.suppress(OSError):
                # Always as long, since to cut the file first takes longer than all else here.
                os.pwrite(descriptor, f"{os.getpid():<{_HOLDER_BYTES}}".encode(), 0)
            yield
        finally:
            os.close(descriptor)
