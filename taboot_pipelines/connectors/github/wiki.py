"""The wiki of one repository, which only git serves: a shallow copy in a temporary directory.

git runs without the machine's own configuration, asks nobody anything, follows no redirect, speaks no
protocol but that of the base URL, and is given the token by its environment, where no list of processes shows
it.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Event, Fetched, Known, Skipped, Unchanged

_ENDINGS = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "mdown": "text/markdown",
    "rst": "text/x-rst",
    "adoc": "text/asciidoc",
    "asciidoc": "text/asciidoc",
    "mediawiki": "text/plain",
    "wiki": "text/plain",
    "textile": "text/plain",
    "org": "text/plain",
    "creole": "text/plain",
}
_SECONDS = 300
#: How the machine reaches the network, and whom it trusts.
_PASSED = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy"})
_MAX_LIST_BYTES = 64 * 1024 * 1024


class Wiki:
    """The pages of a wiki. ``web``: the page of the repository; ``prefix``: how paths of items begin."""

    def __init__(self, access: Access, token: SecretStr | None, *, web: str, prefix: str) -> None:
        self._access = access
        self._token = token
        self._web = web
        self._prefix = prefix

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """One item each, ``#wiki/PAGE.md``. Raises ``E_CONFIG`` where git is not installed, ``E_NETWORK`` or
        ``E_TIMEOUT`` where it does not get the wiki."""
        git = shutil.which("git")
        if git is None:
            raise TabootError(
                "E_CONFIG", f"The wiki of {self._prefix} needs the program git, which is missing."
            )
        url = f"{self._web}.wiki.git"
        heads = self._run(git, ["ls-remote", url, "HEAD"], absent=True)
        head = heads.split(b"\t", 1)[0].decode("ascii", "replace")
        if not head:
            return  # no page was ever written
        key = f"{self._prefix}#wiki"
        kept = self._access.state.load(key)
        if kept is not None and kept["head"] == head and self._known(kept["pages"], known, tombstoned):
            yield Unchanged({self._path(page): "document" for page, _ in kept["pages"]})
            return
        with tempfile.TemporaryDirectory(prefix="taboot-wiki-") as folder:
            self._run(git, ["clone", "--quiet", "--bare", "--depth=1", "--no-tags", url, folder])
            pages = self._pages(self._run(git, ["-C", folder, "ls-tree", "-r", "-l", "-z", "HEAD"]))
            unchanged = {
                self._path(page): "document" for page, sha, _ in pages if self._is_known(page, sha, known)
            }
            for page, sha, size in pages:
                path = self._path(page)
                if tombstoned(path):
                    unchanged.pop(path, None)
                    yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                elif path in unchanged:
                    continue
                elif size > self._access.max_blob_bytes:
                    limit = self._access.max_blob_bytes
                    yield Skipped(path, "E_TOO_LARGE", f"{path} has {size} bytes, more than {limit}.")
                else:
                    data = self._run(git, ["-C", folder, "cat-file", "blob", sha], limit=size)
                    mime = _ENDINGS[_ending(page)]
                    yield Fetched(path, data, mime=mime, url=self._url(page), etag=sha)
            if unchanged:
                yield Unchanged(unchanged)  # type: ignore[arg-type]
        self._access.state.save(key, {"head": head, "pages": [[page, sha] for page, sha, _ in pages]})

    def _known(self, pages: Any, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> bool:
        return all(
            self._is_known(page, sha, known) and not tombstoned(self._path(page)) for page, sha in pages
        )

    def _is_known(self, page: str, sha: str, known: Mapping[str, Known]) -> bool:
        before = known.get(self._path(page))
        return before is not None and before.whole and before.etag == sha and before.url == self._url(page)

    def _pages(self, listed: bytes) -> list[tuple[str, str, int]]:
        """The pages as (path, hash, size), from what ``git ls-tree`` says."""
        found: dict[str, tuple[str, str, int]] = {}
        for line in listed.split(b"\0"):
            facts, _, name = line.partition(b"\t")
            fields = facts.split()
            if len(fields) != 4 or fields[0] not in (b"100644", b"100755") or not fields[3].isdigit():
                continue  # a link, a submodule
            page = unicodedata.normalize("NFC", name.decode("utf-8", "replace"))
            if _ending(page) in _ENDINGS:
                found.setdefault(page, (page, fields[2].decode("ascii"), int(fields[3])))
        return [found[page] for page in sorted(found)]

    def _path(self, page: str) -> str:
        return f"{self._prefix}#wiki/{page}"

    def _url(self, page: str) -> str:
        """The page's own URL: wikis have no directories."""
        return f"{self._web}/wiki/{quote(page.rpartition('/')[2].rpartition('.')[0], safe='')}"

    def _run(
        self, git: str, arguments: list[str], *, absent: bool = False, limit: int = _MAX_LIST_BYTES
    ) -> bytes:
        """What git says. With ``absent`` nothing where there is no such repository."""
        scheme = urlsplit(self._web).scheme
        options = {
            "protocol.allow": "never",
            f"protocol.{scheme}.allow": "always",
            "http.followRedirects": "false",
            "credential.helper": "",
            "core.hooksPath": os.devnull,
        }
        if self._token is not None:
            secret = base64.b64encode(f"x-access-token:{self._token.get_secret_value()}".encode()).decode()
            options["http.extraHeader"] = f"Authorization: Basic {secret}"
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.devnull,
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(len(options)),
            **{f"GIT_CONFIG_KEY_{i}": name for i, name in enumerate(options)},
            **{f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(options.values())},
            **{k: v for k, v in os.environ.items() if k in _PASSED},
        }
        try:
            done = subprocess.run(
                [git, *arguments], env=environment, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise TabootError("E_TIMEOUT", f"git did not get the wiki of {self._prefix} in time.") from None
        if done.returncode != 0:
            if absent and b"not found" in done.stderr.lower():
                return b""
            raise TabootError(
                "E_NETWORK", f"git did not get the wiki of {self._prefix} (status {done.returncode})."
            )
        if len(done.stdout) > limit:
            raise TabootError("E_TOO_LARGE", f"git says more of the wiki of {self._prefix} than is read.")
        return done.stdout


def _ending(page: str) -> str:
    return page.rpartition(".")[2].lower()
