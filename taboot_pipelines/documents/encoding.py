"""Bytes to text, so that the text leads back to every byte.

The order is that of the WHATWG encoding standard (byte order mark, declared charset, for HTML the page's own
declaration), then UTF-8, then a fallback that must prove itself by a round trip.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Any

import numpy as np

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import OffsetMap

#: Longest first: the UTF-32-LE mark begins with the UTF-16-LE one.
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META_CHARSET = re.compile(
    rb"""<meta\s[^>]{0,400}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([A-Za-z0-9_.:-]{2,40})""", re.I
)
_META_PREFIX = 4096
#: Python's name -> ours, where the bare name is ambiguous about byte order or adds a mark when encoding.
_RENAMED = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le", "iso8859-1": "iso-8859-1"}
#: Stateful or not a charset of documents: one code point has no byte range of its own.
_REFUSED = re.compile(
    r"^(utf-7|hz|iso2022|idna|punycode|undefined|mbcs|oem|raw.unicode|unicode.escape|charmap)", re.I
)
#: How much of a body a guess is made from.
_SAMPLE = 65536
#: Texts shorter than this say too little for statistics.
_MIN_STATISTICS = 400
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


@lru_cache(maxsize=256)
def _codec(name: str) -> str | None:
    """The canonical name of a charset that text can be mapped through, or None."""
    try:
        info = codecs.lookup(name.strip().strip("\"'"))
    except (LookupError, ValueError, UnicodeError):
        return None
    if not getattr(info, "_is_text_encoding", True) or _REFUSED.match(info.name.replace("_", "-")):
        return None
    return _RENAMED.get(info.name, info.name)


def _try(body: bytes, codec: str) -> str | None:
    """The text, if it encodes to exactly ``body`` again, code point by code point."""
    try:
        text = body.decode(codec)
    except (UnicodeError, ValueError):
        return None
    if codec in ("utf-8", "ascii", "iso-8859-1"):  # a strict decoder of these loses nothing
        return text
    try:
        return text if text.encode(codec) == body else None
    except (UnicodeError, ValueError):
        return None


def _mostly_utf8(body: bytes, error: UnicodeDecodeError) -> bool:
    """Whether a file that fails as UTF-8 is one with a few damaged bytes, rather than in another charset."""
    text = body[: max(_SAMPLE, error.start + 4)].decode("utf-8", "replace")
    return sum(c > "\x7f" and c != "�" for c in text) > 4 * text.count("�")


def _guess(body: bytes) -> tuple[str, str] | None:
    """(text, charset) by statistics on the first 64 KiB, if all of ``body`` survives the round trip."""
    from charset_normalizer import from_bytes

    try:
        best = from_bytes(body[:_SAMPLE], steps=5, chunk_size=512, preemptive_behaviour=False).best()
    except Exception:  # noqa: BLE001  any failure of a guesser only means that there is no guess
        return None
    codec = _codec(best.encoding) if best else None
    # Wide encodings without a mark are refused: they turn arbitrary bytes into plausible ideographs.
    if codec is None or codec.startswith(("utf-16", "utf-32")):
        return None
    text = _try(body, codec)
    return None if text is None else (text, codec)


def decode(data: bytes, charset: str | None, html: bool = False) -> tuple[str, str, int]:
    """``(text, charset, bom bytes)`` with ``text.encode(charset) == data[bom:]``; newlines are kept as they
    are.

    ``charset`` is what the transport declared. For HTML a page that is UTF-8 but for some damaged bytes is
    read all the same: those bytes come as lone surrogates (PEP 383), and ``text.encode(charset,
    "surrogateescape")`` is the inverse. Raises ``E_ENCODING``.
    """
    if (marked := _by_mark(data)) is not None:
        return marked
    bom = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    body = data[bom:]
    text, codec = _by_declaration(body, charset, html) or _by_content(body, bom, html)
    return text, codec, bom


def _by_mark(data: bytes) -> tuple[str, str, int] | None:
    """The text after a byte order mark; None without one, or if a mark of UTF-8 or UTF-32 misleads."""
    for bom, codec in _BOMS:
        if data.startswith(bom):
            text = _try(data[len(bom) :], codec)
            if text is not None:
                return text, codec, len(bom)
            if codec.startswith("utf-16"):
                raise TabootError(
                    "E_ENCODING", f"The file has a byte order mark of {codec} but is not valid {codec}."
                )
    return None


def _by_declaration(body: bytes, charset: str | None, html: bool) -> tuple[str, str] | None:
    """(text, charset) by what the transport declares, else by what the page itself does."""
    declared = [charset] if charset else []
    if html and (meta := _META_CHARSET.search(body[:_META_PREFIX])):
        name = meta[1].decode("ascii")
        # A page whose declaration can be read as ASCII is not in a wide encoding, whatever it says.
        declared.append("utf-8" if name.lower().startswith(("utf-16", "utf-32")) else name)
    for name in declared:
        known = _codec(name)
        if known is None:
            continue
        candidates = [known]
        if known in ("iso-8859-1", "ascii") and not body.isascii():
            # These labels mean windows-1252 in practice (WHATWG); true latin-1 has its five holes as well.
            candidates = ["cp1252", "iso-8859-1", known]
        for codec in candidates:
            if (text := _try(body, codec)) is not None:
                return text, codec
    return None


def _by_content(body: bytes, bom: int, html: bool) -> tuple[str, str]:
    """(text, charset) where nothing is declared: UTF-8, else the best guess that survives a round trip."""
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        damaged = error.start + bom
        if _mostly_utf8(body, error):
            if html:
                return body.decode("utf-8", "surrogateescape"), "utf-8"
            raise TabootError(
                "E_ENCODING", f"The file is UTF-8 but for a damaged byte at {damaged}.", byte=damaged
            ) from None
    western = _try(body, "cp1252")
    if western is not None and _CONTROLS.search(western):
        western = None
    sample = body[:_SAMPLE]
    # Few letters beyond ASCII, and too little text for statistics: western European.
    few = len(body) < _MIN_STATISTICS and 4 * sum(b > 0x7F for b in sample) <= len(sample)
    if not (few and western is not None) and (guess := _guess(body)):
        return guess
    if western is not None:
        return western, "cp1252"
    raise TabootError(
        "E_ENCODING",
        f"The file is in no charset that could be told; it stops being UTF-8 at byte {damaged}.",
        byte=damaged,
    )


def byte_ends(source: str, codec: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The byte at which each code point of ``source`` begins, and the end: n + 1 offsets. A surrogate stands
    for one escaped byte."""
    exact = OffsetMap.of_text(source, codec) if not _SURROGATES.search(source) else None
    if exact is not None:
        widths = np.repeat(exact.width, exact.doc_end - exact.doc_start)
    else:
        points = np.frombuffer(source.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        if codec == "utf-8":
            widths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
            widths[(points >= 0xD800) & (points <= 0xDFFF)] = 1
        else:
            widths = np.array([len(c.encode(codec, "surrogateescape")) for c in source], dtype=np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
