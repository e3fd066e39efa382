"""Backups: the catalog's lasting rows and the blobs, from which all else is made again.

A backup place is a directory or a prefix of an object store. It holds blobs once by their SHA-256, whatever
number of backups name them, and for each backup its catalog and, written last, its manifest::

    blobs/<namespace>/<sha256>
    backups/<id>/catalog.jsonl.gz     one record a line: [table, {column: value}]
    backups/<id>/manifest.json        what it holds, with hashes

Writers go on meanwhile: the catalog is read in one state, and where a blob that it names has been erased
before it was copied, the catalog is read again. So a backup that is begun after an erasure holds no byte of
it; older ones do until they are pruned.
"""

from __future__ import annotations

import gzip
import io
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import obstore
import orjson
from obstore.exceptions import BaseError
from pydantic import BaseModel, ConfigDict, ValidationError

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.settings import StorageSettings
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages.deriving import Followed, follow
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import copies
from taboot_pipelines.stores.catalog.migrator import HEAD
from taboot_pipelines.stores.disk import on_disk, private_folder
from taboot_pipelines.stores.objects import StorageLocation, is_absent, place

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: Increased whenever the files of a backup change their form.
FORMAT = 1
STAGE = "backup"
_BLOBS, _BACKUPS = "blobs", "backups"
_CATALOG, _MANIFEST = "catalog.jsonl.gz", "manifest.json"
#: So often the catalog is read again because blobs that it named were erased meanwhile.
_TRIES = 5
#: Blobs in a part of a listing or a removal.
_PART = 1000


