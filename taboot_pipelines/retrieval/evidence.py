"""Reading the evidence again: a blob's bytes, verified, decoded, quoted through the mask (rules
``bytes-first`` and ``secrets-stop-at-the-blob``).

A blob that is rendered to Markdown (``documents.forms``) is rendered again, and the quote is the document's
text: escapes of JSON, base64 and compressed streams say nothing to people, and hide secrets from the mask.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from taboot_pipelines.documents.mime import has_form
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.evidence import covers_file
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.retrieval.lazy import Lazy
from taboot_pipelines.retrieval.results.explanations import Mark, Original, Quote
from taboot_pipelines.retrieval.session import Session, View
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.model.records import ParsedDocument


class Blobs(Protocol):
    """What is asked of ``stores.blobs.BlobStore``."""

    def get(self, namespace: str, sha256: str) -> bytes:
        """The bytes of that name, their hash verified. Raises ``E_BLOB_CORRUPT``, ``E_BLOB_MISSING``."""
        ...


class Quoted(NamedTuple):
    """A quote through the mask, and the same text without it: that is for checks only and never shown."""

    shown: Quote
    unmasked: str


@dataclass(frozen=True)
class Source:
    """A blob as a text file, or as what is rendered from it. ``url``: where people find it; ``mime``,
    ``charset``, ``path``: those of its document, which has at most ``max_chars`` code points."""

    data: bytes
    sha256: str
    url: str
    mime: str
    charset: str
    path: str
    max_chars: int

    @cached_property
    def rendered(self) -> ParsedDocument | None:
        """The document that is rendered from the blob, masked; None where the blob is the text. Raises as
        ``parse_document`` does."""
        if not has_form(self.mime):
            return None
        from taboot_pipelines.documents.parse import parse_document
        from taboot_pipelines.sources import document_forms

        return parse_document(
            self.data,
            path=self.path,
            mime=self.mime,
            charset=self.charset,
            languages=(),
            max_chars=self.max_chars,
            forms=document_forms(),
        )

    @cached_property
    def _codec(self) -> str:
        for mark, codec in (
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
        ):
            if self.data.startswith(mark):
                return codec
        try:
            return codecs.lookup(self.charset.removesuffix("-sig")).name
        except LookupError:
            return "utf-8"

    @cached_property
    def text(self) -> str:
        """All of it, one code point per undecodable byte, a byte order mark included."""
        return self._decode(self.data)

    @cached_property
    def masked(self) -> str:
        """The text with its secrets masked, code point for code point."""
        from taboot_pipelines.documents.secrets.masking import mask

        return mask(self.text, self.mime)

    def _decode(self, data: bytes) -> str:
        return data.decode(self._codec, "replace")

    def span(self, byte_start: int, byte_end: int) -> tuple[int, int]:
        """Code points of a byte range; ``E_EVIDENCE`` if the blob does not have it."""
        if not 0 <= byte_start <= byte_end <= len(self.data):
            raise TabootError(
                "E_EVIDENCE",
                f"Bytes {byte_start}-{byte_end} lie outside the blob of {self.url}.",
                blob=self.sha256,
                url=self.url,
            )
        start = len(self._decode(self.data[:byte_start]))
        return start, start + len(self._decode(self.data[byte_start:byte_end]))

    def line(self, position: int) -> int:
        """The line of a code point, from 1."""
        return self.text.count("\n", 0, position) + 1

    def quote(
        self, byte_start: int, byte_end: int, span: tuple[int, int] | None = None, section: str = ""
    ) -> Quoted:
        """What stands in a byte range; of a rendered document its text in ``span`` (code points), or, where
        that is not known, what the bytes became. Raises ``E_EVIDENCE`` if blob or document do not have it.
        """
        if self.rendered is not None:
            return self._quote_rendered(self.rendered, byte_start, byte_end, span, section)
        start, end = self.span(byte_start, byte_end)
        shown = Quote(
            text=self.masked[start:end],
            url=self.url,
            line=self.line(start),
            line_end=self.line(max(start, end - 1)),
            blob_sha256=self.sha256,
            byte_start=byte_start,
            byte_end=byte_end,
        )
        return Quoted(shown, self.text[start:end])

    def _quote_rendered(
        self,
        document: ParsedDocument,
        byte_start: int,
        byte_end: int,
        span: tuple[int, int] | None,
        section: str,
    ) -> Quoted:
        start, end = document.offsets.to_document(byte_start, byte_end) if span is None else span
        if not (0 <= byte_start <= byte_end <= len(self.data) and 0 <= start <= end <= len(document.text)):
            raise TabootError(
                "E_EVIDENCE",
                f"Bytes {byte_start}-{byte_end} are no part of the document of {self.url}.",
                blob=self.sha256,
                url=self.url,
            )
        text = document.text[start:end]
        shown = Quote(
            text=text,
            url=self.url,
            line=None,
            line_end=None,
            blob_sha256=self.sha256,
            byte_start=byte_start,
            byte_end=byte_end,
            section=section,
        )
        return Quoted(shown, text + "\n" + self._decode(self.data[byte_start:byte_end]))


class Evidence:
    """The blobs of one namespace. ``blobs``: a store that is used instead of what the settings name. Safe to
    use from several threads.
    """

    def __init__(self, settings: Settings, namespace: str, blobs: Blobs | None) -> None:
        self._settings = settings
        self._namespace = namespace
        self._blobs = Lazy(lambda: _open_blobs(settings) if blobs is None else blobs)

    def source(self, view: View, document: Mapping[str, Any], sha256: str) -> Source:
        """A blob with what its document says of it: ``source_id``, ``path``, ``url``, ``mime``, ``charset``.

        Raises ``E_BLOB_CORRUPT``, ``E_BLOB_MISSING``.
        """
        blobs = self._blobs()
        try:
            data = blobs.get(self._namespace, sha256)
        except TabootError as error:
            shards_only = self._settings.shard_url and not self._settings.blob_url
            if error.code == "E_BLOB_MISSING" and shards_only:
                raise TabootError(
                    error.code,
                    error.message,
                    remedy="Set TABOOT_BLOB_URL too: evidence is read from the blobs, not from the shards.",
                    **error.details,
                ) from error
            raise
        return Source(
            data,
            sha256,
            url=view.shown_url(document["source_id"], document["path"], document["url"]),
            mime=document["mime"],
            charset=document["charset"],
            path=document["path"],
            max_chars=self._settings.limits.max_document_chars,
        )

    def line(self, view: View, doc_id: str, start: int, end: int) -> int | None:
        """The line of the blob at which code points ``[start, end)`` of a document begin; None if there is no
        such document, or its blob has no lines that people know. Raises as :meth:`source` and ``Source.span``
        do.
        """
        document = view.shards.document(doc_id)
        if document is None or has_form(document["mime"]):
            return None
        source = self.source(view, document, document["blob_sha256"])
        first, _ = OffsetMap.loads(document["offsets"]).to_bytes(start, end)
        return source.line(source.span(first, first)[0])


def _open_blobs(settings: Settings) -> Blobs:
    from taboot_pipelines.stores.blobs import open_blobs

    return open_blobs(settings)


# --- Originals: a whole document beside the bytes that it was read from, with the places that were cited

Spans = Sequence[tuple[int, int]]

#: Without the bytes the document itself is still there to be read.
_UNREAD = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING"})


def _pairs(name: str, spans: object) -> Sequence[tuple[int, int]]:
    if isinstance(spans, (list, tuple)) and all(isinstance(s, (list, tuple)) and len(s) == 2 for s in spans):
        return spans
    raise TabootError("E_QUERY", f"{name} must be pairs of a start and an end.")


class Originals:
    """Safe to use from several threads."""

    def __init__(self, session: Session, evidence: Evidence) -> None:
        self._session = session
        self._evidence = evidence

    def original(self, doc_id: str, spans: Spans, byte_spans: Spans) -> Original:
        """See ``KnowledgeBase.original``."""
        if not isinstance(doc_id, str):
            raise TabootError("E_QUERY", "The document must be a doc_id.")
        for span in (*_pairs("spans", spans), *_pairs("byte_spans", byte_spans)):
            if not all(isinstance(n, int) for n in span) or not 0 <= span[0] <= span[1]:
                raise TabootError("E_QUERY", f"A span must be a start and an end, not {str(span)[:80]}.")
        return self._session.ask(lambda view: self._original(view, doc_id, spans, byte_spans))

    def _original(self, view: View, doc_id: str, spans: Spans, byte_spans: Spans) -> Original:
        row = view.shards.document(doc_id)
        if row is None:
            raise TabootError("E_NOT_FOUND", f"There is no document {doc_id[:80]!r}.", document=doc_id[:80])
        offsets = OffsetMap.loads(row["offsets"])
        length = int(offsets.doc_end[-1]) if len(offsets) else 0
        known = {
            "doc_id": doc_id,
            "url": view.shown_url(row["source_id"], row["path"], row["url"]),
            "title": row["title"],
            "source": row["source_id"],
            "source_type": row["source_type"],
            "tags": view.manifest.tags_of(row["source_id"], doc_id),
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
            return Original(**known, text=text_of(view, doc_id), marks=marks)
        try:
            source = self._evidence.source(view, row, row["blob_sha256"])
        except TabootError as error:
            if error.code not in _UNREAD:
                raise
            marks = _marks_of_document(length, offsets, spans, byte_spans)
            return Original(**known, text=text_of(view, doc_id), marks=marks, unread=str(error))
        # A place beyond the document, of an earlier version of it perhaps, marks nothing.
        wanted = [offsets.to_bytes(a, b) for a, b in _within(spans, length)]
        wanted += [(a, b) for a, b in byte_spans if b <= len(source.data)]
        marks = tuple(
            Mark(start=start, end=end, byte_start=a, byte_end=b)
            for a, b in sorted(set(wanted))
            for start, end in (source.span(a, b),)
        )
        read = "" if covers_file(offsets, length) else text_of(view, doc_id)
        return Original(**known, text=source.masked, read=read, marks=marks)


def text_of(view: View, doc_id: str) -> str:
    """The text of a document, put together from its chunks. What stands in none of them, blanks between two,
    is as many blanks here, with the line breaks that lead to the next one's line; line breaks where it has
    none.
    """
    index = view.index
    row, document = index.row_of(doc_id, 0), index.document_row(doc_id)
    parts: list[str] = []
    length, line = 0, 1
    while row is not None and row < len(index) and index.document[row] == document:
        chunk = index.chunk(row)
        gap = max(0, chunk["start"] - length)
        breaks = gap if chunk["line"] is None else min(max(chunk["line"] - line, 0), gap)
        new = chunk["text"][max(0, length - chunk["start"]) :]
        parts += [" " * (gap - breaks) + "\n" * breaks, new]
        length, line = max(length, chunk["end"]), line + breaks + new.count("\n")
        row += 1
    return "".join(parts)


def _marks_of_document(length: int, offsets: OffsetMap, spans: Spans, byte_spans: Spans) -> tuple[Mark, ...]:
    """The places in the document's own text."""
    wanted = [(*span, *offsets.to_bytes(*span)) for span in _within(spans, length)]
    wanted += [(*offsets.to_document(a, b), a, b) for a, b in byte_spans]
    return tuple(Mark(start=s, end=e, byte_start=a, byte_end=b) for s, e, a, b in sorted(set(wanted)))


def _within(spans: Spans, length: int) -> list[tuple[int, int]]:
    return [(start, end) for start, end in spans if end <= length]
