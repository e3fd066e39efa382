"""The bytes of one repository's files: as they are stored, as this run was told them, or from the API."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Answer, ApiClient
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.github_rounds import FINAL, Round
from taboot_pipelines.connectors.github_tree import Entry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Known

#: Of files that Compose projects are found by, so many bytes are kept until they are told.
_MAX_HELD_BYTES = 64 * 1024 * 1024


class Blobs:
    """``prefix``: what the paths of the repository's items begin with; ``api``: the path of its resources;
    ``is_skipped``: whether a file is known for one whose bytes say nothing."""

    def __init__(
        self,
        client: ApiClient,
        access: Access,
        round_: Round,
        is_skipped: Callable[[Entry], bool],
        *,
        prefix: str,
        api: str,
    ) -> None:
        self._client = client
        self._access = access
        self._round = round_
        self._is_skipped = is_skipped
        self._prefix = prefix
        self._api = api
        self._held: dict[str, bytes] = {}
        self._held_bytes = 0
        #: Whether a file could not be read that says what else is taken.
        self.unsure = False

    def is_stored(self, entry: Entry, known: Mapping[str, Known]) -> bool:
        """Whether the bytes that the tree names are stored of the file."""
        before = known.get(f"{self._prefix}/{entry.path}")
        return before is not None and before.whole and before.etag == entry.sha

    def stored(self, entry: Entry, known: Mapping[str, Known]) -> bytes | None:
        """What is stored of the file, if that is what the tree names."""
        if not self.is_stored(entry, known):
            return None
        page = self._access.stored_page(f"{self._prefix}/{entry.path}")
        return None if page is None else page.data

    def held(self, entry: Entry) -> bytes | None:
        """The file's bytes, if this run has asked for them."""
        return self._held.get(entry.sha)

    def at_hand(self, entry: Entry, known: Mapping[str, Known]) -> bytes | None:
        """The file's bytes, if they need not be asked for."""
        data = self.held(entry)
        return self.stored(entry, known) if data is None else data

    def content(self, entry: Entry, known: Mapping[str, Known]) -> bytes | None:
        """A file's bytes before its turn; None where they cannot be had, which is told in its turn."""
        if entry.size > self._access.max_blob_bytes or self._is_skipped(entry):
            return None
        data = self.at_hand(entry, known)
        if data is None:
            path = f"{self._prefix}/{entry.path}"
            try:
                if (failure := self._round.failure(path)) is not None:
                    raise failure
                data = self.bytes_of(entry, self._client.get(self._path_of(entry)))
            except TabootError as error:
                if error.code in FINAL:
                    raise
                self._round.fail(path, error)
                self.unsure = True
                return None
            self._hold(entry, data)
        return data

    def read_ahead(
        self, entries: list[Entry], known: Mapping[str, Known], tombstoned: Callable[[str], bool]
    ) -> None:
        """Ask for files whose text will be looked at, several at a time."""
        limit = self._access.max_blob_bytes
        due: list[Entry] = []
        waiting = self._held_bytes
        for entry in entries:
            path = f"{self._prefix}/{entry.path}"
            waiting += entry.size
            if waiting > _MAX_HELD_BYTES:
                break
            wanted = entry.size <= limit and not self._is_skipped(entry) and not tombstoned(path)
            if wanted and self._round.failure(path) is None and self.stored(entry, known) is None:
                due.append(entry)
        for entry, answer in zip(due, self.ask_each(due), strict=True):
            # What fails is asked for again in its turn, and told there.
            if not isinstance(answer, TabootError) and not answer.gone:
                with contextlib.suppress(TabootError):
                    self._hold(entry, self.bytes_of(entry, answer))

    def _hold(self, entry: Entry, data: bytes) -> None:
        if entry.sha not in self._held and self._held_bytes + len(data) <= _MAX_HELD_BYTES:
            self._held[entry.sha] = data
            self._held_bytes += len(data)

    def _path_of(self, entry: Entry) -> str:
        return f"{self._api}/git/blobs/{quote(entry.sha, safe='')}"

    def ask_each(self, entries: Iterable[Entry]) -> Iterator[Answer | TabootError]:
        """The answers for files, in their order, several asked for at a time."""
        return self._client.get_each((self._path_of(entry), {}) for entry in entries)

    def bytes_of(self, entry: Entry, answer: Answer) -> bytes:
        """The file's bytes in an answer. Raises ``E_NOT_FOUND``, ``E_API``."""
        path = f"{self._prefix}/{entry.path}"
        if answer.gone:
            raise TabootError("E_NOT_FOUND", f"{path} is not there any more.", path=path)
        try:
            blob = answer.json()
            content, size = blob["content"], blob.get("size")
            if blob.get("encoding") == "base64":
                data = base64.b64decode("".join(content.split()), validate=True)
            else:
                data = content.encode()
            if isinstance(size, int) and size != len(data):
                raise ValueError
        except (*MALFORMED, binascii.Error):
            raise TabootError(
                "E_API",
                f"{self._client.service} answers with something else than the blob of {path}.",
                path=path,
            ) from None
        return data
