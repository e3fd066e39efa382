"""Shards in a local directory.

A shard's folder is built aside and renamed into place; the manifest is swapped under a file lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from pydantic import ValidationError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.cache import LocalCache, RemovedShard, doomed
from taboot_pipelines.shards.files import Verified, hash_file, verified_at
from taboot_pipelines.shards.manifest import Manifest, ShardEntry, parse_manifest
from taboot_pipelines.shards.protocol import Build, Kept, ManifestVersion
from taboot_pipelines.stores.disk import replace_file
from taboot_pipelines.stores.objects import directory_health


class DirectoryShards:
    """See ``ShardStore``. ``root`` holds the manifests and the folders of shards; ``read_only``: what is
    found damaged is not marked.
    """

    def __init__(
        self,
        root: Path,
        verified: Verified | None = None,
        cache: LocalCache | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.root = root
        self._read_only = read_only
        self.verified = verified or verified_at(None)
        self.cache = cache

    def read_manifest(self, namespace: str) -> tuple[bytes, str] | None:
        path = layout.manifest_path(self.root, namespace)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise TabootError(
                "E_STORAGE", f"The manifest {path} cannot be read: {error.strerror}.", file=str(path)
            ) from error
        return data, hashlib.sha256(data).hexdigest()

    def swap_manifest(self, manifest: Manifest, etag: str) -> None:
        path = layout.manifest_path(self.root, manifest.namespace)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path.with_suffix(".lock")):
                current = self.read_manifest(manifest.namespace)
                if (current[1] if current else "") != etag:
                    raise TabootError(
                        "E_CONFLICT",
                        f"The manifest of {manifest.namespace} changed meanwhile: another publisher was"
                        " first.",
                        namespace=manifest.namespace,
                        version=manifest.version,
                    )
                replace_file(path, manifest.written())
        except OSError as error:
            raise TabootError(
                "E_STORAGE", f"The manifest {path} cannot be written: {error.strerror}.", file=str(path)
            ) from error

    def keep(self, manifest: Manifest, at: int) -> None:
        folder = self.root / layout.kept_name(manifest.namespace)
        with _kept(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / Kept(manifest.version, at).name, manifest.written())

    def kept(self, namespace: str) -> list[Kept]:
        folder = self.root / layout.kept_name(namespace)
        with _kept(folder):
            return Kept.listed(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208

    def read_kept(self, namespace: str, kept: Kept) -> bytes | None:
        path = self.root / layout.kept_name(namespace) / kept.name
        with _kept(path), contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        return None

    def forget_kept(self, namespace: str, names: Collection[str]) -> None:
        folder = self.root / layout.kept_name(namespace)
        with _kept(folder):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in names:
                    path.unlink(missing_ok=True)

    def look(
        self, namespace: str, last: ManifestVersion | None, *, now: bool = False
    ) -> ManifestVersion | None:
        path = layout.manifest_path(self.root, namespace)
        try:
            stat = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise TabootError(
                "E_STORAGE",
                f"The knowledge base under {self.root} cannot be read: {error.strerror}.",
                folder=str(self.root),
            ) from error
        state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if last is not None and last.state == state:
            return last
        found = self.read_manifest(namespace)
        if found is None:
            return None
        manifest = parse_manifest(found[0], namespace)
        if self.cache is not None:
            self.cache.sweep(namespace, manifest)
        return ManifestVersion(state, manifest)

    def damage(self, namespace: str) -> Callable[[ShardEntry], bool]:
        return lambda entry: _damaged(self._folder(namespace, entry.key), entry)

    def obtain(self, namespace: str, key: str, build: Build) -> tuple[ShardEntry, int]:
        parent = layout.shards_dir(self.root, namespace)
        target = parent / key
        try:
            adopted = _finished(target)
            if adopted is not None and adopted.key == key and not _damaged(target, adopted):
                return adopted, 0
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent.mkdir(exist_ok=True)
            aside = Path(tempfile.mkdtemp(dir=parent, prefix=layout.BUILDING))
            try:
                entry = build(aside)
                aside.chmod(0o755)
                _sync(aside)
                if target.exists():
                    # It is damaged. A folder cannot be replaced in one step, so it goes first.
                    shutil.rmtree(target)
                aside.rename(target)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
        except OSError as error:
            raise TabootError(
                "E_STORAGE", f"Shard {key[:16]} cannot be written: {error.strerror}.", folder=str(target)
            ) from error
        return entry, sum(f.size for f in entry.files)

    def leave(self, namespace: str, keys: set[str]) -> None:
        for key in keys:
            with contextlib.suppress(OSError):
                os.utime(self._folder(namespace, key))

    def fetch(self, namespace: str, shard: ShardEntry, name: str, *, fresh: bool = False) -> Path:
        return self._folder(namespace, shard.key) / name

    def mark_damaged(self, namespace: str, shard: ShardEntry) -> None:
        if self._read_only:
            return
        with contextlib.suppress(OSError):
            (self._folder(namespace, shard.key) / layout.DAMAGED).touch()

    def prune(
        self, namespace: str, keep: Manifest | None, min_age_seconds: float, max_bytes: int | None = None
    ) -> list[str]:
        folder = layout.shards_dir(self.root, namespace)
        named = {s.key for s in keep.shards} if keep else set()
        try:
            left = (
                {
                    p.name: RemovedShard(p.stat().st_mtime, sum(f.stat().st_size for f in p.rglob("*")))
                    for p in folder.iterdir()
                    if p.name not in named
                }
                if folder.is_dir()
                else {}
            )
            gone = doomed(left, time.time(), min_age_seconds, max_bytes)
            for name in gone:
                shutil.rmtree(folder / name)
        except OSError as error:
            raise TabootError(
                "E_STORAGE", f"A shard folder cannot be deleted: {error.strerror}.", folder=str(folder)
            ) from error
        if self.cache is not None:
            self.cache.forget(namespace, keep, min_age_seconds)
        return gone

    def health(self) -> Health:
        return directory_health("shards", self.root)

    def _folder(self, namespace: str, key: str) -> Path:
        return layout.shard_dir(self.root, namespace, key)


def _finished(folder: Path) -> ShardEntry | None:
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


def _damaged(folder: Path, shard: ShardEntry) -> bool:
    """Whether a reader found the shard damaged, or a file is missing or has another size."""
    # A publish asks this of every file there is: a Path of each would take longer than the answers.
    inside = f"{folder}{os.sep}"
    if os.path.exists(f"{inside}{layout.DAMAGED}"):  # noqa: PTH110
        return True
    try:
        return any(os.stat(f"{inside}{f.name}").st_size != f.size for f in shard.files)  # noqa: PTH116
    except OSError:
        return True


@contextlib.contextmanager
def _kept(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` of what is kept into ``E_STORAGE``."""
    try:
        yield
    except OSError as error:
        raise TabootError(
            "E_STORAGE", f"Kept publications cannot be used at {path}: {error.strerror}.", file=str(path)
        ) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("ab") as handle:
        fcntl.flock(handle.fileno(), fcntl.LOCK_EX)
        yield  # the lock is released when the handle is closed, or the process ends


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system lets a directory be synced
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
