"""A mailbox by IMAP (RFC 9051, 3501), which is only looked at: folders are opened by EXAMINE, messages read
by BODY.PEEK.

A message never changes while its folder keeps its UIDVALIDITY, so that a run asks for the numbers of the
messages and reads those it does not know. With another UIDVALIDITY every message of the folder is read again,
and the end of the enumeration says so.

A connection to a mail server by IMAP (RFC 9051, 3501), bounded in what the server may say and how long.
"""

from __future__ import annotations

import base64
import imaplib
import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from taboot_pipelines.connectors.access import Access, secret_of
from taboot_pipelines.connectors.api.client import Limits
from taboot_pipelines.connectors.gmail.entry import GmailSource, Imap, token_of
from taboot_pipelines.connectors.gmail.files import MAIL
from taboot_pipelines.connectors.protocol import Planned
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

#: Messages after which what was read is made durable.
_BATCH = 100
#: What one folder answers; those beside it may answer otherwise.
_OF_ONE_FOLDER = frozenset({"E_API", "E_CONFLICT"})


class ImapMailbox:
    """The connector of an entry with ``imap``. No network before :meth:`events`."""

    def __init__(self, entry: GmailSource, server: Imap, access: Access) -> None:
        self._entry = entry
        self._server = server
        self._access = access

    def plan(self) -> Iterator[Planned]:
        """How many messages each folder has. Raises as :meth:`events`."""
        with Session(self._entry, self._server, self._access) as session:
            for folder in session.folders():
                _, count = session.open(folder)
                requests = count + count // SPAN + 2
                yield Planned(folder, requests=requests, items=count, note="less those that are known")

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG``, ``E_CREDENTIALS``, ``E_NETWORK`` or ``E_TIMEOUT`` before the first event if
        the server cannot be asked at all."""
        run = _Run(self._entry.max_items)
        with Session(self._entry, self._server, self._access) as session:
            try:
                folders = session.folders()
                for folder in folders:
                    try:
                        yield from self._folder(session, folder, known, tombstoned, run)
                    except TabootError as error:
                        if error.code not in _OF_ONE_FOLDER:
                            raise
                        yield Failed(_path(folder, ""), error)
                        run.reason = run.reason or f"{folder} could not be read"
            except TabootError as error:
                run.reason = run.reason or error.message
            for name in session.missing:
                missing = TabootError("E_NOT_FOUND", f"The mailbox has no folder {name!r}.", folder=name)
                yield Failed(_path(name, ""), missing)
                run.reason = run.reason or missing.message
        yield Enumerated(not run.reason, run.reason or "; ".join(run.notes))

    def _folder(
        self,
        session: Session,
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
                own = f"{validity}:{uid}"
                if message is not None and message.etag == own and not tombstoned(path):
                    # What an earlier message of this number had attached is not this one's; what an earlier
                    # release has read of one has no mark.
                    paths = [p for p in held.get(path, ()) if known[p].etag in (None, own)]
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
        session: Session,
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
        own = f"{validity}:{uid}"
        for text in self._access.attachments(data, MAIL):
            attached = f"{path}#{text.name}"
            if tombstoned(attached):
                yield Skipped(attached, "E_TOMBSTONED", f"{attached} was deleted on purpose.")
            elif text.data is not None:
                yield Fetched(attached, text.data, mime=text.mime, charset=text.charset, etag=own)
        # Last: a message that is known has all that is attached to it.
        yield Fetched(path, data, mime=MAIL, etag=own)


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


_TIMEOUT_SECONDS = 60.0
#: One command with its whole answer, and what may be in that besides one message.
_COMMAND_SECONDS = 900.0
_MAX_LINES_BYTES = 16 * 1024 * 1024
#: Messages that one search looks at: a line of an answer, of which ``imaplib`` reads a megabyte, names them.
SPAN = 80_000
_MAX_FOLDERS = 5_000
#: What a list names that holds no messages.
_NOT_FOLDERS = frozenset((b"\\noselect", b"\\nonexistent"))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LIST = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?P<name>.*)', re.DOTALL)
_UID = re.compile(rb"\bUID ([0-9]{1,10})\b")
_SIZE = re.compile(rb"\bRFC822\.SIZE ([0-9]{1,15})\b")
_ENCODED = re.compile(r"&([^-]*)-")
_TOKEN_REMEDY = (
    "Name a token with the right to read mail by IMAP (of Gmail the scope `https://mail.google.com/`), and in"
    " `imap.user` the account that it is of."
)

#: A command and its answer, as ``imaplib`` gives it.
_Command = Callable[[imaplib.IMAP4], tuple[str, Sequence[Any]]]


class Session:
    """A connection, from login to logout. Every failure is a ``TabootError`` that repeats nothing of what
    the server says."""

    def __init__(self, entry: GmailSource, server: Imap, access: Access) -> None:
        self._entry = entry
        self._server = server
        self._access = access
        self._requests = 0
        self._imap: _Bounded | _BoundedTls | None = None
        #: Names of folders that the server does not have.
        self.missing: list[str] = []

    def __enter__(self) -> Session:
        server = self._server
        sign_in = self._by_password() if server.has_password else self._by_token()
        implicit = server.tls == "implicit"
        port = server.port or (993 if implicit else 143)
        limit = self._access.max_blob_bytes
        try:
            if implicit:
                self._imap = _BoundedTls(server.host, port, limit)
            else:
                self._imap = _Bounded(server.host, port, limit)
                if server.tls == "starttls":
                    self._imap.starttls(_trusted())
        except (OSError, imaplib.IMAP4.error, ValueError) as error:
            raise self._failure(error) from None
        try:
            self._ask(sign_in)
        except TabootError as error:
            self.__exit__()
            if error.code != "E_API":
                raise
            what = "user or password" if server.has_password else "user or token"
            raise TabootError(
                "E_CREDENTIALS",
                f"{server.host} refuses the {what} of the source.",
                remedy=None if server.has_password else _TOKEN_REMEDY,
                host=server.host,
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        imap, self._imap = self._imap, None
        if imap is not None:
            imap.begin()
            with suppress(OSError, imaplib.IMAP4.error, ValueError):
                imap.logout()

    def _by_password(self) -> _Command:
        server = self._server
        user = server.user
        secret = secret_of(self._access, server.password, server.password_env)
        assert secret is not None
        password = secret.get_secret_value()
        if not password.isprintable() or not user.isprintable():
            raise TabootError("E_CONFIG", f"The user or password for {server.host} holds control characters.")

        def login(imap: imaplib.IMAP4) -> tuple[str, Sequence[Any]]:
            if "LOGINDISABLED" in imap.capabilities:
                raise TabootError(
                    "E_CONFIG",
                    f"{server.host} takes no password on a connection that is not kept secret.",
                    remedy="Set `tls: starttls` or `tls: implicit`.",
                    host=server.host,
                )
            if user.isascii() and password.isascii():
                return imap.login(user, password)
            # LOGIN carries ASCII alone (RFC 4616).
            return imap.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())

        return login

    def _by_token(self) -> _Command:
        """Sign in by an OAuth token: XOAUTH2 as Google and Microsoft have it, or OAUTHBEARER (RFC 7628). The
        token is got before the server is asked for anything."""
        server, bounds = self._server, self._entry
        limits = Limits(max_requests=bounds.max_requests, max_wait_seconds=bounds.max_wait_seconds)
        token = token_of(bounds, self._access, limits)(False)
        user = server.user
        if not user.isprintable():
            raise TabootError("E_CONFIG", f"The user for {server.host} holds control characters.")

        def authenticate(imap: imaplib.IMAP4) -> tuple[str, Sequence[Any]]:
            bearer = server.auth == "oauthbearer"
            if server.auth is None:
                bearer = "AUTH=XOAUTH2" not in imap.capabilities and "AUTH=OAUTHBEARER" in imap.capabilities
            if bearer:
                name = user.replace("=", "=3D").replace(",", "=2C")
                words = [f"n,a={name},\1auth=Bearer {token}\1\1", "\1"]
            else:
                words = [f"user={user}\1auth=Bearer {token}\1\1", ""]
            # The server says with a second question what is wrong, and refuses once that is answered.
            says = iter(words)
            return imap.authenticate(
                "OAUTHBEARER" if bearer else "XOAUTH2", lambda _: next(says, "").encode()
            )

        return authenticate

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
                flags = set(match["flags"].lower().split())
                if flags.isdisjoint(_NOT_FOLDERS) and len(found) < _MAX_FOLDERS:
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
        since = self._entry.since
        after = "" if since is None else f" SINCE {since.day:02}-{_MONTHS[since.month - 1]}-{since.year:04}"
        for start in range(1, count + 1, SPAN):
            data = self._uid("SEARCH", f"{start}:{min(start + SPAN - 1, count)}{after}")
            yield sorted(
                {int(w) for line in data if isinstance(line, bytes) for w in line.split() if w.isdigit()}
            )
            assert self._imap is not None
            if count > SPAN and self._imap.response("EXPUNGE")[1] != [None]:
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

    def _ask(self, command: _Command) -> list[Any]:
        """Raises ``E_API`` where the server says NO or BAD."""
        if self._requests >= self._entry.max_requests:
            raise TabootError(
                "E_REQUESTS",
                f"The run has made its {self._entry.max_requests} requests of {self._server.host}.",
            )
        self._requests += 1
        assert self._imap is not None
        self._imap.begin()
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
        if isinstance(error, ssl.SSLCertVerificationError):
            return TabootError(
                "E_NETWORK",
                f"The certificate of {host} is none that this machine trusts.",
                remedy="Name its authority by SSL_CERT_FILE, or correct `host`.",
                host=host,
            )
        if isinstance(error, ssl.SSLError):
            return TabootError(
                "E_NETWORK",
                f"{host} does not speak TLS at this port.",
                remedy="Set `tls` and `port` as the server has them: 993 for `implicit`, 143 for `starttls`.",
                host=host,
            )
        if isinstance(error, OSError | imaplib.IMAP4.abort):
            what = type(error).__name__
            return TabootError("E_NETWORK", f"{host} could not be reached ({what}).", host=host)
        return self._bad("with something that is no IMAP, or a refusal")

    def _bad(self, how: str) -> TabootError:
        return TabootError("E_API", f"{self._server.host} answers {how}.", host=self._server.host)


class _Within:
    """How much, and how long, a server may say in answer to one command: ``imaplib`` has no bounds of its
    own for literals, nor for lines that nobody asked for."""

    def __init__(self, limit: int) -> None:
        self._most = limit + _MAX_LINES_BYTES
        self._limit = limit
        self.begin()

    def begin(self) -> None:
        """A command begins."""
        self._said = 0
        self._until = time.monotonic() + _COMMAND_SECONDS

    def literal(self, size: int) -> int:
        """The size of a literal. Raises ``IMAP4.abort`` for one that is longer than a message may be."""
        if size > self._limit:
            raise imaplib.IMAP4.abort("a literal is longer than it may be")
        return size

    def heard(self, data: bytes) -> bytes:
        self._said += len(data)
        if self._said > self._most or time.monotonic() > self._until:
            raise imaplib.IMAP4.abort("the answer does not end")
        return data


class _Bounded(imaplib.IMAP4):
    """A connection whose answers are bounded."""

    def __init__(self, host: str, port: int, limit: int) -> None:
        self._within = _Within(limit)
        super().__init__(host, port, timeout=_TIMEOUT_SECONDS)

    def begin(self) -> None:
        self._within.begin()

    def read(self, size: int) -> bytes:
        return self._within.heard(super().read(self._within.literal(size)))

    def readline(self) -> bytes:
        return self._within.heard(super().readline())


class _BoundedTls(imaplib.IMAP4_SSL):
    """As :class:`_Bounded`, by TLS from the beginning."""

    def __init__(self, host: str, port: int, limit: int) -> None:
        self._within = _Within(limit)
        super().__init__(host, port, ssl_context=_trusted(), timeout=_TIMEOUT_SECONDS)

    def begin(self) -> None:
        self._within.begin()

    def read(self, size: int) -> bytes:
        return self._within.heard(super().read(self._within.literal(size)))

    def readline(self) -> bytes:
        return self._within.heard(super().readline())


def _trusted() -> ssl.SSLContext:
    """certifi's authorities and the system's, which ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name."""
    return ssl.create_default_context(cafile=authorities())


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
