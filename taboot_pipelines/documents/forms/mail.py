"""A message of mail (RFC 5322, MIME) as Markdown.

The document is for people: ``# Subject``, a short head, the text, a list of what is attached, and below
``## Quoted history`` what the mail repeats of those before it. What is broken (charsets, transfer encodings,
headers, boundaries) is read as far as it can be; only what is no mail at all, or larger than bounds, is
refused.
"""

from __future__ import annotations

from taboot_pipelines.documents.forms.form import Formed, Given
from taboot_pipelines.documents.forms.mail_inline import take_out_files
from taboot_pipelines.documents.forms.mail_parts import read_message
from taboot_pipelines.documents.forms.mail_sealed import open_signed
from taboot_pipelines.documents.forms.mail_writing import Mail, mail_date, write_mail

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
