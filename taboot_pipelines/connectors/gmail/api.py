"""A mailbox by the Gmail API.

The first run lists the messages and asks for each. Later ones ask what has happened since (``history.list``),
and for what that names. Messages are asked for with ``format=full``: that is a resource with the labels and
the thread, it leaves large attachments where they are, and it is what people record. The whole message
(``format=raw``) would carry every attachment, and has its labels outside of its bytes.

Labels that a user made are ids in a message; what they are called is kept beside them in its blob, as the
member ``labels``, and a message whose label is renamed is read again.

The API names a history by a number that it keeps for about a week. Where it no longer knows ours, everything
is enumerated again, and the end of the enumeration says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.api.resources import canonical, item, version_of
from taboot_pipelines.connectors.gmail.entry import GmailSource
from taboot_pipelines.connectors.gmail.files import RESOURCE
from taboot_pipelines.connectors.gmail.mailbox import PAGE, SERVICE, UNWANTED, Mailbox, mailbox_client
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
    Unchanged,
)

_log = logging.getLogger(__name__)

#: So many messages are asked for before what was read is made durable.
_BATCH = 100
#: What the state remembers: where the history was, an enumeration that has not ended, and messages that
#: could not be read.
_HISTORY, _ENUMERATION, _AGAIN = "history", "enumeration", "again"
#: What changes by itself, or with every answer. What was read is no other message.
_VOLATILE = frozenset({"historyId", "attachmentId", "sizeEstimate", "snippet"})
_VOLATILE_LABELS = frozenset({"UNREAD"})
#: Errors after which the rest of a run asks for nothing.
_ENDING = frozenset({"E_REQUESTS", "E_CIRCUIT_OPEN", "E_429_RATE", "E_CREDENTIALS", "E_CONFIG"})


class GmailApi:
    """The connector of an entry with a token. No network before :meth:`events`."""

    def __init__(self, entry: GmailSource, access: Access) -> None:
        self._entry = entry
        self._access = access

    def plan(self) -> Iterator[Planned]:
        """What the next run would ask for: the history, or how many messages there are. Raises as
        :meth:`events`."""
        with mailbox_client(self._entry, self._access) as client:
            yield from _Enumeration(self._entry, self._access, client).plan()

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_CONFIG`` and ``E_CREDENTIALS``, and what the first request raises."""
        with mailbox_client(self._entry, self._access) as client:
            yield from _Enumeration(self._entry, self._access, client).events(known, tombstoned)


