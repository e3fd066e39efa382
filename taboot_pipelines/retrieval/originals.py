"""Originals: a whole document beside the bytes that it was read from, with the places that were cited."""

from __future__ import annotations

from collections.abc import Sequence

from taboot_pipelines.documents.mime import has_form
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.retrieval.evidence import Evidence
from taboot_pipelines.retrieval.results.originals import Mark, Original
from taboot_pipelines.retrieval.session import Session, View

Spans = Sequence[tuple[int, int]]

#: Without the bytes the document itself is still there to be read.
_UNREAD = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING"})


class Originals:
    """Safe to use from several threads."""

    def __init__(self, session: Session, evidence: Evidence) -> None:
        self._session = session
        self._evidence = evidence

    def original(self, doc_id: str, spans: Spans, byte_spans: Spans) -> Original:
        """See ``KnowledgeBase.original``."""
        if not isinstance(doc_id, str):
            raise TabootError("E_QUERY", "The document must be a doc_id.")
        for start, end in (*spans, *byte_spans):
            if not 0 <= start <= end:
                raise TabootError("E_QUERY", f"A place must be a start and an end, not {start}-{end}.")
        return self._session.ask(lambda view: self._original(view, doc_id, spans, byte_spans))

    def _original(self, view: View, doc_id: str, spans: Spans, byte_spans: Spans) -> Original:
        row = view.shards.document(doc_id)
        if row is None:
            raise TabootError("E_NOT_FOUND", f"There is no document {doc_id[:80]!r}.", document=doc_id[:80])
        offsets = OffsetMap.loads(row["offsets"])
        length = int(offsets.doc_end[-1]) if len(offsets) else 0
        entry = view.manifest.sources.get(row["source_id"])
        known = {
            "doc_id": doc_id,
            "url": view.shown_url(row["source_id"], row["path"], row["url"]),
            "title": row["title"],
            "source": row["source_id"],
            "source_type": row["source_type"],
            "tags": entry.tags if entry else (),
            "path": row["path"],
            "mime": row["mime"],
            "language": row["lang"],
            "date": row["date"],
            "since": row["since"],
            "blob_sha256": row["blob_sha256"],
            "metadata": row["metadata"],
            "rendered": has_form(row["mime"]),
        }
        if known["rendered"]:
            marks = _marks_of_document(length, offsets, spans, byte_spans)
            return Original(**known, text=_text(view, doc_id), marks=marks)
        try:
            source = self._evidence.source(view, row, row["blob_sha256"])
        except TabootError as error:
            if error.code not in _UNREAD:
                raise
            marks = _marks_of_document(length, offsets, spans, byte_spans)
            return Original(**known, text=_text(view, doc_id), marks=marks, unread=str(error))
        # A place beyond the document, of an earlier version of it perhaps, marks nothing.
        wanted = [offsets.to_bytes(a, b) for a, b in _within(spans, length)]
        wanted += [(a, b) for a, b in byte_spans if b <= len(source.data)]
        marks = tuple(
            Mark(start=start, end=end, byte_start=a, byte_end=b)
            for a, b in sorted(set(wanted))
            for start, end in (source.span(a, b),)
        )
        read = "" if covers_file(offsets, length) else _text(view, doc_id)
        return Original(**known, text=source.masked, read=read, marks=marks)


def _text(view: View, doc_id: str) -> str:
    """The text of a document, put together from its chunks. What stands in none of them, blanks between two,
    is line breaks here, of the same length.
    """
    index = view.index
    row, document = index.row_of(doc_id, 0), index.document_row(doc_id)
    parts: list[str] = []
    length = 0
    while row is not None and row < len(index) and index.document[row] == document:
        chunk = index.chunk(row)
        parts += ["\n" * (chunk["start"] - length), chunk["text"][max(0, length - chunk["start"]) :]]
        length = max(length, chunk["end"])
        row += 1
    return "".join(parts)


def _marks_of_document(length: int, offsets: OffsetMap, spans: Spans, byte_spans: Spans) -> tuple[Mark, ...]:
    """The places in the document's own text."""
    wanted = [(*span, *offsets.to_bytes(*span)) for span in _within(spans, length)]
    wanted += [(*offsets.to_document(a, b), a, b) for a, b in byte_spans]
    return tuple(Mark(start=s, end=e, byte_start=a, byte_end=b) for s, e, a, b in sorted(set(wanted)))


def _within(spans: Spans, length: int) -> list[tuple[int, int]]:
    return [(start, end) for start, end in spans if end <= length]
