"""A blob becomes a document: text, title, language, metadata, and the map back to the blob's bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taboot_pipelines.documents import language, metadata
from taboot_pipelines.documents.encoding import byte_ends, decode
from taboot_pipelines.documents.forms import FORMS, Form, Given
from taboot_pipelines.documents.html_content import page_content
from taboot_pipelines.documents.html_markdown import Segment, join
from taboot_pipelines.documents.html_tree import parse as parse_html
from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN, is_text, magic_of, mime_of, reads_as
from taboot_pipelines.documents.secrets.masking import mask, mask_value
from taboot_pipelines.documents.structured import structured
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model.offsets import PLACES, OffsetMap
from taboot_pipelines.model.records import Extraction, ParsedDocument

#: Part of every fingerprint downstream: raise it when the same bytes would give another document.
PARSER_VERSION = "8"

#: In the metadata of a page whose main content a document is: of what type the page is, and how sure it is
#: that the document holds its content and nothing else, as the expected F1 by words.
PAGE_TYPE, CONFIDENCE = "page_type", "extraction_confidence"
_PROSE = (HTML, MARKDOWN, PLAIN, "text/x-rst", "text/asciidoc")
#: As what the rest of the chain reads a page.
_MIMES: Mapping[Extraction, str] = {"markdown": HTML, "structured": MARKDOWN, "raw": PLAIN}
_SURROGATES = re.compile("[\ud800-\udfff\x00]")


def parse_document(
    data: bytes,
    *,
    path: str,
    mime: str | None,
    charset: str | None,
    languages: Sequence[str],
    max_chars: int,
    extraction: Extraction = "markdown",
    forms: Mapping[str, Form] = FORMS,
) -> ParsedDocument:
    """The document in ``data``.

    Text formats keep their text to the code point (a byte order mark is left out, newlines stay), with an
    exact map. HTML gives the Markdown of its main content; its map leads each block (in code, each line) to
    the source of the element that holds it, and covers every code point. By ``extraction`` HTML gives its
    structured data instead, as Markdown too, or its source, as plain text with an exact map. Secret values
    are masked in text, title and metadata (rule ``secrets-stop-at-the-blob``). What ``forms`` lists by its
    media type is rendered to Markdown; by default that is what any source may hold.

    ``path`` names the thing in errors and, where ``mime`` says too little, its kind. ``languages``: ISO 639-1
    codes that are wanted; empty means all, and an undetermined language is always taken. ``max_chars`` bounds
    the document's text. Raises ``E_EMPTY``, ``E_BINARY``, ``E_ENCODING``, ``E_PARSE``, ``E_TOO_LARGE``,
    ``E_LANGUAGE``, ``E_MIME``.
    """
    try:
        return _parse(data, path, mime, charset, languages, max_chars, extraction, forms)
    except TabootError as error:
        if "path" in error.details:
            raise
        raise TabootError(error.code, f"{path}: {error.message}", path=path, **error.details) from None
    except (RecursionError, MemoryError):
        raise TabootError(
            "E_PARSE", f"{path}: the document is nested too deeply or too large to parse.", path=path
        ) from None
    except Exception as error:  # noqa: BLE001  whatever a stranger's bytes provoke is typed
        # Where it happened is enough: its message, or itself as a cause, may hold the document's text.
        raise TabootError(
            "E_PARSE",
            f"{path}: the parser failed with {type(error).__name__}.",
            path=path,
            where=raised_at(error),
        ) from None


def _parse(
    data: bytes,
    path: str,
    declared: str | None,
    charset: str | None,
    languages: Sequence[str],
    max_chars: int,
    extraction: Extraction,
    forms: Mapping[str, Form],
) -> ParsedDocument:
    if not data.strip():
        raise TabootError("E_EMPTY", f"{path} is empty.", path=path)
    mime = mime_of(path, data, declared)
    form = forms.get(mime)
    if form is None and not is_text(mime):
        if magic_of(data) or mime == "application/octet-stream":
            raise TabootError("E_BINARY", f"{path} is not text but {mime}.", path=path, mime=mime)
        raise TabootError(
            "E_MIME", f"{path} has the content type {mime}, which is not read.", path=path, mime=mime
        )
    # No charset takes more than 4 bytes for a code point, so this much cannot fit.
    if mime != HTML and form is None and len(data) > 4 * max_chars + 4:
        raise TabootError(
            "E_TOO_LARGE", f"{path} is longer than {max_chars} characters.", path=path, bytes=len(data)
        )
    if form is not None:
        formed = form(data, Given(path, mime, charset, max_chars))
        text, facts, offsets, codec = formed.text, formed.facts, formed.offsets, formed.charset
    elif mime == HTML:
        source, codec, bom = decode(data, charset, html=True)
        text, facts, offsets = _html(source, codec, bom, len(data), extraction, max_chars)
        mime = _MIMES[extraction]
    else:
        source, codec, bom = decode(data, charset)
        if "\x00" in source:
            raise TabootError(
                "E_BINARY",
                f"{path} is not text: it holds NUL at character {source.index(chr(0))}.",
                path=path,
            )
        text = source
        offsets = OffsetMap.of_text(text, codec, bom)
        if text and int(offsets.byte_end[-1]) != len(data):
            raise TabootError(
                "E_ENCODING",
                f"{path}: in {codec} its characters have no bytes of their own.",
                path=path,
                charset=codec,
            )
        if mime == MARKDOWN:
            facts = metadata.of_markdown(text)
        elif mime == "text/x-rst":
            facts = metadata.of_markdown(text, restructured=True)
        else:
            facts = metadata.of_asciidoc(text) if mime == "text/asciidoc" else metadata.Facts()
    if not text.strip():
        what = "structured data" if extraction == "structured" else "text"
        raise TabootError("E_EMPTY", f"{path} holds no {what}.", path=path)
    if len(text) > max_chars:
        raise TabootError(
            "E_TOO_LARGE",
            f"{path} has {len(text)} characters, more than {max_chars}.",
            path=path,
            chars=len(text),
        )
    lang = language.UNDETERMINED
    if mime in _PROSE or form is not None:
        lang = language.detect(text, [facts.lang, *languages])
        if not language.allowed(lang, languages):
            raise TabootError(
                "E_LANGUAGE",
                f"{path} is in {lang!r}, which its source does not list.",
                path=path,
                language=lang,
            )
    return ParsedDocument(
        text=mask(text, MARKDOWN if mime == HTML else reads_as(mime)),
        title=mask(facts.title, PLAIN) or metadata.title_of_path(path),
        mime=mime,
        charset=codec,
        lang=lang,
        offsets=offsets,
        metadata=_masked(facts.metadata) | ({PLACES: facts.places.stored()} if facts.places else {}),
        date=facts.date,
    )


def _masked(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: [mask_value("", x) for x in value]
        if isinstance(value, list)
        else mask_value("", value)
        if isinstance(value, str)
        else value
        for key, value in fields.items()
    }


def _html(
    source: str, codec: str, bom: int, size: int, extraction: Extraction, max_chars: int
) -> tuple[str, metadata.Facts, OffsetMap]:
    root = parse_html(source)
    facts = metadata.of_html(source, root)
    if extraction == "raw":
        text, offsets = source, _exact_map(source, codec, bom, size)
    else:
        if extraction == "structured":
            text, segments = structured(source, root, max_chars)
        else:
            content = page_content(source, root)
            text, segments = join(content.blocks)
            facts.metadata[PAGE_TYPE], facts.metadata[CONFIDENCE] = content.page_type, content.confidence
        offsets = _block_map(source, codec, bom, size, segments)
    # Bytes that were not UTF-8, and NULs: one replacement character each, so that positions hold.
    return _SURROGATES.sub("\ufffd", text), facts, offsets


def _exact_map(source: str, codec: str, bom: int, size: int) -> OffsetMap:
    """A linear segment for each run of code points of one width."""
    ends = _ends(source, codec, bom, size)
    widths = np.diff(ends)
    cuts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.diff(widths)) + 1))
    return OffsetMap(
        cuts,
        np.concatenate((cuts[1:], [len(source)])),
        ends[cuts],
        ends[[*cuts[1:], len(source)]],
        widths[cuts],
    )


def _block_map(source: str, codec: str, bom: int, size: int, segments: Sequence[Segment]) -> OffsetMap:
    """Block segments (width 0) in bytes of a blob, from segments in code points of its source."""
    if not segments:
        return OffsetMap.of([])
    rows = np.array(segments, dtype=np.int64)
    ends = _ends(source, codec, bom, size)
    return OffsetMap(
        rows[:, 0].copy(),
        rows[:, 1].copy(),
        ends[rows[:, 2]],
        ends[rows[:, 3]],
        np.zeros(len(rows), np.int64),
    )


def _ends(source: str, codec: str, bom: int, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The byte of the blob at which each code point begins, and the blob's end. Raises ``E_ENCODING``."""
    ends = byte_ends(source, codec) + bom
    if int(ends[-1]) != size:
        raise TabootError(
            "E_ENCODING", f"The characters of {codec} have no bytes of their own.", charset=codec
        )
    return ends