class BackupManifest(BaseModel):
    """What one backup holds. ``revision``: of its catalog; ``catalog_sha256`` and ``catalog_bytes``: of its
    file; ``blobs``: {namespace: {SHA-256: bytes}}; ``lost``: blobs that the catalog named and no store had;
    ``sources_file``: the text of the sources file, where there was one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    id: str
    created_at: datetime
    release: str
    revision: str
    catalog_sha256: str
    catalog_bytes: int
    rows: dict[str, int]
    blobs: dict[str, dict[str, int]]
    lost: tuple[str, ...] = ()
    sources_file: str | None = None

    @property
    def blob_count(self) -> int:
        return sum(map(len, self.blobs.values()))

    @property
    def blob_bytes(self) -> int:
        return sum(size for of_namespace in self.blobs.values() for size in of_namespace.values())


@dataclass(frozen=True)
class Created:
    """A backup that was made: its manifest, how many blobs and bytes were new at its place, and which older
    backups were removed."""

    manifest: BackupManifest
    new_blobs: int
    new_bytes: int
    pruned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Damage:
    """What is wrong with a backup: its id, the file, and what."""

    backup: str
    file: str
    what: str


@dataclass(frozen=True)
class Verified:
    """What was read: backups, blobs and bytes, and all that was wrong."""

    backups: int
    blobs: int
    bytes: int
    damages: tuple[Damage, ...] = field(default=())


class BackupPlace:
    """Where backups are: ``url`` of an object store, or a directory."""

    def __init__(self, where: str, storage: StorageSettings) -> None:
        self._directory: Path | None = None
        url = where
        if "://" not in where:
            self._directory = Path(where).expanduser().absolute()
            url = self._directory.as_uri()
        self._at: StorageLocation = place("the place of the backup", url, storage)
        self._directory = self._directory or self._at.directory
        self.where = where

    def refuse_home(self, workspace: Workspace) -> None:
        """Raise ``E_BACKUP`` for a directory that is the home or lies within it."""
        home = workspace.home.absolute()
        if self._directory is not None and home in (self._directory, *self._directory.parents):
            raise TabootError(
                "E_BACKUP",
                f"{self._directory} is within {home}, which is what is saved and restored.",
                remedy="Name a place outside of TABOOT_HOME, at best on another disk.",
            )

    def prepare(self, workspace: Workspace) -> None:
        """Make the directory, if it is one. Raises as :meth:`refuse_home`."""
        self.refuse_home(workspace)
        if self._directory is not None and not self._directory.exists():
            with on_disk("The place of the backup cannot be made", self._directory):
                private_folder(self._directory)

    def store(self) -> ObjectStore:
        """The store. Raises ``E_BACKUP`` where the directory does not exist."""
        if self._directory is not None and not self._directory.is_dir():
            raise TabootError("E_BACKUP", f"There is no directory {self._directory}.", path=self.where)
        return self._at.store()

    def put(self, store: ObjectStore, path: str, data: bytes) -> None:
        """Write a file, which only its owner may read."""
        with self._at.asked(f"{path} of the backup could not be written"):
            obstore.put(store, path, data)
            if self._directory is not None:
                (self._directory / path).chmod(0o600)

    def get(self, store: ObjectStore, path: str) -> bytes | None:
        """Read a file; None if it is not there."""
        try:
            return bytes(obstore.get(store, path).bytes())
        except (OSError, BaseError) as error:
            if is_absent(error):
                return None
            raise self._at.failure(f"{path} of the backup could not be read", error) from None

    def sizes(self, store: ObjectStore, prefix: str) -> dict[str, int]:
        """{path: bytes} of everything below a prefix."""
        with self._at.asked(f"{prefix} of the backup could not be listed"):
            listed = obstore.list(store, prefix=prefix, chunk_size=_PART)
            return {found["path"]: found["size"] for part in listed for found in part}

    def remove(self, store: ObjectStore, paths: Collection[str]) -> None:
        """Remove files."""
        with self._at.asked("Files of the backup could not be removed"):
            if paths:
                obstore.delete(store, sorted(paths))


def create(
    workspace: Workspace, where: str, *, keep: int | None = None, progress: Progress = no_progress
) -> Created:
    """Make a backup at a place, and with ``keep`` leave the newest so many there.

    Blobs that are there already are not copied again. Raises ``E_BACKUP`` for an unusable place,
    ``E_STORAGE`` where a store does not answer, and what the catalog raises.
    """
    at = BackupPlace(where, workspace.settings.storage)
    at.prepare(workspace)
    store = at.store()
    now = datetime.now(UTC)
    backup_id = f"{now:%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}"
    new_blobs = new_bytes = 0
    there = at.sizes(store, _BLOBS)
    for _ in range(_TRIES):
        with TemporaryDirectory() as folder:
            file = Path(folder) / _CATALOG
            rows, blobs = _write_catalog(workspace, file)
            lost, erased = list[str](), False
            wanted = [
                (namespace, sha256) for namespace, found in sorted(blobs.items()) for sha256 in sorted(found)
            ]
            for done, (namespace, sha256) in enumerate(wanted, 1):
                path = f"{_BLOBS}/{namespace}/{sha256}"
                if there.get(path) != blobs[namespace][sha256]:
                    try:
                        data = workspace.blobs.get(namespace, sha256)
                    except TabootError as error:
                        if error.code not in {"E_BLOB_MISSING", "E_BLOB_CORRUPT"}:
                            raise
                        erased |= not workspace.catalog.blobs.hashes(namespace, among=[sha256])
                        lost.append(sha256)
                        continue
                    at.put(store, path, data)
                    there[path] = len(data)
                    new_blobs, new_bytes = new_blobs + 1, new_bytes + len(data)
                progress(STAGE, done, len(wanted))
            if erased:
                continue
            catalog = file.read_bytes()
        at.put(store, f"{_BACKUPS}/{backup_id}/{_CATALOG}", catalog)
        sources = workspace.settings.sources_file
        manifest = BackupManifest(
            format=FORMAT,
            id=backup_id,
            created_at=now,
            release=version("taboot-pipelines"),
            revision=HEAD,
            catalog_sha256=sha256_hex(catalog),
            catalog_bytes=len(catalog),
            rows=rows,
            blobs={n: {s: size for s, size in found.items() if s not in lost} for n, found in blobs.items()},
            lost=tuple(sorted(lost)),
            sources_file=sources.read_text("utf-8", "replace") if sources.is_file() else None,
        )
        at.put(store, f"{_BACKUPS}/{backup_id}/{_MANIFEST}", manifest.model_dump_json().encode())
        pruned = _prune(at, store, keep) if keep is not None else ()
        return Created(manifest, new_blobs, new_bytes, pruned)
    raise TabootError(
        "E_BUSY",
        "Documents were erased again and again while the backup was made.",
        remedy="Try again later.",
    )


def _write_catalog(workspace: Workspace, file: Path) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Write the records; return how many there are of each table, and the blobs that they name."""
    rows: dict[str, int] = {}
    blobs: dict[str, dict[str, int]] = {}
    # Without a time, so that equal catalogs are equal bytes.
    with file.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as out:
        for table, row in copies.records(workspace.catalog.database):
            rows[table] = rows.get(table, 0) + 1
            if table == "blob":
                blobs.setdefault(row["namespace"], {})[row["content_hash"]] = int(row["byte_size"])
            out.write(orjson.dumps([table, row]) + b"\n")
    return rows, blobs


