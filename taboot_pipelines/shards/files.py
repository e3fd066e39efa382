"""The bytes of a shard's files against what they should be: hashed once in a process, errors that name them.

Everything here is about one file on the local disk; ``access.py`` adds the store that it comes from.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards.manifest import FileEntry, ShardEntry

#: Files whose bytes this process has hashed: path -> (size, mtime in ns, inode, SHA-256). A file that has
#: changed since is hashed again.
_verified: dict[str, tuple[int, int, int, str]] = {}
_lock = threading.Lock()


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


def holds(path: Path, expected: FileEntry) -> bool:
    """Whether the file is there with these bytes. Raises ``OSError`` if it cannot be read."""
    try:
        with path.open("rb") as f:
            return matches(path, f, expected, lambda: hash_open(f))
    except FileNotFoundError:
        return False


def matches(path: Path, f: BufferedReader, expected: FileEntry, digest: Callable[[], str]) -> bool:
    """Whether the open file ``f`` of ``path`` has the expected size and hash.

    ``digest`` computes its SHA-256; it is called only if this process has not hashed the file as it is now.
    A match is remembered.
    """
    stat = os.fstat(f.fileno())
    state = (stat.st_size, stat.st_mtime_ns, stat.st_ino, expected.sha256)
    if stat.st_size != expected.size or (_verified.get(str(path)) != state and digest() != expected.sha256):
        return False
    with _lock:
        _verified[str(path)] = state
    return True


def forget(path: Path) -> None:
    """Hash the file again on its next use."""
    _verified.pop(str(path), None)


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
