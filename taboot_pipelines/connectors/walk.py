"""The files of a directory: listed in one order wherever it lies, and read whole or not at all.

Paths are relative, NFC, with ``/``. A file whose name is not UTF-8, or has the same NFC form as another's, is
no item that a locator could name: it is reported under an escaped name. Directories of version control,
caches and dependencies (:data:`PRUNED`) are passed over. A symbolic link is followed if it stays inside the
root: to a file always, to a directory unless it leads to one of its own parents or itself lies beneath a
followed link, so that a walk ends. A link to a file may lead as far as the directory that the root is a part
of, as a rule the top of its repository.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Failed, Skipped

PRUNED = frozenset(
    {
        ".git",
        ".svn",
        ".hg",
        ".bzr",
        "CVS",
        "node_modules",
        "__pycache__",
        ".venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".terraform",
        ".taboot",
    }
)
#: Folders of what tests set up, such as an Ansible role's scenarios: it declares nothing of the house.
OF_TESTS = ("molecule", "fixtures", "testdata")


def is_of_tests(parts: Iterable[str]) -> bool:
    """Whether one of the folders of a path is one of :data:`OF_TESTS`."""
    return not set(OF_TESTS).isdisjoint(parts)


#: A tree with more entries is not one that a person meant.
MAX_ENTRIES = 1_000_000
#: The coarsest resolution of file times in use (FAT), in seconds.
_SETTLED_SECONDS = 2.0
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


@dataclass(slots=True)
class File:
    """A regular file. ``location`` is what to open; ``names`` its own name and, for a link, that of its
    target. While ``signature`` stays, so do the bytes (see :func:`signature_of`).
    """

    path: str
    location: str
    names: tuple[str, ...]
    signature: str


#: A file, or why there is none.
Item = File | Skipped | Failed


@dataclass
class Listing:
    """``signatures``: of every file, by path. ``special``: by path, what is no plain file: a link's file, a
    file whose name is not ASCII, or why there is none. ``directories``: problems of directories.
    ``complete``: every directory was read (rule ``complete-enumeration``), else ``reason``.

    A plain file, as nearly every one is, lies at its path beneath ``real``, and no object is made of it until
    it is asked for: tens of thousands are compared by their signatures alone.
    """

    real: str
    signatures: dict[str, str] = field(default_factory=dict)
    special: dict[str, Item] = field(default_factory=dict)
    directories: list[Skipped | Failed] = field(default_factory=list)
    complete: bool = True
    reason: str = ""

    def __iter__(self) -> Iterator[str]:
        """The paths of all items, in no order."""
        yield from self.signatures
        yield from (path for path in self.special if path not in self.signatures)

    def item(self, path: str) -> Item:
        """The file at one of the paths, or why there is none."""
        found = self.special.get(path)
        if found is not None:
            return found
        return File(path, _joined(self.real, path), (path.rpartition("/")[2],), self.signatures[path])

    def items(self) -> dict[str, Item]:
        """Everything, in the order of paths."""
        return {path: self.item(path) for path in sorted(self)}


class Directory:
    """A source's root. Raises ``E_PATH`` if it is missing or no directory, ``E_UNREADABLE`` if it cannot be
    read.
    """

    def __init__(
        self,
        root: Path,
        *,
        pruned: Callable[[str], bool],
        apart: Path | None = None,
        whole: Path | None = None,
    ) -> None:
        """``pruned(path)``: nothing beneath that directory is wanted. ``apart``: a directory (our own stores)
        left out. ``whole``: the directory that the root is a part of, if it is of one.
        """
        self.root = root
        self._pruned = pruned
        try:
            self._real = os.path.realpath(root)
            self._identity = _identity(Path(self._real).stat())
            with os.scandir(self._real):
                pass
        except PermissionError:
            raise TabootError(
                "E_UNREADABLE", f"The directory {root} cannot be read.", path=str(root)
            ) from None
        except (OSError, ValueError):
            raise TabootError(
                "E_PATH",
                f"The path {root} is a file: name its directory, and the file in `include`."
                if root.is_file()
                else f"The path {root} does not exist or is not a directory.",
                path=str(root),
            ) from None
        self._apart = os.path.realpath(apart) if apart else None
        self._whole = self._real if whole is None else os.path.realpath(whole)

    def still_there(self) -> bool:
        """Whether the root is the directory it was: an unmounted one must not pass for an emptied one."""
        try:
            return _identity(self.root.stat()) == self._identity
        except OSError:
            return False

    def list(self) -> Listing:
        """Everything beneath the root."""
        listing = Listing(self._real)
        signatures = listing.signatures
        found: list[tuple[str, Item]] = []
        troubled: list[tuple[str, Skipped | Failed]] = []
        # (path of the directory as the file system spells it, what to open, identities of it and its parents,
        # beneath a link)
        stack: list[tuple[str, str, tuple[tuple[int, int], ...], bool]] = [
            ("", self._real, (self._identity,), False)
        ]
        while stack:
            raw, location, chain, linked = stack.pop()
            try:
                with os.scandir(location) as entries:
                    children = list(entries)
            except OSError as error:
                if error.errno not in _GONE:
                    name = _escaped(raw) or "."
                    listing.complete = False
                    listing.reason = listing.reason or f"the directory {name} could not be read"
                    troubled.append((raw or ".", Failed(name, _unreadable(name, error, "directory"))))
                continue
            if len(signatures) + len(found) + len(stack) + len(children) > MAX_ENTRIES:
                listing.complete = False
                listing.reason = f"there are more than {MAX_ENTRIES} entries"
                message = f"The source holds more than {MAX_ENTRIES} entries."
                troubled.append(
                    (raw or ".", Failed(_escaped(raw) or ".", TabootError("E_TOO_LARGE", message)))
                )
                break
            # Beneath a link files lie elsewhere than their paths say.
            plain = raw.isascii() and not linked
            for child in children:
                child_raw = f"{raw}/{child.name}" if raw else child.name
                if plain and child.name.isascii() and (signature := _plain_signature(child)) is not None:
                    signatures[child_raw] = signature
                    continue
                outcome = self._look(child, child_raw, chain, linked)
                if isinstance(outcome, tuple):
                    stack.append(outcome)
                elif isinstance(outcome, Skipped) and outcome.path == "":
                    troubled.append((child_raw, outcome))
                elif outcome is not None:
                    found.append((child_raw, outcome))
        listing.special = dict(_named(found, signatures))
        signatures.update(
            (p, item.signature) for p, item in listing.special.items() if isinstance(item, File)
        )
        taken = {*signatures, *listing.special} if troubled else set()
        for raw, event in sorted(troubled, key=lambda t: t[0]):
            listing.directories.append(replace(event, path=_free(_escaped(raw), raw, taken)))
        return listing

    def _look(
        self, child: os.DirEntry[str], raw: str, chain: tuple[tuple[int, int], ...], linked: bool
    ) -> File | Skipped | Failed | tuple[str, str, tuple[tuple[int, int], ...], bool] | None:
        """What a directory entry is; None for what is passed over. A Skipped without a path is about a
        directory.
        """
        location, is_link = child.path, False
        names: tuple[str, ...] = (child.name,)
        name = raw if raw.isascii() else _escaped(raw)
        try:
            if child.is_symlink():
                is_link = True
                location = os.path.realpath(child.path, strict=True)
                names = (child.name, location.rpartition(os.sep)[2])
                info = Path(location).stat()
            else:
                info = child.stat(follow_symlinks=False)
        except OSError as error:
            if error.errno in _GONE:
                return None
            if error.errno == errno.ELOOP:
                return Skipped(name, "E_CYCLE", f"The symbolic link {name} leads to itself.", outside=True)
            return Failed(name, _unreadable(name, error, "file"))
        if not is_link and stat.S_ISREG(info.st_mode):
            return File(name, location, names, signature_of(info))
        outside = is_link and not _within(location, self._real)
        refusal = f"The symbolic link {name} leads outside of the source's root."
        if stat.S_ISDIR(info.st_mode):
            if not PRUNED.isdisjoint(names) or location == self._apart or self._pruned(_nfc(raw)):
                return None
            if outside:
                return Skipped("", "E_FORBIDDEN", refusal)
            if is_link and linked:
                return Skipped(
                    "",
                    "E_FORBIDDEN",
                    f"The symbolic link {name} lies beneath another one and is not followed.",
                )
            if _identity(info) in chain:
                return Skipped("", "E_CYCLE", f"The symbolic link {name} leads to a directory that holds it.")
            return raw, location, (*chain, _identity(info)), linked or is_link
        if outside and not self._is_of_the_whole(location):
            return Skipped(name, "E_FORBIDDEN", refusal, outside=True)
        if not stat.S_ISREG(info.st_mode):
            return Skipped(
                name,
                "E_UNREADABLE",
                f"{name} is not a regular file (a pipe, socket or device).",
                outside=True,
            )
        return File(name, location, names, signature_of(info))

    def _is_of_the_whole(self, location: str) -> bool:
        """Whether a file outside of the root is one of what the root is a part of, and none that is passed
        over there."""
        if not _within(location, self._whole) or (self._apart is not None and _within(location, self._apart)):
            return False
        return PRUNED.isdisjoint(Path(location[len(self._whole) :]).parts)


def _within(location: str, directory: str) -> bool:
    return location == directory or location.startswith(directory.rstrip(os.sep) + os.sep)


def repository_of(directory: Path) -> Path | None:
    """The top of the repository that a directory lies in; None where it lies in none."""
    real = Path(os.path.realpath(directory))
    return next((place for place in (real, *real.parents) if os.path.lexists(place / ".git")), None)


def _plain_signature(child: os.DirEntry[str]) -> str | None:
    """The signature of a regular file that is no link; None for anything else, and if it cannot be told."""
    try:
        if child.is_file(follow_symlinks=False):
            info = child.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                return signature_of(info)
    except OSError:
        pass
    return None


def _joined(directory: str, path: str) -> str:
    return f"{directory.rstrip(os.sep)}{os.sep}{path}"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, and their signature; None if the file is so new that it might change unseen."""

    data: bytes
    signature: str | None


