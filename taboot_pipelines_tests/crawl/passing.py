"""Time that passes when a test says so, for politeness and for whoever fetches.

Rests of half a second that a test sleeps through end too early on a slow machine. Here they are minutes, and
nobody waits for them.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from taboot_pipelines.crawl import fetching, politeness
from taboot_pipelines.stores.state.protocol import State
from taboot_pipelines_tests.stores.state_worker import let_pass


class Passing:
    """The clock of this process goes on by itself and by what a call adds; the state of ``namespace`` ages
    as much by the call. A fetcher that has nothing to do but wait lets the time pass too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: State | None, namespace: str) -> None:
        self._state, self._namespace, self._ahead = state, namespace, 0.0
        clock = SimpleNamespace(
            monotonic=self.now, time=lambda: time.time() + self._ahead, sleep=self.__call__
        )
        for module in (politeness, fetching):
            monkeypatch.setattr(module, "time", clock)

    def now(self) -> float:
        return time.monotonic() + self._ahead

    def __call__(self, seconds: float) -> None:
        self._ahead += seconds
        if self._state is not None and seconds > 0:
            let_pass(self._state, self._namespace, seconds)
