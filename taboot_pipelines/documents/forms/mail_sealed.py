"""Mail that is signed or encrypted: S/MIME (RFC 8551) and OpenPGP (RFC 3156, RFC 9580).

What is signed is read; nobody checks the signature here. Of what is encrypted only that it is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from taboot_pipelines.documents.forms.mail_parts import Part, read_entity
from taboot_pipelines.documents.forms.mail_text import Line
from taboot_pipelines.errors import TabootError

_CMS = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime"))
_ENCRYPTED = frozenset(("enveloped-data", "authenveloped-data"))
#: The object identifier of EnvelopedData (RFC 5652, 6).
_ENVELOPED = bytes.fromhex("06092a864886f70d010703")
_ARMOR = "-----BEGIN PGP MESSAGE-----"
_SIGNED = "-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE, _SIGNATURE_END = "-----BEGIN PGP SIGNATURE-----", "-----END PGP SIGNATURE-----"
_SEQUENCE, _OCTETS, _CONTEXT, _CONSTRUCTED = 0x30, 0x04, 0xA0, 0x20
#: Elements of ASN.1 within each other, and signed messages within each other.
_MAX_DEPTH = 16
_MAX_SEALS = 3


def open_signed(root: Part, blob: bytes, depth: int = 0) -> None:
    """Put what is signed in the place of the signature around it, in a message and its parts. Raises
    ``E_TOO_LARGE`` as :func:`read_entity` does."""
    for part in root.walk():
        if part.kind not in _CMS or part.parts or depth >= _MAX_SEALS:
            continue
        signed = _signed_content(part.content(blob))
        if signed is None:
            continue
        inner = read_entity(signed)
        for one in inner.walk():
            # Its bytes stand nowhere in the blob by themselves.
            one.payload, one.encoding = one.content(signed), "identity"
            one.head, one.start, one.end = part.head, part.start, part.end
        open_signed(inner, blob, depth + 1)
        part.kind, part.parts = "multipart/signed", [inner]


def encryption(root: Part, blob: bytes, *, has_text: bool) -> str:
    """By what the text of a message is encrypted, after :func:`open_signed`; empty where it is not, as where
    what is encrypted is attached to a text."""
    for part in root.walk():
        if part.kind == "multipart/encrypted" or is_armored(part, blob):
            return "OpenPGP"
        if part.kind in _CMS and not part.parts and not has_text and _is_enveloped(part, blob):
            return "S/MIME"
    return ""


def _is_enveloped(part: Part, blob: bytes) -> bool:
    stated = part.params.get("smime-type", "").lower()
    return stated in _ENCRYPTED or (not stated and _ENVELOPED in part.content(blob)[:40])


def is_armored(part: Part, blob: bytes) -> bool:
    """Whether a text is nothing but an encrypted message."""
    if part.kind != "text/plain" or part.disposition == "attachment":
        return False
    if part.payload is None and part.encoding in ("identity", "quoted-printable"):
        text = blob[part.start : min(part.end, part.start + 1000)]
    else:
        text = part.content(blob)[:1000]
    return text.lstrip().startswith(_ARMOR.encode())


def without_signature(lines: Sequence[Line]) -> list[Line]:
    """The lines of a text without those that OpenPGP's cleartext signature framework adds (RFC 9580, 7)."""
    if not any(line.text.startswith(_SIGNED) for line in lines):
        return list(lines)
    out: list[Line] = []
    state = ""  # head: of a signed text; text: of one; signature
    for line in lines:
        text = line.text.rstrip()
        if text == _SIGNED:
            state = "head"
        elif state == "head":
            state = "head" if text else "text"
        elif state == "text" and text == _SIGNATURE:
            state = "signature"
        elif state == "signature":
            state = "" if text == _SIGNATURE_END else state
        else:
            out.append(line.behind(2) if state == "text" and text.startswith("- ") else line)
    return out


def _signed_content(data: bytes) -> bytes | None:
    """The content that a ``SignedData`` of CMS (RFC 5652, 5) holds; None for anything else."""
    try:
        _, start, end, _ = _element(data, 0, len(data))
        # ContentInfo: the type, and what is of it.
        _, wrapped = islice(_elements(data, start, end), 2)
        signed = next(_elements(data, wrapped[1], wrapped[2]))
        # SignedData: version, algorithms, the content, …
        _, _, content = islice(_elements(data, signed[1], signed[2]), 3)
        _, explicit = islice(_elements(data, content[1], content[2]), 2)
        if (signed[0], content[0], explicit[0]) != (_SEQUENCE, _SEQUENCE, _CONTEXT):
            return None
        return b"".join(_octets(data, next(_elements(data, explicit[1], explicit[2])), 0))
    except (ValueError, IndexError, StopIteration, TabootError):
        return None


def _octets(data: bytes, element: tuple[int, int, int], depth: int) -> Iterator[bytes]:
    tag, start, end = element
    if tag == _OCTETS:
        yield data[start:end]
    elif tag == _OCTETS | _CONSTRUCTED and depth < _MAX_DEPTH:
        for inner in _elements(data, start, end):
            yield from _octets(data, inner, depth + 1)
    else:
        raise ValueError("no octets")


def _elements(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(tag, start, end) of the elements of BER (X.690) that stand in ``[start, end)``."""
    while start < end:
        tag, first, last, start = _element(data, start, end)
        yield tag, first, last


def _element(data: bytes, at: int, limit: int, depth: int = 0) -> tuple[int, int, int, int]:
    """The tag of an element, where its content begins and ends, and where the next element begins."""
    tag, length = data[at], data[at + 1]
    at += 2
    if depth > _MAX_DEPTH or tag & 0x1F == 0x1F:
        raise ValueError("nested too deep, or of a kind that CMS does not use")
    if length == 0x80:
        start = at
        while data[at : at + 2] != b"\0\0":
            at = _element(data, at, limit, depth + 1)[3]
        return tag, start, at, at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + length > limit:
        raise ValueError("cut off")
    return tag, at, at + length, at + length
