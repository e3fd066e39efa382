"""The graph in Neo4j."""

from __future__ import annotations

from taboot_pipelines.settings import Neo4jSettings


class Neo4jGraph:
    def __init__(self, settings: Neo4jSettings) -> None:
        self._settings = settings

    def close(self) -> None: ...
