"""The texts that are attached to a mail: documents of their own."""

from __future__ import annotations

from taboot_pipelines.documents.forms.mail import MAIL, mail_of
from taboot_pipelines.documents.forms.mail_gmail import GMAIL, gmail_message
from taboot_pipelines.documents.forms.mail_parts import Part, attachment_name
from taboot_pipelines.documents.forms.mail_writing import attachments
from taboot_pipelines.documents.mime import BINARY, PLAIN, by_name, has_form, is_text
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Attached

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
