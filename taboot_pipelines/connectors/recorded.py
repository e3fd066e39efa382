"""A folder of exported or recorded files, read as ``files`` reads one, by the reader of a source type.

A file is one item with its own bytes, or a container of several, such as an mbox: these are called
``path#part``. A file that is not of the type is a typed skip. A file whose signature is unchanged is not
opened again; what a container held, and why a file was skipped, is remembered in the source's state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import RecordedSource
from taboot_pipelines.connectors.files import is_env, names, planned, source_directory
from taboot_pipelines.connectors.globs import Globs
from taboot_pipelines.connectors.plans import Planned
from taboot_pipelines.connectors.walk import Directory, File, Listing, opened, settled, signature_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Known,
    Role,
    Skipped,
    Unchanged,
)

#: What the source's state remembers: {path: [the reader's version, the file's signature, why it was skipped,
#: what the reader keeps, the parts that were left out]} of files that are not one item.
_FILES = "files"
#: The file says of itself that it is something else, or nothing.
_NOT_OF_THE_TYPE = frozenset({"E_MIME", "E_BINARY", "E_EMPTY", "E_TOO_LARGE"})
#: After so many files what was read is made durable.
_CHECKPOINT_FILES = 256


@dataclass(frozen=True, slots=True)
class Part:
    """An item that a file holds. ``name``: what tells it from the others of a container, the same whatever
    comes before it; None for a file that is one item. The rest as in ``model.records.Fetched``."""

    data: bytes
    name: str | None = None
    mime: str | None = None
    charset: str | None = None
    url: str | None = None
    role: Role = "document"
    last_modified: str | None = None
    #: Without a name: whether nothing follows it in the file.
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """A part that is as it was when the file was read last, of those that are ``known``."""

    name: str | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that is there and not read, with a typed reason."""

    name: str | None
    code: str
    message: str


class RecordedFile:
    """A file as a reader sees it. ``stream`` is at its beginning. ``known``: the names of its parts that are
    stored. ``remembered``: what this version of the reader put into ``keep`` when it last read the file, such
    as how far it came; a value of JSON, of which nothing is content."""

    def __init__(
        self,
        path: str,
        size: int,
        limit: int,
        stream: BinaryIO,
        known: frozenset[str | None] = frozenset(),
        remembered: Any = None,
    ) -> None:
        self.path = path
        self.size = size
        #: No item may have more bytes.
        self.limit = limit
        self.stream = stream
        self.known = known
        self.remembered = remembered
        self.keep: Any = None

    def read(self) -> bytes:
        """All bytes. Raises ``E_TOO_LARGE`` for more than :attr:`limit`."""
        if self.size > self.limit:
            raise TabootError(
                "E_TOO_LARGE", f"{self.path} has {self.size} bytes, more than {self.limit}.", path=self.path
            )
        return self.stream.read(self.limit + 1)


class Reader(Protocol):
    """Tells what a file holds, one part after the other. Raises ``E_MIME`` for a file that is not of the
    type, and any other ``TabootError`` for one that is, but cannot be read (to its end)."""

    #: Raise it when the same file would give other parts.
    version: str

    def __call__(self, file: RecordedFile) -> Iterator[Part | Kept | LeftOut]: ...


