"""The records that travel between the packages of the chain, in the order of the chain."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.offsets import OffsetMap

Role = Literal["document", "input"]
#: Endings of the names of files that show how another is written, which stays out of the repository.
EXAMPLE_ENDINGS = ("example", "sample", "template", "dist")
#: What becomes of a page: its main content as Markdown, its structured data as Markdown, or its source.
Extraction = Literal["markdown", "structured", "raw"]


@dataclass(frozen=True, slots=True)
class Attached:
    """A text that is attached to a mail, a document of its own. ``name``: the same for the same mail,
    beginning with its number there. ``data`` is None for what the mail only refers to, by ``reference``."""

    name: str
    mime: str
    charset: str | None
    data: bytes | None
    reference: str | None = None


# --- connectors -> raw_blobs --------------------------------------------------------------------------------


class Known(NamedTuple):
    """What the catalog remembers of a locator, for conditional requests and carried-over answers. Unless
    ``whole``, its bytes may be damaged, so that they are to be asked for."""

    sha256: str
    etag: str | None = None
    last_modified: str | None = None
    url: str | None = None
    whole: bool = True


class KnownItems(Mapping[str, Known]):
    """What the catalog remembers of all locators of a source, by path.

    ``etags`` has the ETag of each, ``roles`` the role, so that whoever needs these alone need not ask for the
    rest.
    """

    etags: Mapping[str, str | None]
    roles: Mapping[str, Role]


@dataclass(frozen=True, slots=True)
class Fetched:
    """One item's bytes. ``path`` is the locator's second part: a relative NFC path with ``/``, or a canonical
    URL key."""

    path: str
    data: bytes
    role: Role = "document"
    #: Declared content type without parameters; None lets the parser decide by name and bytes.
    mime: str | None = None
    #: Declared charset (HTTP header), if any.
    charset: str | None = None
    #: The URL as fetched and the one that answered (web); None for files.
    url: str | None = None
    final_url: str | None = None
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """One item whose bytes another process has fetched and put into the blob store. Fields as in
    :class:`Fetched`; ``byte_size``: how many bytes they are."""

    path: str
    sha256: str
    byte_size: int
    role: Role = "document"
    mime: str | None = None
    charset: str | None = None
    url: str | None = None
    final_url: str | None = None
    etag: str | None = None
    last_modified: str | None = None


class UploadedItem(NamedTuple):
    """One document that was uploaded, whose bytes are stored. Fields as in :class:`Stored`."""

    path: str
    sha256: str
    byte_size: int
    mime: str | None = None
    charset: str | None = None
    url: str | None = None
    final_url: str | None = None


@dataclass(frozen=True, slots=True)
class NotModified:
    """The origin says that the known bytes still hold (304). ``role`` as in :class:`Fetched`."""

    path: str
    role: Role = "document"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Many items of which :class:`NotModified` holds, by path, with their roles.

    A directory of thousands of files tells them by one event, since as a rule nearly all of it is unchanged.
    """

    roles: Mapping[str, Role]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Seen but not wanted, with a typed reason (a tombstone, a size limit …).

    It still exists, so this is no deletion, unless it is ``outside`` of what the source reads (a link out of
    the root, a pipe, a page beyond ``max_pages``): then it counts as absent.
    """

    path: str
    code: str
    message: str
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """One bad item: it goes to the dead letters, and what is known of it stays (its state is *unknown*)."""

    path: str
    error: TabootError


@dataclass(frozen=True, slots=True)
class Gone:
    """The origin says that it no longer exists (404, 410): *absent* even if the listing names it. ``linked``:
    no list named it, but a page links to it, which is no failure of the run.
    """

    path: str
    code: str
    message: str
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Not an item: what was told so far is to be made durable before the next event is asked for, since the
    connector then records that it is."""


@dataclass(frozen=True, slots=True)
class Enumerated:
    """The last event of every connector, which is asked for another once this one has been applied. Unless
    ``complete``, what was not seen is not absent (rule
    ``complete-enumeration``).
    """

    complete: bool
    reason: str = ""
    #: Whether what was not seen is gone because a person said so, so that nobody is asked once more.
    confirmed: bool = False


Event = Fetched | Stored | NotModified | Unchanged | Skipped | Failed | Gone | Checkpoint | Enumerated

