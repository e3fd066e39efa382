"""The bytes of shards: hashed once, verified before their first use in a process, then mapped."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import threading
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

from pydantic import ValidationError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.manifest import FileEntry, Manifest, ShardEntry

#: Files whose bytes this process has hashed: path -> (size, mtime, inode, SHA-256). A changed file is hashed again.
_verified: dict[str, tuple[int, int, int, str]] = {}
_lock = threading.Lock()


def hash_file(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def file_entry(path: Path) -> FileEntry:
    return FileEntry(name=path.name, size=path.stat().st_size, sha256=hash_file(path))


def verified_path(folder: Path, shard: ShardEntry, name: str) -> Path:
    """The path of a shard's file, its size checked always and its SHA-256 on first use in this process.

    ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT`` names the file; a corrupt shard is marked for the next publish.
    """
    path = folder / name
    with _opened(path, shard) as f:
        _verify(path, f, shard, lambda: hashlib.file_digest(f, "sha256").hexdigest())
    return path


def map_file(folder: Path, shard: ShardEntry, name: str) -> memoryview:
    """A file's bytes, mapped read-only and verified as by :func:`verified_path`; the mapping outlives the file's deletion."""
    path = folder / name
    with _opened(path, shard) as f:
        try:
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)) if os.fstat(f.fileno()).st_size else memoryview(b"")
        except (OSError, ValueError) as error:
            raise TabootError("E_STORAGE", f"The shard file {path} cannot be mapped.", file=str(path)) from error
        # Hashing what is mapped leaves the pages where the scan wants them.
        _verify(path, f, shard, lambda: hashlib.sha256(data).hexdigest())
    return data


def _opened(path: Path, shard: ShardEntry) -> BufferedReader:
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise TabootError("E_SHARD_MISSING", f"The shard file {shard.key[:16]}…/{path.name} is gone.", shard=shard.key, file=str(path)) from None
    except OSError as error:
        raise TabootError("E_STORAGE", f"The shard file {path} cannot be read: {error.strerror}.", file=str(path)) from error


def _verify(path: Path, f: BufferedReader, shard: ShardEntry, digest: Callable[[], str]) -> None:
    expected = shard.file(path.name)
    stat = os.fstat(f.fileno())
    state = (stat.st_size, stat.st_mtime_ns, stat.st_ino, expected.sha256)
    if stat.st_size == expected.size and (_verified.get(str(path)) == state or digest() == expected.sha256):
        with _lock:
            _verified[str(path)] = state
        return
    with contextlib.suppress(OSError):  # a reader may have no right to write here
        (path.parent / layout.DAMAGED).touch()
    raise TabootError("E_SHARD_CORRUPT", f"The shard file {shard.key[:16]}…/{path.name} is not what the manifest says.", shard=shard.key, file=str(path))


def damaged(folder: Path, shard: ShardEntry) -> bool:
    """Whether a file is missing or has another size, or a reader found it corrupt. Looks at sizes only: cheap."""
    if (folder / layout.DAMAGED).exists():
        return True
    try:
        return any((folder / f.name).stat().st_size != f.size for f in shard.files)
    except OSError:
        return True


def damaged_shards(root: Path, manifest: Manifest) -> list[str]:
    """Keys of the manifest's shards that the next publish would build again (see :func:`damaged`)."""
    return [s.key for s in manifest.shards if damaged(layout.shard_dir(root, manifest.namespace, s.key), s)]


def folder_intact(folder: Path) -> ShardEntry | None:
    """What a finished folder holds, its files hashed; None if it is not there, unfinished or damaged."""
    try:
        entry = ShardEntry.model_validate_json((folder / layout.ENTRY).read_bytes())
    except (OSError, ValidationError):
        return None
    if damaged(folder, entry) or any(hash_file(folder / f.name) != f.sha256 for f in entry.files):
        return None
    return entry


def verify(root: Path, manifest: Manifest) -> None:
    """Hash every file that the manifest names; the first that is missing or differs is reported as by :func:`verified_path`."""
    for shard in manifest.shards:
        folder = layout.shard_dir(root, manifest.namespace, shard.key)
        for f in shard.files:
            _verified.pop(str(folder / f.name), None)
            verified_path(folder, shard, f.name)
