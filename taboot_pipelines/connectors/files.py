"""A directory of documents (type ``files``) or of confs of nginx (``swag``), and what the readers of
directories share.

By default it takes :data:`DEFAULT_INCLUDE`; ``include`` replaces that, ``exclude`` wins over it. Environment
files (``.env``, ``*.env``, ``.env.*``) are never documents (rule ``secrets-stop-at-the-blob``), whatever the
globs say, nor are links to them; an example of one (``.env.example``) is. An example of another file of
configuration is taken by default where that file is not there: what stays out of a repository for its
secrets is declared by its example alone. With ``interpret`` the default takes ``Access.config_globs`` too,
and what quadlets name as files of their environment is input.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import DirectorySource, HostName, ProxyName
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.walk import (
    Content,
    Directory,
    File,
    Item,
    Listing,
    read,
    read_signed,
    repository_of,
)
from taboot_pipelines.model.records import (
    EXAMPLE_ENDINGS,
    Enumerated,
    Event,
    Fetched,
    Known,
    KnownItems,
    Role,
    Skipped,
    Unchanged,
)

#: Formats of configuration, of which an example counts for a file that is not there.
_CONFIGURATION = (
    *("*.yaml", "*.yml", "*.json", "*.jsonc", "*.json5", "*.hujson", "*.toml", "*.xml"),
    *("*.conf", "*.cfg", "*.cnf", "*.ini", "*.properties", "*.config", "*.alloy"),
    *("*.tf", "*.tfvars", "*.hcl", "*.nomad"),
)
#: SWAG ships samples of confs for every program that it knows, used or not.
_EXAMPLES = tuple(
    f"{glob}.{ending}"
    for glob in _CONFIGURATION
    for ending in EXAMPLE_ENDINGS
    if (glob, ending) != ("*.conf", "sample")
)
#: Text that people keep beside what they run: documents, configuration, templates, scripts, and examples of
#: environment files. Program code, lock files and what is built are none of it.
DEFAULT_INCLUDE = (
    *("*.md", "*.markdown", "*.mdx", "*.html", "*.htm", "*.xhtml", "*.txt", "*.rst"),
    *("*.adoc", "*.asciidoc", "*.org", "*.ipynb", "*.pdf", "*.docx"),
    *_CONFIGURATION,
    *_EXAMPLES,
    *("*.csv", "*.tsv", "*.vtt", "*.srt", "*.sbv", "*.eml"),
    *("*.sls", "*.j2", "*.jinja", "*.jinja2"),
    *("*.nix", "*.jsonnet", "*.libsonnet", "*.cue", "*.pp", "*.epp", "*.erb", "*.tmpl", "*.tpl"),
    *("*.sh", "*.bash", "*.zsh", "*.fish", "*.ps1", "*.mk", "makefile", "justfile"),
    *("vagrantfile", "jenkinsfile", "procfile", "crontab", "*.cron"),
    *("*.service", "*.timer", "*.socket", "*.mount", "*.target", "*.path", "*.netdev"),
    *("*.zone", "*.nft", "*.rules", "*.rsc", "*.vcl", "*.acl"),
    *(".env.example", ".env.sample", ".env.template", ".env.dist"),
    *(".env.*.example", "*.env.example", "*.env.sample", "*.env.template"),
    *("example.env", "sample.env", "*.example.env", "*.sample.env"),
)
_ENV = re.compile(r"(?i).*\.env|\.env\..*", re.DOTALL)
_QUADLET = re.compile(r"\.container(?:\.d/[^/]+\.conf)?\Z")
_ENVIRONMENT_FILE = re.compile(rb"(?m)^[ \t]*EnvironmentFile[ \t]*=[ \t]*-?(.+)$")


class FilesSource(DirectorySource):
    """A directory of documents: Markdown, HTML, text, mail, PDF, Word, notebooks, captions, YAML, JSON, …"""

    type: Literal["files"]
    interpret: bool = Field(
        False,
        description=(
            "Configuration files of known formats are interpreted, and become relations in the graph; but "
            "for Compose and nginx, which have source types of their own."
        ),
    )
    host: HostName | None = Field(
        None, description="The machine that the configuration files belong to; only with `interpret`."
    )
    proxy: ProxyName | None = Field(
        None,
        description=(
            "Name of the reverse proxy that the configuration files are of; default the source's id. Only "
            "with `interpret`."
        ),
    )

    @model_validator(mode="after")
    def _meaning(self) -> FilesSource:
        for name in ("host", "proxy"):
            if getattr(self, name) is not None and not self.interpret:
                raise ValueError(
                    f"has the unknown field {name}, which only `interpret: true` gives a meaning"
                )
        return self


class SwagSource(DirectorySource):
    """A directory of nginx proxy confs."""

    type: Literal["swag"]
    proxy: ProxyName | None = Field(None, description="Name of the reverse proxy; default the source's id.")


#: What the name of a file says that shows how an environment file is written.
_EXAMPLE = re.compile(rf"(?i)(?:^|[._-])(?:{'|'.join(EXAMPLE_ENDINGS)})(?:[._-]|$)")


def is_example(name: str) -> bool:
    """Whether a file name says that it is an example of one."""
    return _EXAMPLE.search(name) is not None


def is_env(name: str) -> bool:
    """Whether a file name says that it holds environment variables."""
    # Nearly no name has the letters at all, and looking for them is quicker than the pattern.
    return ".env" in name.lower() and _ENV.fullmatch(name) is not None


def source_directory(path: str, root: Path) -> Path:
    """Where an entry's ``path`` leads: relative to ``root`` (the sources file's directory), absolute, or
    from ``~``.
    """
    try:
        return root / Path(path).expanduser()
    except RuntimeError:  # no such home: a directory of that name does not exist either
        return root / path


def told_directory(path: str, root: Path) -> Path:
    """The same as it is told: absolute, and without the ``..`` by which a sources file names folders beside
    its own; these stay where a link on the way makes them lead elsewhere."""
    directory = source_directory(path, root).absolute()
    plain = os.path.normpath(directory)
    return Path(plain) if os.path.realpath(plain) == os.path.realpath(directory) else directory


def walked(entry: DirectorySource, access: Access, pruned: Callable[[str], bool]) -> Directory:
    """The directory of an entry. Raises as :class:`Directory` does."""
    path = source_directory(entry.path, access.root)
    whole = repository_of(path) if entry.root is None else source_directory(entry.root, access.root)
    return Directory(path, pruned=pruned, apart=access.home, whole=whole)


class FilesConnector:
    """Reads what the globs of ``entry`` take of its ``path``, or ``default_include`` where it has none."""

    def __init__(
        self,
        entry: DirectorySource,
        access: Access,
        *,
        default_include: tuple[str, ...] = DEFAULT_INCLUDE,
    ) -> None:
        self._entry = entry
        self._directory = source_directory(entry.path, access.root)
        self._access = access
        #: Endings of the default are taken in any case (README.MD); a person's globs mean what they say.
        self._fold = not entry.include
        more = access.config_globs if entry.interprets else ()
        self._include = Globs(entry.include or (*default_include, *more))
        self._exclude = Globs(entry.exclude)
        self._examples = Globs(_EXAMPLES if not entry.include else ())

    def plan(self) -> Iterator[Planned]:
        """How many files a run would look at. Raises as :meth:`events` does."""
        listing = walked(self._entry, self._access, self._exclude.covers).list()
        yield planned(self._directory, listing, self._roles(listing))

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_PATH`` or ``E_UNREADABLE`` before the first event if the root cannot be enumerated at
        all.
        """
        directory = walked(self._entry, self._access, self._exclude.covers)
        listing = directory.list()
        yield from items(
            directory, listing, self._roles(listing), self._access.max_blob_bytes, known, tombstoned
        )

    def _roles(self, listing: Listing) -> dict[str, Role]:
        fold = self._fold
        taken = self._include.among((path, path.lower() if fold else path) for path in listing)
        if self._exclude:
            taken = [path for path in taken if not self._exclude.matches(path)]
        roles: dict[str, Role] = {
            path: "document"
            for path in taken
            # Few names have the letters, and few files are links.
            if not (
                (path in listing.special or ".env" in path.lower())
                and any(is_env(n) and not is_example(n) for n in names(path, listing.item(path)))
            )
        }
        for path in [path for path in roles if self._examples.matches(path.lower())]:
            if path.rpartition(".")[0] in roles:
                del roles[path]
        if self._entry.interprets:
            for path in [path for path in roles if _QUADLET.search(path)]:
                item = listing.item(path)
                data = read(item, self._access.max_blob_bytes) if isinstance(item, File) else None
                for named in _environment_files(path, data if isinstance(data, bytes) else b""):
                    here = named in listing.signatures or named in listing.special
                    if here and not self._exclude.matches(named):
                        roles[named] = "input"
        return roles