class RecordedFiles:
    """The connector of an entry that has a ``path``."""

    def __init__(
        self, entry: RecordedSource, access: Access, reader: Reader, *, default_include: tuple[str, ...]
    ) -> None:
        assert entry.path is not None
        self._directory = source_directory(entry.path, access.root)
        self._access = access
        self._reader = reader
        #: Endings of the default are taken in any case; a person's globs mean what they say.
        self._fold = not entry.include
        self._include = Globs(entry.include or default_include)
        self._exclude = Globs(entry.exclude)

    def plan(self) -> Iterator[Planned]:
        """How many files a run would look at. Raises as :meth:`events` does."""
        _, listing = self._list()
        yield planned(self._directory, listing, self._taken(listing))

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_PATH`` or ``E_UNREADABLE`` before the first event if the root cannot be enumerated at
        all."""
        directory, listing = self._list()
        paths = self._taken(listing)
        yield from listing.directories
        held = _parts_of(known, paths)
        complete, reason = listing.complete, listing.reason
        before: dict[str, Any] = self._access.state.load(_FILES) or {}
        memory = {path: before[path] for path in paths if path in before}
        unsaved = 0
        for path in paths:
            item = listing.item(path)
            parts = held.get(path, ())
            if not isinstance(item, File):
                yield item
                continue
            if self._is_as_it_was(item, memory.get(path), known, parts, tombstoned):
                if path in memory and memory[path][2] is not None:
                    yield Skipped(path, *memory[path][2])
                for left in memory[path][4] if path in memory else ():
                    yield Skipped(*left)
                if parts:
                    yield Unchanged(dict.fromkeys(parts, "document"))
                continue
            whole = yield from self._read(item, tombstoned, memory, parts)
            if not whole:
                # What the rest of the file holds is unknown.
                complete, reason = False, reason or f"{path} could not be read to its end"
            unsaved += 1
            if unsaved == _CHECKPOINT_FILES:
                self._access.state.save(_FILES, memory)
                yield Checkpoint()
                unsaved = 0
        if memory != before:
            self._access.state.save(_FILES, memory)
        if complete and not directory.still_there():
            complete, reason = False, "the directory was replaced or unmounted meanwhile"
        yield Enumerated(complete, reason)

    def _list(self) -> tuple[Directory, Listing]:
        directory = Directory(self._directory, pruned=self._exclude.covers, apart=self._access.home)
        return directory, directory.list()

    def _taken(self, listing: Listing) -> list[str]:
        """The paths that the globs take, sorted; environment files are never among them."""
        fold = self._fold
        taken = self._include.among((path, path.lower() if fold else path) for path in listing)
        return sorted(
            path
            for path in taken
            if not (self._exclude and self._exclude.matches(path))
            and not any(map(is_env, names(path, listing.item(path))))
        )

    def _is_as_it_was(
        self,
        file: File,
        remembered: list[Any] | None,
        known: Mapping[str, Known],
        parts: tuple[str, ...],
        tombstoned: Callable[[str], bool],
    ) -> bool:
        """Whether the file is as it was when it was last read to its end."""
        if remembered is not None:
            return bool(remembered[:2] == [self._reader.version, file.signature])
        # One item that is the whole file needs no memory of its own.
        return parts == (file.path,) and known[file.path].etag == file.signature and not tombstoned(file.path)

    def _read(
        self,
        file: File,
        tombstoned: Callable[[str], bool],
        memory: dict[str, Any],
        parts: tuple[str, ...],
    ) -> Generator[Event, None, bool]:
        """The events of one file; returns False where a part of it may be missing. What else is to be known
        of it the next time is put into ``memory``. ``parts``: its items that are known."""
        limit = self._access.max_blob_bytes
        before = memory.pop(file.path, None)
        held = frozenset(None if part == file.path else part[len(file.path) + 1 :] for part in parts)
        left: list[tuple[str, str, str]] = []
        seen: set[str] = set()
        skip: tuple[str, str] | None = None
        begun = time.time()
        try:
            with opened(file) as (stream, info):
                signature = signature_of(info) if settled(info, begun) else None
                remembered = before[3] if before is not None and before[0] == self._reader.version else None
                recorded = RecordedFile(file.path, info.st_size, limit, stream, held, remembered)
                for part in self._reader(recorded):
                    path = file.path if part.name is None else f"{file.path}#{part.name}"
                    if path in seen:
                        yield Failed(path, TabootError("E_CONFLICT", f"Two parts are called {path}."))
                        continue
                    seen.add(path)
                    if tombstoned(path):
                        yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                    elif isinstance(part, Kept):
                        yield Unchanged({path: "document"})
                    elif isinstance(part, LeftOut):
                        left.append((path, part.code, part.message))
                        yield Skipped(*left[-1])
                    elif len(part.data) > limit:
                        left.append(
                            (path, "E_TOO_LARGE", f"{path} has {len(part.data)} bytes, more than {limit}.")
                        )
                        yield Skipped(*left[-1])
                    else:
                        yield Fetched(
                            path,
                            part.data,
                            part.role,
                            mime=part.mime,
                            charset=part.charset,
                            url=part.url,
                            etag=signature if part.name is None and part.whole else None,
                            last_modified=part.last_modified,
                        )
                if signature_of(os.fstat(stream.fileno())) != signature_of(info):
                    # It grew or was written meanwhile: what was read stands, and the next run looks again.
                    if recorded.keep is not None:
                        memory[file.path] = [self._reader.version, None, None, recorded.keep, left]
                    return not seen or file.path in seen
        except FileNotFoundError:
            return True
        except OSError as error:
            message = f"{file.path} cannot be read ({error.strerror})."
            yield Failed(file.path, TabootError("E_UNREADABLE", message, path=file.path))
            return False
        except TabootError as error:
            if seen or error.code not in _NOT_OF_THE_TYPE:
                yield Failed(file.path, error)
                return False
            skip = (error.code, error.message)
            yield Skipped(file.path, *skip)
            recorded = None
        keep = None if recorded is None else recorded.keep
        if keep is not None or (signature is not None and (skip is not None or seen != {file.path})):
            memory[file.path] = [self._reader.version, signature, skip, keep, left]
        return True


def _parts_of(known: Mapping[str, Known], paths: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The known items of each file, by the file's path."""
    files = set(paths)
    found: dict[str, list[str]] = {}
    for item in known:
        if item in files:
            found.setdefault(item, []).append(item)
            continue
        # A name may hold a `#` too: the longest that is a file's counts.
        at = item.rfind("#")
        while at > 0 and item[:at] not in files:
            at = item.rfind("#", 0, at)
        if at > 0:
            found.setdefault(item[:at], []).append(item)
    return {path: tuple(sorted(items)) for path, items in found.items()}