class _Enumeration:
    """One run."""

    def __init__(self, entry: GmailSource, access: Access, client: ApiClient) -> None:
        self._entry = entry
        self._access = access
        self._mailbox = Mailbox(entry, client)
        self._state = access.state
        self._taken = 0
        #: What the user's labels of the messages that were read are called, by their ids.
        self._used: dict[str, str] = {}

    def plan(self) -> Iterator[Planned]:
        if self._state.load(_HISTORY) is not None:
            changes = "what has changed since the last run"
            yield Planned(changes, requests=1, note="and one for each message that is new or has changed")
            return
        self._mailbox.labels = self._mailbox.find_labels()
        total = self._mailbox.estimate()
        requests = total + total // PAGE + 1
        note = "" if requests <= self._entry.max_requests else "more than max_requests: several runs"
        yield Planned("messages", requests=requests, items=total, note=note or "the service's own estimate")

    # --- a run ----------------------------------------------------------------------------------------------

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        held = _by_message(known)
        start = self._state.load(_HISTORY)
        reason = ""
        mailbox = self._mailbox
        mailbox.labels = (start or {}).get("labels") or mailbox.find_labels()
        if start is not None:
            changes = mailbox.changes(start["id"])
            if changes is not None:
                touched, now = changes
                self._used = dict(start.get("names") or {})
                touched |= mailbox.renamed(self._used) & held.keys()
                yield from self._go_on(touched, now, known, held, tombstoned)
                return
            reason = "the history of the last run has expired: every message was asked for again"
            _log.warning("Source %s: %s", self._entry.id, reason)
            self._state.save(_HISTORY, None)
            self._state.save(_ENUMERATION, None)
        yield from self._enumerate(known, held, tombstoned, reason)

    def _go_on(
        self,
        touched: set[str],
        now: str,
        known: Mapping[str, Known],
        held: Mapping[str, Sequence[str]],
        tombstoned: Callable[[str], bool],
    ) -> Iterator[Event]:
        """What has happened since the last run."""
        again = set(self._state.load(_AGAIN) or ())
        touched |= again
        listed: set[str] | None = None
        if self._entry.query:
            # Only the service can tell whether a message is found by a search.
            listed = set(self._mailbox.listed())
            touched |= listed - held.keys()
        unchanged = [m for m in held if m not in touched and (listed is None or m in listed)]
        unwhole = {m for m in unchanged if not all(known[path].whole for path in held[m])}
        paths = [path for m in unchanged if m not in unwhole for path in held[m]]
        if paths:
            yield Unchanged(dict.fromkeys(paths, "document"))
        todo = sorted(m for m in touched | unwhole if listed is None or m in listed or m in held)
        gone = [m for m in held if listed is not None and m not in listed and m in touched]
        for message_id in gone:
            yield from self._gone(message_id, held)
        run = _Run()
        yield from self._messages([m for m in todo if m not in set(gone)], known, held, tombstoned, run)
        self._state.save(_HISTORY, self._cursor(now))
        self._state.save(_AGAIN, sorted(run.again) or None)
        yield Enumerated(not run.reason, run.reason)

    def _enumerate(
        self,
        known: Mapping[str, Known],
        held: Mapping[str, Sequence[str]],
        tombstoned: Callable[[str], bool],
        reason: str,
    ) -> Iterator[Event]:
        """Every message. One that is killed goes on: what was read since it began is not asked for again."""
        begun: dict[str, Any] | None = self._state.load(_ENUMERATION)
        if begun is None:
            # The history is taken before the list: what happens meanwhile is in the next run's.
            history = self._mailbox.history()
            names = self._mailbox.user_names()
            begun = {"history": history, "done": [] if held else None, "names": names}
            self._state.save(_ENUMERATION, begun)
            yield Checkpoint()
        else:
            self._used = dict(begun.get("names") or {})
        # In a first enumeration all that is known was read since it began. What is attached to a message is
        # told before the message.
        done = {m for m in held if m in known} if begun["done"] is None else set(begun["done"])
        if renamed := self._mailbox.renamed(self._used):
            done -= renamed
            begun = {**begun, "done": sorted(done), "names": self._mailbox.user_names()}
            self._used = dict(begun.get("names") or {})
        run = _Run()
        listed: set[str] = set()
        batch: list[str] = []
        try:
            for message_id in self._mailbox.listed():
                listed.add(message_id)
                if message_id in done and all(known[path].whole for path in held.get(message_id, ())):
                    if paths := held.get(message_id):
                        yield Unchanged(dict.fromkeys(paths, "document"))
                elif run.ended:
                    run.again.add(message_id)
                else:
                    batch.append(message_id)
                if len(batch) >= _BATCH:
                    yield from self._batch(batch, begun, done, known, held, tombstoned, run)
            yield from self._batch(batch, begun, done, known, held, tombstoned, run)
        except TabootError as error:
            run.stop(error)
        else:
            if begun["history"]:
                # From here on the history tells. What a whole enumeration would have counted as absent is
                # asked for by its id.
                again = run.again | (held.keys() - listed if run.reason else set())
                self._state.save(_ENUMERATION, None)
                self._state.save(_HISTORY, self._cursor(begun["history"]))
                self._state.save(_AGAIN, sorted(again) or None)
        yield Enumerated(not run.reason, run.reason or reason)

    def _batch(
        self,
        batch: list[str],
        begun: dict[str, Any],
        done: set[str],
        known: Mapping[str, Known],
        held: Mapping[str, Sequence[str]],
        tombstoned: Callable[[str], bool],
        run: _Run,
    ) -> Iterator[Event]:
        """The messages of a batch, which is then empty; that they were read is remembered."""
        yield from self._messages(batch, known, held, tombstoned, run)
        done.update(m for m in batch if m not in run.again)
        batch.clear()
        if begun["done"] is not None:
            self._state.save(_ENUMERATION, {**begun, "done": sorted(done)})
        yield Checkpoint()

    def _cursor(self, history: str) -> dict[str, Any]:
        return {"id": history, "labels": self._mailbox.labels, "names": dict(self._used)}

    # --- messages -------------------------------------------------------------------------------------------

    def _messages(
        self,
        ids: Iterable[str],
        known: Mapping[str, Known],
        held: Mapping[str, Sequence[str]],
        tombstoned: Callable[[str], bool],
        run: _Run,
    ) -> Iterator[Event]:
        """The events of messages and of what is attached to them."""
        wanted: list[str] = []
        for message_id in ids:
            if tombstoned(message_id):
                yield Skipped(message_id, "E_TOMBSTONED", f"{message_id} was deleted on purpose.")
            else:
                wanted.append(message_id)
        if self._entry.max_items is not None:
            left = max(0, self._entry.max_items - self._taken)
            if len(wanted) > left:
                run.ended, run.reason = True, f"the run has taken its {self._entry.max_items} items"
                run.again.update(wanted[left:])
                wanted = wanted[:left]
        self._taken += len(wanted)
        for message_id, answer in self._mailbox.messages(wanted):
            try:
                if isinstance(answer, TabootError):
                    raise answer
                yield from self._message(message_id, answer, known, held, tombstoned)
            except TabootError as error:
                if error.code == "E_TOO_LARGE":
                    yield Skipped(message_id, error.code, error.message)
                    continue
                run.again.add(message_id)
                if error.code in _ENDING:
                    run.stop(error)
                    continue
                run.reason = run.reason or f"{message_id} could not be read"
                yield Failed(message_id, error)

    def _message(
        self,
        message_id: str,
        answer: Answer,
        known: Mapping[str, Known],
        held: Mapping[str, Sequence[str]],
        tombstoned: Callable[[str], bool],
    ) -> Iterator[Event]:
        if answer.gone:
            yield from self._gone(message_id, held)
            return
        resource = answer.json()
        if not isinstance(resource, dict) or resource.get("id") != message_id:
            raise TabootError("E_API", f"{SERVICE} answers with something else than message {message_id}.")
        if not self._is_wanted(resource):
            yield from self._gone(message_id, held)
            return
        if labels := self._mailbox.user_labels(resource):
            # Names are no part of a message; without them it says `Label_7`.
            resource = {**resource, "labels": labels}
            self._used |= {label["id"]: label["name"] for label in labels}
        thread = resource.get("threadId")
        url = f"https://mail.google.com/mail/#all/{thread}" if isinstance(thread, str) else None
        told = item(known, message_id, resource, version=_version(resource), mime=RESOURCE, url=url)
        if isinstance(told, Fetched) and len(told.data) > self._access.max_blob_bytes:
            limit = self._access.max_blob_bytes
            yield Skipped(message_id, "E_TOO_LARGE", f"{message_id} has more than {limit} bytes.")
            return
        for text in self._access.attachments(canonical(resource), RESOURCE):
            path = f"{message_id}#{text.name}"
            if tombstoned(path):
                yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                continue
            before = known.get(path)
            if before is not None and before.whole:
                # What is attached to a message never changes.
                yield NotModified(path)
                continue
            try:
                data = (
                    text.data
                    if text.data is not None
                    else self._mailbox.attachment(message_id, text.reference)
                )
            except TabootError as error:
                if error.code != "E_TOO_LARGE":
                    raise
                yield Skipped(path, error.code, error.message)
                continue
            if data is None:
                continue
            if len(data) > self._access.max_blob_bytes:
                yield Skipped(path, "E_TOO_LARGE", f"{path} has {len(data)} bytes.")
            elif data.strip():
                yield Fetched(path, data, mime=text.mime, charset=text.charset, url=url)
        yield told

    def _is_wanted(self, resource: Mapping[str, Any]) -> bool:
        """Whether a message is one of the source's, as its lists would name it."""
        labels = {label for label in resource.get("labelIds") or () if isinstance(label, str)}
        if self._mailbox.labels and labels.isdisjoint(self._mailbox.labels):
            return False
        if not labels.isdisjoint(UNWANTED.difference(self._mailbox.labels)):
            return False
        if self._mailbox.since is None:
            return True
        try:
            return int(resource.get("internalDate") or 0) >= self._mailbox.since.timestamp() * 1000
        except (TypeError, ValueError):
            return True

    def _gone(self, message_id: str, held: Mapping[str, Sequence[str]]) -> Iterator[Event]:
        for path in held.get(message_id, ()):
            yield Gone(path, "E_NOT_FOUND", f"The message {message_id} is no longer in the mailbox.")


class _Run:
    """How a run stands: which messages are to be asked for again, and why it is not whole."""

    def __init__(self) -> None:
        self.again: set[str] = set()
        self.reason = ""
        self.ended = False

    def stop(self, error: TabootError) -> None:
        """Ask for nothing more."""
        self.ended = True
        self.reason = self.reason or error.message


def _version(resource: Mapping[str, Any]) -> str:
    labels = resource.get("labelIds")
    if isinstance(labels, list) and all(isinstance(label, str) for label in labels):
        labels = sorted(set(labels) - _VOLATILE_LABELS)
    return version_of({**resource, "labelIds": labels}, _VOLATILE)


def _by_message(known: Collection[str]) -> dict[str, list[str]]:
    """The known paths of each message: its own, and those of what is attached to it."""
    held: dict[str, list[str]] = {}
    for path in known:
        held.setdefault(path.partition("#")[0], []).append(path)
    return held
