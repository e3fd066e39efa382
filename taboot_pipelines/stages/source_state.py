"""What a connector keeps of its source, held back until what it covers is stored."""

from __future__ import annotations

from typing import Any

import orjson

from taboot_pipelines.model import ids
from taboot_pipelines.stages.workspace import Entry
from taboot_pipelines.stores.catalog import Catalog


class BatchState:
    """The state of one source during one batch (see ``connectors.access.SourceState``).

    What is saved waits in memory: :meth:`commit` writes it once all that was told before is in the log. A
    ``damaged`` source begins without any, so that every byte is asked for.
    """

    def __init__(self, catalog: Catalog, entry: Entry, *, damaged: bool) -> None:
        self._catalog = catalog
        self._namespace, self._source_id = entry.namespace, entry.source_id
        self._configuration = ids.digest(entry.config.config_json())
        self._damaged = damaged
        self._known: dict[str, str] | None = None
        self._waiting: dict[str, str | None] = {}

    def load(self, key: str) -> Any:
        """As ``SourceState.load``."""
        if self._known is None:
            self._known = (
                {}
                if self._damaged
                else self._catalog.source_states.load(self._namespace, self._source_id, self._configuration)
            )
        value = self._waiting[key] if key in self._waiting else self._known.get(key)
        return None if value is None else orjson.loads(value)

    def save(self, key: str, value: Any) -> None:
        """As ``SourceState.save``."""
        self._waiting[key] = None if value is None else orjson.dumps(value).decode()

    def commit(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._catalog.source_states.save(
                self._namespace, self._source_id, self._configuration, self._waiting
            )
            if self._known is not None:
                merged = {**self._known, **self._waiting}
                self._known = {k: v for k, v in merged.items() if v is not None}
            self._waiting = {}

    def forget(self) -> None:
        """Forget everything: the next batch enumerates the source as for the first time."""
        self._waiting = {}
        self._known = {}
        self._catalog.source_states.forget(self._namespace, [self._source_id])
