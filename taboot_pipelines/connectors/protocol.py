"""What a connector is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

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
