"""Reading the evidence again: a blob's bytes, verified, decoded, quoted through the mask (rules
``bytes-first`` and ``secrets-stop-at-the-blob``).

A blob that is rendered to Markdown (``documents.forms``) is rendered again, and the quote is the document's
text: escapes of JSON, base64 and compressed streams say nothing to people, and hide secrets from the mask.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from taboot_pipelines.documents.mime import has_form
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.retrieval.once import Once
from taboot_pipelines.retrieval.results.explanations import Quote
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings


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
        from taboot_pipelines.documents.secrets import mask

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
        self._blobs = Once(lambda: _open_blobs(settings) if blobs is None else blobs)

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
