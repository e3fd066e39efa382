"""Mails for tests, and what holds for the document of each."""

from __future__ import annotations

from taboot_pipelines.documents.chunking import Chunker
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.settings import ChunkingSettings
from taboot_pipelines.sources import document_forms

GMAIL = "application/vnd.taboot.gmail+json"
CHUNKER = Chunker(ChunkingSettings())


def parsed(data: bytes | str, mime: str = "message/rfc822", max_chars: int = 2_000_000) -> ParsedDocument:
    """The document of a mail, which keeps what every document does."""
    blob = data.encode() if isinstance(data, str) else data
    document = parse_document(
        blob, path="m", mime=mime, charset=None, languages=[], max_chars=max_chars, forms=document_forms()
    )
    offsets = document.offsets
    for a, b, c, d, width in zip(
        offsets.doc_start, offsets.doc_end, offsets.byte_start, offsets.byte_end, offsets.width, strict=True
    ):
        assert 0 <= a < b <= len(document.text)
        assert 0 <= c <= d <= len(blob)
        assert width == 0 or d - c == width * (b - a)
    return document


def chunk_texts(document: ParsedDocument) -> list[str]:
    return [chunk.text for chunk in CHUNKER.chunk(document.text, document.mime)]


def bytes_of(blob: bytes, document: ParsedDocument, text: str) -> bytes:
    """The bytes that say ``text``, which stands once in the document."""
    assert document.text.count(text) == 1
    at = document.text.index(text)
    start, end = document.offsets.to_bytes(at, at + len(text))
    return blob[start:end]
