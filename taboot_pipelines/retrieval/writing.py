"""What a knowledge base changes: it is handed to the stages, with a workspace of its own for each call.

The writing half of the project is loaded only when something is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.knowledge.assertions import Assertion
    from taboot_pipelines.retrieval.results.changes import DocumentChanges
    from taboot_pipelines.retrieval.results.decisions import EntityName, EntitySupports
    from taboot_pipelines.retrieval.results.evaluations import Feedback
    from taboot_pipelines.retrieval.session import View
    from taboot_pipelines.stages.decisions import Recorded, Wanted
    from taboot_pipelines.stages.deletion import Receipt, Restored
    from taboot_pipelines.stages.reindexing import Reindexed
    from taboot_pipelines.stages.uploads import Uploaded
    from taboot_pipelines.stages.workspace import Workspace
    from taboot_pipelines.stores.catalog.feedback import Opinion


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

    def upload(
        self,
        documents: Sequence[str | Path | bytes],
        name: str | None,
        tags: Collection[str],
        allow_cidrs: Sequence[str],
        render: bool,
    ) -> tuple[Uploaded, ...]:
        """See ``KnowledgeBase.upload``."""
        from taboot_pipelines.stages import uploads

        with self._workspace() as workspace:
            taken = uploads.take(
                workspace, self._namespace, documents, name, tags=tags, allow_cidrs=allow_cidrs, render=render
            )
            return tuple(taken)

    def tag(self, doc_ids: Collection[str], add: Collection[str], remove: Collection[str]) -> None:
        """See ``KnowledgeBase.tag``."""
        from taboot_pipelines.stages import tags

        with self._workspace() as workspace:
            tags.tag(workspace, self._namespace, doc_ids, add=add, remove=remove)

    def keep_feedback(self, opinion: Opinion) -> None:
        """See ``KnowledgeBase.feedback``."""
        with self._workspace() as workspace:
            workspace.catalog.feedback.keep(self._namespace, opinion)

    def withdraw_feedback(self, question: str) -> bool:
        with self._workspace() as workspace:
            return workspace.catalog.feedback.withdraw(self._namespace, question)

    def feedback(self) -> tuple[Feedback, ...]:
        """See ``KnowledgeBase.feedbacks``."""
        from taboot_pipelines.retrieval.results.evaluations import Feedback

        with self._workspace() as workspace:
            kept = workspace.catalog.feedback.all(self._namespace)
        return tuple(Feedback(**{**o._asdict(), "at": datetime.fromtimestamp(o.at / 1e6, UTC)}) for o in kept)

    def reindex(self, names: Sequence[str], source: str | None) -> tuple[Reindexed, ...]:
        """See ``KnowledgeBase.reindex``."""
        from taboot_pipelines.stages import reindexing

        with self._workspace() as workspace:
            return tuple(reindexing.reindex(workspace, self._namespace, names, source=source))

    def retain(self, doc_ids: Collection[str], days: int | None) -> None:
        """See ``KnowledgeBase.retain``."""
        from taboot_pipelines.stages import retention

        with self._workspace() as workspace:
            retention.keep(workspace, self._namespace, doc_ids, days)

    def retain_as_source(self, doc_ids: Collection[str]) -> None:
        """See ``KnowledgeBase.retain_as_source``."""
        from taboot_pipelines.stages import retention

        with self._workspace() as workspace:
            retention.keep_as_source(workspace, self._namespace, doc_ids)

    def decide(self, wanted: Sequence[Wanted], who: str, reason: str) -> Recorded:
        """Record and apply what people decided; see ``stages.decisions``."""
        from taboot_pipelines.stages import decisions

        with self._workspace() as workspace:
            return decisions.decide(workspace, self._namespace, wanted, who=who, reason=reason)

    def undo(self, assertion_id: str, who: str, reason: str) -> Recorded:
        """See ``KnowledgeBase.undo``."""
        from taboot_pipelines.stages import decisions

        with self._workspace() as workspace:
            return decisions.undo(workspace, self._namespace, assertion_id, who=who, reason=reason)

    def erase_assertion(self, assertion_id: str) -> Recorded:
        """See ``KnowledgeBase.undo``."""
        from taboot_pipelines.stages import decisions

        with self._workspace() as workspace:
            return decisions.erase(workspace, self._namespace, assertion_id)

    def supports(self, view: View, named: EntityName, label: str | None, limit: int) -> EntitySupports:
        """See ``KnowledgeBase.supports``; it changes nothing, but reads the tables."""
        from taboot_pipelines.retrieval.supports import supports

        with self._workspace() as workspace:
            return supports(view, workspace, self._namespace, named, label, limit)

    def changes(self, since: datetime, source: str | None, shell: bool, limit: int) -> DocumentChanges:
        """See ``KnowledgeBase.changes``; it changes nothing, but reads the catalog and the blobs."""
        from taboot_pipelines.retrieval.results.changes import (
            ChangedPassage,
            DocumentChange,
            DocumentChanges,
        )
        from taboot_pipelines.stages import content_changes as stage

        with self._workspace() as workspace:
            moment = int(since.timestamp() * 1_000_000)
            found = list(stage.changes(workspace, self._namespace, moment, source))
        told = [x for x in found if shell or x.kind is not stage.ChangeKind.SHELL]
        return DocumentChanges(
            since=since,
            items=tuple(
                DocumentChange(
                    kind=x.kind.value,
                    source=x.logged.source_id,
                    path=x.logged.path,
                    doc_id=x.doc_id,
                    url=x.url or f"{x.logged.source_id}:{x.logged.path}",
                    at=datetime.fromtimestamp(x.logged.at / 1e6, UTC),
                    blob_before=x.logged.before,
                    blob_after=x.logged.after,
                    passages=tuple(ChangedPassage(**p._asdict()) for p in x.passages),
                    note=x.note,
                )
                for x in told[:limit]
            ),
            counts=dict(stage.counted(found)),
            truncated=len(told) > limit,
        )

    def first_ingests(self) -> dict[str, datetime]:
        """When the first ingest of each source ended that read all of it, by source."""
        with self._workspace() as workspace:
            ended = workspace.catalog.jobs.first_completed(self._namespace)
        return {source: datetime.fromtimestamp(at / 1e6, UTC) for source, at in ended.items()}

    def asserted(self) -> list[Assertion]:
        """Everything that was decided in the namespace, in its order."""
        from taboot_pipelines.stages.assertions import asserted

        with self._workspace() as workspace:
            return asserted(workspace, self._namespace)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        from taboot_pipelines.stages.workspace import Workspace

        workspace = Workspace(self._settings, self._query_vectors.embedder)
        try:
            yield workspace
        finally:
            workspace.close()
