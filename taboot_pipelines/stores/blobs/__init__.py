"""Content-addressed raw bytes: path ``sources/{namespace}/{sha256}``, written once, verified at every read (rule 2)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, ObjectStore, from_url

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex

#: Failures of the store rather than of the bytes: whoever meets one tries again at every run.
UNREADABLE = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING", "E_STORAGE"})


class BlobStore:
    """Blobs on any object store of ``obstore``; a directory by default.

    A write is atomic (the store's own put-if-absent), equal bytes are stored once per namespace, and a read returns
    exactly the bytes whose SHA-256 is the name, or raises ``E_BLOB_CORRUPT`` / ``E_BLOB_MISSING``.
    """

    def __init__(self, store: ObjectStore, directory: Path | None = None, waiting: BlobStore | None = None) -> None:
        self._store = store
        self._directory = directory
        #: Where bytes wait for a store that does not answer; reads look there too.
        self.waiting = waiting

    @classmethod
    def open(cls, home: Path, url: str | None = None) -> BlobStore:
        if url:
            return cls(from_url(url), waiting=cls._local(home / "uploads"))
        return cls._local(home / "blobs")

    @classmethod
    def _local(cls, directory: Path) -> BlobStore:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(LocalStore(directory), directory)

    @staticmethod
    def path(namespace: str, sha256: str) -> str:
        return f"sources/{namespace}/{sha256}"

    def put(self, namespace: str, data: bytes, *, heal: bool = False) -> tuple[str, bool]:
        """Store bytes; returns (sha256, whether they were new). Raises ``E_STORAGE``.

        ``heal`` reads back what is already there and replaces it if it is not these bytes.
        """
        sha256 = sha256_hex(data)
        path = self.path(namespace, sha256)
        try:
            try:
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
                new = True
            except (AlreadyExistsError, FileExistsError):
                new = False
                intact = obstore.head(self._store, path)["size"] == len(data)
                if intact and heal:
                    intact = sha256_hex(bytes(obstore.get(self._store, path).bytes())) == sha256
                if not intact:
                    obstore.put(self._store, path, data, use_multipart=False)
            if self._directory is not None:
                (self._directory / path).chmod(0o600)
        except (OSError, obstore.exceptions.BaseError) as error:
            raise TabootError("E_STORAGE", f"Blob {sha256} could not be written.", sha256=sha256, reason=type(error).__name__) from error
        return sha256, new

    def get(self, namespace: str, sha256: str) -> bytes:
        """The verified bytes."""
        try:
            data = bytes(obstore.get(self._store, self.path(namespace, sha256)).bytes())
        except (OSError, obstore.exceptions.BaseError) as error:
            if self.waiting is not None and self.waiting.exists(namespace, sha256):
                return self.waiting.get(namespace, sha256)
            if not isinstance(error, FileNotFoundError):
                raise TabootError("E_STORAGE", f"Blob {sha256} could not be read.", sha256=sha256, reason=type(error).__name__) from error
            raise TabootError("E_BLOB_MISSING", f"Blob {sha256} is not in namespace {namespace}.", sha256=sha256) from error
        if sha256_hex(data) != sha256:
            raise TabootError("E_BLOB_CORRUPT", f"Blob {sha256} of namespace {namespace} no longer hashes to its name.", sha256=sha256)
        return data

    def exists(self, namespace: str, sha256: str) -> bool:
        try:
            obstore.head(self._store, self.path(namespace, sha256))
        except FileNotFoundError:
            return self.waiting is not None and self.waiting.exists(namespace, sha256)
        return True

    def list(self, namespace: str) -> Iterator[tuple[str, int]]:
        """(name, size) of every blob of the namespace."""
        for batch in obstore.list(self._store, prefix=f"sources/{namespace}"):
            for meta in batch:
                yield meta["path"].rsplit("/", 1)[-1], meta["size"]

    def delete(self, namespace: str, sha256: str) -> None:
        """Remove a blob (erasure only); absent is fine. Unfinished uploads of killed writers go as well."""
        with contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self.path(namespace, sha256))
        if self.waiting is not None:
            self.waiting.delete(namespace, sha256)
        if self._directory is not None:
            # A writer killed between staging and linking leaves `<sha256>#n` beside the blob.
            for staged in (self._directory / "sources" / namespace).glob(f"{sha256}#*"):
                staged.unlink(missing_ok=True)

    def sweep(self, namespace: str, keep: Collection[str]) -> int:
        """Remove every blob but ``keep``, and all unfinished uploads; only while nobody fetches into the namespace. Returns how many."""
        gone = [name for name, _ in self.list(namespace) if name not in keep]
        for sha256 in gone:
            self.delete(namespace, sha256)
        # A local store hides its unfinished uploads from a listing.
        staged = [] if self._directory is None else list((self._directory / "sources" / namespace).glob("*#*"))
        for path in staged:
            path.unlink(missing_ok=True)
        return len(gone) + len(staged) + (self.waiting.sweep(namespace, keep) if self.waiting is not None else 0)
