"""Shards on an object store, read through a local cache of content-addressed files.

Objects under the URL's prefix:

    {namespace}.duckdb.manifest.json                     created by If-None-Match: *, swapped by If-Match
    {namespace}.duckdb.shards/{key}/{sha256}/{name}      a file; its bytes never change
    {namespace}.duckdb.shards/{key}/shard.json           what the shard holds, written after its files
    {namespace}.duckdb.shards/{key}/damaged, …/left      marks: see ``layout``
    {namespace}.duckdb.kept/{version}-{time}.json        the manifest of a publication that is kept

A copy of a folder of shards, put there by other programs or shown by a web server, is read as well: its files
lie at {key}/{name}.

Two publishers of one shard never overwrite each other, since files of other bytes have other paths.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError
from pydantic import ValidationError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.shards import files, layout
from taboot_pipelines.shards.cache import LocalCache, RemovedShard, doomed
from taboot_pipelines.shards.manifest import FileEntry, Manifest, ShardEntry, parse_manifest
from taboot_pipelines.shards.protocol import Build, Kept, ManifestVersion
from taboot_pipelines.stores.objects import StorageLocation, is_absent

#: A reader asks for a new manifest at most this often.
_LOOK_SECONDS = 1.0
_MAX_PARALLEL_UPLOADS = 6
#: Bytes; a download is hashed and written in parts of at least this size.
_DOWNLOAD_PART = 1 << 20
#: The manifest's attribute that tells which write it came from.
_PUBLISHER = "publisher"


class BucketShards:
    """See ``ShardStore``. ``cache`` holds a file for each SHA-256 that was read; ``read_only``: what is found
    damaged is not marked.
    """

    def __init__(
        self,
        at: StorageLocation,
        cache: LocalCache,
        verified: files.Verified | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self._at = at
        self._read_only = read_only
        self.verified = verified or files.verified_at(None)
        self._store = at.store()
        self.cache = cache
        self._lock = threading.Lock()
        #: When each namespace's manifest was asked for last: monotonic seconds.
        self._looked: dict[str, float] = {}

    # --- manifests ------------------------------------------------------------------------------------------

    def read_manifest(self, namespace: str) -> tuple[bytes, str] | None:
        return self._get_manifest(namespace, None)

    def _get_manifest(self, namespace: str, known: str | None) -> tuple[bytes, str] | None:
        """The manifest and its ETag. Raises ``_Unchanged`` if that is still ``known``."""
        name = layout.manifest_name(namespace)
        with self._at.asked(f"The manifest {name} cannot be read"):
            try:
                found = obstore.get(self._store, name, options={"if_none_match": known} if known else {})
                return bytes(found.bytes()), found.meta["e_tag"] or ""
            except NotModifiedError:
                raise _Unchanged from None
            except FileNotFoundError as error:
                if is_absent(error):
                    return None
                raise

    def swap_manifest(self, manifest: Manifest, etag: str) -> None:
        name = layout.manifest_name(manifest.namespace)
        mode: Any = {"e_tag": etag} if etag else "create"
        # Tells our own write from another's when its answer was lost and the request was repeated.
        mark = uuid.uuid4().hex
        with self._at.asked(f"The manifest {name} cannot be written"):
            try:
                obstore.put(
                    self._store,
                    name,
                    manifest.written(),
                    mode=mode,
                    attributes={_PUBLISHER: mark},
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError):
                if self._publisher(name) == mark:
                    return
                raise TabootError(
                    "E_CONFLICT",
                    f"The manifest of {manifest.namespace} changed meanwhile: another publisher was first.",
                    namespace=manifest.namespace,
                    version=manifest.version,
                ) from None

    def _publisher(self, name: str) -> str | None:
        """The mark of the write that the current manifest came from, if it has one."""
        try:
            mark = obstore.get(self._store, name).attributes.get(_PUBLISHER)
        except FileNotFoundError as error:
            if is_absent(error):
                return None
            raise
        return None if mark is None else str(mark)

    def keep(self, manifest: Manifest, at: int) -> None:
        name = f"{layout.kept_name(manifest.namespace)}/{Kept(manifest.version, at).name}"
        with self._at.asked(f"The manifest {name} cannot be written"):
            obstore.put(self._store, name, manifest.written(), use_multipart=False)

    def kept(self, namespace: str) -> list[Kept]:
        if self._at.backend == "http":  # which lists nothing
            return []
        return Kept.listed(x.path.rpartition("/")[2] for x in self._list(layout.kept_name(namespace)))

    def read_kept(self, namespace: str, kept: Kept) -> bytes | None:
        name = f"{layout.kept_name(namespace)}/{kept.name}"
        with self._at.asked(f"The manifest {name} cannot be read"):
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError as error:
                if is_absent(error):
                    return None
                raise

    def forget_kept(self, namespace: str, names: Collection[str]) -> None:
        gone = [x.path for x in self._list(layout.kept_name(namespace))]
        gone = [path for path in gone if path.rpartition("/")[2] not in names]
        if gone:
            with self._at.asked("A kept publication cannot be deleted"):
                obstore.delete(self._store, gone)

    def look(
        self, namespace: str, last: ManifestVersion | None, *, now: bool = False
    ) -> ManifestVersion | None:
        with self._lock:
            moment = time.monotonic()
            looked = self._looked.get(namespace, float("-inf"))
            if last is not None and not now and moment - looked < _LOOK_SECONDS:
                return last
            seen = last
            try:
                found = self._get_manifest(namespace, str(last.state) if last is not None else None)
                seen = (
                    None if found is None else ManifestVersion(found[1], parse_manifest(found[0], namespace))
                )
            except _Unchanged:
                pass
            self._looked[namespace] = moment
            if seen is not None:
                self.cache.sweep(namespace, seen.manifest)
            return seen

    # --- publishing -----------------------------------------------------------------------------------------

    def damage(self, namespace: str) -> Callable[[ShardEntry], bool]:
        listed = {x.path: x.size for x in self._list(layout.shards_name(namespace))}
        return lambda entry: self._incomplete(listed, namespace, entry)

    def _incomplete(self, listed: dict[str, int], namespace: str, entry: ShardEntry) -> bool:
        """Whether a shard is marked as damaged, or a file is not among the ``listed`` (path -> bytes)."""
        return _marker(namespace, entry.key, layout.DAMAGED) in listed or any(
            listed.get(_path(namespace, entry.key, f)) != f.size for f in entry.files
        )

    def obtain(self, namespace: str, key: str, build: Build) -> tuple[ShardEntry, int]:
        listed = {x.path: x.size for x in self._list(f"{layout.shards_name(namespace)}/{key}")}
        adopted = self._finished(listed, namespace, key)
        if adopted is not None:
            return adopted, 0
        with self.cache.needed("built"):
            aside = Path(tempfile.mkdtemp(dir=self.cache.folder(namespace), prefix=layout.BUILDING))
        try:
            with self.cache.needed("built"):
                entry = build(aside)
            with ThreadPoolExecutor(_MAX_PARALLEL_UPLOADS) as pool:
                done = pool.map(
                    lambda f: self._upload(_path(namespace, key, f), aside / f.name, f), entry.files
                )
                list(done)  # raises the first failure
            with self._at.asked(f"Shard {key[:16]} cannot be written"):
                obstore.put(
                    self._store,
                    _marker(namespace, key, layout.ENTRY),
                    entry.model_dump_json().encode(),
                    use_multipart=False,
                )
                marks = [_marker(namespace, key, name) for name in (layout.DAMAGED, layout.LEFT)]
                obstore.delete(self._store, [path for path in marks if path in listed])
            with self.cache.needed("built"):
                folder = self.cache.folder(namespace)
                for f in entry.files:
                    (aside / f.name).replace(folder / f.sha256)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return entry, sum(f.size for f in entry.files)

    def _finished(self, listed: dict[str, int], namespace: str, key: str) -> ShardEntry | None:
        """The shard if an earlier publish finished it, its files read and hashed; else None."""
        marker = _marker(namespace, key, layout.ENTRY)
        if marker not in listed:
            return None
        try:
            with self._at.asked(f"Shard {key[:16]} cannot be read"):
                entry = ShardEntry.model_validate_json(bytes(obstore.get(self._store, marker).bytes()))
            if entry.key != key or self._incomplete(listed, namespace, entry):
                return None
            for f in entry.files:
                self.fetch(namespace, entry, f.name)
        except ValidationError:
            return None
        except TabootError as error:
            if error.code not in {"E_SHARD_MISSING", "E_SHARD_CORRUPT"}:
                raise
            return None
        return entry

    def _upload(self, path: str, source: Path, expected: FileEntry) -> None:
        """Write a file's object, unless it is there with the same bytes."""
        with self._at.asked(f"The shard file {source.name} cannot be written"):
            data = source.read_bytes()
            try:
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                # It is of a publish that was killed, or was damaged since: its path says what it should be.
                if sha256_hex(bytes(obstore.get(self._store, path).bytes())) != expected.sha256:
                    obstore.put(self._store, path, data, use_multipart=False)

    def leave(self, namespace: str, keys: set[str]) -> None:
        for key in sorted(keys):
            with contextlib.suppress(TabootError), self._at.asked("A shard cannot be marked"):
                obstore.put(self._store, _marker(namespace, key, layout.LEFT), b"", use_multipart=False)

    def prune(
        self, namespace: str, keep: Manifest | None, min_age_seconds: float, max_bytes: int | None = None
    ) -> list[str]:
        prefix = layout.shards_name(namespace)
        shards: dict[str, dict[str, _Listed]] = defaultdict(dict)
        for x in self._list(prefix):
            shards[x.path.removeprefix(f"{prefix}/").split("/", 1)[0]][x.path] = x
        entries = {s.key: s for s in keep.shards} if keep else {}
        now = time.time()
        left = {
            key: RemovedShard(max(x.modified for x in found.values()), sum(x.size for x in found.values()))
            for key, found in shards.items()
            if key not in entries
        }
        gone = doomed(left, now, min_age_seconds, max_bytes)
        paths = [path for key in gone for path in shards[key]]
        for key, entry in entries.items():
            # Else it is what a shard held before it was built again.
            live = {
                _marker(namespace, key, layout.ENTRY),
                _marker(namespace, key, layout.DAMAGED),
                *(_path(namespace, key, f) for f in entry.files),
            }
            paths += [
                path
                for path, x in shards[key].items()
                if path not in live and now - x.modified >= min_age_seconds
            ]
        if paths:
            with self._at.asked("A shard cannot be deleted"):
                obstore.delete(self._store, paths)
        self.cache.forget(namespace, keep, min_age_seconds)
        return gone

    def mark_damaged(self, namespace: str, shard: ShardEntry) -> None:
        if self._read_only:
            return
        with contextlib.suppress(TabootError), self._at.asked("A shard cannot be marked"):
            obstore.put(
                self._at.store(retries=0),
                _marker(namespace, shard.key, layout.DAMAGED),
                b"",
                use_multipart=False,
            )

    # --- reading --------------------------------------------------------------------------------------------

    def fetch(self, namespace: str, shard: ShardEntry, name: str, *, fresh: bool = False) -> Path:
        expected = shard.file(name)
        with self.cache.needed("read"):
            target = self.cache.folder(namespace) / expected.sha256
            if not fresh and self.verified.holds(target, expected):
                return target
        for _ in range(2):  # once more, since the bytes may have been damaged on the way
            if self._download(namespace, target, shard, expected):
                return target
        self.mark_damaged(namespace, shard)
        raise files.corrupt(shard, name)

    def _download(self, namespace: str, target: Path, shard: ShardEntry, expected: FileEntry) -> bool:
        """Put the object's bytes into the cache if they are what they should be; returns whether they are."""
        digest, size = hashlib.sha256(), 0
        with self.cache.needed("written"):
            fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=".loading-")
        try:
            with self.cache.needed("written"), os.fdopen(fd, "wb") as f:
                for part in self._stream(namespace, shard, expected):
                    size += len(part)
                    if size > expected.size:
                        break
                    digest.update(part)
                    f.write(part)
            if size != expected.size or digest.hexdigest() != expected.sha256:
                return False
            with self.cache.needed("written"):
                try:
                    Path(temporary).replace(target)
                except FileNotFoundError:  # an erasure has emptied the cache meanwhile
                    raise files.missing(shard, expected.name) from None
                return self.verified.holds(target, expected)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _stream(self, namespace: str, shard: ShardEntry, expected: FileEntry) -> Iterator[bytes]:
        try:
            try:
                found = obstore.get(self._store, _path(namespace, shard.key, expected))
            except (OSError, BaseError) as error:
                if not is_absent(error):
                    raise
                found = obstore.get(self._store, _marker(namespace, shard.key, expected.name))
            for part in found.stream(min_chunk_size=_DOWNLOAD_PART):
                yield bytes(part)
        except (OSError, BaseError) as error:
            if is_absent(error):
                raise files.missing(shard, expected.name) from None
            raise self._at.failure(
                f"The shard file {shard.key[:16]}…/{expected.name} cannot be read", error
            ) from None

    def health(self) -> Health:
        return self._at.health("shards")

    def _list(self, prefix: str) -> list[_Listed]:
        """Every object under a prefix."""
        with self._at.asked("The shards cannot be listed"):
            return [
                _Listed(m["path"], m["size"], m["last_modified"].timestamp())
                for batch in obstore.list(self._store, prefix=prefix)
                for m in batch
            ]


@dataclass(frozen=True, slots=True)
class _Listed:
    """An object of the store: its path, its bytes, and the Unix time when it was written."""

    path: str
    size: int
    modified: float


class _Unchanged(Exception):
    """The manifest is the one that is known."""


def _path(namespace: str, key: str, file: FileEntry) -> str:
    """Where a shard's file is kept."""
    return f"{layout.shards_name(namespace)}/{key}/{file.sha256}/{file.name}"


def _marker(namespace: str, key: str, name: str) -> str:
    """Where a shard's entry or mark is kept; in a folder of shards, each of its files."""
    return f"{layout.shards_name(namespace)}/{key}/{name}"