# --- documents -> chunks ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A blob as normalized Markdown (config files: their text), with secrets masked."""

    text: str
    title: str
    mime: str
    charset: str
    lang: str
    offsets: OffsetMap
    #: author, description, keywords, canonical_url, og_image; only what the document says.
    #: Where its passages have places in its URL, these too (``model.offsets``).
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: The document's own date, if it states one (timezone-aware).
    date: datetime | None = None


ContentType = Literal["prose", "code", "table", "list"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """``document[start:end] == text`` in code points. ``section`` is the path of headings above, joined by
    ``" > "``."""

    index: int
    start: int
    end: int
    text: str
    tokens: int
    section: str
    content_type: ContentType


# --- extraction -> observations -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evidence:
    """The statement: code points ``[start, end)`` of the text of the file ``path`` of the unit."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node by label and key parts (see ``model.graph.NODES``), with the name people call it by."""

    label: str
    key: tuple[Any, ...]
    name: str


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """A unit says that a node exists and has these properties. Names of a ``declared`` node count as known in
    the namespace; ``aliases`` are further names of it (a container's ``container_name``)."""

    node: NodeRef
    evidence: Evidence
    properties: Mapping[str, Any] = field(default_factory=dict)
    declared: bool = False
    aliases: tuple[str, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class EdgeClaim:
    """A unit states a relation. ``start_basis`` and ``end_basis`` are ``bytes`` only if that end's name is in
    the evidence."""

    type: str
    start: NodeRef
    end: NodeRef
    evidence: Evidence
    method: str
    start_basis: Basis
    end_basis: Basis
    properties: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """A unit says that a service is on a network, and there answers to ``names``. ``network`` as the keys of
    networks are."""

    service: NodeRef
    network: str
    names: tuple[str, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Use:
    """A unit says that a service asks for a host, and not which service that is: it may be another unit's.
    ``host``: the ``ids.host_id`` of its name, since what only may be a name may be a secret. ``in_quote``:
    the name stands in the evidence. ``confidence``: that it is the name of a host. ``patterns``: the hashes
    of what a release of Helm answers to that made the name, the longest first (``gitea-*.git`` of
    ``gitea-http.git``)."""

    service: NodeRef
    host: str
    evidence: Evidence
    method: str
    in_quote: bool
    protocol: str | None = None
    port: int | None = None
    encrypted: bool | None = None
    confidence: float = 0.9
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a unit that could not be read; the rest of the unit stands. Never quotes file content."""

    path: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The fields of a source entry that interpretation may depend on."""

    namespace: str
    source_id: str
    host: str | None = None
    proxy: str | None = None
    #: The name of the directory that is the source's root, where that names a project.
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class UnitSpec:
    """A unit of interpretation, known from the listing alone: its name, unique in the source, and its files,
    the main one first."""

    name: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Interpretation:
    """What one unit says. ``subordinates``: files it takes in by ``extends``/``include``, which are then no
    units of their own. ``environment``: files it read as environment, which are never documents. ``format``:
    what the unit's main file was recognised as, where an extractor reads several formats."""

    nodes: tuple[NodeClaim, ...]
    edges: tuple[EdgeClaim, ...]
    subordinates: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    format: str = ""
    reaches: tuple[Reach, ...] = ()
    uses: tuple[Use, ...] = ()


_WILD = re.compile(r"[*?\[]")


#: A longer component of a pattern is none for names, which have 255 bytes at most; to translate one takes
#: time that grows with the square of its length.
_MAX_COMPONENT = 1_000


def _component(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches one component of a pattern."""
    if len(pattern) > _MAX_COMPONENT:
        return lambda name: False
    match, dot = re.compile(fnmatch.translate(pattern)).match, pattern.startswith(".")
    return lambda name: (dot or not name.startswith(".")) and match(name) is not None


#: Files beneath one folder: what is found is kept as an input.
_MAX_BENEATH = 2_000


@lru_cache(maxsize=2)
def _ordered(paths: frozenset[str]) -> Sequence[str]:
    return sorted(paths)


@lru_cache(maxsize=2)
def _by_folder(paths: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """The paths of a listing by their folder."""
    found: dict[str, list[str]] = {}
    for path in _ordered(paths):
        found.setdefault(path.rpartition("/")[0], []).append(path)
    return found


@lru_cache(maxsize=2)
def _called(paths: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """The folders of a listing by their own name, those in hidden ones left out, sorted."""
    found: dict[str, list[str]] = {}
    for folder in sorted(_by_folder(paths)):
        above, _, name = folder.rpartition("/")
        if not above.startswith(".") and "/." not in above:
            found.setdefault(name, []).append(folder)
    return found


@lru_cache(maxsize=32)
def _anywhere(paths: frozenset[str], pattern: str) -> tuple[str, ...]:
    """The paths that a pattern with ``**/`` matches, sorted; many units ask for the same."""
    parts = [_component(part) if part != "**" else None for part in pattern.split("/")]

    def fits(names: Sequence[str], wanted: Sequence[Callable[[str], bool] | None]) -> bool:
        if not wanted:
            return not names
        first = wanted[0]
        if first is None:
            shown = takewhile(lambda i: not i or not names[i - 1].startswith("."), range(len(names)))
            return any(fits(names[i:], wanted[1:]) for i in shown)
        return bool(names) and first(names[0]) and fits(names[1:], wanted[1:])

    return tuple(path for path in _ordered(paths) if fits(path.split("/"), parts))


class FileView:
    """The files of a source as one unit sees them. Every path read, or looked for and absent, is remembered
    in :attr:`reads`, which is the unit's input fingerprint (rule ``unit-of-interpretation``)."""

    def __init__(self, paths: frozenset[str], load: Any) -> None:
        self._paths = paths
        self._load = load
        self.reads: dict[str, bool] = {}
        #: Each pattern asked of :meth:`glob` and what it gave: a file that comes to match is an input too.
        self.globs: dict[str, tuple[str, ...]] = {}

    @property
    def paths(self) -> frozenset[str]:
        return self._paths

    def read(self, path: str) -> str | None:
        """The decoded text of ``path`` (normalized, from the source's root, with ``/``), None if absent."""
        present = path in self._paths
        self.reads[path] = present
        if not present:
            return None
        text: str | None = self._load(path)
        return text

    def glob(self, pattern: str) -> tuple[str, ...]:
        """The paths that match, sorted. ``*``, ``?`` and ``[…]`` stay within one component, and a leading dot
        must be written out; ``FOLDER/**`` is what lies in a folder, however deep, of which the first
        :data:`_MAX_BENEATH` are looked at, and ``**/`` before a pattern any number of components."""
        found = self.globs.get(pattern)
        if found is None:
            folder, slash, last = pattern.rpartition("/")
            if folder.startswith("**/") and _WILD.search(folder[3:]) is None and "/" not in folder[3:]:
                matches = _component(last)
                called = _called(self._paths).get(folder[3:], ())
                placed = [p for f in called for p in _by_folder(self._paths)[f]]
                found = tuple(p for p in placed if matches(posixpath.basename(p)))
            elif pattern.startswith("**/"):
                found = _anywhere(self._paths, pattern)
            elif slash and last == "**":
                ordered, beneath = _ordered(self._paths), f"{folder}/"
                first = bisect_left(ordered, beneath)
                near = islice(ordered, first, first + _MAX_BENEATH)
                there = takewhile(lambda p: p.startswith(beneath), near)
                found = tuple(p for p in there if "/." not in p[len(folder) :])
            elif _WILD.search(folder) is None:
                # Nearly every pattern is of this kind, and many units ask for one, or one for many.
                within = len(folder) + len(slash)
                matches = _component(last)
                inside = _by_folder(self._paths).get(folder, ()) if folder or not slash else ()
                found = tuple(p for p in inside if matches(p[within:]))
            else:
                parts = [_component(part) for part in pattern.split("/")]
                found = tuple(
                    sorted(
                        p
                        for p in self._paths
                        if p.count("/") == len(parts) - 1
                        and all(fits(name) for fits, name in zip(parts, p.split("/"), strict=True))
                    )
                )
            self.globs[pattern] = found
        return found


#: A group of hits of Elasticsearch, or one hit.
LOGS = "application/vnd.taboot.logs+json"
#: A thread of Reddit: its post and its comments.
REDDIT_THREAD = "application/vnd.taboot.reddit-thread+json"
#: What Reddit puts in the place of a text that its author, or a moderator, took away.
REDDIT_TAKEN_AWAY = frozenset({"[deleted]", "[removed]", "[ Removed by Reddit ]", "[ Removed by reddit ]"})
#: What the media types of GitHub's resources begin with.
GITHUB = "application/vnd.taboot.github-"
#: What people said there at a time, unlike what a repository says of itself.
GITHUB_THREADS = frozenset(f"{GITHUB}{what}+json" for what in ("issue", "pull", "release", "discussion"))
