"""The parts of a MIME message (RFC 2045, 2046), each with the bytes where it stands.

The standard library's parser keeps no positions, recurses, and compares each line with every boundary that is
open, so that depth multiplies its time. This one goes through the bytes once; the tests hold it to the
library's tree.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taboot_pipelines.documents.forms.mail_headers import (
    Fields,
    base64_bytes,
    parameters,
    read_fields,
    words,
)
from taboot_pipelines.errors import TabootError

#: A message of more parts, or of multiparts nested deeper, is none that a person wrote.
MAX_PARTS = 2_000
MAX_DEPTH = 100

_REST = re.compile(rb"[^\r\n]*")
#: Without a declared boundary, the first line that looks like one and is followed by a field.
_GUESS = re.compile(
    rb"(?<=[\r\n])--([^\r\n \t][^\r\n]{0,80}?)[ \t]*(?:\r\n|\r|\n)Content-[A-Za-z-]+:", re.IGNORECASE
)
#: It is looked for in so many bytes.
_MAX_GUESS = 65_536
#: So far before its first part the boundary of a multipart is looked for.
_MAX_PREAMBLE = 1_048_576
_BREAK = re.compile(rb"\r\n|\r|\n")
_PADDED_BREAK = re.compile(rb"=[ \t]+(?=[\r\n]|\Z)")
_YENC_ESCAPE = re.compile(rb"=(.)", re.DOTALL)
_YENC = bytes((byte - 42) & 255 for byte in range(256))
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:]+")
_IDENTITY = ("", "7bit", "8bit", "binary")
_UU_BEGIN = re.compile(rb"(?:\A|(?<=[\r\n]))begin [0-7]{3,4} [^\r\n]*(?:\r\n|\r|\n)")
#: Any of these says that bytes are a message.
_MAIL_FIELDS = frozenset(
    (
        "from",
        "to",
        "subject",
        "date",
        "message-id",
        "received",
        "mime-version",
        "return-path",
        "delivered-to",
        "sender",
        "cc",
        "bcc",
        "reply-to",
        "in-reply-to",
        "references",
        "content-type",
    )
)


@dataclass(slots=True)
class Part:
    """A message or a part of one. ``kind``: its media type. ``name``: of its file, if it has one.
    ``encoding``: how its bytes ``[start, end)`` of the blob are encoded: ``identity``, ``quoted-printable``,
    ``base64``, ``uuencode`` or ``yenc``; ``payload``: what they say, where the blob keeps them otherwise, and
    ``stated_size`` how much that is, where it does not keep them but a ``reference`` to them. ``head``: where
    its fields begin. ``parts``: of a multipart."""

    fields: Fields
    kind: str
    params: dict[str, str]
    disposition: str
    name: str
    encoding: str
    head: int
    start: int
    end: int
    payload: bytes | None = None
    stated_size: int | None = None
    reference: str = ""
    parts: list[Part] = field(default_factory=list)

    def content(self, blob: bytes) -> bytes:
        """What the part says, its transfer encoding undone."""
        if self.payload is not None:
            return self.payload
        raw = blob[self.start : self.end]
        if self.encoding == "base64":
            return base64_bytes(raw)
        if self.encoding == "quoted-printable":
            return qp_bytes(raw)
        if self.encoding == "uuencode":
            return uu_bytes(raw)
        return yenc_bytes(raw) if self.encoding == "yenc" else raw

    def size(self, blob: bytes) -> int:
        """How many bytes :meth:`content` has, without making it of base64."""
        if self.stated_size is not None:
            return self.stated_size
        if self.payload is None and self.encoding == "base64":
            letters = len(blob[self.start : self.end].translate(None, b" \t\r\n="))
            return letters * 3 // 4
        if self.payload is None and self.encoding == "identity":
            return self.end - self.start
        return len(self.content(blob))

    def walk(self) -> Iterator[Part]:
        """This part and all that it holds, in their order."""
        stack = [self]
        while stack:
            part = stack.pop()
            yield part
            stack.extend(reversed(part.parts))


def part_of(fields: Fields, head: int, start: int, end: int, default: str = "text/plain") -> Part:
    """A part by its fields, which are read as mail programs do that meet broken ones."""
    stated = fields.get("content-type")
    kind, params = parameters(stated.value, default) if stated is not None else (default, {})
    if kind.count("/") != 1 or not all(kind.split("/")):
        short = {"text": "text/plain", "html": "text/html", "multipart": "multipart/mixed"}
        kind = short.get(kind, "text/plain")
    placed = fields.get("content-disposition")
    disposition, extra = parameters(placed.value, "") if placed is not None else ("", {})
    name = file_name(extra.get("filename") or params.get("name") or "")
    coding = fields.value("content-transfer-encoding").partition(";")[0].partition("(")[0]
    return Part(fields, kind, params, disposition, name, _encoding(coding), head, start, end)


def file_name(stated: str) -> str:
    """The name of an attached file, without directories and controls. A dot before it stays: it says that
    ``.env`` is one."""
    return _UNSAFE.sub("_", stated).lstrip(" ").rstrip(" .")[:200]


def _encoding(stated: str) -> str:
    name = re.sub(r"[\s\"']", "", stated).lower()
    if name in ("base64", "b", "base-64"):
        return "base64"
    if name.replace("-", "") in ("quotedprintable", "qp", "q"):
        return "quoted-printable"
    return "uuencode" if name in ("x-uuencode", "uuencode", "x-uue", "uue") else "identity"


def read_message(data: bytes) -> Part:
    """The message in ``data`` with all its parts; messages within it are parts that are not gone into.

    Raises ``E_PARSE`` for bytes without a field that mail has, ``E_TOO_LARGE`` beyond :data:`MAX_PARTS`,
    :data:`MAX_DEPTH` or the bounds of header sections.
    """
    at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while data[at : at + 1] in (b"\r", b"\n"):
        at += 1
    fields, body = read_fields(data, at)
    if not any(field.name in _MAIL_FIELDS for field in fields.all):
        raise TabootError("E_PARSE", "This is no mail message: it begins with no header field.")
    root = part_of(fields, at, body, len(data))
    _Scanner(data, root).run()
    return root


def read_entity(data: bytes) -> Part:
    """As :func:`read_message`, of what another layer held, which need have no fields."""
    fields, body = read_fields(data, 0)
    root = part_of(fields, 0, body, len(data))
    _Scanner(data, root).run()
    return root


def too_many_parts() -> TabootError:
    return TabootError(
        "E_TOO_LARGE", f"The message has more than {MAX_PARTS} parts.", remedy="Exclude the message."
    )


def too_deep() -> TabootError:
    return TabootError(
        "E_TOO_LARGE",
        f"The message has multiparts nested more than {MAX_DEPTH} deep.",
        remedy="Exclude the message.",
    )


class _Scanner:
    """Finds the parts of a multipart and of those in it: one pass over the lines that begin with ``--``."""

    def __init__(self, data: bytes, root: Part) -> None:
        self.data = data
        self.root = root
        #: The multiparts that are open, outermost first, each with its boundary; and which one it names.
        self.stack: list[tuple[Part, bytes]] = []
        self.open: dict[bytes, int] = {}
        self.count = 1

    def run(self) -> None:
        self.enter(self.root)
        data = self.data
        opening = b"\n--" if b"\n" in data else b"\r--"
        at = self.root.start
        while self.stack and (before := data.find(opening, max(at - 1, 0))) >= 0:
            match = _REST.match(data, before + 1)
            assert match is not None
            at = match.end()
            line = match[0][2:].rstrip(b" \t")
            if line in self.open:
                self.cut(self.open[line], before)
                after = _BREAK.match(data, at)
                at = self.child(self.stack[-1][0], after.end() if after is not None else at)
            elif line.endswith(b"--") and line[:-2] in self.open:
                self.cut(self.open[line[:-2]], before)
                del self.open[self.stack.pop()[1]]
        for part in self.root.walk():
            # A multipart in which no boundary was found is text, as the standard library takes it.
            if part.kind.startswith("multipart/") and not part.parts:
                part.kind = "text/plain"

    def enter(self, part: Part) -> None:
        """Open a part if it is a multipart with a boundary that no other has."""
        if not part.kind.startswith("multipart/"):
            return
        boundary = part.params.get("boundary", "").rstrip().encode("utf-8", "replace")
        if (not boundary or not self.occurs(boundary, part.start)) and (
            guess := _GUESS.search(self.data, part.start, part.start + _MAX_GUESS)
        ):
            boundary = guess[1]
        if not boundary or boundary in self.open:
            return
        if len(self.stack) >= MAX_DEPTH:
            raise too_deep()
        self.open[boundary] = len(self.stack)
        self.stack.append((part, boundary))

    def occurs(self, boundary: bytes, start: int) -> bool:
        """Whether a boundary that is declared is there. Many are far away only if many are missing."""
        return self.data.find(b"--" + boundary, start, start + _MAX_PREAMBLE) >= 0

    def child(self, parent: Part, head: int) -> int:
        """Begin a part, and return where its body does."""
        self.count += 1
        if self.count > MAX_PARTS:
            raise too_many_parts()
        fields, body = read_fields(self.data, head)
        default = "message/rfc822" if parent.kind == "multipart/digest" else "text/plain"
        part = part_of(fields, head, body, len(self.data), default)
        parent.parts.append(part)
        self.enter(part)
        return body

    def cut(self, depth: int, line_break: int) -> None:
        """End the last part of the multipart at ``depth``, and all that is open in it, before the line break
        that ends at ``line_break``: it belongs to the boundary behind it."""
        at = line_break - (self.data[line_break - 1 : line_break + 1] == b"\r\n")
        while True:
            parts = self.stack[-1][0].parts
            if parts and parts[-1].end > at:
                parts[-1].end = max(parts[-1].start, at)
            if len(self.stack) <= depth + 1:
                return
            del self.open[self.stack.pop()[1]]


def qp_bytes(raw: bytes) -> bytes:
    """What quoted-printable says. White space behind a soft line break was added on the way (RFC 2045,
    6.7)."""
    return binascii.a2b_qp(_PADDED_BREAK.sub(b"=", raw) if b"= " in raw or b"=\t" in raw else raw)


def yenc_bytes(raw: bytes) -> bytes:
    """What yEnc says, less its lines that begin with ``=y``."""
    lines = (line for line in raw.replace(b"\r\n", b"\n").split(b"\n") if not line.startswith(b"=y"))
    shifted = b"".join(lines)
    if b"=" in shifted:
        shifted = _YENC_ESCAPE.sub(lambda match: bytes(((match[1][0] - 64) & 255,)), shifted)
    return shifted.translate(_YENC)


def uu_bytes(raw: bytes) -> bytes:
    """What uuencoded lines say; lines that say nothing are passed over."""
    begin = _UU_BEGIN.search(raw)
    out: list[bytes] = []
    for line in raw[begin.end() if begin else 0 :].splitlines():
        if line.strip() == b"end":
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders write a line too long or too short; its first letter says how much counts.
            length = (((line[0] - 32) & 63) * 4 + 5) // 3 if line else 0
            try:
                out.append(binascii.a2b_uu(line[:length]))
            except binascii.Error:
                continue
    return b"".join(out)


def nested_subject(part: Part, blob: bytes) -> str:
    """The subject of a message that is a part; empty where it has none."""
    if part.payload is None and part.encoding == "identity":
        fields, _ = read_fields(blob[part.start : min(part.end, part.start + 65_536)], 0)
    else:
        fields, _ = read_fields(part.content(blob)[:65_536], 0)
    return words(fields.value("subject"))


def attachment_name(part: Part, blob: bytes) -> str:
    """What to call an attachment: its file's name, the subject of a message, else by its type."""
    if part.name:
        return part.name
    if part.kind == "message/rfc822":
        subject = file_name(nested_subject(part, blob))[:100]
        return f"{subject or 'message'}.eml"
    return {"text/plain": "part.txt", "text/html": "part.html", "text/calendar": "invitation.ics"}.get(
        part.kind, "part"
    )
