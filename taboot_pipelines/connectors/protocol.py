"""What a connector is, and what it can tell of a run before the run (``taboot plan SOURCE``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from taboot_pipelines.model.records import Event, Known


class Connector(Protocol):
    """Raw items of one source."""

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Stream what the source holds now; the last event is always ``Enumerated``.

        ``known`` maps a path to what the catalog remembers of it; ``tombstoned(path)`` says that it was
        deleted on purpose and must not be fetched. Raises ``TabootError`` only where nothing can be
        enumerated (the whole source fails).
        """
        ...


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
