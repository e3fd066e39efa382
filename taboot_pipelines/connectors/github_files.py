"""The files of one repository: its tree by one conditional request, and a blob for each file that is new.

A blob is known by its git hash, which is kept as the file's ETag: what has the known hash is never asked for,
wherever the branch has moved. Symbolic links and submodules are named and not followed; what lies in Git LFS
is named, and only its pointer was read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api import Answer, ApiClient
from taboot_pipelines.connectors.compose import add_named, decode, has_services, is_yaml
from taboot_pipelines.connectors.entries import CONFIG_INCLUDE
from taboot_pipelines.connectors.files import is_env
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.github_threads import FINAL
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Event,
    Failed,
    Fetched,
    Known,
    Role,
    Skipped,
    Unchanged,
)

#: Compared with paths in lower case. A last segment without a wildcard would mean a directory too.
DEFAULT_INCLUDE = (
    "*.md",
    "*.markdown",
    "*.mdx",
    "[r]eadme",
    "[r]eadme.rst",
    "[r]eadme.txt",
    "[r]eadme.adoc",
    "*[c]ompose.y*ml",
    "*[c]ompose.*.y*ml",
    "[d]ockerfile",
    "[d]ockerfile.*",
    "*.dockerfile",
    "[c]ontainerfile",
    "[c]ontainerfile.*",
    "*.containerfile",
    "*.conf",
)
#: What is taken besides where configuration files of all known formats are interpreted.
_INTERPRETED = (*CONFIG_INCLUDE, "*.yaml", "*.yml", "*.toml", "*.json", "*.cfg")
_SYMLINK, _SUBMODULE = "120000", "160000"
_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\r?\n")
_LFS_SIZE = re.compile(rb"^size ([0-9]{1,19})\r?$", re.MULTILINE)
_MAX_POINTER_BYTES = 1024
#: Directories of a tree that GitHub does not list at once.
_MAX_TREES = 50_000
_MAX_DEPTH = 200
_CHECKPOINT_FILES = 256
#: Of files that Compose projects are found by, so many bytes are kept until they are told.
_MAX_HELD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A path of the tree. ``path`` is NFC; ``size`` in bytes, 0 where git has none."""

    path: str
    mode: str
    sha: str
    size: int


