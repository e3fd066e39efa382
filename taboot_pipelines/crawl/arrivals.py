"""What has finished, handed from the threads that work to the one thread that asks."""

from __future__ import annotations

import contextlib
import queue

from taboot_pipelines.crawl.client import Reply
from taboot_pipelines.errors import TabootError

#: The longest wait that the system takes.
_FOR_EVER = 1e6


class Arrivals:
    """Counts what is on its way, and gives out what has come."""

    def __init__(self) -> None:
        self._come: queue.SimpleQueue[tuple[int, Reply | TabootError]] = queue.SimpleQueue()
        self._awaited = 0

    def expect(self) -> None:
        """Something more is on its way."""
        self._awaited += 1

    def put(self, ticket: int, result: Reply | TabootError) -> None:
        """It has come; any thread may say so."""
        self._come.put((ticket, result))

    def take(self, timeout: float) -> list[tuple[int, Reply | TabootError]]:
        """What has come, as of :meth:`~taboot_pipelines.crawl.client.Client.finished`."""
        taken: list[tuple[int, Reply | TabootError]] = []
        with contextlib.suppress(queue.Empty):
            if self._awaited:
                taken.append(self._come.get(timeout=min(max(timeout, 0), _FOR_EVER)))
            while True:
                taken.append(self._come.get_nowait())
        self._awaited -= len(taken)
        return taken
