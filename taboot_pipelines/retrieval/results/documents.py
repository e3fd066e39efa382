"""One document as a result: what is known of it, its text, its chunks, and the versions that it had."""

from __future__ import annotations

import html
from datetime import datetime
from typing import Any

from taboot_pipelines.retrieval import rendering
from taboot_pipelines.retrieval.results.base import Result


class DocumentChunk(Result):
    """A piece of a document: ``document.text[start:end]``, in code points."""

    chunk_id: str
    start: int
    end: int
    line: int | None
    section: str
    content_type: str


class DocumentVersion(Result):
    """What once became of a document: ``fetched`` (with the SHA-256 of its bytes), ``restored``, ``deleted``,
    ``absent`` (it vanished) or ``forgotten``, and by which job."""

    event: str
    at: datetime
    blob_sha256: str | None
    job_id: str


class ListedDocument(Result):
    """A document of a list, with the columns of ``KnowledgeBase.documents``; ``chunks``: their number."""

    doc_id: str
    source: str
    type: str
    tags: tuple[str, ...]
    url: str
    path: str
    title: str | None
    mime: str | None
    language: str | None
    date: datetime | None
    since: datetime
    expires_at: datetime | None
    chunks: int
    blob_sha256: str
    metadata: str


class DocumentPage(Result):
    """A page of the list of documents, by doc_id; ``next_cursor``: of the next one, if there is one."""

    documents: tuple[ListedDocument, ...]
    next_cursor: str | None


class DocumentText(Result):
    """The code points ``[start, end)`` of a document's text, which has ``length`` of them."""

    doc_id: str
    start: int
    end: int
    length: int
    text: str


class DocumentInfo(Result):
    """What is known of a document. ``metadata``: JSON; ``expires_at``: when its retention deletes it, None:
    never; ``versions``: the oldest first, at most the last hundred, empty where only a copy of the shards is
    at hand.
    """

    doc_id: str
    source: str
    source_type: str
    tags: tuple[str, ...]
    path: str
    url: str
    title: str
    mime: str
    language: str
    date: datetime | None
    since: datetime
    expires_at: datetime | None
    blob_sha256: str
    metadata: str
    versions: tuple[DocumentVersion, ...] = ()


class DocumentView(DocumentInfo):
    """A document: what is known of it, its ``text`` (what was read of it, secrets masked) and its chunks."""

    text: str
    chunks: tuple[DocumentChunk, ...]

    def _repr_html_(self) -> str:
        known = [
            (name.replace("_", " "), str(value) if not isinstance(value, tuple) else ", ".join(value))
            for name in ("url", "source", "tags", "mime", "language", "date", "since", "expires_at")
            if (value := getattr(self, name))
        ]
        head = rendering.table(self.title or self.path, ("field", "value"), known)
        return f"{head}<pre>{html.escape(self.text)}</pre>"


class CollectionView(Result):
    """A saved filter: what it is for, its ``filters`` as a search takes them, and how many documents pass."""

    name: str
    description: str
    filters: dict[str, Any]
    documents: int
