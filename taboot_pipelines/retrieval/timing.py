"""What the parts of a search take."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds by part, of one thread. Each :meth:`lap` gives a part what has passed since the last."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Add to ``part`` the time since the last lap, or since the beginning."""
        now = time.perf_counter()
        self._parts[part] = self._parts.get(part, 0.0) + (now - self._last) * 1000
        self._last = now

    @property
    def milliseconds(self) -> dict[str, float]:
        """What each part took so far, and ``total``, to the microsecond."""
        total = (time.perf_counter() - self._start) * 1000
        return {name: round(spent, 3) for name, spent in (*self._parts.items(), ("total", total))}
