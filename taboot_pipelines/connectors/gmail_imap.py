"""A mailbox by IMAP (RFC 9051, 3501), which is only looked at: folders are opened by EXAMINE, messages read
by BODY.PEEK.

A message never changes while its folder keeps its UIDVALIDITY, so that a run asks for the numbers of the
messages and reads those it does not know. With another UIDVALIDITY every message of the folder is read again,
and the end of the enumeration says so.
"""

from __future__ import annotations

import base64
import imaplib
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.credentials import secret_of
from taboot_pipelines.connectors.entries import BoundedSource
from taboot_pipelines.connectors.gmail_entry import Imap
from taboot_pipelines.connectors.gmail_files import MAIL
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.crawl.authorities import authorities
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Known,
    Skipped,
    Unchanged,
)

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 60.0
#: Messages that one search looks at: a line of an answer, of which ``imaplib`` reads a megabyte, names them.
_SPAN = 80_000
_MAX_FOLDERS = 5_000
#: Messages after which what was read is made durable.
_BATCH = 100
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LIST = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?P<name>.*)', re.DOTALL)
_UID = re.compile(rb"\bUID ([0-9]{1,10})\b")
_SIZE = re.compile(rb"\bRFC822\.SIZE ([0-9]{1,15})\b")
_ENCODED = re.compile(r"&([^-]*)-")


class ImapMailbox:
    """The connector of an entry with ``imap``. No network before :meth:`events`."""

    def __init__(self, server: Imap, access: Access, *, bounds: BoundedSource) -> None:
        self._server = server
        self._access = access
        self._bounds = bounds

    def plan(self) -> Iterator[Planned]:
        """How many messages each folder has. Raises as :meth:`events`."""
        with _Session(self._server, self._access, self._bounds) as session:
            for folder in session.folders():
                _, count = session.open(folder)
                requests = count + count // _SPAN + 2
                yield Planned(folder, requests=requests, items=count, note="less those that are known")

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG``, ``E_CREDENTIALS``, ``E_NETWORK`` or ``E_TIMEOUT`` before the first event if
        the server cannot be asked at all."""
        run = _Run(self._bounds.max_items)
        with _Session(self._server, self._access, self._bounds) as session:
            try:
                folders = session.folders()
                for folder in folders:
                    yield from self._folder(session, folder, known, tombstoned, run)
            except TabootError as error:
                run.reason = run.reason or error.message
            for name in session.missing:
                missing = TabootError("E_NOT_FOUND", f"The mailbox has no folder {name!r}.", folder=name)
                yield Failed(_path(name, ""), missing)
                run.reason = run.reason or missing.message
        yield Enumerated(not run.reason, run.reason or "; ".join(run.notes))

    def _folder(
        self,
        session: _Session,
        folder: str,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        run: _Run,
    ) -> Iterator[Event]:
        validity, count = session.open(folder)
        held = _by_message(known, folder)
        new: list[int] = []
        for uids in session.uids(count):
            same: dict[str, Any] = {}
            for uid in uids:
                path = _path(folder, str(uid))
                message = known.get(path)
                paths = held.get(path, ())
                if message is not None and message.etag == f"{validity}:{uid}" and not tombstoned(path):
                    if all(known[p].whole for p in paths):
                        same.update(dict.fromkeys(paths, "document"))
                        continue
                elif message is not None and (message.etag or "").partition(":")[0] != str(validity):
                    run.renumbered(folder)
                new.append(uid)
            if same:
                yield Unchanged(same)
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            sizes = session.sizes(batch)
            for uid in batch:
                if run.is_full():
                    return
                yield from self._message(session, folder, validity, uid, sizes.get(uid), tombstoned, run)
            yield Checkpoint()

    def _message(
        self,
        session: _Session,
        folder: str,
        validity: int,
        uid: int,
        size: int | None,
        tombstoned: Callable[[str], bool],
        run: _Run,
    ) -> Iterator[Event]:
        path = _path(folder, str(uid))
        limit = self._access.max_blob_bytes
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            return
        if size is None:
            return  # it was deleted since its number was told
        if size > limit:
            yield Skipped(path, "E_TOO_LARGE", f"{path} has {size} bytes, more than {limit}.")
            return
        run.taken += 1
        data = session.message(uid)
        if data is None:
            return
        for text in self._access.attachments(data, MAIL):
            attached = f"{path}#{text.name}"
            if tombstoned(attached):
                yield Skipped(attached, "E_TOMBSTONED", f"{attached} was deleted on purpose.")
            elif text.data is not None:
                yield Fetched(attached, text.data, mime=text.mime, charset=text.charset)
        # Last: a message that is known has all that is attached to it.
        yield Fetched(path, data, mime=MAIL, etag=f"{validity}:{uid}")


class _Run:
    """How a run stands: what it has taken, why it is not whole, and what it has to say."""

    def __init__(self, most: int | None) -> None:
        self.taken = 0
        self.reason = ""
        self.notes: list[str] = []
        self._renumbered: set[str] = set()
        self._most = most

    def renumbered(self, folder: str) -> None:
        """Say that the folder's messages have new numbers."""
        if folder not in self._renumbered:
            self._renumbered.add(folder)
            self.notes.append(f"the UIDVALIDITY of {folder} has changed: its messages were read again")
            _log.warning("%s", self.notes[-1])

    def is_full(self) -> bool:
        """Whether the run may take no more."""
        if self._most is None or self.taken < self._most:
            return False
        self.reason = self.reason or f"the run has taken its {self._most} items"
        return True


