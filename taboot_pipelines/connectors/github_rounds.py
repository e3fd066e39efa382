"""Rounds: runs that a bound ended, each of which goes on where the one before it stopped.

As a rule a run asks for everything anew, which costs conditional requests alone. Where these alone would use
up what a run may ask for, it would never come further: then it takes what the runs before it have asked for
since the last run that came to its end, and asks for the rest. The run that ends such a round is complete, as
of the times at which each part was read.
"""

from __future__ import annotations

from typing import Any

from taboot_pipelines.connectors.access import SourceState
from taboot_pipelines.errors import TabootError

#: After these the service is not asked any more in this run.
FINAL = frozenset({"E_REQUESTS", "E_CIRCUIT_OPEN", "E_429_RATE", "E_CREDENTIALS"})
#: Of these, what says nothing of the service's answers: what was answered before is still worth having.
BOUNDS = FINAL - {"E_CREDENTIALS"}
_KEY = "round"


class Round:
    """What this round has come to, by keys of the source's state and paths of items. ``most``: requests of
    one run."""

    def __init__(self, state: SourceState, most: int) -> None:
        self._state = state
        kept = state.load(_KEY) or {"spent": 0, "done": [], "failed": {}, "keys": [], "most": None}
        #: How many requests a run gets answered, where the service allows fewer than the entry.
        self._most: int | None = kept["most"]
        #: Whether what the runs before asked for is not asked for again.
        self.resumed = 2 * kept["spent"] > (most if self._most is None else min(most, self._most))
        self._spent = kept["spent"] if self.resumed else 0
        self._before = frozenset(kept["done"]) if self.resumed else frozenset()
        self._failed: dict[str, list[str]] = kept["failed"] if self.resumed else {}
        self._done: set[str] = set()
        #: Of the state what is kept until the round ends: by the runs before this one, and by this round.
        self._old = frozenset(kept["keys"])
        self._keys = set(self._old) if self.resumed else set()
        #: Requests of this run that one which begins anew makes again.
        self.answered = 0

    def is_done(self, key: str) -> bool:
        """Whether a run before this one has read what ``key`` names."""
        return key in self._before

    def done(self, key: str) -> None:
        """Say that what ``key`` names is read, and is in the state."""
        self._done.add(key)

    def failure(self, key: str) -> TabootError | None:
        """Why a run before this one could not read what ``key`` names."""
        failed = self._failed.get(key)
        return None if failed is None else TabootError(*failed)

    def fail(self, key: str, error: TabootError) -> None:
        """Say that what ``key`` names cannot be read, so that it is not tried again in this round."""
        self.answered += 1
        self._failed = {**self._failed, key: [error.code, error.message]}

    def keep(self, key: str, value: Any) -> None:
        """Save ``value`` in the state until the round ends; None forgets it."""
        (self._keys.discard if value is None else self._keys.add)(key)
        if value is not None or self._state.load(key) is not None:
            self._state.save(key, value)

    def kept(self, key: str) -> Any:
        """What a run of this round has kept under ``key``; None where none has."""
        return self._state.load(key) if self.resumed and key in self._keys else None

    def end(self, bound: TabootError | None, requests: int) -> None:
        """Keep the round for the next run if a bound has ended this one, else forget it. ``requests``: those
        of the run."""
        most = self._most
        if bound is not None and bound.code == "E_429_RATE":
            most = max(most or 1, requests)
        kept = {
            "spent": self._spent + self.answered,
            "done": sorted(self._before | self._done),
            "failed": self._failed,
            "keys": sorted(self._keys),
            "most": most,
        }
        for key in (self._old | self._keys) - (set() if bound is None else self._keys):
            self._state.save(key, None)
        if bound is not None or self._state.load(_KEY) is not None:
            self._state.save(_KEY, None if bound is None else kept)
