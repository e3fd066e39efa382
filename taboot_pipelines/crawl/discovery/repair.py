"""Sitemaps and feeds that are nearly XML, made into XML.

Undone are: space before the declaration, an ``&`` that begins no reference, HTML's names of characters,
characters that XML forbids, prefixes that are not declared, bytes in another encoding than declared.
"""

from __future__ import annotations

import codecs
import html.entities
import re

_DECLARATION = re.compile(r"<\?xml\b[^>]{0,200}\?>")
_ENCODING = re.compile(rb"<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_AMPERSAND = re.compile(r"&(#\d{1,7};|#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][A-Za-z0-9]{1,30};)?")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PREFIX = re.compile(r"[<\s]/?([A-Za-z_][A-Za-z0-9_.-]{0,40}):[A-Za-z_]")
_ROOT = re.compile(r"<[A-Za-z_][^\s/>]{0,80}")
MAX_PREFIXES = 50
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


def decoded(data: bytes) -> str:
    """The text of a list, as its byte order mark says; UTF-8 without one. What is no text becomes U+FFFD."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def repaired(data: bytes) -> bytes:
    """A document in UTF-8, of the same meaning as far as it has one. What declares entities of its own is
    given back as it is: they stand for what nobody wants expanded."""
    text = _text(data)
    if "<!ENTITY" in text:
        return data
    text = _FORBIDDEN.sub("", text).lstrip()
    if (declaration := _DECLARATION.match(text)) is not None:
        text = text[declaration.end() :]
    first, *others = text.split(_CDATA)
    parts = [_AMPERSAND.sub(_reference, first)]
    for other in others:
        inside, end, outside = other.partition(_CDATA_END)
        parts += (_CDATA, inside, end, _AMPERSAND.sub(_reference, outside))
    whole = "".join(parts)
    used = sorted(set(_PREFIX.findall(whole)) - {"xml", "xmlns"})[:MAX_PREFIXES]
    declared = "".join(f' xmlns:{p}="undeclared:{p}"' for p in used if f"xmlns:{p}" not in whole)
    return _ROOT.sub(lambda root: root[0] + declared, whole, count=1).encode()


def _text(data: bytes) -> str:
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return decoded(data)
    said = _ENCODING.search(data[:512])
    for encoding in ([said[1].decode("ascii")] if said else []) + ["utf-8"]:
        try:
            return data.decode(encoding)
        except (LookupError, UnicodeError):
            continue
    # What Windows calls Latin-1 is what is left undeclared in practice.
    return data.decode("windows-1252", "replace")


def _reference(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return "&amp;"
    if name[0] != "#":
        if name in _XML_NAMES:
            return match[0]
        return html.entities.html5.get(name, f"&amp;{name}")
    number = int(name[2:-1], 16) if name[1] in "xX" else int(name[1:-1])
    character = chr(number) if number <= 0x10FFFF else ""
    if not character or _FORBIDDEN.match(character):
        return ""
    return f"&#{number};"
