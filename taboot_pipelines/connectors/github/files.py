"""The files of one repository: its tree by one conditional request, and a blob for each file that is new.

A blob is known by its git hash, which is kept as the file's ETag: what has the known hash is never asked for,
wherever the branch has moved. Symbolic links and submodules are named and not followed; what lies in Git LFS
is named, and only its pointer was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.api.client import ApiClient
from taboot_pipelines.connectors.compose import add_named, decode, has_services, is_yaml
from taboot_pipelines.connectors.files import is_env
from taboot_pipelines.connectors.github.git_tree import SUBMODULE, SYMLINK, Blobs, Entry, Tree
from taboot_pipelines.connectors.github.listings import FINAL, Round
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
_INTERPRETED = ("*.yaml", "*.yml", "*.toml", "*.json", "*.cfg")
_LFS = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\r?\n")
_LFS_SIZE = re.compile(rb"^size ([0-9]{1,19})\r?$", re.MULTILINE)
_MAX_POINTER_BYTES = 1024
_CHECKPOINT_FILES = 256


class Files:
    """The files of one repository. ``prefix``: what the paths of its items begin with; ``api``: the path of
    its resources; ``branch``: its default branch; ``web``: its page."""

    def __init__(
        self,
        client: ApiClient,
        access: Access,
        round_: Round,
        include: list[str],
        exclude: list[str],
        *,
        prefix: str,
        api: str,
        branch: str,
        web: str,
        interpret: bool = False,
    ) -> None:
        self._access = access
        self._round = round_
        #: Endings of the default are taken in any case; a person's globs mean what they say.
        self._fold = not include
        more = (*access.config_globs, *_INTERPRETED) if interpret else ()
        self._include = Globs(include or (*DEFAULT_INCLUDE, *more))
        self._exclude = Globs(exclude)
        self._tree = Tree(client, round_, self._exclude, prefix=prefix, api=api, branch=branch)
        self._blobs = Blobs(client, access, round_, self._is_skipped, prefix=prefix, api=api)
        self._prefix = prefix
        self._branch = branch
        self._web = web
        #: Files that are looked at to find others, by path, with what they are taken as.
        self._looked_at: dict[str, tuple[Entry, Role]] = {}
        #: What is not read for its bytes' sake: {path: [hash, [code, message, whether it counts as absent]]}.
        self._skips: dict[str, list[Any]] = {}

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises as :meth:`ApiClient.ask`; a file that cannot be had is a ``Failed``."""
        state, key = self._access.state, f"{self._prefix}/tree"
        self._skips = state.load(f"{self._prefix}/skips") or {}
        kept = state.load(key)
        if kept is not None and kept["branch"] != self._branch:
            kept = None
        if kept is not None and self._round.is_done(key):
            entries = None
        else:
            usable = kept is not None and kept["deleted"] == self._deleted(kept["taken"], tombstoned)
            # What a deleted file names is not taken.
            entries = self._tree.read(kept["etag"] if usable else None)
        if kept is not None and entries is None:
            taken: list[tuple[Entry, Role]] = [(Entry(*entry), role) for *entry, role in kept["taken"]]
        else:
            try:
                taken = self._taken(entries or [], known, tombstoned)
            except TabootError as error:
                if error.code in FINAL:
                    self._tree.keep()
                    yield from self._ahead(known)
                raise
            now: dict[str, Any] = {
                "branch": self._branch,
                "etag": self._tree.etag,
                "taken": [[e.path, e.mode, e.sha, e.size, role] for e, role in taken],
            }
            now["deleted"] = self._deleted(now["taken"], tombstoned)
            if self._blobs.unsure:
                state.save(key, None)
                self._tree.keep()
            else:
                if now != kept:
                    state.save(key, now)
                self._tree.forget()
        if not self._blobs.unsure:
            self._round.done(key)
        yield from self._events(taken, known, tombstoned)

    def _deleted(self, taken: Any, tombstoned: Callable[[str], bool]) -> list[str]:
        """The paths of ``taken``, as the state has it, that were deleted on purpose."""
        return [path for path, *_ in taken if tombstoned(f"{self._prefix}/{path}")]

    def plan(self) -> tuple[int, int]:
        """How many files a first run would take, as far as names tell, and how many bytes they have."""
        taken = [e for e in self._tree.read(None) or () if self._is_taken(e.path)]
        return len(taken), sum(e.size for e in taken)

    # --- what is taken --------------------------------------------------------------------------------------

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
            if e.mode not in (SYMLINK, SUBMODULE) and not self._exclude.matches(e.path)
        }
        roles: dict[str, Role] = {}
        for path in files:
            if self._is_taken(path):
                roles[path] = "input" if is_env(_name(path)) else "document"

        def text(path: str) -> str | None:
            if tombstoned(f"{self._prefix}/{path}"):
                return None
            self._looked_at.setdefault(path, (files[path], roles.get(path, "input")))
            data = self._blobs.content(files[path], known)
            return None if data is None else decode(data)

        configuration = [path for path in sorted(roles) if is_yaml(path)]
        self._looked_at = {path: (files[path], roles[path]) for path in configuration}
        self._blobs.read_ahead([files[path] for path in configuration], known, tombstoned)
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
            named = entry.mode == SUBMODULE or (entry.mode == SYMLINK and self._is_taken(entry.path))
            if named and not self._exclude.matches(entry.path):
                taken.append((entry, "document"))
        return sorted(taken, key=lambda pair: pair[0].path)

    # --- what becomes of it ---------------------------------------------------------------------------------

    def _events(
        self, taken: list[tuple[Entry, Role]], known: Mapping[str, Known], tombstoned: Callable[[str], bool]
    ) -> Iterator[Event]:
        """The events of ``taken``."""
        skips, self._skips = self._skips, {}
        unchanged: dict[str, Role] = {}
        due: list[tuple[Entry, Role]] = []
        for entry, role in taken:
            path = f"{self._prefix}/{entry.path}"
            failure = self._round.failure(path)
            if entry.mode in (SYMLINK, SUBMODULE):
                what = "a symbolic link" if entry.mode == SYMLINK else "a submodule"
                yield Skipped(path, "E_FORBIDDEN", f"{path} is {what}, which is not followed.", outside=True)
            elif tombstoned(path):
                yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
            elif entry.size > self._access.max_blob_bytes:
                limit = self._access.max_blob_bytes
                yield Skipped(path, "E_TOO_LARGE", f"{path} has {entry.size} bytes, more than {limit}.")
            elif entry.path in skips and skips[entry.path][0] == entry.sha:
                self._skips[entry.path] = skips[entry.path]
                yield Skipped(path, *skips[entry.path][1])
            elif self._blobs.is_stored(entry, known) and known[path].url == self._url(entry):
                unchanged[path] = role
            elif failure is not None:
                yield Failed(path, failure)
            else:
                due.append((entry, role))
        if unchanged:
            yield Unchanged(unchanged)
        try:
            yield from self._fetched(due, known)
        finally:
            if self._skips != skips:
                self._access.state.save(f"{self._prefix}/skips", self._skips or None)

    def _fetched(self, due: list[tuple[Entry, Role]], known: Mapping[str, Known]) -> Iterator[Event]:
        """The events of files whose bytes are wanted, several asked for at a time. Raises what ends the run,
        once what came before it is told."""
        asked: list[tuple[Entry, Role]] = []
        for entry, role in due:
            data = self._blobs.at_hand(entry, known)
            if data is None:
                asked.append((entry, role))
            else:
                yield self._file(entry, role, data)
        end: TabootError | None = None

        # One blob at several paths is asked for at each: that is rare, and its bytes are not kept for it.
        def wanted() -> Iterator[Entry]:
            for entry, _ in asked:
                if end is not None:
                    return
                yield entry

        answers = self._blobs.ask_each(wanted())
        for done, ((entry, role), answer) in enumerate(zip(asked, answers, strict=False), start=1):
            path = f"{self._prefix}/{entry.path}"
            try:
                if isinstance(answer, TabootError):
                    raise answer
                yield self._file(entry, role, self._blobs.bytes_of(entry, answer))
            except TabootError as error:
                if error.code in FINAL:
                    end = end or error
                    continue
                self._round.fail(path, error)
                yield Failed(path, error)
            if done % _CHECKPOINT_FILES == 0:
                yield Checkpoint()
        if end is not None:
            raise end

    def _file(self, entry: Entry, role: Role, data: bytes) -> Fetched | Skipped:
        path = f"{self._prefix}/{entry.path}"
        skip = self._pointer(path, data)
        if skip is None:
            return Fetched(path, data, role, url=self._url(entry), etag=entry.sha)
        self._skips[entry.path] = [entry.sha, [skip.code, skip.message, skip.outside]]
        return skip

    def _ahead(self, known: Mapping[str, Known]) -> Iterator[Fetched | Skipped]:
        """The files that were looked at before a bound ended the run: the next one finds them stored."""
        skips = dict(self._skips)
        for entry, role in self._looked_at.values():
            data = self._blobs.held(entry)
            if data is not None and not self._blobs.is_stored(entry, known):
                yield self._file(entry, role, data)
        if self._skips != skips:
            self._access.state.save(f"{self._prefix}/skips", self._skips)

    def _is_skipped(self, entry: Entry) -> bool:
        return entry.path in self._skips and self._skips[entry.path][0] == entry.sha

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


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    """The directory of a path with its slash; empty for the root."""
    return path[: path.rfind("/") + 1]
