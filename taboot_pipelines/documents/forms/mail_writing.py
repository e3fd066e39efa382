"""The Markdown of a mail: its subject, a short head, what its writer wrote, a list of what is attached, and
at last what it quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from taboot_pipelines.documents.forms.mail_headers import (
    Address,
    Field,
    Fields,
    addresses,
    date_of,
    message_ids,
    words,
)
from taboot_pipelines.documents.forms.mail_parts import Part, attachment_name
from taboot_pipelines.documents.forms.mail_quotes import QUOTED, part_history
from taboot_pipelines.documents.forms.mail_text import (
    Line,
    Segment,
    encryption,
    is_armored,
    text_lines,
    without_signature,
)
from taboot_pipelines.documents.forms.writing import Formed, Writer
from taboot_pipelines.documents.metadata import Facts

#: Of a field's mailboxes so many are named in the document, and so many in its metadata.
_MAX_SHOWN = 20
_MAX_KEPT = 100
_HEAD = (("From", "from"), ("To", "to"), ("Cc", "cc"))
#: A heading, the underline of one, raw HTML that would run on to its end.
_MARKUP = re.compile(
    r" {0,3}(?:#{1,6}(?:[ \t]|\Z)|(?:=+|-+)[ \t]*\Z|<(?:pre|script|style|textarea|!--)(?![a-z]))",
    re.IGNORECASE,
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
#: Bytes of white space, also of the one that does not break.
_BLANK = b" \t\r\n\xc2\xa0"
#: Other forms of what another alternative says better.
_LESSER = frozenset(("text/enriched", "text/richtext", "text/x-amp-html", "text/watch-html"))


@dataclass(slots=True)
class Mail:
    """What a form knows of a message. ``blob``: the bytes that positions count in. ``date``: with the bytes
    that say it. ``labels`` and ``extra`` are facts that no field states."""

    blob: bytes
    root: Part
    date: tuple[datetime, int, int] | None = None
    labels: Sequence[str] = ()
    extra: dict[str, str] = field(default_factory=dict)


class MailWriter(Writer):
    """A document made from lines of a message."""

    def line(self, line: Line) -> None:
        """Write a line, without its end."""
        for text, start, end, codec in line.segments:
            if start < 0:
                self.put(text)
            elif codec is None:
                self.block(text, start, end)
            elif text.isascii() and end - start == len(text):
                self._run(text, start, end)
            else:
                self.exact(text, codec, start)

    def _run(self, text: str, start: int, end: int) -> None:
        if text:
            self._rows.append((self.length, self.length + len(text), start, end, 1))
            self.put(text)


def write_mail(mail: Mail, max_chars: int) -> Formed:
    """The document of a mail. Raises ``E_TOO_LARGE``."""
    fields = mail.root.fields
    out = MailWriter(max_chars)
    subject = fields.value("subject")
    _heading(out, mail.blob, fields.get("subject"), subject)
    _head(out, mail, fields)
    bodies, attached = _arranged(mail, mail.root)
    lines: list[Line] = []
    for body in bodies:
        if is_armored(body, mail.blob):
            continue
        if lines:
            lines.append(Line("", ()))
        text = text_lines(body, mail.blob, max_chars)
        lines += _trimmed(text if body.kind == "text/html" else _as_markdown(without_signature(text)))
    parted = part_history(lines, subject)
    if own := _trimmed(parted.own):
        out.put("\n")
        _body(out, own)
    if sealed := encryption(mail.root, mail.blob, has_text=bool(lines)):
        out.put(f"\nThe text is encrypted ({sealed}): only its key reads it.\n")
    if attached:
        out.put("\nAttachments:\n\n")
        for part in attached:
            size = part.size(mail.blob)
            kind = f"{part.kind}, {size:,} bytes" if size else part.kind
            what = f"- {attachment_name(part, mail.blob)} ({kind})"
            out.block(what, part.head, max(part.start, part.head + 1))
            out.put("\n")
    if parted.quotes:
        _history(out, parted.quotes)
    facts = _facts(mail, subject)
    facts.put("encrypted", sealed)
    return Formed(out.text, out.offsets(), facts)


def _heading(out: MailWriter, blob: bytes, field: Field | None, subject: str) -> None:
    out.put("# ")
    if field is None or not subject:
        out.put("(no subject)")
    else:
        _value(out, blob, field, subject)
    out.put("\n\n")


def _value(out: MailWriter, blob: bytes, field: Field, text: str) -> None:
    """Write what a field says: exactly where it stands so, else as a whole."""
    if blob[field.start : field.end] == text.encode("utf-8", "replace"):
        out.exact(text, "utf-8", field.start)
    else:
        out.block(text, field.start, field.end)


def _head(out: MailWriter, mail: Mail, fields: Fields) -> None:
    for title, name in _HEAD:
        for stated in fields.named(name):
            found = addresses([stated])
            text = ", ".join(map(str, found[:_MAX_SHOWN])) or words(stated.value)[:500]
            if len(found) > _MAX_SHOWN:
                text += f" and {len(found) - _MAX_SHOWN} more"
            if text:
                out.put(f"- {title}: ")
                _value(out, mail.blob, stated, text)
                out.put("\n")
    if mail.date is not None:
        when, start, end = mail.date
        out.put("- Date: ")
        out.block(when.strftime("%Y-%m-%d %H:%M %z"), start, end)
        out.put("\n")


def _arranged(mail: Mail, part: Part) -> tuple[list[Part], list[Part]]:
    """The texts that a part shows, and what is attached to it. Depth is that of the parts, which is
    bounded."""
    if not part.parts:
        shown = (
            part.kind in ("text/plain", "text/html")
            and part.disposition != "attachment"
            and not part.reference
            and (not part.name or part is mail.root)
        )
        return ([part], []) if shown else ([], [part])
    if part.kind == "multipart/alternative":
        return _alternative(mail, part)
    read = part.parts
    if part.kind == "multipart/related":
        start = part.params.get("start", "")
        named = (child for child in part.parts if start and child.fields.value("content-id") == start)
        read = [next(named, part.parts[0])]
    elif part.kind in ("multipart/signed", "multipart/report"):
        read = part.parts[:1]
    bodies: list[Part] = []
    attached: list[Part] = []
    for child in part.parts:
        if any(child is one for one in read):
            texts, others = _arranged(mail, child)
            bodies += texts
            attached += others
        else:
            attached += [leaf for leaf in child.walk() if not leaf.parts]
    return bodies, attached


def _alternative(mail: Mail, part: Part) -> tuple[list[Part], list[Part]]:
    """The plain text of several forms of one text, else the first that shows any."""
    best: list[Part] = []
    others: dict[int, list[Part]] = {}
    for child in sorted(part.parts, key=lambda child: not _is_plain(child)):
        texts, others[id(child)] = ([], _attached(child)) if best else _arranged(mail, child)
        if any(text.content(mail.blob).strip(_BLANK) for text in texts):
            best = texts
    return best, [
        leaf for child in part.parts for leaf in others[id(child)] if leaf.kind not in _LESSER or leaf.name
    ]


def _is_plain(part: Part) -> bool:
    kinds = {leaf.kind for leaf in part.walk() if leaf.disposition != "attachment"}
    return "text/plain" in kinds and "text/html" not in kinds


def _attached(part: Part) -> list[Part]:
    """What is attached to a form of a text that is not shown."""
    return [
        leaf
        for leaf in part.walk()
        if not leaf.parts
        and (leaf.kind not in ("text/plain", "text/html") or leaf.name or leaf.disposition == "attachment")
    ]


def attachments(mail: Mail) -> list[Part]:
    """What is attached to a mail, in the order of its list."""
    return _arranged(mail, mail.root)[1]


def _trimmed(lines: Sequence[Line]) -> list[Line]:
    """The lines without blank ones before and after them."""
    first, last = 0, len(lines)
    while first < last and not lines[first].text.strip():
        first += 1
    while last > first and not lines[last - 1].text.strip():
        last -= 1
    return list(lines[first:last])


def _as_markdown(lines: Sequence[Line]) -> list[Line]:
    """Lines of plain text that Markdown shows as they are: what is a heading, an underline or raw HTML by
    chance is escaped. What is fenced is code."""
    out: list[Line] = []
    fence = ""
    for line in lines:
        text = line.text
        if fence:
            fence = "" if _ends(text, fence) else fence
        elif (mark := _FENCE.match(text)) is not None:
            fence = mark[1]
        elif _MARKUP.match(text):
            line = _escaped(line)
        out.append(line)
    return out


def _escaped(line: Line) -> Line:
    return Line("\\" + line.text, (Segment("\\", -1, -1), *line.segments))


def _ends(text: str, fence: str) -> bool:
    stripped = text.strip()
    return stripped.startswith(fence) and not stripped.strip(fence[0])


def _body(out: MailWriter, lines: Iterable[Line]) -> None:
    """Write the text. A fence that is open at its end is closed."""
    fence = ""
    for line in lines:
        if fence:
            fence = "" if _ends(line.text, fence) else fence
        elif (mark := _FENCE.match(line.text)) is not None:
            fence = mark[1]
        out.line(_escaped(line) if line.text.strip() == QUOTED else line)
        out.put("\n")
    if fence:
        out.put(f"{fence}\n")


def _history(out: MailWriter, quotes: Sequence[Sequence[Line]]) -> None:
    out.put(f"\n{QUOTED}\n")
    for number, quote in enumerate(quotes, 1):
        out.put(f"\nQuote {number}:\n\n" if len(quotes) > 1 else "\n")
        for line in _trimmed(quote):
            if not line.text.lstrip().startswith(">"):
                out.put("> " if line.text.strip() else ">")
            out.line(line)
            out.put("\n")


def _facts(mail: Mail, subject: str) -> Facts:
    fields = mail.root.fields
    facts = Facts(title=subject, date=mail.date[0] if mail.date is not None else None)
    senders = addresses(fields.named("from")) or addresses(fields.named("sender"))
    own = message_ids(fields.named("message-id"))[:1]
    parents = message_ids(fields.named("in-reply-to"))
    references = message_ids(fields.named("references"))
    thread = next(iter([*references, *parents, *own]), "")
    facts.put("author", ", ".join(map(str, senders[:_MAX_SHOWN])))
    facts.put("message_id", own[0] if own else "")
    facts.put("in_reply_to", parents[0] if parents else "")
    facts.put("thread", thread)
    facts.put("list_id", (message_ids(fields.named("list-id")) or [fields.value("list-id")])[0])
    facts.put("canonical_url", (message_ids(fields.named("archived-at")) or [""])[0])
    for name, found in (
        ("references", references),
        ("from", _kept(senders)),
        ("to", _kept(addresses(fields.named("to")))),
        ("cc", _kept(addresses(fields.named("cc")))),
        ("labels", [*dict.fromkeys(filter(None, (*mail.labels, *_labels(fields))))]),
    ):
        if found:
            facts.metadata[name] = [text[:500] for text in found[:_MAX_KEPT]]
    for name, text in mail.extra.items():
        facts.put(name, text)
    facts.lang = fields.value("content-language").partition(",")[0].strip()[:20]
    return facts


def _kept(found: Sequence[Address]) -> list[str]:
    return [str(address) for address in found]


def _labels(fields: Fields) -> Iterable[str]:
    """Labels that programs write into a message: Google Takeout and Dovecot."""
    for name in ("x-gmail-labels", "keywords", "x-keywords"):
        for stated in fields.named(name):
            for label in words(stated.value).split("," if name != "x-keywords" else None):
                yield label.strip()


def mail_date(fields: Fields) -> tuple[datetime, int, int] | None:
    """When a message was sent, and the bytes that say so."""
    found = date_of(fields)
    return None if found is None else (found[0], found[1].start, found[1].end)
