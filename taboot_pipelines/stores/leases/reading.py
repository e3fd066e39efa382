"""Leases of a process that only reads: there are none."""

from __future__ import annotations

from contextlib import AbstractContextManager

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.leases.protocol import LeaseStore


class NoLeases(LeaseStore):
    """Refuses every lease, and every write that would confirm one, by ``E_READ_ONLY``."""

    def __init__(self) -> None:
        super().__init__(0)

    def confirm(self) -> None:
        raise TabootError("E_READ_ONLY", "It is open for reading only: nothing is written.")

    def close(self) -> None:
        """Nothing is open."""

    def _take(self, name: str, what: str, wait: float) -> AbstractContextManager[None]:
        raise TabootError("E_READ_ONLY", f"It is open for reading only: the lease of {what} is not taken.")
