"""What a connector is, and what makes a source type. No source type is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, get_args

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.model.graph import SourceType
from taboot_pipelines.model.records import Event, Known

E = TypeVar("E", bound=SourceEntry)


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
class SourceKind(Generic[E]):
    """A source type: the model of its entries, and what connects to the source of one without any I/O."""

    entry: type[E]
    connect: Callable[[E, Access], Connector]

    @property
    def type(self) -> SourceType:
        """The name that the model's field ``type`` states as its only value, one of ``SourceType``."""
        (name,) = get_args(self.entry.model_fields["type"].annotation)
        return SourceType(name)
