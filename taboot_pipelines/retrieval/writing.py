"""What a knowledge base changes: it is handed to the stages, with a workspace of its own for each call.

The writing half of the project is loaded only when something is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stages.deletion import Receipt, Restored
    from taboot_pipelines.stages.workspace import Workspace


class Writing:
    """``query_vectors``: where an embedder that is open already is taken from."""

    def __init__(self, settings: Settings, namespace: str, query_vectors: QueryVectors) -> None:
        self._settings = settings
        self._namespace = namespace
        self._query_vectors = query_vectors

    def delete(self, doc_ids: Collection[str], erase: bool) -> Receipt:
        """See ``KnowledgeBase.delete``."""
        from taboot_pipelines.stages import deletion

        with self._workspace() as workspace:
            return deletion.delete(workspace, self._namespace, doc_ids, erase=erase)

    def restore(self, doc_ids: Collection[str]) -> Restored:
        """See ``KnowledgeBase.restore``."""
        from taboot_pipelines.stages import deletion

        with self._workspace() as workspace:
            return deletion.restore(workspace, self._namespace, doc_ids)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        from taboot_pipelines.stages.workspace import Workspace

        workspace = Workspace(self._settings, self._query_vectors.embedder)
        try:
            yield workspace
        finally:
            workspace.close()