def _environment_files(path: str, unit: bytes) -> Iterator[str]:
    """What a quadlet, or a drop-in of one, names as files of its environment: paths from the root."""
    folder = posixpath.dirname(path)
    folder = posixpath.dirname(folder) if folder.endswith(".d") else folder
    for written in _ENVIRONMENT_FILE.findall(unit):
        named = written.decode(errors="replace").strip()
        if named and named[0] not in "/%":
            yield posixpath.normpath(posixpath.join(folder, named))


def planned(directory: Path, listing: Listing, paths: Collection[str]) -> Planned:
    """What a run would look at of a directory: no requests, so many files and bytes."""
    sizes = (int(listing.signatures[p].partition(":")[0]) for p in paths if p in listing.signatures)
    return Planned(f"files of {directory}", requests=0, items=len(paths), bytes=sum(sizes))


def names(path: str, item: Item) -> tuple[str, ...]:
    """The file's name and, for a link, its target's."""
    return item.names if isinstance(item, File) else (path.rsplit("/", 1)[-1],)


def items(
    directory: Directory,
    listing: Listing,
    roles: Mapping[str, Role],
    limit: int,
    known: Mapping[str, Known],
    tombstoned: Callable[[str], bool],
) -> Iterator[Event]:
    """The events of a listing: problems of directories, what is unchanged, then what else ``roles`` names in
    the order of paths, then the end. A file with the signature by which it is known is not read again.
    """
    yield from listing.directories
    etags = known.etags if isinstance(known, KnownItems) else {path: x.etag for path, x in known.items()}
    signatures = listing.signatures
    unchanged = {
        path: role
        for path, role in roles.items()
        if (signature := signatures.get(path)) is not None
        and signature == etags.get(path)
        and not tombstoned(path)
    }
    if unchanged:
        yield Unchanged(unchanged)
    for path in sorted(roles.keys() - unchanged.keys()):
        item = listing.item(path)
        if tombstoned(path):
            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
        elif isinstance(item, File):
            content = read_signed(item, limit)
            if isinstance(content, Content):
                yield Fetched(path, content.data, roles[path], etag=content.signature)
            elif content is not None:
                yield content
        else:
            yield item
    if listing.complete and not directory.still_there():
        yield Enumerated(False, "the directory was replaced or unmounted meanwhile")
    else:
        yield Enumerated(listing.complete, listing.reason)