def backups(where: str, storage: StorageSettings) -> list[BackupManifest]:
    """Return the backups at a place that are whole, the oldest first. Raises ``E_BACKUP``."""
    at = BackupPlace(where, storage)
    return _manifests(at, at.store())


def _manifests(at: BackupPlace, store: ObjectStore) -> list[BackupManifest]:
    found = []
    for path in sorted(at.sizes(store, _BACKUPS)):
        if path.endswith(f"/{_MANIFEST}"):
            found.append(_manifest(path, at.get(store, path) or b""))
    return sorted(found, key=lambda m: m.id)


def _manifest(path: str, data: bytes) -> BackupManifest:
    try:
        if orjson.loads(data).get("format", 0) > FORMAT:
            raise TabootError(
                "E_BACKUP",
                f"{path} was written by a newer release.",
                remedy="Install that release or a newer one.",
            )
        return BackupManifest.model_validate_json(data)
    except (ValidationError, ValueError, AttributeError) as error:
        raise TabootError("E_BACKUP", f"{path} cannot be read ({type(error).__name__}).", file=path) from None


def _prune(at: BackupPlace, store: ObjectStore, keep: int) -> tuple[str, ...]:
    """Leave the newest ``keep`` backups; remove older and unfinished ones, and the blobs that none names."""
    found = _manifests(at, store)
    left = found[-keep:]
    ids = {m.id for m in left}
    newest = max(ids, default="")
    files = at.sizes(store, _BACKUPS)
    # What is younger than all that is whole may be a backup that another process is making.
    gone = {path for path in files if (i := path.split("/")[1]) not in ids and i < newest}
    at.remove(store, gone)
    named = {f"{_BLOBS}/{n}/{sha256}" for m in left for n, blobs in m.blobs.items() for sha256 in blobs}
    at.remove(store, set(at.sizes(store, _BLOBS)) - named)
    return tuple(m.id for m in found if m.id not in ids)


def verify(where: str, storage: StorageSettings, *, progress: Progress = no_progress) -> Verified:
    """Read every byte at a place, and say what is missing or has other bytes than it should."""
    at = BackupPlace(where, storage)
    store = at.store()
    damages, named, read = list[Damage](), dict[str, list[str]](), 0
    manifests = _manifests(at, store)
    for m in manifests:
        path = f"{_BACKUPS}/{m.id}/{_CATALOG}"
        data = at.get(store, path)
        if data is None or sha256_hex(data) != m.catalog_sha256:
            damages.append(Damage(m.id, path, "is missing" if data is None else "has other bytes"))
        read += 0 if data is None else len(data)
        for namespace, blobs in m.blobs.items():
            for sha256 in blobs:
                named.setdefault(f"{_BLOBS}/{namespace}/{sha256}", []).append(m.id)
        damages += [Damage(m.id, sha256, "was lost before the backup was made") for sha256 in m.lost]
    for done, path in enumerate(sorted(named), 1):
        data = at.get(store, path)
        if data is None or sha256_hex(data) != path.rsplit("/", 1)[1]:
            what = "is missing" if data is None else "has other bytes"
            damages += [Damage(backup, path, what) for backup in named[path]]
        read += 0 if data is None else len(data)
        progress(STAGE, done, len(named))
    return Verified(len(manifests), len(named), read, tuple(damages))


