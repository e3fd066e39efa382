"""What is asked of the Gmail API: lists of messages, what has happened to them, labels, attachments."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from datetime import time as time_of_day
from typing import Any
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.gmail.entry import GmailSource, token_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.throttling import seconds_to_wait

_log = logging.getLogger(__name__)

SERVICE = "The Gmail API"
#: Mail that nobody means unless its label is named.
UNWANTED = frozenset({"SPAM", "TRASH"})
#: Ids of a page of messages; the API's largest.
PAGE = 500
_MAX_PAGES = 20_000
_TOO_OFTEN = re.compile(rb'"(?:rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED)"')
#: A label that the user made; those of Gmail are called by their ids.
_USER_LABEL = re.compile(r"Label_[A-Za-z0-9_-]{1,100}")


def mailbox_client(entry: GmailSource, access: Access) -> ApiClient:
    """Requests to the mailbox of an entry. Raises ``E_CONFIG``."""
    limits = Limits(
        max_requests=entry.max_requests,
        max_wait_seconds=entry.max_wait_seconds,
        # A message in base64url and JSON is longer than its bytes.
        max_answer_bytes=2 * access.max_blob_bytes,
    )
    token = token_of(entry, access, limits)
    return ApiClient(
        SERVICE,
        f"{entry.base_url.rstrip('/')}/gmail/v1/users/{quote(entry.user, safe='@')}",
        authorize=lambda renew: {"authorization": f"Bearer {token(renew)}"},
        limits=limits,
        refused=_refused,
    )


def _refused(answer: Answer) -> float | None:
    """For how long the API asks to be left alone, where a 403 says that it was asked too often."""
    too_often = answer.status == 403 and _TOO_OFTEN.search(answer.body) is not None
    return seconds_to_wait(429, answer.headers) if too_often else None


class Mailbox:
    """The requests of one run. ``labels``: the ids of those that narrow the source."""

    def __init__(self, entry: GmailSource, client: ApiClient) -> None:
        self._entry = entry
        self._client = client
        since = entry.since
        self.since = None if since is None else datetime.combine(since, time_of_day(), UTC)
        self.labels: list[str] = []
        self._names: dict[str, str] | TabootError | None = None

    # --- labels ---------------------------------------------------------------------------------------------

    def label_names(self) -> dict[str, str]:
        """The names of all labels by their ids: one request a run. Raises as :meth:`ApiClient.get`."""
        if self._names is None:
            try:
                listed = self._client.get("labels").value().items("labels")
                self._names = {label.string("id"): label.string("name") for label in listed}
            except TabootError as error:
                self._names = error
        if isinstance(self._names, TabootError):
            raise self._names
        return self._names

    def user_names(self) -> dict[str, str]:
        """The names of the labels that the user made, by their ids; none where they may not be read."""
        try:
            names = self.label_names()
        except TabootError as error:
            if error.code != "E_FORBIDDEN":
                raise
            _log.warning("Source %s: the labels of the mailbox may not be read", self._entry.id)
            self._names = names = {}
        return {label: name for label, name in names.items() if _USER_LABEL.fullmatch(label)}

    def user_labels(self, resource: Mapping[str, Any]) -> list[dict[str, str]]:
        """The id and name of each label of a message that its user made. The name is empty of a label that
        has gone, and where labels may not be read."""
        stated = resource.get("labelIds")
        ids = {label for label in stated if isinstance(label, str)} if isinstance(stated, list) else set()
        ids = {label for label in ids if _USER_LABEL.fullmatch(label)}
        names = self.user_names() if ids else {}
        return [{"id": label, "name": names.get(label, "")} for label in sorted(ids)]

    def renamed(self, used: Mapping[str, str]) -> set[str]:
        """The ids of the messages with a label that is called otherwise than in ``used``. Where that is empty
        nothing is asked."""
        names = self.user_names() if used else {}
        return {
            message_id
            for label, name in names.items()
            if used.get(label, name) != name
            for message_id in self._ids({"labelIds": label, "includeSpamTrash": "true"})
        }

    def find_labels(self) -> list[str]:
        """The ids of the labels that the entry names. Raises ``E_NOT_FOUND``."""
        if not self._entry.labels:
            return []
        names = self.label_names()
        by_name = {name.lower(): label for label, name in reversed(names.items())}
        by_name |= {label.lower(): label for label in names}
        missing = [name for name in self._entry.labels if name.lower() not in by_name]
        if missing:
            raise TabootError(
                "E_NOT_FOUND",
                f"The mailbox of source {self._entry.id} has no label {missing[0]!r}.",
                remedy="Correct `labels` in the sources file.",
                source=self._entry.id,
            )
        return [by_name[name.lower()] for name in self._entry.labels]

    # --- messages -------------------------------------------------------------------------------------------

    def listed(self) -> Iterator[str]:
        """The ids of all messages of the source, each once."""
        seen: set[str] = set()
        for params in self._lists():
            for message_id in self._ids(params):
                if message_id not in seen:
                    seen.add(message_id)
                    yield message_id

    def estimate(self) -> int:
        """How many messages the source has, as the service guesses."""
        answers = (self._client.get("messages", {**params, "maxResults": PAGE}) for params in self._lists())
        return sum(answer.value().integer("resultSizeEstimate") or 0 for answer in answers)

    def changes(self, start: str) -> tuple[set[str], str] | None:
        """The ids of the messages that something happened to since ``start``, and where the history is now;
        None where the service no longer knows ``start``."""
        touched: set[str] = set()
        now = start
        for answer in self._pages("history", {"startHistoryId": start, "maxResults": PAGE}):
            if answer.gone:
                return None
            page = answer.value()
            now = _history_id(page.string("historyId")) or now
            for record in page.items("history"):
                for kind in ("messagesAdded", "messagesDeleted", "labelsAdded", "labelsRemoved"):
                    touched.update(change.string("message", "id") for change in record.items(kind))
                touched.update(message.string("id") for message in record.items("messages"))
        return {message_id for message_id in touched if _is_id(message_id)}, now

    def history(self) -> str:
        """Where the history is."""
        return _history_id(self._client.get("profile").value().string("historyId"))

    def attachment(self, message_id: str, reference: str | None) -> bytes | None:
        """The bytes that a message refers to; None if they have gone."""
        found = self._client.get(f"messages/{message_id}/attachments/{quote(reference or '', safe='')}")
        return None if found.gone else _decoded(found.value().string("data"))

    def messages(self, ids: list[str]) -> Iterator[tuple[str, Answer | TabootError]]:
        """The answers about messages, several of which are asked for at a time."""
        requests: Iterator[tuple[str, Mapping[str, str]]] = (
            (f"messages/{message_id}?format=full", {}) for message_id in ids
        )
        return zip(ids, self._client.get_each(requests), strict=True)

    def _lists(self) -> list[dict[str, str | int]]:
        """The parameters of the lists that name all messages of the source: one for each label."""
        query = self._entry.query or ""
        if self.since is not None:
            query = f"{query} after:{int(self.since.timestamp())}".strip()
        base: dict[str, str | int] = {"q": query} if query else {}
        if not self.labels:
            return [base]
        return [
            {**base, "labelIds": label, **({"includeSpamTrash": "true"} if label in UNWANTED else {})}
            for label in self.labels
        ]

    def _ids(self, params: Mapping[str, str | int]) -> Iterator[str]:
        for answer in self._pages("messages", {**params, "maxResults": PAGE}):
            if answer.gone:
                raise TabootError("E_NOT_FOUND", f"{SERVICE} knows no mailbox {self._entry.user!r}.")
            for message in answer.value().items("messages"):
                message_id = message.string("id")
                if _is_id(message_id):
                    yield message_id

    def _pages(self, path: str, params: Mapping[str, str | int]) -> Iterator[Answer]:
        """The pages of a list. Raises ``E_API`` for one that leads to itself or does not end."""
        seen: set[str] = set()
        token = ""
        while True:
            answer = self._client.get(path, {**params, **({"pageToken": token} if token else {})})
            yield answer
            if answer.gone:
                return
            token = answer.value().string("nextPageToken")
            if not token:
                return
            if token in seen or len(seen) >= _MAX_PAGES:
                raise TabootError("E_API", f"{SERVICE} answers with a list of `{path}` that does not end.")
            seen.add(token)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 100 and text.isascii() and text.replace("-", "").replace("_", "").isalnum()


def _history_id(text: str) -> str:
    return text if text.isascii() and text.isdigit() and len(text) <= 30 else ""


def _decoded(text: str) -> bytes:
    """The bytes that base64url says."""
    try:
        return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except (binascii.Error, ValueError):
        raise TabootError("E_API", f"{SERVICE} answers with an attachment that is no base64.") from None
