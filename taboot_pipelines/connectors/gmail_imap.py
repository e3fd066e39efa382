"""A mailbox by IMAP (RFC 9051, 3501), which is only looked at: folders are opened by EXAMINE, messages read
by BODY.PEEK.

A message never changes while its folder keeps its UIDVALIDITY, so that a run asks for the numbers of the
messages and reads those it does not know. With another UIDVALIDITY every message of the folder is read again,
and the end of the enumeration says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.gmail_entry import GmailSource, Imap
from taboot_pipelines.connectors.gmail_files import MAIL
from taboot_pipelines.connectors.gmail_imap_session import SPAN, Session
from taboot_pipelines.connectors.plans import Planned
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
