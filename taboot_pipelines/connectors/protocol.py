"""What a connector is, and the one that an entry of the sources file asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from taboot_pipelines.connectors.compose import ComposeConnector, References
from taboot_pipelines.connectors.files import FilesConnector
from taboot_pipelines.connectors.politeness import Politeness
from taboot_pipelines.connectors.sources_file import (
    ComposeSource,
    FilesSource,
    SourceEntry,
    SwagSource,
    WebSource,
)
from taboot_pipelines.connectors.swag import swag_connector
from taboot_pipelines.connectors.web import WebConnector
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Event, Known
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.state import Lenient


class Connector(Protocol):
    """Raw items of one source."""

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Stream what the source holds now; the last event is always ``Enumerated``.

        ``known`` maps a path to what the catalog remembers of it; ``tombstoned(path)`` says that it was
        deleted on purpose and must not be fetched. Raises ``TabootError`` only where nothing can be
        enumerated (the whole source fails).
        """
        ...


def open_connector(
    entry: SourceEntry,
    root: Path,
    settings: Settings,
    references: References | None = None,
    hints: Lenient | None = None,
) -> Connector:
    """The connector of ``entry``. ``root``: the directory of the sources file. ``references``: reads which
    files a Compose text names (see ``connectors.compose``). ``hints``: the state that rate limits and
    circuits of hosts are kept in; without it hosts are asked as fast as they answer. No I/O happens before
    ``events`` is iterated."""
    limit, apart = settings.limits.max_blob_bytes, settings.home_dir
    match entry:
        case FilesSource():
            return FilesConnector(entry, root, limit=limit, apart=apart)
        case ComposeSource():
            return ComposeConnector(entry, root, limit=limit, apart=apart, references=references)
        case SwagSource():
            return swag_connector(entry, root, limit=limit, apart=apart)
        case WebSource():
            politeness = Politeness(hints, entry.namespace, settings.http) if hints is not None else None
            return WebConnector(entry, settings.http, limit=limit, politeness=politeness)
    raise TabootError("E_SOURCES", f"The type of source {entry.id} has no connector.", source=entry.id)
