"""The charsets of mail, repaired: names that mean nothing, bytes that are not what they are said to be."""

from __future__ import annotations

import codecs
from functools import lru_cache

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.errors import TabootError

#: Names in use which Python does not know, by those it does.
_ALIASES = {
    "ansi_x3.110-1983": "latin-1",
    "cp-850": "cp850",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "iso-8859-6-i": "iso-8859-6",
    "ks_c_5601-1987": "cp949",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gbk",
    "x-mac-roman": "mac_roman",
    "x-sjis": "cp932",
    "unicode-1-1-utf-7": "utf-7",
    "utf8mb4": "utf-8",
}
#: Widened to what writers of that name use.
_WIDER = {"shift_jis": "cp932", "gb2312": "gbk", "euc_kr": "cp949", "iso2022_jp": "iso2022_jp_ext"}

#: A shorter text says too little for statistics.
_MIN_STATISTICS = 400


@lru_cache(maxsize=512)
def codec_of(name: str | None) -> str | None:
    """Python's name of a charset, or None for one that means nothing (``X-UNKNOWN``, ``default``)."""
    label = (name or "").strip().strip("\"'").lower()
    try:
        info = codecs.lookup(_ALIASES.get(label, label))
    except (LookupError, ValueError, UnicodeError):
        return None
    if not getattr(info, "_is_text_encoding", True) or info.name in (
        "idna",
        "punycode",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "unicode-escape",
        "raw-unicode-escape",
        "mbcs",
        "oem",
    ):
        return None
    return _WIDER.get(info.name, info.name)


def charset_of(data: bytes, declared: str | None) -> tuple[str, bool]:
    """(codec, whether every line of ``data`` has it): what bytes are written in that are said to be in
    ``declared``.

    Bytes that are said to be ASCII, or in nothing known, and are not, are in whatever reads them. Where
    nothing reads them all, the charset that is declared, else UTF-8, is the best there is.
    """
    codec = codec_of(declared)
    if codec in (None, "ascii") and data.isascii() and b"\x1b" not in data:
        return "ascii", True
    if codec is not None and codec.startswith(("iso2022", "utf-7", "hz")):
        return codec, False
    if codec in (None, "ascii", "utf-8"):
        text = data.decode("utf-8", "replace")
        bad = text.count("\ufffd")
        if bad == 0 or sum(letter > "\x7f" for letter in text) > 2 * bad:
            # A few bytes are damaged, or were cut off.
            return "utf-8", bad == 0
    if codec in (None, "ascii") and len(data) < _MIN_STATISTICS:
        return _western(data), True
    try:
        _, found, _ = decode(data, None if codec == "ascii" else codec)
    except TabootError:
        return codec if codec not in (None, "ascii") else "utf-8", False
    return found, True


def _western(data: bytes) -> str:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def decoded(data: bytes, declared: str | None) -> str:
    """The text in ``data``; what nothing reads becomes U+FFFD."""
    codec, _ = charset_of(data, declared)
    try:
        return data.decode(codec, "replace")
    except (UnicodeError, ValueError):
        return data.decode("utf-8", "replace")
