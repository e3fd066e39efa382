"""The tree of one repository's default branch: its paths with their git hashes, by one conditional request.

A tree that GitHub does not list whole is asked for in parts. A part is named by its own hash, so that what a
run has asked for before a bound ended it holds for the next one.

The bytes of one repository's files: as they are stored, as this run was told them, or from the API.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.github.listings import FINAL, MALFORMED, Round
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.model.records import Known

SYMLINK, SUBMODULE = "120000", "160000"
#: Directories of a tree that GitHub does not list at once.
_MAX_TREES = 50_000
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A path of the tree. ``path`` is NFC; ``size`` in bytes, 0 where git has none."""

    path: str
    mode: str
    sha: str
    size: int


#: The entries of one answer as (path, mode, type, hash, size), whether they are not all, the tree's own hash.
_Part = tuple[list[tuple[str, str, str, str, int]], bool, str]


class Tree:
    """The tree of ``branch``. ``prefix``: what the repository is called; ``api``: the path of its resources;
    directories that ``exclude`` covers are not asked for."""

    def __init__(
        self, client: ApiClient, round_: Round, exclude: Globs, *, prefix: str, api: str, branch: str
    ) -> None:
        self._client = client
        self._round = round_
        self._exclude = exclude
        self._prefix = prefix
        self._api = api
        self._branch = branch
        #: What was asked for, by hash; the root by no name.
        self._parts: dict[str, Any] = {}
        self.etag: str | None = None

    @property
    def _key(self) -> str:
        return f"{self._prefix}/tree~"

    def read(self, etag: str | None) -> list[Entry] | None:
        """All entries but directories; None where the tree still has ``etag``. Raises as
        :meth:`ApiClient.ask`."""
        kept = self._round.kept(self._key)
        if kept is not None and kept["branch"] == self._branch:
            self._parts, self.etag = kept["parts"], kept["etag"]
        else:
            answer = self._ask(self._branch, etag)
            self._round.answered += 1
            if answer is None:
                return []
            self.etag = answer.etag
            if answer.not_modified:
                return None
            self._parts[""] = self._listed(answer)
        try:
            return self._entries()
        except TabootError as error:
            if error.code in FINAL:
                self.keep()
            raise

    def keep(self) -> None:
        """Keep what was asked for until the round ends."""
        if self._parts:
            kept = {"branch": self._branch, "etag": self.etag, "parts": self._parts}
            self._round.keep(self._key, kept)

    def forget(self) -> None:
        """Forget what was kept, of which everything is told."""
        self._round.keep(self._key, None)

    def _ask(self, ref: str, etag: str | None, *, whole: bool = True) -> Answer | None:
        """The answer with a tree; None for a repository without a commit."""
        path = f"{self._api}/git/trees/{quote(ref, safe='')}{'?recursive=1' if whole else ''}"
        try:
            answer = self._client.get(path, etag=etag)
        except TabootError as error:
            if error.details.get("status") == 409:
                return None  # "Git Repository is empty."
            raise
        if answer.gone:
            raise TabootError("E_NOT_FOUND", f"{self._prefix} has no tree {ref}.", path=self._prefix)
        return answer

    def _entries(self) -> list[Entry]:
        """All entries but directories, of the root and what it leads to: each part whole where it can be,
        else level by level."""
        found: dict[str, Entry] = {}
        queue: list[tuple[str, str, bool]] = [("", "", True)]
        asked = 0
        while queue:
            above, sha, whole = queue.pop()
            name = sha if whole else f"{sha}/"
            if name not in self._parts:
                asked += 1
                if asked > _MAX_TREES or above.count("/") > _MAX_DEPTH:
                    raise TabootError("E_TOO_LARGE", f"{self._prefix} has more directories than are read.")
                answer = self._ask(sha, None, whole=whole)
                self._round.answered += 1
                if answer is None:
                    continue
                self._parts[name] = self._listed(answer)
            listed, truncated, own = self._parts[name]
            if truncated and whole:
                queue.append((above, own, False))
                continue
            for path, mode, kind, each, size in listed:
                path = above + path
                if kind != "tree":
                    found.setdefault(path, Entry(path, mode, each, size))
                elif not whole and not self._exclude.covers(path):
                    queue.append((f"{path}/", each, True))
        return list(found.values())

    def _listed(self, answer: Answer) -> _Part:
        try:
            tree = answer.json()
            listed = [
                (
                    unicodedata.normalize("NFC", entry["path"]),
                    str(entry["mode"]),
                    str(entry["type"]),
                    str(entry["sha"]).lower(),
                    int(entry.get("size") or 0),
                )
                for entry in tree["tree"]
            ]
            truncated, sha = tree.get("truncated") is True, str(tree["sha"])
        except MALFORMED:
            raise TabootError(
                "E_API", f"{self._client.service} answers with something else than a tree of {self._prefix}."
            ) from None
        # No name that git lets stand in a tree: a path must not lead elsewhere.
        return [e for e in listed if _is_path(e[0])], truncated, sha


def _is_path(path: str) -> bool:
    return (
        bool(path)
        and not any(part in ("", ".", "..", ".git") for part in path.split("/"))
        and "\0" not in path
    )


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