class _Session:
    """A connection, from login to logout. Every failure is a ``TabootError`` that repeats nothing of what
    the server says."""

    def __init__(self, server: Imap, access: Access, bounds: BoundedSource) -> None:
        self._server = server
        self._access = access
        self._bounds = bounds
        self._requests = 0
        self._imap: imaplib.IMAP4 | None = None
        #: Names of folders that the server does not have.
        self.missing: list[str] = []

    def __enter__(self) -> _Session:
        server = self._server
        secret = secret_of(self._access, server.password, server.password_env)
        assert secret is not None
        password = secret.get_secret_value()
        if not password.isprintable() or not server.user.isprintable():
            raise TabootError("E_CONFIG", f"The user or password for {server.host} holds control characters.")
        implicit = server.tls == "implicit"
        port = server.port or (993 if implicit else 143)
        try:
            # ``imaplib`` has no bound of its own for what a server says is coming.
            limit = self._access.max_blob_bytes
            if implicit:
                self._imap = _BoundedTls(server.host, port, limit)
            else:
                self._imap = _Bounded(server.host, port, limit)
                if server.tls == "starttls":
                    self._imap.starttls(_trusted())
        except (OSError, imaplib.IMAP4.error) as error:
            raise self._failure(error) from None
        try:
            self._ask(lambda imap: self._login(imap, password))
        except TabootError as error:
            self.__exit__()
            if error.code != "E_API":
                raise
            raise TabootError(
                "E_CREDENTIALS",
                f"{server.host} refuses the user or password of the source.",
                host=server.host,
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        imap, self._imap = self._imap, None
        if imap is not None:
            with suppress(OSError, imaplib.IMAP4.error):
                imap.logout()

    def _login(self, imap: imaplib.IMAP4, password: str) -> tuple[str, Sequence[Any]]:
        user = self._server.user
        if user.isascii() and password.isascii():
            return imap.login(user, password)
        # LOGIN carries ASCII alone (RFC 4616).
        return imap.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())

    def folders(self) -> list[str]:
        """The folders that the entry names and the server has, each once."""
        found: dict[str, None] = {}
        for wanted in self._server.folders:
            before = len(found)
            known = 0
            for raw in _joined(self._list(wanted)):
                match = _LIST.match(raw)
                if match is None:
                    continue
                known += 1
                if b"\\noselect" not in match["flags"].lower() and len(found) < _MAX_FOLDERS:
                    found[_folder_name(match["name"])] = None
            if known == 0 and len(found) == before:
                self.missing.append(wanted)
        return list(found)

    def open(self, folder: str) -> tuple[int, int]:
        """Open a folder to read: its UIDVALIDITY, and how many messages it has."""
        data = self._ask(lambda imap: imap.select(_quoted(folder), readonly=True))
        assert self._imap is not None
        _, validity = self._imap.response("UIDVALIDITY")
        said = validity[-1] if validity else None
        if not isinstance(said, bytes) or not said.isdigit():
            raise self._bad(f"without a UIDVALIDITY of {folder}")
        count = data[-1] if data else None
        return int(said), int(count) if isinstance(count, bytes) and count.isdigit() else 0

    def uids(self, count: int) -> Iterator[list[int]]:
        """The numbers of the folder's messages, of which there are ``count``, in ranges of them. Raises
        ``E_CONFLICT`` if messages go while a folder of several ranges is listed."""
        since = self._bounds.since
        after = "" if since is None else f" SINCE {since.day:02}-{_MONTHS[since.month - 1]}-{since.year:04}"
        for start in range(1, count + 1, _SPAN):
            data = self._uid("SEARCH", f"{start}:{min(start + _SPAN - 1, count)}{after}")
            yield sorted(
                {int(w) for line in data if isinstance(line, bytes) for w in line.split() if w.isdigit()}
            )
            assert self._imap is not None
            if count > _SPAN and self._imap.response("EXPUNGE")[1] != [None]:
                # The places of those behind have moved.
                raise TabootError("E_CONFLICT", "Messages were deleted while the folder was listed.")

    def sizes(self, uids: Sequence[int]) -> dict[int, int]:
        """How many bytes messages have; those which have gone are not named."""
        data = self._uid("FETCH", ",".join(map(str, uids)), "(UID RFC822.SIZE)")
        found = {}
        for raw in _joined(data):
            uid, size = _UID.search(raw), _SIZE.search(raw)
            if uid is not None and size is not None:
                found[int(uid[1])] = int(size[1])
        return found

    def message(self, uid: int) -> bytes | None:
        """The bytes of a message; None if it has gone."""
        for part in self._uid("FETCH", str(uid), "(UID BODY.PEEK[])"):
            if isinstance(part, tuple) and len(part) == 2 and b"BODY[]" in part[0].upper():
                body: bytes = part[1]
                return body
        return None

    def _uid(self, command: str, *arguments: str) -> list[Any]:
        return self._ask(lambda imap: imap.uid(command, *arguments))

    def _list(self, pattern: str) -> list[Any]:
        return self._ask(lambda imap: imap.list('""', _quoted(pattern)))

    def _ask(self, command: Callable[[imaplib.IMAP4], tuple[str, Sequence[Any]]]) -> list[Any]:
        """Raises ``E_API`` where the server says NO or BAD."""
        if self._requests >= self._bounds.max_requests:
            raise TabootError(
                "E_REQUESTS",
                f"The run has made its {self._bounds.max_requests} requests of {self._server.host}.",
            )
        self._requests += 1
        assert self._imap is not None
        try:
            status, data = command(self._imap)
        except (OSError, imaplib.IMAP4.error, ValueError, IndexError) as error:
            raise self._failure(error) from None
        if status != "OK":
            raise self._bad(f"{status} to a command")
        return list(data)

    def _failure(self, error: BaseException) -> TabootError:
        host = self._server.host
        if isinstance(error, socket.timeout | TimeoutError):
            return TabootError("E_TIMEOUT", f"{host} did not answer in time.", host=host)
        if isinstance(error, OSError | imaplib.IMAP4.abort):
            what = type(error).__name__
            return TabootError("E_NETWORK", f"{host} could not be reached ({what}).", host=host)
        return self._bad("with something that is no IMAP, or a refusal")

    def _bad(self, how: str) -> TabootError:
        return TabootError("E_API", f"{self._server.host} answers {how}.", host=self._server.host)


