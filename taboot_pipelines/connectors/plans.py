"""What a run would ask a source for, told before it does (``taboot plan SOURCE``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Planned:
    """One part of a run. ``requests``, ``items`` and ``bytes`` are None where the origin does not say before
    it is asked; ``tokens`` are those of questions to a chat model; ``note`` says what else matters, such as a
    bound that will end the run."""

    what: str
    requests: int | None = None
    items: int | None = None
    bytes: int | None = None
    note: str = ""
    tokens: int | None = None


@runtime_checkable
class Planner(Protocol):
    """A connector that can tell what a run would do, by as few requests as that takes."""

    def plan(self) -> Iterator[Planned]:
        """The parts of a run, in its order. Raises what the run would raise before its first item."""
        ...
