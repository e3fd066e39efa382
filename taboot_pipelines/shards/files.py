"""The bytes of a shard's files against what they should be: hashed once, errors that name them.

Everything here is about one file on the local disk; ``protocol.py`` adds the store that it comes from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards.manifest import FileEntry, ShardEntry

#: A file that changed so shortly before it was hashed may have changed again within the same tick of its file
#: system's clock.
_SETTLED_NS = 2_000_000_000


class _State(NamedTuple):
    """What a file was when it was hashed. Whoever changes its bytes and sets ``mtime_ns`` back still changes
    ``ctime_ns``.
    """

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    sha256: str

    @property
    def settled(self) -> bool:
        return time.time_ns() - max(self.mtime_ns, self.ctime_ns) >= _SETTLED_NS


class Verified:
    """The files whose bytes were hashed and found right. One that has changed since is hashed again.

    ``file``: where that is kept for the processes that come after this one, so that a file is hashed once on
    a machine; None: it ends with the process. What cannot be read there counts as nothing, and where it
    cannot be written, or is not to be (``read_only``), it is done without. Bits that rot without a trace in
    the file system are found by whoever hashes everything: :func:`access.verify`. Safe to use from several
    threads.
    """

    def __init__(self, file: Path | None = None, *, read_only: bool = False) -> None:
        self._file = file
        self._read_only = read_only
        self._lock = threading.Lock()
        #: By path: what this process hashed, what earlier ones did, and what of that is to be kept or
        #: (None) forgotten.
        self._known: dict[str, _State] = {}
        self._kept: dict[str, _State] | None = None
        self._changes: dict[str, _State | None] = {}
        self._anew: set[str] = set()

    def holds(self, path: Path, expected: FileEntry) -> bool:
        """Whether the file is there with these bytes. Raises ``OSError`` if it cannot be read."""
        try:
            with path.open("rb") as f:
                return self.matches(path, f, expected, lambda: hash_open(f))
        except FileNotFoundError:
            return False

    def matches(self, path: Path, f: BufferedReader, expected: FileEntry, digest: Callable[[], str]) -> bool:
        """Whether the open file ``f`` of ``path`` has the expected size and hash.

        ``digest`` computes its SHA-256; it is called only if nobody has hashed the file as it is now.
        """
        stat = os.fstat(f.fileno())
        state = _State(stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_ctime_ns, expected.sha256)
        name = os.path.abspath(path)  # noqa: PTH100 Path.absolute leaves ".." in it
        if state.size != expected.size:
            return False
        with self._lock:
            if self._trusts(name, state):
                return True
        settled = state.settled  # before it is hashed: what changes while it is, is seen by its state
        right = digest() == expected.sha256
        with self._lock:
            self._anew.discard(name)
            if right:
                self._known[name] = state
            if right and settled and self._earlier().get(name) != state:
                self._changes[name] = state
            elif not right and name in self._earlier():
                self._changes[name] = None
        if not right:
            self.keep()
        return right

    def forget(self, path: Path) -> None:
        """Hash the file again on its next use."""
        name = os.path.abspath(path)  # noqa: PTH100
        with self._lock:
            self._known.pop(name, None)
            self._anew.add(name)

    def keep(self) -> None:
        """Write down what this process has hashed since the last time, in one step."""
        with self._lock:
            if self._file is None or self._read_only or not self._changes:
                return
            # Other processes may have added theirs meanwhile.
            kept = {**_read(self._file), **self._changes}
            there = {n for n in kept if os.path.exists(n)}  # noqa: PTH110
            self._kept = {n: s for n, s in kept.items() if s is not None and n in there}
            self._changes = {}
            with contextlib.suppress(OSError):
                _write(self._file, self._kept)

    def _trusts(self, name: str, state: _State) -> bool:
        if name in self._anew:
            return False
        return self._known.get(name) == state or (self._earlier().get(name) == state and state.settled)

    def _earlier(self) -> dict[str, _State]:
        if self._kept is None:
            self._kept = {} if self._file is None else _read(self._file)
        return self._kept


#: One for each file, and one (None) that is kept nowhere: all stores of a process share what it knows.
_opened: dict[tuple[Path | None, bool], Verified] = {}
_opening = threading.Lock()


def verified_at(file: Path | None, *, read_only: bool = False) -> Verified:
    """What this process knows to be verified, and what others have kept in ``file``."""
    with _opening:
        return _opened.setdefault((file, read_only), Verified(file, read_only=read_only))


def _read(file: Path) -> dict[str, _State]:
    try:
        rows = orjson.loads(file.read_bytes())
        states = {name: _State(*row) for name, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return states


def _write(file: Path, states: dict[str, _State]) -> None:
    data = orjson.dumps({name: list(state) for name, state in states.items()})
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd, aside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        Path(aside).replace(file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def hash_open(f: BufferedReader) -> str:
    """The SHA-256 (64 hex digits) of an open file from where it stands to its end."""
    return hashlib.file_digest(f, "sha256").hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-256 (64 hex digits) of a file."""
    with path.open("rb") as f:
        return hash_open(f)


def file_entry(path: Path) -> FileEntry:
    """Name, size and hash of a file as the manifest lists it."""
    return FileEntry(name=path.name, size=path.stat().st_size, sha256=hash_file(path))


def opened(path: Path, shard: ShardEntry, name: str) -> BufferedReader:
    """The shard's file opened for reading. Raises ``E_SHARD_MISSING``, or ``E_STORAGE`` if it may not be."""
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise missing(shard, name) from None
    except OSError as error:
        raise TabootError(
            "E_STORAGE", f"The shard file {path} cannot be read: {error.strerror}.", file=str(path)
        ) from error


def missing(shard: ShardEntry, name: str) -> TabootError:
    """The error for a shard's file that is not there."""
    return TabootError(
        "E_SHARD_MISSING", f"The shard file {shard.key[:16]}…/{name} is gone.", shard=shard.key, file=name
    )


def corrupt(shard: ShardEntry, name: str) -> TabootError:
    """The error for a shard's file whose size or hash is wrong."""
    return TabootError(
        "E_SHARD_CORRUPT",
        f"The shard file {shard.key[:16]}…/{name} is not what the manifest says.",
        shard=shard.key,
        file=name,
    )
