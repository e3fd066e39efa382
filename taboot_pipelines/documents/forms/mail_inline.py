"""Files that stand in the text of a mail, as programs wrote them before MIME: uuencode and yEnc."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.documents.forms.mail_headers import Fields
from taboot_pipelines.documents.forms.mail_parts import MAX_PARTS, Part, file_name
from taboot_pipelines.documents.mime import BINARY

_END = rb"(?:\r\n|\r|\n)"
_UUENCODED = re.compile(
    rb"(?:\A|(?<=[\r\n]))begin [0-7]{3,4} ([^\r\n]{1,500})"
    + _END
    + rb"(?:[\x20-\x60]{1,100}"
    + _END
    + rb")+end[ \t]*(?=[\r\n]|\Z)"
)
_YENC = re.compile(
    rb"(?:\A|(?<=[\r\n]))=ybegin [^\r\n]{0,200}?name=([^\r\n]{1,500})" + _END + rb"(?s:.*?)\n=yend[^\r\n]*"
)


def take_out_files(root: Part, blob: bytes) -> None:
    """Make parts of their own of the files in the plain texts of a message."""
    for part in list(root.walk()):
        if part.parts or part.kind != "text/plain" or part.encoding != "identity" or part.payload is not None:
            continue
        found = sorted(_files(part, blob), key=lambda file: file.start)
        at = part.start
        pieces: list[Part] = []
        for file in found[: MAX_PARTS // 2]:
            if file.start < at:
                continue
            pieces += [*_text(part, blob, at, file.start), file]
            at = file.end
        if pieces:
            part.parts = [*pieces, *_text(part, blob, at, part.end)]
            part.kind = "multipart/mixed"


def _files(part: Part, blob: bytes) -> Iterator[Part]:
    raw = blob[part.start : part.end]
    for encoding, mark, pattern in (
        ("uuencode", b"begin ", _UUENCODED),
        ("yenc", b"\n=yend", _YENC),
    ):
        if mark not in raw:
            continue
        for match in pattern.finditer(raw):
            first, last = part.start + match.start(), part.start + match.end()
            name = file_name(match[1].decode("utf-8", "replace"))
            yield Part(Fields(()), BINARY, {}, "attachment", name, encoding, first, first, last)


def _text(part: Part, blob: bytes, start: int, end: int) -> list[Part]:
    """The text between two files, if there is any."""
    if not blob[start:end].strip():
        return []
    return [Part(Fields(()), "text/plain", part.params, "", "", "identity", part.head, start, end)]
