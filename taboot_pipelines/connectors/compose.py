"""Directories of Compose projects (type ``compose``).

Documents are Compose files and Dockerfiles, inputs are environment files. Taken are, unless excluded:

* YAML with ``services`` or ``include`` at its top, or named like a Compose file whatever it holds; with
  ``include`` globs in the entry, exactly what they match;
* ``Dockerfile*``, ``Containerfile*`` and the like; ``.env``, ``*.env``, ``.env.*`` (with ``include`` globs:
  those that match, and the ``.env`` beside a Compose file);
* what the Compose files taken name by ``env_file``, ``extends``, ``include``, ``build``, ``configs``, what
  those name in turn, and what only the whole project names; examples of the environment files (``.example``).
  A file read as environment is an input under any
  name and whatever the globs say (rule ``unit-of-interpretation``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import DirectorySource, HostName, ProxyName
from taboot_pipelines.connectors.files import is_env, items, names, planned, source_directory, walked
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.walk import Directory, File, Item, Listing, read
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import EXAMPLE_ENDINGS, Event, FileView, Known, Role

_YAML = re.compile(r"(?i).*\.ya?ml(?:\.j2)?", re.DOTALL)
COMPOSE_NAME = re.compile(r"(?i)(?:.*[._-])?compose(?:[._-].*)?\.ya?ml(?:\.j2)?", re.DOTALL)
DOCKERFILE_NAME = re.compile(
    r"(?:Dockerfile|Containerfile).*|.*\.(?:[Dd]ockerfile|[Cc]ontainerfile)", re.DOTALL
)
#: What makes a project of several files.
_JOINS = re.compile(r"\bextends\b|^\s*(?:export\s+)?COMPOSE_FILE\b", re.MULTILINE)
#: GitLab's pipelines have the same top-level words and are no projects.
_OTHER_NAME = re.compile(r"\.gitlab-ci.*", re.DOTALL)
_FIRST_KEY = re.compile(r"^(?!---|%|[ \t]*(?:#|$))(?P<indent> *)", re.MULTILINE)
_FLOW = re.compile(r"""\{.*["']?(?:services|include)["']?\s*:""", re.DOTALL)
_ENV_LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE
)


class ComposeSource(DirectorySource):
    """Directories with any number of Compose projects."""

    type: Literal["compose"]
    host: HostName | None = Field(None, description="The machine on which the projects run.")
    proxy: ProxyName | None = Field(None, description="The reverse proxy that Traefik labels speak to.")

    def folder(self, root: Path) -> str | None:
        """The directory's own name, as Compose names a project there: links are not followed."""
        # Path.absolute keeps `..`, which is no name.
        whole = os.path.abspath(source_directory(self.path, root))  # noqa: PTH100
        return os.path.basename(whole) or None  # noqa: PTH119


#: What lies beneath the root, by path.
_Found = Mapping[str, Item]


class ComposeConnector:
    """Reads the projects beneath ``path`` of ``entry``, and what its globs take there."""

    def __init__(self, entry: ComposeSource, access: Access) -> None:
        self._entry = entry
        self._directory = source_directory(entry.path, access.root)
        self._access = access
        self._include = Globs(entry.include)
        self._exclude = Globs(entry.exclude)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_PATH`` or ``E_UNREADABLE`` before the first event if the root cannot be enumerated at
        all.
        """
        directory, listing = self._list()
        roles = self._roles(self._found(listing), tombstoned)
        yield from items(directory, listing, roles, self._access.max_blob_bytes, known, tombstoned)

    def plan(self) -> Iterator[Planned]:
        """How many files a run would look at. Raises as :meth:`events` does."""
        _, listing = self._list()
        yield planned(self._directory, listing, self._roles(self._found(listing), lambda _: False))

    def _list(self) -> tuple[Directory, Listing]:
        directory = walked(self._entry, self._access, self._exclude.covers)
        return directory, directory.list()

    def _found(self, listing: Listing) -> _Found:
        return {path: item for path, item in listing.items().items() if not self._exclude.matches(path)}

    def _roles(self, found: _Found, tombstoned: Callable[[str], bool]) -> dict[str, Role]:
        roles: dict[str, Role] = {}
        projects: list[str] = []
        for path, item in found.items():
            asked = bool(self._include) and self._include.matches(path)
            if any(is_env(n) for n in names(path, item)):
                if asked or not self._include:
                    roles[path] = "input"
            elif asked or not self._include:
                name = path.rsplit("/", 1)[-1]
                if _YAML.fullmatch(name):
                    if asked or self._is_project(name, item):
                        projects.append(path)
                elif asked or DOCKERFILE_NAME.fullmatch(name):
                    roles[path] = "document"
        for path in projects:
            roles[path] = "document"
            env = _beside(path, ".env")
            if env in found:
                roles[env] = "input"
        present = {path for path in found if not tombstoned(path)}
        add_named(
            self._access,
            roles,
            projects,
            found,
            present,
            text=lambda path: self._text(path, found, tombstoned),
            environment=lambda path: any(is_env(n) for n in names(path, found[path])),
        )
        return roles

    def _is_project(self, name: str, item: Item) -> bool:
        if COMPOSE_NAME.fullmatch(name):
            return True
        if _OTHER_NAME.fullmatch(name):
            return False
        data = read(item, self._access.max_blob_bytes) if isinstance(item, File) else item
        # What cannot be read may be a project: it must be named, not vanish.
        return has_services(decode(data)) if isinstance(data, bytes) else data is not None

    def _text(self, path: str, found: _Found, tombstoned: Callable[[str], bool]) -> str | None:
        item = found.get(path)
        if not isinstance(item, File) or tombstoned(path):
            return None
        data = read(item, self._access.max_blob_bytes)
        return decode(data) if isinstance(data, bytes) else None


def add_named(
    access: Access,
    roles: dict[str, Role],
    projects: Iterable[str],
    found: Collection[str],
    present: Collection[str],
    *,
    text: Callable[[str], str | None],
    environment: Callable[[str], bool],
) -> None:
    """Add to ``roles`` what the Compose files ``projects`` name among ``found``, what those name in turn, and
    what only whole projects of ``present`` files name. ``text``: of a file, None where it cannot be read;
    ``environment``: whether a file's names say that it is an environment file."""
    texts: dict[str, str | None] = {}

    def load(path: str) -> str | None:
        if path not in texts:
            texts[path] = text(path)
        return texts[path]

    def add(path: str, role: Role) -> None:
        if role == "input" and path.rpartition(".")[2] in EXAMPLE_ENDINGS:
            roles.setdefault(path, role)
        elif role == "input" or environment(path):
            roles[path] = "input"
        else:
            roles.setdefault(path, "document")

    _follow(access, projects, found, load, add)
    if access.project_files is None:
        return
    # What only the whole project names, such as a Dockerfile under another file's context.
    yaml = {path for path, role in roles.items() if role == "document" and _YAML.fullmatch(path)}
    yaml &= set(present)
    joined = {
        path.rpartition("/")[0]
        for path in present
        if (path in yaml or is_env(path.rpartition("/")[2])) and _JOINS.search(load(path) or "")
    }
    files = {path for path in yaml if path.rpartition("/")[0] in joined}
    for path, role in access.project_files(files, present, load):
        add(path, role)


def _follow(
    access: Access,
    projects: Iterable[str],
    found: Collection[str],
    load: Callable[[str], str | None],
    add: Callable[[str, Role], None],
) -> None:
    """Add what the projects name, and what that names. A file without a text names nothing."""
    if access.references is None:
        return
    queue = list(projects)
    seen = set(queue)
    listing = FileView(frozenset(found), load)
    while queue:
        path = queue.pop()
        text = load(path)
        if text is None:
            continue
        beside = _beside(path, ".env")
        environment = (load(beside) if beside in found else None) or ""
        try:
            references = access.references(text, path, dict(_variables(environment)), listing)
        except TabootError:
            continue  # the file is taken all the same, and its interpretation says what is wrong with it
        for named, role in references:
            if named not in found:
                continue
            add(named, role)
            if role == "document" and named not in seen and _YAML.fullmatch(named):
                seen.add(named)
                queue.append(named)


def may_be_project(name: str) -> bool:
    """Whether a file of this name is a project if it has services."""
    return is_yaml(name) and not _OTHER_NAME.fullmatch(name)


def is_yaml(name: str) -> bool:
    """Whether a file's name says that it is YAML."""
    return _YAML.fullmatch(name) is not None


def has_services(text: str) -> bool:
    """Whether a YAML text has ``services`` or ``include`` as a key at its top, syntax errors further down or
    not.
    """
    first = _FIRST_KEY.search(text)
    if first is None:
        return False
    if text.startswith("{", first.end()):
        return _FLOW.match(text, first.end()) is not None
    key = rf"^{first['indent']}([\"']?)(?:services|include)\1[ \t]*:(?=\s|$)"
    return re.search(key, text, re.MULTILINE) is not None


def decode(data: bytes) -> str:
    """Good enough to look for names: UTF-16 with its mark, else UTF-8 with what is not replaced."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _beside(path: str, name: str) -> str:
    return f"{path.rpartition('/')[0]}/{name}" if "/" in path else name


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """``NAME=value`` lines, quotes and comments taken off: enough for the paths that a Compose file builds
    from them.
    """
    for name, value in _ENV_LINE.findall(text):
        if value[:1] in ("'", '"'):
            yield name, value[1:].partition(value[0])[0]
        else:
            yield name, re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
