"""Blobs: the raw bytes that everything is derived from, stored once per namespace by their SHA-256 (rule
``bytes-first``).

One library, obstore, and one class serve the directory (the default) and the object
store of ``TABOOT_BLOB_URL``. A protocol would describe nothing but that class, so there is none. Where bytes
came from and whether they are still alive is for the catalog.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.disk import on_disk, refusal, storage_error
from taboot_pipelines.stores.objects import StorageLocation, directory_health, is_absent, place

if TYPE_CHECKING:
    from obstore.store import ObjectStore


#: Failures of the store rather than of what the bytes say: whoever meets one tries again at every run.
UNREADABLE = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING", "E_STORAGE"})

#: For so long after a request that was given up, further ones are tried only once: a batch does not wait for
#: each of its blobs.
_IMPATIENT_SECONDS = 30.0
__all__ = ["UNREADABLE", "BlobStore", "open_blobs"]


class BlobStore:
    """Blobs at one place, a directory or a prefix of an object store.

    A write is atomic (the store's own put-if-absent) and equal bytes are stored once per namespace. A read
    returns exactly the bytes whose SHA-256 is the name, or raises ``E_BLOB_CORRUPT`` or ``E_BLOB_MISSING``.
    Where the store does not answer, does not exist or refuses, ``E_STORAGE`` says so in words.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        directory: Path | None = None,
        at: StorageLocation | None = None,
        waiting: BlobStore | None = None,
    ) -> None:
        self._store = store
        self._directory = directory
        self._at = at
        self._given_up = float("-inf")
        #: Where bytes wait for a store that does not answer; reads look there too.
        self.waiting = waiting

    @staticmethod
    def path(namespace: str, sha256: str) -> str:
        return f"sources/{namespace}/{sha256}"

    def put(self, namespace: str, data: bytes, *, heal: bool = False) -> tuple[str, bool]:
        """Store bytes; return (sha256, whether they were new). Raises ``E_STORAGE``.

        ``heal`` reads back what is already there and replaces it if it is not these bytes.
        """
        sha256 = sha256_hex(data)
        path = self.path(namespace, sha256)
        store = self._client()
        with self._asked(f"Blob {sha256} could not be written", sha256=sha256):
            try:
                obstore.put(store, path, data, mode="create", use_multipart=False)
                new = True
            except (AlreadyExistsError, FileExistsError):
                new = False
                intact = obstore.head(store, path)["size"] == len(data)
                if intact and heal:
                    intact = sha256_hex(bytes(obstore.get(store, path).bytes())) == sha256
                if not intact:
                    obstore.put(store, path, data, use_multipart=False)
            if self._directory is not None:
                (self._directory / path).chmod(0o600)
        return sha256, new

    def get(self, namespace: str, sha256: str) -> bytes:
        """Read the bytes and verify them against their name."""
        try:
            with self._asked(f"Blob {sha256} could not be read", sha256=sha256):
                data = self._read(self.path(namespace, sha256))
        except TabootError:
            if self.waiting is None or not self.waiting.exists(namespace, sha256):
                raise
            data = None
        if data is None:
            if self.waiting is not None and self.waiting.exists(namespace, sha256):
                return self.waiting.get(namespace, sha256)
            raise TabootError(
                "E_BLOB_MISSING", f"Blob {sha256} is not in namespace {namespace}.", sha256=sha256
            )
        if sha256_hex(data) != sha256:
            raise TabootError(
                "E_BLOB_CORRUPT",
                f"Blob {sha256} of namespace {namespace} no longer hashes to its name.",
                sha256=sha256,
            )
        return data

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._client(), path).bytes())
        except (OSError, BaseError) as error:
            if is_absent(error):
                return None
            raise

    def exists(self, namespace: str, sha256: str) -> bool:
        """Whether the blob is there. Raises ``E_STORAGE`` where the store does not say."""
        path = self.path(namespace, sha256)
        with self._asked(f"Blob {sha256} could not be looked for", sha256=sha256):
            try:
                obstore.head(self._client(), path)
                return True
            except FileNotFoundError:
                # A 404 to HEAD has no body: it may as well mean that there is no bucket. A GET says which.
                if self._at is not None and self._read(path) is not None:
                    return True
        return self.waiting is not None and self.waiting.exists(namespace, sha256)

    def lacks(self, namespace: str, sizes: Mapping[str, int]) -> bool:
        """Whether a directory lacks one of these blobs, {SHA-256: bytes}, or has it in another size.

        An object store is not asked, since that would be a request for each blob: it lacks none. Raises
        ``E_STORAGE``.
        """
        if self._directory is None:
            return False
        folder = str(self._directory / "sources" / namespace)
        with self._asked(f"The blobs of {namespace} could not be looked for"):
            for sha256, size in sizes.items():
                try:
                    found: int | None = os.stat(f"{folder}/{sha256}").st_size  # noqa: PTH116
                except FileNotFoundError:
                    found = None
                queued = found is None and self.waiting is not None and self.waiting.exists(namespace, sha256)
                if found != size and not queued:
                    return True
        return False

    def list(self, namespace: str) -> Iterator[tuple[str, int]]:
        """List (SHA-256, bytes) of every blob of the namespace."""
        with self._asked(f"The blobs of {namespace} could not be listed"):
            for batch in obstore.list(self._store, prefix=f"sources/{namespace}"):
                for meta in batch:
                    yield meta["path"].rsplit("/", 1)[-1], meta["size"]

    def delete(self, namespace: str, *sha256s: str) -> None:
        """Remove blobs (erasure only), and what killed writers of them left; absent is fine."""
        with self._asked(f"Blobs of {namespace} could not be deleted"):
            if self._directory is None:
                obstore.delete(self._store, [self.path(namespace, sha256) for sha256 in sha256s])
            else:
                for sha256 in sha256s:
                    with contextlib.suppress(FileNotFoundError):
                        obstore.delete(self._store, self.path(namespace, sha256))
                    # A writer killed between staging and linking leaves `<sha256>#n` beside the blob.
                    for staged in (self._directory / "sources" / namespace).glob(f"{sha256}#*"):
                        staged.unlink(missing_ok=True)
        if self.waiting is not None:
            self.waiting.delete(namespace, *sha256s)

    def sweep(self, namespace: str, keep: Collection[str]) -> int:
        """Remove every blob but ``keep``, and all unfinished uploads; return how many.

        Called only while nobody fetches into the namespace.
        """
        gone = [name for name, _ in self.list(namespace) if name not in keep]
        self.delete(namespace, *gone)
        # A local store hides its unfinished uploads from a listing.
        folder = None if self._directory is None else self._directory / "sources" / namespace
        staged = [] if folder is None else list(folder.glob("*#*"))
        for path in staged:
            path.unlink(missing_ok=True)
        waited = self.waiting.sweep(namespace, keep) if self.waiting is not None else 0
        return len(gone) + len(staged) + waited

    def health(self) -> Health:
        """Whether the blobs can be reached now, asked once."""
        if self._at is not None:
            return self._at.health("blobs")
        return directory_health("blobs", self._directory or Path())

    def close(self) -> None:
        """Nothing is held open between requests."""

    def _client(self) -> ObjectStore:
        recently = time.monotonic() - self._given_up < _IMPATIENT_SECONDS
        return self._impatient if self._at is not None and recently else self._store

    @cached_property
    def _impatient(self) -> ObjectStore:
        assert self._at is not None
        return self._at.store(retries=0)

    @contextlib.contextmanager
    def _asked(self, what: str, **details: Any) -> Iterator[None]:
        if self._at is not None:
            try:
                with self._at.asked(what, **details):
                    yield
            except TabootError:
                self._given_up = time.monotonic()
                raise
            self._given_up = float("-inf")
            return
        try:
            yield
        except (OSError, BaseError) as error:
            raise storage_error(
                what, refusal(error), self._directory or Path(), reason=type(error).__name__, **details
            ) from error


