"""Mail in files: single messages, mbox, Maildir, messages of Apple Mail, recorded resources of the Gmail API.

An mbox is read as a stream, one message at a time. Its dialects (RFC 4155; mboxo, mboxrd, mboxcl, mboxcl2)
are told apart by what stands in it: a ``Content-Length`` that leads to the next message counts, else a
message ends before a blank line and a line ``From … 10:00 …`` with fields behind it. A quoted ``>From ``
loses one ``>``.

A message of an mbox is called by its message id and a hash of what stands in it, so that none moves when
another one goes, also of those with one id, and none when it is marked as read. Only messages that are equal
are numbered. The flags that a Maildir's file names carry, and whether a message is new, are no part of its
path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import BinaryIO

from taboot_pipelines.connectors.access import Attachments
from taboot_pipelines.connectors.recorded import LeftOut, Part, RecordedFile, RecordedFiles
from taboot_pipelines.connectors.walk import Directory, File, Listing
from taboot_pipelines.errors import TabootError

MAIL = "message/rfc822"
RESOURCE = "application/vnd.taboot.gmail+json"
#: What a folder of mail is read for, where its entry says nothing.
DEFAULT_INCLUDE = (
    *("*.eml", "*.emlx", "*.mbox", "*.mbx", "*.json", "cur/*", "**/cur/*"),
    # How mail programs call an mbox that has no ending (in any case), but no directory of that name.
    # Thunderbird keeps the folders of a folder in `….sbd`.
    *("[m]box", "[i]nbox", "[s]ent", "[d]rafts", "[a]rchive", "[a]rchives", "**/*.sbd/*"),
    # What is not read is told.
    *("*.msg", "*.pst", "*.ost", "*.mbox.gz", "*.mbox.zip", "*.eml.gz"),
)
#: How files begin that hold mail in a form that is not read, what they are, and what to do about them.
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a message in Outlook's own form: save it as `.eml`"),
    (b"!BDN", "a store of Outlook: export its folders as `.eml` or mbox"),
    (b"\x1f\x8b", "compressed: unpack it"),
    (b"PK\x03\x04", "a ZIP archive: unpack it"),
    (b"// <!-- <mdb:mork", "an index of Thunderbird, whose mail is in the file beside it"),
)
#: No line is held of which more than so much was read.
_MAX_LINE = 1_048_576
#: How much of a file says what it is.
_HEAD = 65_536

_FROM = b"From "
_TIME = re.compile(rb"From .*\d{1,2}:\d{2}")
_FIELD = re.compile(rb"[\x21-\x39\x3b-\x7e]+[ \t]*:|>?From ")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_LENGTH = re.compile(rb"^Content-Length:[ \t]*([0-9]{1,15})[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_MESSAGE_ID = re.compile(
    rb"^Message-ID:[ \t]*(?:\r?\n[ \t]+)?<?([^<>\s]{1,998})>?", re.MULTILINE | re.IGNORECASE
)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_VOLATILE = re.compile(
    rb"^(?:X-)?(?:Status|Keywords|UID|UIDL|IMAP|IMAPbase|Content-Length|Lines|Mozilla-(?:Status2?|Keys)"
    rb"|Gmail-Labels|Evolution):.*(?:\r?\n[ \t].*)*(?:\r?\n|\Z)",
    re.MULTILINE | re.IGNORECASE,
)
_HEADER = re.compile(rb"(?:From .*\r?\n)?[\x21-\x39\x3b-\x7e]+[ \t]*:.*(?:\r?\n|\r|\Z)")
_GMAIL = re.compile(rb'"(?:payload|raw)"\s*:')
_SAFE = re.compile(r"[^A-Za-z0-9!$%&'*+=?^_`{|}~.@-]")
_MAILDIR = re.compile(r"(?s)(?P<folder>(?:.*/)?)(?:cur|new)/(?P<unique>[0-9]{4,}\.[^/]*?)(?:[:;!]2,[^/]*)?")
_MAX_NAME = 150


class MailFolder(RecordedFiles):
    """The files of a folder of mail. A message of a Maildir keeps its path when it is read, flagged or moved
    from ``new`` to ``cur``."""

    def _list(self) -> tuple[Directory, Listing]:
        directory, listing = super()._list()
        for path in sorted(listing):
            match = _MAILDIR.fullmatch(path)
            item = listing.item(path) if match is not None else None
            if match is None or not isinstance(item, File):
                continue
            stable = f"{match['folder']}cur/{match['unique']}"
            if stable == path:
                continue
            del listing.signatures[path]
            listing.special.pop(path, None)
            if stable not in listing.signatures and stable not in listing.special:
                listing.special[stable] = File(stable, item.location, item.names, item.signature)
                listing.signatures[stable] = item.signature
        return directory, listing


class MailReader:
    """Tells what a file of mail holds: messages, and the texts that are attached to them."""

    version: str = "2"

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    def __call__(self, file: RecordedFile) -> Iterator[Part | LeftOut]:
        """Raises ``E_MIME`` for a file that holds no mail."""
        head = file.stream.read(_HEAD)
        file.stream.seek(0)
        if not head.strip():
            raise TabootError("E_EMPTY", f"{file.path} is empty.", path=file.path)
        for magic, what in _FOREIGN:
            if head.startswith(magic):
                raise TabootError("E_MIME", f"{file.path} is {what}.", path=file.path)
        lower = file.path.lower()
        body = head.lstrip(b"\xef\xbb\xbf\r\n\t ")
        if lower.endswith(".json") or body.startswith(b"{"):
            yield from self._resource(file, body)
        elif lower.endswith(".emlx"):
            yield from self._message(_apple(file), MAIL, None)
        elif not lower.endswith(".eml") and body.startswith(_FROM):
            yield from self._mbox(file)
        elif lower.endswith(".eml") or _HEADER.match(body):
            yield from self._message(file.read(), MAIL, None)
        else:
            raise TabootError("E_MIME", f"{file.path} is no mail.", path=file.path)

    def _resource(self, file: RecordedFile, head: bytes) -> Iterator[Part]:
        data = file.read()
        if not head.startswith(b"{") or not _GMAIL.search(data):
            raise TabootError("E_MIME", f"{file.path} is no message of the Gmail API.", path=file.path)
        yield from self._message(data, RESOURCE, None)

    def _message(self, data: bytes, mime: str, name: str | None) -> Iterator[Part]:
        yield Part(data, name, mime)
        for text in self._attachments(data, mime):
            if text.data is not None:
                attached = text.name if name is None else f"{name}#{text.name}"
                yield Part(text.data, attached, text.mime, text.charset)

    def _mbox(self, file: RecordedFile) -> Iterator[Part | LeftOut]:
        taken: dict[bytes, int] = {}
        for data in split_mbox(file.stream, file.limit):
            name = _name(data)
            # Names are many: a hash of each is enough to tell whether it was there.
            key = hashlib.sha256(name.encode()).digest()[:16]
            times = taken[key] = taken.get(key, 0) + 1
            if not data.strip():
                yield LeftOut(name, "E_EMPTY", f"{file.path}#{name} is empty.")
                continue
            yield from self._message(data, MAIL, name if times == 1 else f"{name}~{times}")


def _apple(file: RecordedFile) -> bytes:
    """The message in a file of Apple Mail: a line says how many bytes it has, and flags follow it. Raises
    ``E_MIME``, ``E_TOO_LARGE``."""
    data = file.read()
    stated, _, rest = data.partition(b"\n")
    if not stated.strip().isdigit() or len(stated) > 20:
        raise TabootError("E_MIME", f"{file.path} is no message of Apple Mail.", path=file.path)
    return rest[: int(stated)]


def _name(data: bytes) -> str:
    """What a message is called: its message id and a hash of its bytes, less what programs write into its
    fields when it is read, flagged or moved."""
    end = _HEAD_END.search(data)
    head, body = (data[: end.start()], data[end.start() :]) if end is not None else (data, b"")
    digest = hashlib.sha256(_VOLATILE.sub(b"", head).rstrip(b"\r\n"))
    digest.update(body.rstrip(b"\r\n"))
    found = _MESSAGE_ID.search(head, 0, _HEAD)
    if found is None:
        return f"sha256-{digest.hexdigest()[:32]}"
    stated = found[1].decode("utf-8", "replace")
    digest.update(stated.encode())
    return f"{_SAFE.sub('_', stated)[:_MAX_NAME]}~{digest.hexdigest()[:16]}"


def split_mbox(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """The messages of an mbox, without their ``From `` lines and as they were before it quoted them. Of one
    with more than ``limit`` bytes the first ``limit + 1`` are given."""
    lines = _Lines(stream)
    while (line := lines.next()) and not line.strip():
        pass
    while line:
        # The line at hand begins a message.
        kept: list[bytes] = []
        size = 0
        blank = b""
        length: int | None = None
        in_head = True
        line = lines.next()
        while line:
            if in_head and not line.strip(b"\r\n"):
                in_head = False
                length = _stated_length(kept)
                if length is not None and (body := lines.body(length, limit - size)) is not None:
                    kept += [line, body]
                    size += len(line) + len(body)
                    blank = b""
                    line = lines.next()
                    while line and not line.strip():
                        line = lines.next()
                    break
            if line.startswith(_FROM) and not in_head and _begins(line, lines.peek(), bool(blank)):
                break
            if not line.strip(b"\r\n"):
                # A blank line before a `From ` is the mbox's own.
                kept.append(blank)
                size += len(blank)
                blank = line
            else:
                kept += [blank, line]
                size += len(blank) + len(line)
                blank = b""
            if size > limit:
                line = lines.skip()
                break
            line = lines.next()
        data = b"".join(kept)[: limit + 1]
        yield _QUOTED.sub(rb"\1", data) if b">From " in data and not _unquoted(data) else data


def _stated_length(head: list[bytes]) -> int | None:
    found = _LENGTH.search(b"".join(head)[:_HEAD])
    return int(found[1]) if found is not None else None


def _begins(line: bytes, following: bytes, after_blank: bool) -> bool:
    """Whether a line that begins with ``From `` begins a message."""
    timed = _TIME.match(line) is not None
    fields = _FIELD.match(following) is not None
    return (timed and (fields or after_blank)) or (after_blank and fields)


def _unquoted(data: bytes) -> bool:
    """Whether a line of a message begins with ``From ``: then its mbox quotes none (mboxcl2)."""
    return b"\nFrom " in data


class _Lines:
    """The lines of a stream, one of which can be looked at ahead. Longer ones come in pieces."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ahead: bytes | None = None

    def next(self) -> bytes:
        line, self._ahead = self._ahead, None
        return self._stream.readline(_MAX_LINE) if line is None else line

    def peek(self) -> bytes:
        if self._ahead is None:
            self._ahead = self._stream.readline(_MAX_LINE)
        return self._ahead

    def skip(self) -> bytes:
        """Pass over the rest of a message; the line that begins the next one."""
        before = b"x"
        while line := self.next():
            if (
                line.startswith(_FROM)
                and before.endswith(b"\n")
                and _begins(line, self.peek(), not before.strip())
            ):
                return line
            before = line
        return b""

    def body(self, length: int, limit: int) -> bytes | None:
        """So many bytes, if a message ends behind them; else None, and the stream stays where it is. Of
        more than ``limit`` bytes one more than those is given."""
        if self._ahead is not None:
            return None
        at = self._stream.tell()
        self._stream.seek(at + length)
        behind = self._stream.read(256)
        end = self._stream.tell() if not behind else at + length
        ends = end == at + length and (behind.lstrip(b"\r\n").startswith(_FROM) or not behind.strip())
        # A length behind the end of the file leads nowhere.
        self._stream.seek(0, 2)
        ends = ends and self._stream.tell() >= at + length
        self._stream.seek(at)
        if not ends:
            return None
        data = self._stream.read(min(length, max(limit, 0) + 1))
        self._stream.seek(at + length)
        return data
