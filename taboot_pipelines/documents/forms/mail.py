"""A mail message (RFC 5322, MIME) as Markdown: from a file or the Gmail API; and the texts attached to it.

The document is for people: ``# Subject``, a short head, the text, a list of what is attached, and below
``## Quoted history`` what the mail repeats of those before it. What is broken (charsets, transfer encodings,
headers, boundaries) is read as far as it can be; only what is no mail at all, or larger than bounds, is
refused. Files in the text itself, as programs wrote them before MIME (uuencode, yEnc), are taken out.

With ``format=full`` the resource of the Gmail API (``users.messages.get``) has the tree of parts, with fields
as strings and contents in base64url; positions are those of the strings in the JSON. With ``format=raw`` it
has the whole message in one string, which all of the document then leads to.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from taboot_pipelines.documents.encoding import byte_ends
from taboot_pipelines.documents.forms.mail_headers import Field, Fields, base64_bytes, unfolded, words
from taboot_pipelines.documents.forms.mail_parts import (
    MAX_DEPTH,
    MAX_PARTS,
    Part,
    attachment_name,
    file_name,
    part_of,
    read_message,
    too_deep,
    too_many_parts,
)
from taboot_pipelines.documents.forms.mail_text import open_signed
from taboot_pipelines.documents.forms.mail_writing import Mail, attachments, mail_date, write_mail
from taboot_pipelines.documents.forms.writing import Formed, Given
from taboot_pipelines.documents.mime import BINARY, PLAIN, RESOURCE, by_name, has_form, is_text
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.model.records import Attached

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


MAIL = "message/rfc822"


def mail(data: bytes, given: Given) -> Formed:
    """The document of one message. A form.

    Its map is exact where text stands as it is in the message, else leads to lines of quoted-printable or to
    the whole part. Raises ``E_PARSE`` for bytes that begin with no field of mail, ``E_TOO_LARGE`` beyond the
    bounds of ``mail_parts``, ``mail_headers`` and ``given.max_chars``.
    """
    return write_mail(mail_of(data), given.max_chars)


def mail_of(data: bytes) -> Mail:
    """What the form knows of a message. Raises as :func:`mail`."""
    root = read_message(data)
    take_out_files(root, data)
    open_signed(root, data)
    return Mail(data, root, mail_date(root.fields))


GMAIL = f"{RESOURCE}gmail+json"
#: Labels that say what was done with a message in the mailbox, and nothing of it.
VOLATILE_LABELS = frozenset(("UNREAD",))


def gmail(data: bytes, given: Given) -> Formed:
    """The document of a message resource. A form.

    Raises ``E_PARSE`` for what is no JSON or no message with its parts, ``E_ENCODING`` for what is not UTF-8,
    ``E_TOO_LARGE`` as mail does.
    """
    bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    try:
        source = data[bom:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise TabootError(
            "E_ENCODING", f"The JSON is no UTF-8 at byte {error.start + bom}.", byte=error.start + bom
        ) from None
    resource = parse(source)
    mail = _mail(data, resource, _Places(source, bom))
    formed = write_mail(mail, given.max_chars)
    raw = resource.at("raw")
    if mail.blob is data or raw is None:
        return formed
    start, end = _Places(source, bom).inside(raw)
    return Formed(formed.text, OffsetMap.of([(0, len(formed.text), start, end, 0)]), formed.facts)


def gmail_message(data: bytes) -> Mail:
    """The message in a resource. Raises ``E_PARSE``, ``E_TOO_LARGE``."""
    source = data.decode("utf-8-sig", "replace")
    return _mail(data, parse(source), _Places(source, 0))


def _mail(data: bytes, resource: Value, places: _Places) -> Mail:
    names = {label.string("id"): label.string("name") for label in resource.items("labels")}
    labels = [names.get(v.data) or v.data for v in resource.items("labelIds") if isinstance(v.data, str)]
    thread = resource.string("threadId")
    extra = {
        "gmail_id": resource.string("id"),
        "gmail_thread_id": thread,
        "canonical_url": f"https://mail.google.com/mail/#all/{thread}" if thread.isalnum() else "",
    }
    kept = [label for label in labels if label not in VOLATILE_LABELS]
    payload = resource.at("payload")
    if raw := resource.string("raw"):
        blob = base64url(raw)
        root = read_message(blob)
        take_out_files(root, blob)
    elif payload is not None and (payload.at("headers") or payload.at("body")):
        blob, root = data, _tree(payload, places)
    else:
        raise TabootError(
            "E_PARSE",
            "This is no message of the Gmail API: it has neither `payload` nor `raw`.",
            remedy="Ask for messages with format=full.",
        )
    open_signed(root, blob)
    date = mail_date(root.fields) or _received(resource, places)
    return Mail(blob, root, date, kept, extra)


class _Places:
    """Where code points of the JSON stand in the blob."""

    def __init__(self, source: str, bom: int) -> None:
        self._source = source
        self._bom = bom
        self._ends = None if source.isascii() else byte_ends(source, "utf-8")

    def _byte(self, position: int) -> int:
        return self._bom + (position if self._ends is None else int(self._ends[position]))

    def text(self, value: Value) -> str:
        """A value as it stands in the JSON."""
        return self._source[value.start : value.end]

    def inside(self, value: Value) -> tuple[int, int]:
        """The bytes of a string without its quotes."""
        return self._byte(value.start + 1), self._byte(value.end - 1)


def _received(resource: Value, places: _Places) -> tuple[datetime, int, int] | None:
    """When the mailbox got the message (``internalDate``)."""
    when, value = resource.integer("internalDate"), resource.at("internalDate")
    if when is None or value is None:
        return None
    try:
        # The number stands in quotes, or does not.
        first, last = places.inside(value)
        return datetime.fromtimestamp(when / 1000, UTC), first, max(first + 1, last)
    except (ValueError, OverflowError, OSError):
        return None


def _tree(payload: Value, places: _Places) -> Part:
    root = _part(payload, places)
    todo = [(root, payload, 0)]
    count = 1
    while todo:
        part, said, depth = todo.pop()
        if not part.kind.startswith("multipart/"):
            continue
        if depth >= MAX_DEPTH:
            raise too_deep()
        for child in said.items("parts"):
            count += 1
            if count > MAX_PARTS:
                raise too_many_parts()
            part.parts.append(_part(child, places))
            todo.append((part.parts[-1], child, depth + 1))
        if not part.parts:
            part.kind = "text/plain"
    return root


def _part(said: Value, places: _Places) -> Part:
    fields = []
    for header in said.items("headers"):
        value = header.at("value")
        name = header.string("name").strip().lower()
        if value is not None and isinstance(value.data, str) and name:
            fields.append(Field(name, unfolded(value.data), *places.inside(value)))
    data = said.at("body", "data")
    start, end = places.inside(data) if data is not None and isinstance(data.data, str) else (0, 0)
    first = fields[0].start if fields else start
    part = part_of(Fields(fields), first, start, end)
    part.kind = said.string("mimeType").strip().lower() or part.kind
    part.name = part.name or file_name(said.string("filename"))
    part.encoding = "identity"
    part.payload = base64url(said.string("body", "data"))
    if not part.payload:
        part.reference = said.string("body", "attachmentId")
        part.stated_size = said.integer("body", "size") or 0
    nested = said.at("parts", 0) if part.kind == "message/rfc822" else None
    if nested is not None:
        if not part.name:
            subject = next(
                (h.string("value") for h in nested.items("headers") if h.string("name").lower() == "subject"),
                "",
            )
            part.name = f"{words(subject) or 'message'}.eml"
        # Its fields and parts are in the resource: they make a resource of their own.
        part.payload = f'{{"payload": {places.text(nested)}}}'.encode("utf-8", "replace")
    if b"\x1b" not in part.payload and _is_utf8(part.payload):
        # The API gives text in UTF-8, whatever the field says that it once was.
        part.params["charset"] = "utf-8"
    return part


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def base64url(text: str) -> bytes:
    """The bytes that base64url says, with or without padding."""
    try:
        raw = text.encode("ascii").translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
        return binascii.a2b_base64(raw + b"=" * (-len(raw) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return base64_bytes(text.encode("ascii", "ignore").translate(bytes.maketrans(b"-_", b"+/")))


#: Messages that hold messages are opened so deep, and of all together so many texts are taken: each message
#: holds all those in it once more.
MAX_NESTED = 8
MAX_TEXTS = 500
#: What says of a file that it holds secrets, and signatures, which nobody reads.
_NOT_DOCUMENTS = frozenset(("text/x-dotenv", "application/pgp-signature", "application/pkcs7-signature"))


def attached_texts(data: bytes, mime: str) -> list[Attached]:
    """The texts that are attached to a mail of the type ``mime`` (a message, or a resource of Gmail's API),
    in their order: text of any kind, configuration, and messages, with what is attached to these. None for
    bytes that are no mail, or too much of one."""
    found: list[Attached] = []
    todo: list[tuple[bytes, str, str, int]] = [(data, mime, "", 0)]
    while todo and len(found) < MAX_TEXTS:
        blob, kind, prefix, depth = todo.pop(0)
        try:
            mail = gmail_message(blob) if kind == GMAIL else mail_of(blob)
            parts = attachments(mail)
        except TabootError:
            continue
        for number, part in enumerate(parts, 1):
            name = attachment_name(part, mail.blob)
            said = _type(part, name)
            if said is None or len(found) >= MAX_TEXTS:
                continue
            path = f"{prefix}{number}-{name}"
            if part.payload is not None and not part.payload:
                if part.reference:
                    found.append(Attached(path, said, part.params.get("charset"), None, part.reference))
                continue
            content = part.content(mail.blob)
            if not content.strip():
                continue
            if said == MAIL and mail.blob is blob and kind == GMAIL:
                said = GMAIL
            found.append(Attached(path, said, part.params.get("charset"), content))
            if said in (MAIL, GMAIL) and depth < MAX_NESTED:
                todo.append((content, said, f"{path}#", depth + 1))
    return found


def _type(part: Part, name: str) -> str | None:
    """The media type of an attached text; None for anything else."""
    named = by_name(name)
    kind = part.kind
    if kind in ("text/rfc822-headers", "message/delivery-status", "message/disposition-notification"):
        kind = PLAIN
    if named is not None and kind in (PLAIN, BINARY, "application/x-yaml", "application/yaml"):
        kind = named
    if kind in _NOT_DOCUMENTS or named in _NOT_DOCUMENTS:
        return None
    return kind if is_text(kind) or has_form(kind) else None
