"""Points in Qdrant."""

from __future__ import annotations

from taboot_pipelines.settings import QdrantSettings


class QdrantPoints:
    def __init__(self, settings: QdrantSettings) -> None:
        self._settings = settings

    def close(self) -> None: ...