@dataclass(frozen=True)
class Restoration:
    """A backup that was restored, how many documents are served of it, and the servers that did not take it
    yet."""

    manifest: BackupManifest
    documents: int
    followed: Followed
    sources_file: Path | None


def restore(
    workspace: Workspace, where: str, backup_id: str | None = None, *, progress: Progress = no_progress
) -> Restoration:
    """Fill an empty home, or empty servers, from a backup (by default the newest), and make all that follows
    from it: documents, vectors, graph, shards, and the servers that are configured.

    Raises ``E_BACKUP`` where the home is not empty, there is no such backup, or a file of it is damaged (then
    nothing is written), and what the stages raise.
    """
    at = BackupPlace(where, workspace.settings.storage)
    at.refuse_home(workspace)
    store = at.store()
    manifest = _chosen(at, store, backup_id)
    if not copies.is_empty(workspace.catalog.database):
        raise TabootError(
            "E_BACKUP",
            "The catalog holds sources already: a backup is restored into an empty home.",
            remedy="Set TABOOT_HOME, or the URLs of the servers, to a place that holds nothing yet.",
        )
    data = at.get(store, f"{_BACKUPS}/{manifest.id}/{_CATALOG}")
    if data is None or sha256_hex(data) != manifest.catalog_sha256:
        raise TabootError(
            "E_BACKUP", f"The catalog of backup {manifest.id} is damaged.", remedy="Restore an older backup."
        )
    done = 0
    for namespace, blobs in sorted(manifest.blobs.items()):
        for sha256 in sorted(blobs):
            blob = at.get(store, f"{_BLOBS}/{namespace}/{sha256}")
            if blob is None or sha256_hex(blob) != sha256:
                raise TabootError(
                    "E_BACKUP",
                    f"Blob {sha256} of backup {manifest.id} is {'missing' if blob is None else 'damaged'}.",
                    remedy="`taboot backup verify` lists what is; restore another backup.",
                )
            workspace.blobs.put(namespace, blob)
            done += 1
            progress(STAGE, done, manifest.blob_count)
    # The rows last, in one transaction: until then the home counts as empty, and a restoration that was
    # killed is begun again.
    copies.load(workspace.catalog.database, _read_catalog(data), manifest.revision)
    pending: dict[str, str] = {}
    failure: TabootError | None = None
    restored = _sources(workspace)
    for namespace, sources in restored.items():
        with workspace.leases.several(namespace, sources):
            followed = follow(workspace, namespace, sources)
        pending |= followed.pending
        failure = failure or followed.failure
    published = [load_manifest(workspace.shards, namespace) for namespace in restored]
    return Restoration(
        manifest,
        sum(found.documents for found in published if found is not None),
        Followed(pending, failure),
        _restore_sources_file(workspace, manifest),
    )


def _restore_sources_file(workspace: Workspace, manifest: BackupManifest) -> Path | None:
    """Write the sources file where there is none; return where, or None."""
    file = workspace.settings.sources_file
    if manifest.sources_file is None or file.exists():
        return None
    with on_disk("The sources file cannot be written", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(manifest.sources_file, encoding="utf-8")
    return file


def _chosen(at: BackupPlace, store: ObjectStore, backup_id: str | None) -> BackupManifest:
    found = _manifests(at, store)
    chosen = found[-1:] if backup_id is None else [m for m in found if m.id.startswith(backup_id)]
    if len(chosen) == 1:
        return chosen[0]
    what = "no backup" if backup_id is None else f"{len(chosen) or 'no'} backup(s) {backup_id!r}"
    raise TabootError(
        "E_BACKUP", f"At {at.where} there is {what}.", remedy="`taboot backup list` names them."
    )


def _sources(workspace: Workspace) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in workspace.catalog.sources.find():
        found.setdefault(row["namespace"], []).append(row["source_id"])
    return found


def _read_catalog(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as lines:
        for line in lines:
            table, row = orjson.loads(line)
            yield table, row


__all__ = [
    "BackupManifest",
    "Created",
    "Damage",
    "Restoration",
    "Verified",
    "backups",
    "create",
    "restore",
    "verify",
]
