"""A document beside the bytes that it was read from."""

from __future__ import annotations

from datetime import datetime

from taboot_pipelines.retrieval.results.base import Result


class Mark(Result):
    """A place of an original: code points ``[start, end)`` of its ``text``, and the bytes of the blob that
    they are.
    """

    start: int
    end: int
    byte_start: int
    byte_end: int


class Original(Result):
    """A document and the file that it was read from, secrets masked in both.

    ``text``: the file as text, with the lines that people know; of a document that is rendered from its blob
    (``rendered``), such as a PDF, the document's text. ``read``: the document's text where that is another
    (a page of HTML became Markdown), else empty. ``marks``: the places that were asked for, in order;
    ``unread``: why the bytes cannot be shown, in which case ``text`` is the document's and the marks are in
    it. ``metadata``: JSON.
    """

    doc_id: str
    url: str
    title: str
    source: str
    source_type: str
    tags: tuple[str, ...]
    path: str
    mime: str
    language: str
    date: datetime | None
    since: datetime
    blob_sha256: str
    metadata: str
    text: str
    rendered: bool
    read: str = ""
    marks: tuple[Mark, ...] = ()
    unread: str = ""
