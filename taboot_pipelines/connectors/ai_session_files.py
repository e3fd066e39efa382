"""What a file of AI chats holds: one session, a session in pieces, or many conversations.

**Sessions of a record a line grow.** A long one is several items, ``path``, ``path#2`` …, each a slice of the
file's own bytes: it is cut before a record with which a person begins to speak, once a slice has
:data:`SLICE_BYTES`. Where a slice ends depends on nothing behind that record, so that growth changes the last
slice alone. What is remembered is where the last slice begins, and the SHA-256 of all bytes up to the end of
its first line; if these are the same, the file is read from there. A line that is not written to its end is
left for the next run.

**Exports hold many conversations** in one array, each an item ``path#<its id>``: the bytes of its object.
They are parted by their brackets alone, in one pass with the memory of one conversation, so that one that is
damaged costs no other; a parser of JSON would stop at it, and say of none where it stands. A zip is read as
it was downloaded: its conversations are called as those of the unpacked file are, other sessions in it by the
names of their members.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import IO, Any, BinaryIO, NamedTuple, Protocol

from taboot_pipelines.connectors.recorded import Kept, LeftOut, Part, RecordedFile
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import (
    HEAD_BYTES,
    FileKind,
    begins_turn,
    is_session,
    kind_of,
    parsed,
    session_shape,
)

#: A slice ends before the first turn of a person behind so many bytes, or before any record behind four times
#: as many.
SLICE_BYTES = 256 * 1024
_MOST_BYTES = 4 * SLICE_BYTES

_CHUNK = 1024 * 1024
#: Everything up to the next bracket; brackets in strings do not count. That the last alternative is nothing
#: keeps Python before 3.11.5 from a fault of its own (CPython issue 106052).
_NO_BRACKET = re.compile(rb'[^\[\]{}"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^\[\]{}"]*+|)*+', re.S)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.S)
_NAME = re.compile(r"[A-Za-z0-9._:+-]{1,200}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Files of programs whose chats are not read, by what stands in them.
_OTHERS = (
    (
        re.compile(rb'"responderUsername"'),
        "a chat of GitHub Copilot, which is not read; save it as Markdown for a source of type `files`.",
    ),
    (
        re.compile(rb'"(?:composerData|allComposers|bubbleId)"|\ASQLite format 3'),
        "a store of Cursor, which is not read; export its chats as Markdown for a source of type `files`.",
    ),
    (
        re.compile(rb'"(?:say|ask)"[ \t\r\n]*:[ \t\r\n]*"(?:text|api_req_started|followup|tool|command)"'),
        "what Cline shows of a task; `api_conversation_history.json` beside it is read.",
    ),
)
_MILLISECONDS = 100_000_000_000


#: What an archive begins with.
MAGIC = b"PK\x03\x04"
#: Members of one archive, and bytes that all of them may unpack to: years of chats have a tenth of it.
MAX_MEMBERS = 100_000
MAX_UNPACKED = 16 << 30
_ENDINGS = (".json", ".jsonl", ".ndjson", ".md")


class Readable(Protocol):
    """What bytes are read from, one piece after the other."""

    def read(self, size: int, /) -> bytes: ...


class Archive:
    """The members of an archive that may hold chats. Raises ``E_PARSE`` for a damaged or encrypted one,
    ``E_TOO_LARGE`` beyond the limits above."""

    def __init__(self, file: RecordedFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED
        with self._typed():
            self._zip = zipfile.ZipFile(file.stream)
        if len(self._zip.filelist) > MAX_MEMBERS:
            raise TabootError(
                "E_TOO_LARGE", f"{file.path} has more than {MAX_MEMBERS} members.", path=file.path
            )

    def members(self) -> Iterator[zipfile.ZipInfo]:
        """In the order of their names."""
        for info in sorted(self._zip.filelist, key=lambda info: info.filename):
            hidden = info.filename.startswith("__MACOSX/")
            if not info.is_dir() and not hidden and info.filename.lower().endswith(_ENDINGS):
                yield info

    def open(self, info: zipfile.ZipInfo) -> Readable:
        """What a member unpacks to, from its beginning."""
        with self._typed():
            return _Member(self, self._zip.open(info))

    def read(self, stream: IO[bytes], size: int) -> bytes:
        """Some bytes of a member."""
        with self._typed():
            data = stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            path = self._file.path
            message = f"{path} unpacks to more than {MAX_UNPACKED >> 30} GiB."
            raise TabootError("E_TOO_LARGE", message, path=path)
        return data

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError):
            # RuntimeError is an encrypted member.
            path = self._file.path
            message = f"{path} is a zip that is damaged, encrypted or compressed in an unusual way."
            raise TabootError("E_PARSE", message, path=path) from None


class _Member:
    def __init__(self, archive: Archive, stream: IO[bytes]) -> None:
        self._archive = archive
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        return self._archive.read(self._stream, size)


class ChatFiles:
    """The reader of files of chats; ``mime``: the media type of their sessions. ``since``: conversations of
    an export that were last changed before that day are left out."""

    def __init__(self, mime: str, since: date | None = None) -> None:
        self.mime = mime
        #: Raise the number when the same file would give other parts.
        self.version = f"2 {mime}"
        self._since = since

    def __call__(self, file: RecordedFile) -> Iterator[Part | Kept | LeftOut]:
        """The parts of a file. Raises ``E_MIME`` for one that is no chat, ``E_PARSE`` for an export that does
        not come to its end."""
        head = file.stream.read(HEAD_BYTES)
        if not head.strip():
            raise TabootError("E_EMPTY", f"{file.path} is empty.", path=file.path)
        file.stream.seek(0)
        if head.startswith(MAGIC):
            yield from self._archived(file)
            return
        kind = kind_of(head)
        if kind is None:
            raise _other(file.path, head)
        if kind is FileKind.LINES:
            yield from self._slices(file)
        elif kind is FileKind.CONVERSATIONS:
            yield from self._conversations(file, file.stream, {})
        else:
            data = file.read()
            if kind is FileKind.DOCUMENT and not is_session(data):
                raise _other(file.path, head)
            yield Part(data, mime=self.mime)

    def _archived(self, file: RecordedFile) -> Iterator[Part | LeftOut]:
        """The conversations and sessions that a zip holds. Raises ``E_MIME`` for one without any."""
        archive = Archive(file)
        seen: dict[str, int] = {}
        found = False
        for info in archive.members():
            kind = kind_of(archive.open(info).read(HEAD_BYTES))
            if kind is FileKind.CONVERSATIONS:
                found = True
                yield from self._conversations(file, archive.open(info), seen)
            elif kind is not None:
                data = archive.open(info).read(file.limit + 1)
                if len(data) > file.limit:
                    found = True
                    message = f"{info.filename} in {file.path} has more than {file.limit} bytes; unpack it."
                    yield LeftOut(info.filename, "E_TOO_LARGE", message)
                elif kind is not FileKind.DOCUMENT or is_session(data):
                    found = True
                    yield Part(data, info.filename, self.mime)
        if not found:
            raise TabootError("E_MIME", f"{file.path} is a zip without chat sessions.", path=file.path)

    def _slices(self, file: RecordedFile) -> Iterator[Part | Kept | LeftOut]:
        before = _Before.of(file)
        number = 0
        for number in range(1, before.slices + 1):
            yield Kept(_name(number))
        digest = before.digest
        for piece in slices(file.stream, before.end, file.size, file.limit):
            number += 1
            first = b"" if piece.data is None else piece.data[: piece.data.find(b"\n") + 1]
            if digest is not None and number > 1 and first:
                # The first line is why the slice begins there.
                proof = digest.copy()
                proof.update(first)
                file.keep = [number - 1, piece.begin, len(first), proof.hexdigest(), file.limit]
            if piece.data is None:
                message = (
                    f"A line of {file.path} has {piece.end - piece.begin} bytes, more than {file.limit}."
                )
                yield LeftOut(_name(number), "E_TOO_LARGE", message)
            else:
                yield Part(piece.data, _name(number), self.mime, whole=piece.last and number == 1)
            if piece.last:
                break
            if piece.data is None:
                # What it was is told anew each time, so nothing behind it is taken for read.
                digest = None
            elif digest is not None:
                digest.update(piece.data)
        if file.keep is None and before.slices:
            file.keep = file.remembered

    def _conversations(
        self, file: RecordedFile, stream: Readable, seen: dict[str, int]
    ) -> Iterator[Part | LeftOut]:
        """The conversations in an array. ``seen``: how often a name was given so far."""
        for number, data in enumerate(elements(stream, file.limit), start=1):
            if isinstance(data, int):
                message = f"Conversation {number} of {file.path} has {data} bytes, more than {file.limit}."
                yield LeftOut(str(number), "E_TOO_LARGE", message)
                continue
            record = parsed(data)
            if record is not None and session_shape(record) is None:
                message = f"Conversation {number} of {file.path} is of no known format."
                yield LeftOut(str(number), "E_MIME", message)
                continue
            name = _conversation_name(record, data)
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name = f"{name}~{seen[name]}"
            changed = None if record is None else _changed(record)
            if self._since is None or changed is None or changed >= self._since:
                yield Part(data, name, self.mime, url=_url(record or {}))


def _other(path: str, head: bytes) -> TabootError:
    """Of a file that is no chat that is read: what it may be, and what to do."""
    for mark, what in _OTHERS:
        if mark.search(head):
            return TabootError("E_MIME", f"{path} is {what}", path=path)
    return TabootError("E_MIME", f"{path} is no chat session of a known format.", path=path)


class _Before(NamedTuple):
    """What of a growing file need not be read again: so many slices, which end at ``end``; ``digest`` has
    seen the bytes up to there."""

    slices: int
    end: int
    digest: Any

    @classmethod
    def of(cls, file: RecordedFile) -> _Before:
        """What is remembered of the file, if its slices are stored and the bytes are the same. Leaves the
        stream behind them."""
        nothing = cls(0, 0, hashlib.sha256())
        if file.remembered is None:
            return nothing
        count, end, more, sha256, limit = file.remembered
        if (
            end >= file.size
            or limit != file.limit
            or not {_name(n) for n in range(1, count + 1)} <= file.known
        ):
            return nothing
        digest = hashlib.sha256()
        left = end
        while left and (chunk := file.stream.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
        proof = digest.copy()
        proof.update(file.stream.read(more))
        if left or proof.hexdigest() != sha256:
            file.stream.seek(0)
            return nothing
        file.stream.seek(end)
        return cls(count, end, digest)


class Slice(NamedTuple):
    """Bytes ``[begin, end)`` of a file; no ``data`` for a line that is too long. ``last``: none follows."""

    begin: int
    end: int
    data: bytes | None
    last: bool


def slices(stream: BinaryIO, begin: int, size: int, limit: int) -> Iterator[Slice]:
    """The slices of the lines from ``begin``, where the stream stands, up to ``size``. The last slice ends
    with the last line that is whole; there is one more than that if all lines are."""
    lines: list[bytes] = []
    held = 0
    waiting: Slice | None = None
    at = begin
    for start, end, line in _lines(stream, begin, size, limit):
        if line is None or (held and _is_full(held, line, limit)):
            if held:
                if waiting is not None:
                    yield waiting
                waiting = Slice(at, start, b"".join(lines), False)
            lines, held, at = [], 0, start
        if line is None:
            if waiting is not None:
                yield waiting
            waiting = Slice(start, end, None, False)
            at = end
        else:
            lines.append(line)
            held += len(line)
    if held:
        if waiting is not None:
            yield waiting
        waiting = Slice(at, at + held, b"".join(lines), False)
    if waiting is not None:
        yield waiting._replace(last=True)


def _is_full(held: int, line: bytes, limit: int) -> bool:
    """Whether a slice of ``held`` bytes ends before ``line``."""
    if held + len(line) > limit or held >= _MOST_BYTES:
        return True
    if held < SLICE_BYTES:
        return False
    record = parsed(line)
    return record is not None and begins_turn(record)


def _lines(stream: BinaryIO, begin: int, size: int, limit: int) -> Iterator[tuple[int, int, bytes | None]]:
    """The lines with their breaks, and where they begin and end; None for one of more than ``limit`` bytes.
    The last line counts without a break if it is a whole record."""
    at = begin
    while at < size:
        line = stream.readline(min(limit + 1, size - at))
        if not line:
            return
        start = at
        at += len(line)
        if line.endswith(b"\n"):
            yield start, at, line if len(line) <= limit else None
        elif len(line) <= limit:
            # The file's end, as it was when it was opened.
            if parsed(line) is not None:
                yield start, at, line
            return
        else:
            while at < size and not line.endswith(b"\n"):
                line = stream.readline(min(_CHUNK, size - at))
                if not line:
                    return
                at += len(line)
            yield start, at, None


def elements(stream: Readable, limit: int) -> Iterator[bytes | int]:
    """The objects (and arrays) in the array that the stream holds, each as its bytes; the number of bytes of
    one that has more than ``limit``. Raises ``E_PARSE`` if the array does not end."""
    depth = 0
    in_string = False
    # Of the element that is open: its bytes so far (None once they are too many), and how many.
    held: bytearray | None = None
    size = 0
    rest = b""
    while more := stream.read(_CHUNK):
        chunk = rest + more
        rest = b""
        start = at = 0
        while at < len(chunk):
            pattern = _IN_STRING if in_string else _NO_BRACKET
            found = pattern.match(chunk, at)
            assert found is not None
            at = found.end()
            if at == len(chunk):
                break
            byte = chunk[at : at + 1]
            if byte == b"\\":
                # The last byte of the chunk escapes the first of the next.
                rest = byte
                break
            at += 1
            if byte == b'"':
                in_string = not in_string
            elif byte in b"[{":
                depth += 1
                if depth == 2:
                    held, size, start = bytearray(), 0, at - 1
            else:
                depth -= 1
                if depth == 1:
                    size += at - start
                    if size > limit or held is None:
                        yield size
                    else:
                        held += chunk[start:at]
                        yield bytes(held)
                    held = None
                elif depth == 0:
                    return
        if depth > 1:
            end = len(chunk) - len(rest)
            size += end - start
            if held is not None and size <= limit:
                held += chunk[start:end]
            else:
                held = None
    raise TabootError("E_PARSE", "The list of conversations does not come to its end.")


def _name(number: int) -> str | None:
    return None if number == 1 else str(number)


def _conversation_name(record: dict[str, Any] | None, data: bytes) -> str:
    """The id that a conversation has, else the time at which it began, else a digest of it."""
    for key in ("conversation_id", "uuid", "id", "time", "create_time"):
        name = str((record or {}).get(key) or "")
        if _NAME.fullmatch(name):
            return name
    return hashlib.sha256(data).hexdigest()[:32]


def _changed(record: dict[str, Any]) -> date | None:
    """The day on which a conversation was last changed."""
    for key in ("update_time", "updated_at", "time", "create_time", "created_at"):
        value = record.get(key)
        try:
            if isinstance(value, str):
                return datetime.fromisoformat(value).astimezone(UTC).date()
            if isinstance(value, int | float) and value > 0:
                seconds = value / (1000 if value > _MILLISECONDS else 1)
                return datetime.fromtimestamp(seconds, UTC).date()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def _url(record: dict[str, Any]) -> str | None:
    """Where a person who is logged in can open the conversation."""
    for key, base in (
        ("conversation_id", "https://chatgpt.com/c/"),
        ("id", "https://chatgpt.com/c/"),
        ("uuid", "https://claude.ai/chat/"),
    ):
        name = record.get(key)
        if isinstance(name, str) and _UUID.fullmatch(name):
            return base + name
    return None
