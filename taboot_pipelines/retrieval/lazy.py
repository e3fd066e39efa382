"""A part that is made when it is first asked for, by one thread while the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """What ``make`` returns: made by the first call, kept for all later ones. Safe to call from several
    threads. If ``make`` raises, nothing is kept and the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._made: list[T] = []  # empty until it is made: what is made may be None
        self._lock = threading.Lock()

    def __call__(self) -> T:
        with self._lock:
            if self._make is not None:
                self._made.append(self._make())
                # What it was made of is not held any longer.
                self._make = None
            return self._made[0]

    @property
    def made(self) -> T | None:
        """What was made; None if it was not asked for yet."""
        with self._lock:
            return self._made[0] if self._made else None
