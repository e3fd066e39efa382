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
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.walk import Directory, File, Listing, opened, settled, signature_of
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Known,
    KnownItems,
    Role,
    Skipped,
    Unchanged,
)

#: What the source's state remembers of files that are not one item: {path: [the reader's version, the file's
#: signature, how many items of it are stored, what was said of others, what the reader keeps]}; of others as
#: rows of (whether it failed, the item, code, message).
_FILES = "files"
#: The version of the reader that read the files that are one item.
_VERSION = "reader"
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
        etags = known.etags if isinstance(known, KnownItems) else {p: x.etag for p, x in known.items()}
        complete, reason = listing.complete, listing.reason
        state, version = self._access.state, self._reader.version
        before: dict[str, Any] = state.load(_FILES) or {}
        memory = {path: before[path] for path in paths if path in before}
        if not known:
            # What is read from here on is read by this reader, also where the run is killed.
            state.save(_VERSION, version)
        same_reader = state.load(_VERSION) == version
        #: No part may be called as a file is, or as a part of another file.
        given = set(paths)
        unsaved = 0
        for path in paths:
            item = listing.item(path)
            parts = held.get(path, ())
            if not isinstance(item, File):
                yield item
                if parts and not (isinstance(item, Skipped) and item.outside):
                    complete, reason = False, reason or f"{path} could not be read"
                continue
            remembered = memory.pop(path, None)
            if self._is_as_it_was(item, remembered, etags, parts, tombstoned, same_reader):
                said = [] if remembered is None else remembered[3]
                if remembered is not None:
                    memory[path] = remembered
                for failed, name, code, message in said:
                    yield Failed(name, TabootError(code, message)) if failed else Skipped(name, code, message)
                if unchanged := set(parts).difference(name for _, name, _, _ in said):
                    given |= unchanged
                    yield Unchanged(self._roles(known, unchanged))
                continue
            kept = remembered[4] if remembered is not None and remembered[0] == version else None
            whole = yield from self._read(item, frozenset(parts), tombstoned, memory, given, kept)
            if not whole:
                # What the rest of the file holds is unknown.
                complete, reason = False, reason or f"{path} could not be read to its end"
            unsaved += 1
            if unsaved == _CHECKPOINT_FILES:
                state.save(_FILES, memory)
                yield Checkpoint()
                unsaved = 0
        if memory != before:
            state.save(_FILES, memory)
        if not same_reader:
            state.save(_VERSION, version)
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

    @staticmethod
    def _roles(known: Mapping[str, Known], paths: Collection[str]) -> dict[str, Role]:
        roles = known.roles if isinstance(known, KnownItems) else {}
        return {path: roles.get(path, "document") for path in paths}

    def _is_as_it_was(
        self,
        file: File,
        remembered: list[Any] | None,
        etags: Mapping[str, str | None],
        parts: tuple[str, ...],
        tombstoned: Callable[[str], bool],
        same_reader: bool,
    ) -> bool:
        """Whether the file is as it was when it was last read to its end, and all that was to be stored of it
        is."""
        if remembered is not None:
            return bool(remembered[:3] == [self._reader.version, file.signature, len(parts)])
        # One item that is the whole file needs no memory of its own.
        return (
            same_reader
            and parts == (file.path,)
            and etags.get(file.path) == file.signature
            and not tombstoned(file.path)
        )

    def _read(
        self,
        file: File,
        parts: frozenset[str],
        tombstoned: Callable[[str], bool],
        memory: dict[str, Any],
        given: set[str],
        kept: Any,
    ) -> Generator[Event, None, bool]:
        """The events of one file, of which ``parts`` are known; returns False where a part of it may be
        missing. What else is to be known of it the next time is put into ``memory``, and what its parts are
        called into ``given``. ``kept``: what the reader kept of it.
        """
        limit = self._access.max_blob_bytes
        seen: set[str] = set()
        said: list[tuple[bool, str, str, str]] = []
        stored = 0
        begun = time.time()
        signature: str | None = None
        names = frozenset(None if part == file.path else part[len(file.path) + 1 :] for part in parts)
        try:
            with opened(file) as (stream, info):
                signature = signature_of(info) if settled(info, begun) else None
                recorded = RecordedFile(file.path, info.st_size, limit, stream, names, kept)
                try:
                    for part in self._reader(recorded):
                        path = file.path if part.name is None else f"{file.path}#{part.name}"
                        taken = path in given and part.name is not None
                        seen.add(path)
                        given.add(path)
                        if taken:
                            said.append((True, path, "E_CONFLICT", f"More than one item is called {path}."))
                            yield Failed(path, TabootError("E_CONFLICT", said[-1][3]))
                        elif tombstoned(path):
                            # It is not said again: the name of what was erased may be kept nowhere.
                            yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                        elif isinstance(part, Kept):
                            stored += 1
                            yield Unchanged({path: "document"})
                        elif isinstance(part, LeftOut):
                            said.append((False, path, part.code, part.message))
                            stored += path in parts
                            yield Skipped(path, part.code, part.message)
                        elif len(part.data) > limit:
                            message = f"{path} has {len(part.data)} bytes, more than {limit}."
                            said.append((False, path, "E_TOO_LARGE", message))
                            stored += path in parts
                            yield Skipped(path, "E_TOO_LARGE", message)
                        else:
                            stored += 1
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
                finally:
                    # If it grew or was written meanwhile, what was read stands, and the next run looks again.
                    changed = signature_of(os.fstat(stream.fileno())) != signature_of(info)
        except FileNotFoundError:
            return True
        except OSError as error:
            message = f"{file.path} cannot be read ({error.strerror or type(error).__name__})."
            yield Failed(file.path, TabootError("E_UNREADABLE", message, path=file.path))
            return False
        except TabootError as error:
            if seen or error.code not in _NOT_OF_THE_TYPE:
                yield Failed(file.path, error)
                return False
            said.append((False, file.path, error.code, error.message))
            stored = int(file.path in parts)
            yield Skipped(file.path, error.code, error.message)
            if error.code == "E_TOO_LARGE" and parts - {file.path}:
                return False  # it still holds what it held, as far as one knows
            seen.add(file.path)
        except Exception as error:  # noqa: BLE001  whatever a stranger's file provokes in a reader
            message = f"{file.path}: its reader failed with {type(error).__name__}."
            yield Failed(file.path, TabootError("E_PARSE", message, path=file.path, where=raised_at(error)))
            return False
        vanished = parts - seen
        if changed:
            if recorded.keep is not None and not vanished:
                memory[file.path] = [self._reader.version, None, stored, said, recorded.keep]
            return not vanished
        # A file of which something is gone is read once more: until then that is not recorded for certain.
        if not vanished and (
            recorded.keep is not None or (signature is not None and (said or seen != {file.path}))
        ):
            memory[file.path] = [self._reader.version, signature, stored, said, recorded.keep]
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
