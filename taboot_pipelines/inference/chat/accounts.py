"""What a chat model has used since it was opened, by model."""

from __future__ import annotations

import threading

from taboot_pipelines.inference.chat.protocol import ChatResult, Totals


class Accounts:
    """Totals by model, kept by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, Totals] = {}

    def add(self, result: ChatResult) -> None:
        with self._lock:
            before = self._totals.get(result.model, Totals())
            self._totals[result.model] = Totals(
                requests=before.requests + 1,
                failed=before.failed + (result.error is not None),
                attempts=before.attempts + result.attempts,
                usage=before.usage + result.usage,
            )

    def totals(self) -> dict[str, Totals]:
        with self._lock:
            return dict(self._totals)