class Files:
    """The files of one repository. ``prefix``: what the paths of its items begin with; ``api``: the path of
    its resources; ``branch``: its default branch; ``web``: its page."""

    def __init__(
        self,
        client: ApiClient,
        access: Access,
        include: list[str],
        exclude: list[str],
        *,
        prefix: str,
        api: str,
        branch: str,
        web: str,
        interpret: bool = False,
    ) -> None:
        self._client = client
        self._access = access
        #: Endings of the default are taken in any case; a person's globs mean what they say.
        self._fold = not include
        self._include = Globs(include or (*DEFAULT_INCLUDE, *(_INTERPRETED if interpret else ())))
        self._exclude = Globs(exclude)
        self._prefix = prefix
        self._api = api
        self._branch = branch
        self._web = web
        self._held: dict[str, bytes] = {}
        self._held_bytes = 0
        #: Whether a file could not be read that says what else is taken.
        self._unsure = False

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises as :meth:`ApiClient.ask`; a file that cannot be had is a ``Failed``."""
        key = f"{self._prefix}/tree"
        kept = self._access.state.load(key)
        if kept is not None and kept["branch"] != self._branch:
            kept = None
        if kept is not None and kept["deleted"] != self._deleted(kept["taken"], tombstoned):
            kept = {**kept, "etag": None}  # what a deleted file names is not taken
        answer = self._tree(self._branch, kept["etag"] if kept else None)
        skips: dict[str, list[Any]] = kept["skips"] if kept else {}
        if kept is not None and answer is not None and answer.not_modified:
            etag = kept["etag"]
            taken = [(Entry(*entry), role) for *entry, role in kept["taken"]]
        else:
            etag = answer.etag if answer is not None else None
            entries = self._entries(answer) if answer is not None else []
            taken = self._taken(entries, known, tombstoned)
        now: dict[str, list[Any]] = {}
        yield from self._events(taken, skips, now, known, tombstoned)
        state: dict[str, Any] = {
            "branch": self._branch,
            "etag": etag,
            "taken": [[e.path, e.mode, e.sha, e.size, role] for e, role in taken],
            "skips": now,
        }
        state["deleted"] = self._deleted(state["taken"], tombstoned)
        if state != kept:
            self._access.state.save(key, None if etag is None or self._unsure else state)

    def _deleted(self, taken: Any, tombstoned: Callable[[str], bool]) -> list[str]:
        """The paths of ``taken``, as the state has it, that were deleted on purpose."""
        return [path for path, *_ in taken if tombstoned(f"{self._prefix}/{path}")]

    def plan(self) -> tuple[int, int]:
        """How many files a first run would take, as far as names tell, and how many bytes they have."""
        answer = self._tree(self._branch, None)
        taken = [e for e in self._entries(answer) if self._is_taken(e.path)] if answer is not None else []
        return len(taken), sum(e.size for e in taken)

    # --- the tree -------------------------------------------------------------------------------------------

    def _tree(self, ref: str, etag: str | None, *, whole: bool = True) -> Answer | None:
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

    def _entries(self, root: Answer) -> list[Entry]:
        """All entries but directories. A tree that GitHub does not list whole is asked for in parts, each
        whole where it can be, else level by level."""
        found: dict[str, Entry] = {}
        queue: list[tuple[str, Answer | str, bool]] = [("", root, True)]
        asked = 0
        while queue:
            above, tree, whole = queue.pop()
            if isinstance(tree, str):
                asked += 1
                if asked > _MAX_TREES or above.count("/") > _MAX_DEPTH:
                    raise TabootError("E_TOO_LARGE", f"{self._prefix} has more directories than are read.")
                answer = self._tree(tree, None, whole=whole)
                if answer is None:
                    continue
                tree = answer
            listed, truncated, sha = self._listed(tree)
            if truncated and whole:
                queue.append((above, sha, False))
                continue
            for path, mode, kind, each, size in listed:
                path = above + path
                if kind != "tree":
                    found.setdefault(path, Entry(path, mode, each, size))
                elif not whole and not self._exclude.covers(path):
                    queue.append((f"{path}/", each, True))
        return list(found.values())

    def _listed(self, answer: Answer) -> tuple[list[tuple[str, str, str, str, int]], bool, str]:
        """The entries of one answer as (path, mode, type, hash, size), whether they are not all, and the
        tree's own hash."""
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

    def _is_taken(self, path: str) -> bool:
        if self._exclude and self._exclude.matches(path):
            return False
        return self._include.matches(path.lower() if self._fold else path)

    def _taken(
        self, entries: list[Entry], known: Mapping[str, Known], tombstoned: Callable[[str], bool]
    ) -> list[tuple[Entry, Role]]:
        """What the globs take, what Compose projects among it name, and what is never followed."""
        files = {
            e.path: e
            for e in entries
            if e.mode not in (_SYMLINK, _SUBMODULE) and not self._exclude.matches(e.path)
        }
        roles: dict[str, Role] = {}
        for path in files:
            if self._is_taken(path):
                roles[path] = "input" if is_env(_name(path)) else "document"

        def text(path: str) -> str | None:
            if tombstoned(f"{self._prefix}/{path}"):
                return None
            data = self._content(files[path], known)
            return None if data is None else decode(data)

        self._read_ahead([files[p] for p in sorted(roles) if is_yaml(p)], known, tombstoned)
        projects = [
            path
            for path, role in sorted(roles.items())
            if role == "document" and is_yaml(path) and has_services(text(path) or "")
        ]
        folders = {_folder(path) for path in projects}
        for folder in folders:
            if f"{folder}.env" in files:
                roles[f"{folder}.env"] = "input"
        if projects:
            present = {
                path
                for path in files
                if not tombstoned(f"{self._prefix}/{path}")
                and (not is_env(_name(path)) or _folder(path) in folders)
            }
            add_named(
                self._access,
                roles,
                projects,
                files,
                present,
                text=lambda path: text(path) if path in files else None,
                environment=lambda path: is_env(_name(path)),
            )
        taken = [(files[path], role) for path, role in roles.items()]
        for entry in entries:
            named = entry.mode == _SUBMODULE or (entry.mode == _SYMLINK and self._is_taken(entry.path))
            if named and not self._exclude.matches(entry.path):
                taken.append((entry, "document"))
        return sorted(taken, key=lambda pair: pair[0].path)

    # --- what becomes of it ---------------------------------------------------------------------------------

    def _events(
        self,
        taken: list[tuple[Entry, Role]],
        skips: Mapping[str, list[Any]],
        now: dict[str, list[Any]],
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
    ) -> Iterator[Event]:
        """The events of ``taken``; ``skips`` and ``now``: {path: [hash, why, whether it counts as absent]} of
        the last run and of this one."""
        unchanged: dict[str, Role] = {}
        due: list[tuple[Entry, Role]] = []
        for entry, role in taken:
            path = f"{self._prefix}/{entry.path}"
            before = known.get(path)
            if entry.mode in (_SYMLINK, _SUBMODULE):
                what = "a symbolic link" if entry.mode == _SYMLINK else "a submodule"
                yield Skipped(path, "E_FORBIDDEN", f"{path} is {what}, which is not followed.", outside=True)
            elif tombstoned(path):
                yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            elif entry.size > self._access.max_blob_bytes:
                limit = self._access.max_blob_bytes
                yield Skipped(path, "E_TOO_LARGE", f"{path} has {entry.size} bytes, more than {limit}.")
            elif entry.path in skips and skips[entry.path][0] == entry.sha:
                now[entry.path] = skips[entry.path]
                yield Skipped(path, *skips[entry.path][1])
            elif (
                before is not None
                and before.whole
                and before.etag == entry.sha
                and before.url == self._url(entry)
            ):
                unchanged[path] = role
            else:
                due.append((entry, role))
        if unchanged:
            yield Unchanged(unchanged)
        done = 0
        for entry, role, data in self._fetched(due, known):
            path = f"{self._prefix}/{entry.path}"
            if isinstance(data, TabootError):
                if data.code in FINAL:
                    raise data
                yield Failed(path, data)
                continue
            skip = self._pointer(path, data)
            if skip is not None:
                now[entry.path] = [entry.sha, [skip.code, skip.message, skip.outside]]
                yield skip
            else:
                yield Fetched(path, data, role, url=self._url(entry), etag=entry.sha)
            done += 1
            if done % _CHECKPOINT_FILES == 0:
                yield Checkpoint()

    def _fetched(
        self, due: list[tuple[Entry, Role]], known: Mapping[str, Known]
    ) -> Iterator[tuple[Entry, Role, bytes | TabootError]]:
        """The files with their bytes, several asked for at a time, in any order."""
        asked: list[tuple[Entry, Role]] = []
        for entry, role in due:
            data = self._held.get(entry.sha)
            if data is None:
                data = self._stored(entry, known)
            if data is None:
                asked.append((entry, role))
            else:
                yield entry, role, data
        # One blob at several paths is asked for at each: that is rare, and its bytes are not kept for it.
        requests: Iterator[tuple[str, Mapping[str, str]]] = (
            (self._blob_path(entry), {}) for entry, _ in asked
        )
        for (entry, role), answer in zip(asked, self._client.get_each(requests), strict=True):
            if isinstance(answer, TabootError):
                yield entry, role, answer
                continue
            try:
                yield entry, role, self._bytes(entry, answer)
            except TabootError as error:
                yield entry, role, error

    def _stored(self, entry: Entry, known: Mapping[str, Known]) -> bytes | None:
        """What is stored of the file, if that is what the tree names."""
        path = f"{self._prefix}/{entry.path}"
        before = known.get(path)
        if before is None or not before.whole or before.etag != entry.sha:
            return None
        page = self._access.stored_page(path)
        return None if page is None else page.data

    def _content(self, entry: Entry, known: Mapping[str, Known]) -> bytes | None:
        """A file's bytes before its turn; None where they cannot be had, which is told in its turn."""
        if entry.size > self._access.max_blob_bytes:
            return None
        data = self._held.get(entry.sha)
        if data is None:
            data = self._stored(entry, known)
        if data is None:
            try:
                data = self._bytes(entry, self._client.get(self._blob_path(entry)))
            except TabootError as error:
                if error.code in FINAL:
                    raise
                self._unsure = True
                return None
            self._hold(entry, data)
        return data

    def _read_ahead(
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
            if entry.size <= limit and not tombstoned(path) and self._stored(entry, known) is None:
                due.append(entry)
        for entry, answer in zip(
            due, self._client.get_each((self._blob_path(e), {}) for e in due), strict=True
        ):
            # What fails is asked for again in its turn, and told there.
            if not isinstance(answer, TabootError) and not answer.gone:
                with contextlib.suppress(TabootError):
                    self._hold(entry, self._bytes(entry, answer))

    def _hold(self, entry: Entry, data: bytes) -> None:
        if entry.sha not in self._held and self._held_bytes + len(data) <= _MAX_HELD_BYTES:
            self._held[entry.sha] = data
            self._held_bytes += len(data)

    def _blob_path(self, entry: Entry) -> str:
        return f"{self._api}/git/blobs/{quote(entry.sha, safe='')}"

    def _bytes(self, entry: Entry, answer: Answer) -> bytes:
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

    def _pointer(self, path: str, data: bytes) -> Skipped | None:
        """That the file itself lies in Git LFS, if its bytes say so."""
        if len(data) > _MAX_POINTER_BYTES or _LFS.match(data) is None:
            return None
        size = _LFS_SIZE.search(data)
        much = f"a file of {int(size[1])} bytes" if size is not None else "a file"
        message = f"{path} is a pointer to {much} in Git LFS, which is not read."
        return Skipped(path, "E_TOO_LARGE", message, outside=True)

    def _url(self, entry: Entry) -> str:
        """The file's page on the default branch, which a commit does not change."""
        return f"{self._web}/blob/{quote(self._branch, safe='/')}/{quote(entry.path, safe='/')}"


def _is_path(path: str) -> bool:
    return (
        bool(path)
        and not any(part in ("", ".", "..", ".git") for part in path.split("/"))
        and "\0" not in path
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    """The directory of a path with its slash; empty for the root."""
    return path[: path.rfind("/") + 1]