class _Bounded(imaplib.IMAP4):
    """Reads no literal that is longer than a message may be."""

    def __init__(self, host: str, port: int, limit: int) -> None:
        self._limit = limit
        super().__init__(host, port, timeout=_TIMEOUT_SECONDS)

    def read(self, size: int) -> bytes:
        return super().read(_within(size, self._limit))


class _BoundedTls(imaplib.IMAP4_SSL):
    """As :class:`_Bounded`, by TLS from the beginning."""

    def __init__(self, host: str, port: int, limit: int) -> None:
        self._limit = limit
        super().__init__(host, port, ssl_context=_trusted(), timeout=_TIMEOUT_SECONDS)

    def read(self, size: int) -> bytes:
        return super().read(_within(size, self._limit))


def _trusted() -> ssl.SSLContext:
    """certifi's authorities and the system's, which ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name."""
    return ssl.create_default_context(cafile=authorities())


def _within(size: int, limit: int) -> int:
    if size > limit:
        raise imaplib.IMAP4.abort("a literal is longer than it may be")
    return size


def _path(folder: str, uid: str) -> str:
    """The locator's path of a message, or of a folder. A ``#`` would be taken for the mark of a part."""
    name = folder.replace("%", "%25").replace("#", "%23")
    return f"{name}/{uid}" if uid else name


def _by_message(known: Mapping[str, Known], folder: str) -> dict[str, list[str]]:
    """The known paths of each message of a folder: its own, and those of what is attached to it."""
    held: dict[str, list[str]] = {}
    prefix = f"{_path(folder, '')}/"
    for path in known:
        if path.startswith(prefix):
            held.setdefault(path.partition("#")[0], []).append(path)
    return held


def _joined(data: Sequence[Any]) -> Iterator[bytes]:
    """Lines of an answer; a literal is joined to what stands before it."""
    for part in data:
        if isinstance(part, tuple):
            head = re.sub(rb"\{[0-9]+\}\Z", b"", part[0])
            yield head + b"".join(part[1:])
        elif isinstance(part, bytes):
            yield part


def _quoted(name: str) -> str:
    """A folder's name as a quoted string, in modified UTF-7 (RFC 3501, 5.1.3)."""
    out: list[str] = []
    for run in re.findall(r"[\x20-\x7e]+|[^\x20-\x7e]+", name):
        if run.isascii() and run.isprintable():
            out.append(run.replace("&", "&-"))
        else:
            encoded = base64.b64encode(run.encode("utf-16-be")).rstrip(b"=").replace(b"/", b",")
            out.append(f"&{encoded.decode()}-")
    text = "".join(out).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _folder_name(raw: bytes) -> str:
    """The name that a quoted string, an atom or a literal in modified UTF-7 says."""
    text = raw.strip().decode("utf-8", "replace")
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        text = re.sub(r"\\(.)", r"\1", text[1:-1])

    def letters(match: re.Match[str]) -> str:
        if not match[1]:
            return "&"
        encoded = match[1].replace(",", "/")
        try:
            return base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-16-be")
        except (ValueError, UnicodeDecodeError):
            return match[0]

    return _ENCODED.sub(letters, text)
