"""The bytes of shards: hashed once, verified before their first use in a process, then mapped."""

from __future__ import annotations

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
from taboot_pipelines.shards.store import ShardStore, shards_at

#: Files whose bytes this process has hashed: path -> (size, mtime, inode, SHA-256). A changed file is hashed
#: again.
_verified: dict[str, tuple[int, int, int, str]] = {}
_lock = threading.Lock()


def hash_file(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def file_entry(path: Path) -> FileEntry:
    return FileEntry(name=path.name, size=path.stat().st_size, sha256=hash_file(path))


def verified_path(store: ShardStore, namespace: str, shard: ShardEntry, name: str) -> Path:
    """The local path of a shard's file, its size checked always and its SHA-256 on first use in this process.

    ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT`` names the file; a corrupt shard is marked for the next publish.
    """
    path = store.fetch(namespace, shard, name)
    with _opened(path, shard, name) as f:
        if not _holds(path, f, shard.file(name), lambda: hashlib.file_digest(f, "sha256").hexdigest()):
            raise _corrupt(store, namespace, shard, name)
    return path


def map_file(store: ShardStore, namespace: str, shard: ShardEntry, name: str) -> memoryview:
    """A file's bytes, mapped read-only and verified as by :func:`verified_path`; the mapping outlives the
    file's deletion.
    """
    path = store.fetch(namespace, shard, name)
    with _opened(path, shard, name) as f:
        try:
            data = (
                memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
                if os.fstat(f.fileno()).st_size
                else memoryview(b"")
            )
        except (OSError, ValueError) as error:
            raise TabootError(
                "E_STORAGE", f"The shard file {path} cannot be mapped.", file=str(path)
            ) from error
        # Hashing what is mapped leaves the pages where the scan wants them.
        if not _holds(path, f, shard.file(name), lambda: hashlib.sha256(data).hexdigest()):
            raise _corrupt(store, namespace, shard, name)
    return data


def holds(path: Path, expected: FileEntry) -> bool:
    """Whether the file is there with these bytes; remembered for :func:`map_file`. Raises ``OSError`` if it
    cannot be read.
    """
    try:
        with path.open("rb") as f:
            return _holds(path, f, expected, lambda: hashlib.file_digest(f, "sha256").hexdigest())
    except FileNotFoundError:
        return False


def missing(shard: ShardEntry, name: str) -> TabootError:
    return TabootError(
        "E_SHARD_MISSING", f"The shard file {shard.key[:16]}…/{name} is gone.", shard=shard.key, file=name
    )


def _corrupt(store: ShardStore, namespace: str, shard: ShardEntry, name: str) -> TabootError:
    store.mark_damaged(namespace, shard)
    return corrupt(shard, name)


def corrupt(shard: ShardEntry, name: str) -> TabootError:
    return TabootError(
        "E_SHARD_CORRUPT",
        f"The shard file {shard.key[:16]}…/{name} is not what the manifest says.",
        shard=shard.key,
        file=name,
    )


def _opened(path: Path, shard: ShardEntry, name: str) -> BufferedReader:
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise missing(shard, name) from None
    except OSError as error:
        raise TabootError(
            "E_STORAGE", f"The shard file {path} cannot be read: {error.strerror}.", file=str(path)
        ) from error


def _holds(path: Path, f: BufferedReader, expected: FileEntry, digest: Callable[[], str]) -> bool:
    stat = os.fstat(f.fileno())
    state = (stat.st_size, stat.st_mtime_ns, stat.st_ino, expected.sha256)
    if stat.st_size != expected.size or (_verified.get(str(path)) != state and digest() != expected.sha256):
        return False
    with _lock:
        _verified[str(path)] = state
    return True


def damaged_shards(where: Path | ShardStore, manifest: Manifest) -> list[str]:
    """Keys of the manifest's shards that the next publish would build again (see ``ShardStore.damage``)."""
    damaged = shards_at(where).damage(manifest.namespace)
    return [s.key for s in manifest.shards if damaged(s)]


def folder_intact(folder: Path) -> ShardEntry | None:
    """What a finished folder holds, its files hashed; None if it is not there, unfinished or damaged."""
    try:
        entry = ShardEntry.model_validate_json((folder / layout.ENTRY).read_bytes())
        if any(
            (folder / f.name).stat().st_size != f.size or hash_file(folder / f.name) != f.sha256
            for f in entry.files
        ):
            return None
    except (OSError, ValidationError):
        return None
    return entry


def verify(where: Path | ShardStore, manifest: Manifest) -> None:
    """Hash every file that the manifest names where it is kept; the first that is missing or differs is
    reported as by :func:`verified_path`."""
    store = shards_at(where)
    for shard in manifest.shards:
        for f in shard.files:
            path = store.fetch(manifest.namespace, shard, f.name, fresh=True)
            _verified.pop(str(path), None)
            verified_path(store, manifest.namespace, shard, f.name)
