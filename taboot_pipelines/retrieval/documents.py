"""Documents by themselves: a filtered page of their list, and one with its text, chunks and versions."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.tables import TIME
from taboot_pipelines.retrieval.evidence import text_of
from taboot_pipelines.retrieval.filters import Filter, read_filter
from taboot_pipelines.retrieval.links import check_document
from taboot_pipelines.retrieval.results.documents import (
    CollectionView,
    DocumentChunk,
    DocumentVersion,
    DocumentView,
)
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings

#: So many entries of a document's history are told.
_VERSIONS = 100


def documents(view: View, wanted: Filter, after: str | None, limit: int | None) -> pa.Table:
    """One row a document, ascending by doc_id; ``url`` as shown. See ``KnowledgeBase.documents``."""
    table = view.graph.documents
    if not wanted.empty:
        table = table.filter(pa.array(view.index.documents_passing(wanted)))
    chunks = dict(zip(*_chunks(view), strict=True))
    if after is not None:
        ids = np.array(table.column("doc_id").to_pylist(), dtype=str)
        table = table.slice(int(np.searchsorted(ids, after, side="right")))
    if limit is not None:
        table = table.slice(0, limit)
    rows = table.select(["source_id", "doc_id", "path", "url", "since"]).to_pylist()
    tags = [list(view.manifest.tags_of(row["source_id"], row["doc_id"])) for row in rows]
    shown = [view.shown_url(row["source_id"], row["path"], row["url"]) for row in rows]
    return pa.table(
        {
            "doc_id": table.column("doc_id"),
            "source": table.column("source_id"),
            "type": table.column("source_type"),
            "tags": pa.array(tags, pa.list_(pa.string())),
            "url": pa.array(shown, pa.string()),
            "path": table.column("path"),
            "title": table.column("title"),
            "mime": table.column("mime"),
            "language": table.column("lang"),
            "date": table.column("date"),
            "since": table.column("since"),
            "expires_at": pa.array([view.expires_at(row) for row in rows], TIME),
            "chunks": pa.array([chunks.get(row["doc_id"], 0) for row in rows], pa.int32()),
            "blob_sha256": table.column("blob_sha256"),
            "metadata": table.column("metadata"),
        }
    )


def _chunks(view: View) -> tuple[list[str], list[int]]:
    """The documents, and how many chunks each has."""
    ids = view.graph.documents.column("doc_id").to_pylist()
    return ids, np.bincount(view.index.document, minlength=len(ids)).tolist()


def collections(view: View) -> tuple[CollectionView, ...]:
    """See ``KnowledgeBase.collections``."""
    return tuple(
        CollectionView(
            name=name,
            description=saved.description,
            filters=saved.filters(),
            documents=int(view.index.documents_passing(read_filter(**saved.filters())).sum()),
        )
        for name, saved in sorted(view.manifest.collections.items())
    )


def document(view: View, settings: Settings, namespace: str, name: str) -> DocumentView:
    """See ``KnowledgeBase.document``."""
    table = view.graph.documents
    columns = (table.column(c).to_pylist() for c in ("source_id", "path", "url"))
    shown = [view.shown_url(*x) for x in zip(*columns, strict=True)]
    number = check_document(table, name, shown)
    row = table.slice(number, 1).to_pylist()[0]
    return DocumentView(
        doc_id=row["doc_id"],
        source=row["source_id"],
        source_type=row["source_type"],
        tags=view.manifest.tags_of(row["source_id"], row["doc_id"]),
        path=row["path"],
        url=shown[number],
        title=row["title"],
        mime=row["mime"],
        language=row["lang"],
        date=row["date"],
        since=row["since"],
        expires_at=view.expires_at(row),
        blob_sha256=row["blob_sha256"],
        metadata=row["metadata"],
        text=text_of(view, row["doc_id"]),
        chunks=tuple(_chunks_of(view, number)),
        versions=_versions(settings, namespace, row["source_id"], row["path"]),
    )


def _chunks_of(view: View, number: int) -> list[DocumentChunk]:
    index = view.index
    found = []
    for at in np.flatnonzero(index.document == number).tolist():
        chunk = index.chunk(at)
        found.append(DocumentChunk(**{name: chunk.get(name) for name in DocumentChunk.model_fields}))
    return found


def _versions(settings: Settings, namespace: str, source_id: str, path: str) -> tuple[DocumentVersion, ...]:
    from taboot_pipelines.stages.health import catalog_exists

    if not catalog_exists(settings):
        return ()
    from taboot_pipelines.stages.workspace import Workspace

    try:
        workspace = Workspace(settings)
        try:
            rows = workspace.catalog.locators.history(namespace, source_id, path, _VERSIONS)
        finally:
            workspace.close()
    except TabootError:
        return ()  # the document is published, whatever is the matter with the catalog
    return tuple(
        DocumentVersion(
            event=row["event"],
            at=datetime.fromtimestamp(row["fetched_at"] / 1e6, UTC),
            blob_sha256=row["sha256"],
            job_id=row["job_id"],
        )
        for row in rows
    )