def signature_of(info: os.stat_result) -> str:
    """What changes with every write to a file: size, times of the last write and of the last change, inode.

    No program can set the time of the last change, so a file that was given an old date is told apart.
    """
    return f"{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}:{info.st_ino}"


@contextlib.contextmanager
def opened(file: File) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """A regular file to read, and what it is. Raises ``FileNotFoundError`` if it has vanished, ``OSError``.

    The location is a resolved path: a link put in its place since then is not followed, a pipe does not
    block.
    """
    descriptor = os.open(file.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, socket or device")
        yield stream, info


def settled(info: os.stat_result, begun: float) -> bool:
    """Whether a file that was opened at ``begun`` (``time.time``) cannot change unseen: one that was written
    this moment may be written again within the resolution of its times."""
    return begun - max(info.st_mtime, info.st_ctime) > _SETTLED_SECONDS


def read(file: File, limit: int) -> bytes | Skipped | Failed | None:
    """As :func:`read_signed`, the bytes alone."""
    content = read_signed(file, limit)
    return content.data if isinstance(content, Content) else content


def read_signed(file: File, limit: int) -> Content | Skipped | Failed | None:
    """The file's bytes; None if it has vanished, Skipped over ``limit`` bytes (unread), Failed if it cannot
    be read or changes while being read (it is read again once)."""
    for _ in range(2):
        begun = time.time()
        try:
            # As in `opened`, which is for files that are read piece by piece.
            descriptor = os.open(file.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                before = os.fstat(descriptor)
                if not stat.S_ISREG(before.st_mode):
                    return Skipped(
                        file.path,
                        "E_UNREADABLE",
                        f"{file.path} is not a regular file (a pipe, socket or device).",
                        outside=True,
                    )
                if before.st_size > limit:
                    return Skipped(
                        file.path,
                        "E_TOO_LARGE",
                        f"{file.path} has {before.st_size} bytes, more than {limit}.",
                    )
                data = stream.read(before.st_size + 1)
                after = os.fstat(descriptor)
        except OSError as error:
            if error.errno in _GONE:
                return None
            return Failed(file.path, _unreadable(file.path, error, "file"))
        if len(data) == before.st_size == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
            return Content(data, signature_of(after) if settled(after, begun) else None)
    return Failed(
        file.path, TabootError("E_CONFLICT", f"{file.path} changes while it is being read.", path=file.path)
    )


def _named(found: list[tuple[str, Item]], plain: Iterable[str]) -> Iterator[tuple[str, Item]]:
    """Give each item its locator's path, which none of the ``plain`` files has. Of two names with one NFC
    form, that which has it already (else the smallest) keeps it; a name that is not UTF-8 has no form."""
    if all(raw.isascii() for raw, _ in found):
        # Every name is its own normal form: as a rule there is nothing to decide.
        yield from found
        return
    taken = set(plain)
    for raw, outcome in sorted(found, key=lambda f: (not _decodable(f[0]), _nfc(f[0]) != f[0], f[0])):
        path = _nfc(raw)
        if not _decodable(raw):
            name = _free(_escaped(raw), raw, taken)
            yield (
                name,
                Failed(name, TabootError("E_ENCODING", f"The file name {name} is not UTF-8.", path=name)),
            )
        elif path in taken:
            name = _free(path, raw, taken)
            yield (
                name,
                Failed(
                    name,
                    TabootError(
                        "E_CONFLICT", f"Another file's name has the same normal form as {name}.", path=name
                    ),
                ),
            )
        else:
            taken.add(path)
            renamed = isinstance(outcome, File) and outcome.path != path
            yield path, replace(outcome, path=path) if renamed else outcome


def _free(name: str, raw: str, taken: set[str]) -> str:
    """A name to report ``raw`` under that no other item has: ``name``, else ``raw`` in ASCII with escapes."""
    if name in taken:
        name = raw.encode("ascii", "backslashreplace").decode("ascii")
    while name in taken:
        name += "~"
    taken.add(name)
    return name


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _nfc(raw: str) -> str:
    return raw if raw.isascii() else unicodedata.normalize("NFC", raw)


def _decodable(raw: str) -> bool:
    try:
        raw.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(raw: str) -> str:
    """The path as it may be stored and shown: NFC, bytes that are not UTF-8 as ``\\xNN``."""
    if _decodable(raw):
        return _nfc(raw)
    return os.fsencode(raw).decode("utf-8", "backslashreplace")


def _unreadable(path: str, error: OSError, what: str) -> TabootError:
    return TabootError(
        "E_UNREADABLE",
        f"The {what} {path or '.'} cannot be read.",
        path=path,
        errno=errno.errorcode.get(error.errno or 0),
    )
