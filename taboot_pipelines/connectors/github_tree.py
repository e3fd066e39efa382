"""The tree of one repository's default branch: its paths with their git hashes, by one conditional request.

A tree that GitHub does not list whole is asked for in parts. A part is named by its own hash, so that what a
run has asked for before a bound ended it holds for the next one.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from taboot_pipelines.connectors.api import Answer, ApiClient
from taboot_pipelines.connectors.github_lists import MALFORMED
from taboot_pipelines.connectors.github_rounds import FINAL, Round
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.errors import TabootError

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