def in_bucket(at: StorageLocation, waiting: BlobStore) -> BlobStore:
    """The blobs on an object store; ``waiting`` takes those that cannot be uploaded now."""
    return BlobStore(at.store(), at=at, waiting=waiting)


def in_directory(directory: Path, waiting: BlobStore | None = None, *, read_only: bool = False) -> BlobStore:
    """The blobs in a directory, which is made, unless that is ``read_only``: then one that is not there holds
    none. Raises ``E_STORAGE`` where it cannot be made.
    """
    if read_only and not directory.is_dir():
        return BlobStore(MemoryStore(), directory=directory, waiting=waiting)
    with on_disk("The directory of the blobs cannot be made", directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return BlobStore(LocalStore(directory), directory=directory, waiting=waiting)


def open_blobs(settings: Settings) -> BlobStore:
    """Open the blobs at ``TABOOT_BLOB_URL``, by default those of the home. Asks no server.

    Where TABOOT_READ_ONLY is set no directory is made. Raises ``E_CONFIG`` for a wrong URL, ``E_STORAGE`` for
    a directory that cannot be made.
    """
    home, read_only = settings.home_dir, settings.read_only
    if not settings.blob_url:
        return in_directory(home / "blobs", read_only=read_only)
    at = place("TABOOT_BLOB_URL", settings.blob_url, settings.storage)
    waiting = in_directory(home / "uploads", read_only=read_only)
    if at.directory is not None:
        return in_directory(at.directory, waiting, read_only=read_only)
    return in_bucket(at, waiting)
