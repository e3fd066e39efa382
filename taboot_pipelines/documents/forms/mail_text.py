"""The text of a mail part, line by line, with the bytes that say each.

A line that stands in the message as it is leads to its bytes exactly. A line of quoted-printable that has
escapes leads to its lines in the message, and what base64 says to the whole part.

Mail that is signed or encrypted: S/MIME (RFC 8551) and OpenPGP (RFC 3156, RFC 9580).

What is signed is read; nobody checks the signature here. Of what is encrypted only that it is so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from taboot_pipelines.documents.encoding import byte_ends, decode
from taboot_pipelines.documents.forms.mail_headers import charset_of, codec_of
from taboot_pipelines.documents.forms.mail_parts import Part, qp_bytes, read_entity
from taboot_pipelines.documents.html_markdown import join, render
from taboot_pipelines.documents.html_tree import parse
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import Array

_LINES = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_TEXT_LINES = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_QUOTED = re.compile(r">+")


class Segment(NamedTuple):
    """A piece of a line, which bytes ``[start, end)`` of the blob say: exactly so, in ``codec``, or as a
    whole where that is None. ``start`` < 0: what no byte says."""

    text: str
    start: int
    end: int
    codec: str | None = None

    def behind(self, count: int) -> Segment:
        """The segment without its first ``count`` code points."""
        if self.codec is None:
            return self._replace(text=self.text[count:])
        skipped = len(self.text[:count].encode(self.codec))
        return self._replace(text=self.text[count:], start=self.start + skipped)

    def before(self, count: int) -> Segment:
        """Its first ``count`` code points."""
        if self.codec is None:
            return self._replace(text=self.text[:count])
        return self._replace(
            text=self.text[:count], end=self.start + len(self.text[:count].encode(self.codec))
        )


class Line(NamedTuple):
    """A line without its end. As a rule it is one segment."""

    text: str
    segments: tuple[Segment, ...]

    def behind(self, count: int) -> Line:
        """The line without its first ``count`` code points."""
        out: list[Segment] = []
        left = count
        for segment in self.segments:
            if left < len(segment.text):
                out.append(segment.behind(left) if left else segment)
            left = max(0, left - len(segment.text))
        return Line(self.text[count:], tuple(out))


def line_of(segment: Segment) -> Line:
    return Line(segment.text, (segment,))


def text_lines(part: Part, blob: bytes, max_chars: int) -> list[Line]:
    """The lines of a text part, HTML as Markdown. Raises ``E_TOO_LARGE`` for more than ``max_chars`` code
    points, and what the readers of HTML raise."""
    # No charset takes more than 4 bytes for a code point, no transfer encoding more than 3 for a byte; HTML
    # may be markup for the most part.
    if part.kind != "text/html" and part.end - part.start > 12 * max_chars + 4:
        raise TabootError("E_TOO_LARGE", f"The message has more than {max_chars} characters.")
    if part.kind == "text/html":
        return _html_lines(part, blob)
    charset = part.params.get("charset")
    if part.payload is None and part.encoding == "identity":
        lines = list(_identity_lines(blob, part.start, part.end, charset))
    elif part.payload is None and part.encoding == "quoted-printable":
        lines = list(_quoted_printable_lines(blob, part.start, part.end, charset))
    else:
        content = part.content(blob)
        text = _text(content, charset_of(content, charset)[0])
        lines = [line_of(Segment(m[1], part.start, part.end)) for m in _TEXT_LINES.finditer(text)]
    if part.params.get("format", "").lower() == "flowed":
        lines = _unflowed(lines, part.params.get("delsp", "").lower() == "yes")
    return lines


def _text(data: bytes, codec: str) -> str:
    return data.decode(codec, "replace").removeprefix("\ufeff")


def _identity_lines(blob: bytes, start: int, end: int, charset: str | None) -> Iterator[Line]:
    raw = blob[start:end]
    codec, whole = charset_of(raw, charset)
    if codec.startswith(("utf-16", "utf-32")):
        for match in _TEXT_LINES.finditer(_text(raw, codec)):
            yield line_of(Segment(match[1], start, end))
        return
    if codec == "ascii" or (raw.isascii() and whole):
        for found in _TEXT_LINES.finditer(raw.decode("ascii")):
            a, b = found.span(1)
            yield Line(found[1], (Segment(found[1], start + a, start + b, "ascii"),))
        return
    for line in _LINES.finditer(raw):
        yield _line(line[1], start + line.start(1), start + line.end(1), codec)


def _line(raw: bytes, start: int, end: int, codec: str) -> Line:
    """A line that stands as it is in the message, exact where its charset allows that."""
    try:
        text = raw.decode(codec)
        exact = text.encode(codec) == raw and not codec.startswith(("iso2022", "utf-7", "hz"))
    except (UnicodeError, ValueError):
        text, exact = raw.decode(codec, "replace"), False
    return line_of(Segment(text, start, end, codec if exact else None))


def _quoted_printable_lines(blob: bytes, start: int, end: int, charset: str | None) -> Iterator[Line]:
    raw = blob[start:end]
    codec, _ = charset_of(qp_bytes(raw), charset)
    if codec.startswith(("utf-16", "utf-32")):
        for match in _TEXT_LINES.finditer(_text(qp_bytes(raw), codec)):
            yield line_of(Segment(match[1], start, end))
        return
    for found, a, b, _ in _logical_lines(raw):
        if b"=" not in found:
            # White space at a line's end was added on the way (RFC 2045, 6.7).
            stripped = found.rstrip(b" \t")
            yield _line(stripped, start + a, start + a + len(stripped), codec)
            continue
        text = qp_bytes(found).decode(codec, "replace")
        for match in _TEXT_LINES.finditer(text):
            if match[1] or match.end() < len(text) or not text:
                yield line_of(Segment(match[1], start + a, start + b))


def _logical_lines(raw: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Lines of quoted-printable, each with those that its soft line breaks join to it: the bytes without
    their end, where they begin and end, and where the next begins."""
    begin = -1
    for match in _LINES.finditer(raw):
        if begin < 0:
            begin = match.start()
        if match[2] and match[1].rstrip(b" \t").endswith(b"="):
            continue
        yield raw[begin : match.end(1)], begin, match.end(1), match.end()
        begin = -1
        if not match[2]:
            return


def _unflowed(lines: list[Line], delete_space: bool) -> list[Line]:
    """Paragraphs of ``format=flowed`` on one line each (RFC 3676)."""
    out: list[Line] = []
    open_depth = -1
    for line in lines:
        marks = _QUOTED.match(line.text)
        depth = marks.end() if marks else 0
        body = line.behind(depth) if depth else line
        if body.text.startswith(" "):
            body = body.behind(1)  # space-stuffing
        flows = body.text.endswith(" ") and body.text != "-- "
        if flows and delete_space:
            last = body.segments[-1]
            body = Line(body.text[:-1], (*body.segments[:-1], last.before(len(last.text) - 1)))
        if open_depth == depth and body.text != "-- ":
            before = out[-1]
            out[-1] = Line(before.text + body.text, before.segments + body.segments)
        elif depth:
            gap = Segment(" ", -1, -1)
            head = Segment(">" * depth, -1, -1)
            out.append(Line(f"{head.text} {body.text}", (head, gap, *body.segments)))
        else:
            out.append(body)
        open_depth = depth if flows else -1
    return out


def _html_lines(part: Part, blob: bytes) -> list[Line]:
    data = part.content(blob)
    declared = codec_of(part.params.get("charset"))
    ends: Array | None = None
    try:
        source, codec, mark = decode(data, None if declared == "ascii" else declared, html=True)
        ends = byte_ends(source, codec) + mark
    except TabootError:
        source = data.decode(charset_of(data, declared)[0], "replace")
    text, segments = join(render(source, parse(source)))
    if not segments:
        return []
    rows = np.array(segments, dtype=np.int64)
    if ends is not None and int(ends[-1]) == len(data):
        starts, stops = _carried(part, blob, len(data), ends[rows[:, 2]], ends[rows[:, 3]])
    else:
        starts, stops = np.full(len(rows), part.start), np.full(len(rows), part.end)
    lines: list[Line] = []
    k = 0
    for match in _TEXT_LINES.finditer(text):
        while k + 1 < len(rows) and rows[k, 1] <= match.start():
            k += 1
        lines.append(line_of(Segment(match[1], int(starts[k]), int(stops[k]))))
    return lines


def _carried(part: Part, blob: bytes, size: int, starts: Array, stops: Array) -> tuple[Array, Array]:
    """Ranges of what a part says, which has ``size`` bytes, as ranges of the blob: the same bytes, lines of
    quoted-printable, or the whole part."""
    if part.payload is None and part.encoding == "identity":
        return starts + part.start, stops + part.start
    if part.payload is None and part.encoding == "quoted-printable":
        said, stands = [0], [part.start]
        raw = blob[part.start : part.end]
        for found, _, end, after in _logical_lines(raw):
            said.append(said[-1] + len(qp_bytes(found)) + after - end)
            stands.append(part.start + after)
        if said[-1] == size:
            at, there = np.array(said), np.array(stands)
            first = np.searchsorted(at, starts, side="right") - 1
            last = np.searchsorted(at, stops, side="left")
            return there[first.clip(0, len(at) - 1)], there[last.clip(0, len(at) - 1)]
    return np.full(len(starts), part.start), np.full(len(stops), part.end)


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
