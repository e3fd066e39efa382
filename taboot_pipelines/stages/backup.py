"""Backups: the catalog's lasting rows and the blobs, from which all else is made again.

A backup place is a directory or a prefix of an object store that belongs to one home. It holds blobs once by
their SHA-256, whatever number of backups name them, and for each backup its catalog and, written last, its
manifest::

    taboot-backup.json                whose place it is
    blobs/<namespace>/<sha256>
    backups/<id>/catalog.jsonl.gz     one record a line: [table, {column: value}], those of blobs first
    backups/<id>/sources.yaml         the sources file, where there was one
    backups/<id>/manifest.json        what it holds, with the hashes of these files and of itself

Writers go on meanwhile: the catalog is read in one state, and where a blob that it names has been erased
before it was copied, the catalog is read again. So a backup that is begun after an erasure holds no byte of
it; older ones do until they are pruned.
"""

from __future__ import annotations

import gzip
import io
import re
import socket
import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import obstore
import orjson
from obstore.exceptions import BaseError
from pydantic import BaseModel, ConfigDict
from sqlalchemy.engine import make_url

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import NAME_PATTERN, digest, sha256_hex
from taboot_pipelines.settings import StorageSettings
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages.deriving import Followed, follow
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import copies
from taboot_pipelines.stores.catalog.migrator import HEAD
from taboot_pipelines.stores.disk import on_disk, private_folder, replace_file
from taboot_pipelines.stores.objects import StorageLocation, is_absent, place

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: Increased whenever the files of a backup change their form.
FORMAT = 1
STAGE = "backup"
_MARK, _BLOBS, _BACKUPS = "taboot-backup.json", "blobs", "backups"
_CATALOG, _SOURCES, _MANIFEST = "catalog.jsonl.gz", "sources.yaml", "manifest.json"
_BLOB_FILE = re.compile(rf"{_BLOBS}/[a-z0-9][a-z0-9_-]{{0,62}}/[0-9a-f]{{64}}")
_BACKUP_FILE = re.compile(
    rf"{_BACKUPS}/(?P<id>\d{{8}}T\d{{6}}\.\d{{6}}Z-[0-9a-f]{{8}})/(?:{_CATALOG}|{_SOURCES}|{_MANIFEST})"
)
_HASH = re.compile(r"[0-9a-f]{64}")
_NO_HASH = "0" * 64
#: An id of a source, or of an owner beside them, which begins with ``_``.
_SOURCE = re.compile(r"_?[a-z0-9][a-z0-9_-]{0,62}")
#: Bytes of a line of a catalog: a recorded answer or an assertion is the longest.
_LONGEST = 256 * 1024 * 1024
#: So often the catalog is read again because blobs that it named were erased meanwhile.
_TRIES = 5
#: Blobs in a part of a listing or a removal.
_PART = 1000


class BackupManifest(BaseModel):
    """What one backup holds. ``revision``: of its catalog; ``catalog_sha256``, ``sources_sha256``: of its
    files (None: there was no sources file); ``blob_count`` and ``blob_bytes``: of the blobs that it has;
    ``lost``: (namespace, SHA-256) of those that the catalog named and no store had; ``sha256``: of all
    this."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    id: str
    created_at: datetime
    release: str
    revision: str
    catalog_sha256: str
    sources_sha256: str | None
    blob_count: int
    blob_bytes: int
    lost: tuple[tuple[str, str], ...] = ()
    sha256: str = ""

    def hashed(self) -> str:
        """What ``sha256`` should be."""
        return digest(self.model_dump(mode="json", exclude={"sha256"}))


@dataclass(frozen=True)
class Created:
    """A backup that was made: its manifest, how many blobs and bytes were new at its place, which older
    backups were removed, and why none was, if one should have been."""

    manifest: BackupManifest
    new_blobs: int
    new_bytes: int
    pruned: tuple[str, ...] = ()
    note: str = ""


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
    """Where backups are: ``where`` is the URL of an object store, or a directory."""

    def __init__(self, where: str, storage: StorageSettings) -> None:
        url = where if "://" in where else Path(where).expanduser().absolute().as_uri()
        self._at: StorageLocation = place("the place of the backup", url, storage)
        self._directory = self._at.directory
        self.where = where

    def refuse_home(self, workspace: Workspace) -> None:
        """Raise ``E_BACKUP`` for a directory that is the home or lies within it."""
        home = workspace.home.resolve()
        if self._directory is None:
            return
        directory = self._directory.resolve()
        if home in (directory, *directory.parents):
            raise TabootError(
                "E_BACKUP",
                f"{self._directory} is within {home}, which is what is saved and restored.",
                remedy="Name a place outside of TABOOT_HOME, at best on another disk.",
            )

    def prepare(self, workspace: Workspace) -> ObjectStore:
        """Make the place this home's, if it is nobody's yet, and return its store.

        Raises ``E_BACKUP`` for a directory as :meth:`refuse_home` does, for a place that holds other things,
        and for that of another home: what no backup names is removed there.
        """
        self.refuse_home(workspace)
        if self._directory is not None:
            with on_disk("The place of the backup cannot be made", self._directory):
                private_folder(self._directory)
                # What a process was writing when it was killed.
                for folder in (_BLOBS, _BACKUPS):
                    for left in (self._directory / folder).rglob(".*"):
                        left.unlink(missing_ok=True)
        store, mine = self._at.store(), _home(workspace)
        data = self.get(store, _MARK)
        if data is None:
            if self.sizes(store, ""):
                raise TabootError(
                    "E_BACKUP",
                    f"{self.where} holds other files.",
                    remedy="Name an empty place: what no backup names is removed there.",
                )
            self.put(store, _MARK, orjson.dumps({"format": FORMAT, "home": mine}))
        elif _member(data, "home") != mine:
            raise TabootError(
                "E_BACKUP",
                f"{self.where} holds the backups of another home.",
                remedy="Name a place of its own for each home; a home that has moved begins a new one.",
            )
        return store

    def store(self) -> ObjectStore:
        """The store. Raises ``E_BACKUP`` where the directory does not exist."""
        if self._directory is not None and not self._directory.is_dir():
            raise TabootError("E_BACKUP", f"There is no directory {self._directory}.", path=self.where)
        return self._at.store()

    def put(self, store: ObjectStore, path: str, data: bytes) -> None:
        """Write a file in one step, which only its owner may read."""
        if self._directory is not None:
            file = self._directory / path
            with on_disk("A file of the backup cannot be written", file):
                for folder in reversed(file.relative_to(self._directory).parents):
                    private_folder(self._directory / folder)
                replace_file(file, data)
            return
        with self._at.asked(f"{path} of the backup could not be written"):
            obstore.put(store, path, data)

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
    workspace: Workspace,
    where: str,
    *,
    keep: int | None = None,
    deep: bool = False,
    progress: Progress = no_progress,
) -> Created:
    """Make a backup at a place, and with ``keep`` leave the newest so many there.

    Blobs that are there already are not copied again; with ``deep`` they are read back, and written anew
    where they are damaged. Raises ``E_BACKUP`` for an unusable place, ``E_BUSY`` while another process makes
    one of the same home, ``E_STORAGE`` where a store does not answer, and what the catalog raises.
    """
    at = BackupPlace(where, workspace.settings.storage)
    with workspace.leases.exclusive("backup"):
        store = at.prepare(workspace)
        made = _create(workspace, at, store, deep, progress)
        if keep is None:
            return made
        try:
            return replace(made, pruned=_prune(at, store, keep, made.manifest))
        except TabootError as error:
            if error.code != "E_BACKUP":
                raise
            return replace(made, note=f"Nothing was removed: {error.message}")


def _create(
    workspace: Workspace, at: BackupPlace, store: ObjectStore, deep: bool, progress: Progress
) -> Created:
    now = datetime.now(UTC)
    backup_id = f"{now:%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}"
    new = dict[str, int]()
    there = at.sizes(store, _BLOBS)
    for _ in range(_TRIES):
        with TemporaryDirectory() as folder:
            file = Path(folder) / _CATALOG
            blobs = _write_catalog(workspace, file)
            lost, erased = set[tuple[str, str]](), False
            for done, ((namespace, sha256), size) in enumerate(sorted(blobs.items()), 1):
                path = f"{_BLOBS}/{namespace}/{sha256}"
                whole = there.get(path) == size
                if whole and deep:
                    whole = sha256_hex(at.get(store, path) or b"") == sha256
                if not whole:
                    try:
                        data = workspace.blobs.get(namespace, sha256)
                    except TabootError as error:
                        if error.code not in {"E_BLOB_MISSING", "E_BLOB_CORRUPT"}:
                            raise
                        erased |= not workspace.catalog.blobs.hashes(namespace, among=[sha256])
                        lost.add((namespace, sha256))
                        continue
                    at.put(store, path, data)
                    there[path] = new[path] = len(data)
                progress(STAGE, done, len(blobs))
            if erased:
                continue
            catalog = file.read_bytes()
        file = workspace.settings.sources_file
        sources = file.read_bytes() if file.is_file() else None
        manifest = BackupManifest(
            format=FORMAT,
            id=backup_id,
            created_at=now,
            release=version("taboot-pipelines"),
            revision=HEAD,
            catalog_sha256=sha256_hex(catalog),
            sources_sha256=None if sources is None else sha256_hex(sources),
            blob_count=len(blobs) - len(lost),
            blob_bytes=sum(size for blob, size in blobs.items() if blob not in lost),
            lost=tuple(sorted(lost)),
        )
        manifest = manifest.model_copy(update={"sha256": manifest.hashed()})
        files = {_CATALOG: catalog, _SOURCES: sources, _MANIFEST: manifest.model_dump_json().encode()}
        for name, content in files.items():
            if content is not None:
                at.put(store, f"{_BACKUPS}/{backup_id}/{name}", content)
        # What was erased while it was copied does not stay either.
        surplus = new.keys() - {f"{_BLOBS}/{namespace}/{sha256}" for namespace, sha256 in blobs}
        at.remove(store, surplus)
        sizes = [size for path, size in new.items() if path not in surplus]
        return Created(manifest, len(sizes), sum(sizes))
    raise TabootError(
        "E_BUSY",
        "Documents were erased again and again while the backup was made.",
        remedy="Try again later.",
    )


def _home(workspace: Workspace) -> str:
    """What tells the home from others: where its catalog is."""
    url = workspace.settings.catalog_url
    if url is not None:
        return digest(make_url(url.get_secret_value()).set(username=None, password=None).render_as_string())
    return digest(socket.gethostname(), str(workspace.home.resolve()))


def _member(data: bytes, name: str) -> object:
    try:
        found = orjson.loads(data)
    except ValueError:
        return None
    return found.get(name) if isinstance(found, dict) else None


def _write_catalog(workspace: Workspace, file: Path) -> dict[tuple[str, str], int]:
    """Write the records; return {(namespace, SHA-256): bytes} of the blobs that they name."""
    blobs: dict[tuple[str, str], int] = {}
    # Without a time, so that equal catalogs are equal bytes.
    with file.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, compresslevel=6) as out:
        for table, row in copies.records(workspace.catalog.database):
            if table == copies.FIRST:
                blobs[row["namespace"], row["content_hash"]] = int(row["byte_size"])
            out.write(orjson.dumps([table, row]) + b"\n")
    return blobs


def backups(where: str, storage: StorageSettings) -> tuple[list[BackupManifest], list[Damage]]:
    """Return the backups at a place, the oldest first, and the manifests that cannot be read."""
    at = BackupPlace(where, storage)
    return _manifests(at, at.store())


def _manifests(at: BackupPlace, store: ObjectStore) -> tuple[list[BackupManifest], list[Damage]]:
    found, bad = list[BackupManifest](), list[Damage]()
    for path in sorted(at.sizes(store, _BACKUPS)):
        if path.endswith(f"/{_MANIFEST}"):
            try:
                found.append(_manifest(path, at.get(store, path) or b""))
            except TabootError as error:
                if error.code != "E_BACKUP":
                    raise
                bad.append(Damage(path.split("/")[1], path, error.message))
    return sorted(found, key=lambda m: m.id), bad


def _manifest(path: str, data: bytes) -> BackupManifest:
    written = _member(data, "format")
    if isinstance(written, int) and written > FORMAT:
        raise TabootError(
            "E_BACKUP",
            f"{path} was written by a newer release.",
            remedy="Install that release or a newer one.",
        )
    try:
        manifest = BackupManifest.model_validate_json(data)
    except ValueError as error:
        raise TabootError("E_BACKUP", f"{path} cannot be read ({type(error).__name__}).", file=path) from None
    if manifest.sha256 != manifest.hashed() or manifest.id != path.split("/")[1]:
        raise TabootError("E_BACKUP", f"{path} has other content than was written.", file=path)
    return manifest


def _catalog(at: BackupPlace, store: ObjectStore, manifest: BackupManifest) -> bytes:
    path = f"{_BACKUPS}/{manifest.id}/{_CATALOG}"
    data = at.get(store, path)
    if data is None or sha256_hex(data) != manifest.catalog_sha256:
        raise TabootError(
            "E_BACKUP",
            f"{path} {'is missing' if data is None else 'has other bytes'}.",
            remedy="Restore an older backup.",
            file=path,
        )
    return data


def _blobs(manifest: BackupManifest, catalog: bytes) -> list[tuple[str, str]]:
    """(namespace, SHA-256) of the blobs that a backup has."""
    lost, found = set(manifest.lost), []
    for table, row in _read_catalog(catalog):
        if table != copies.FIRST:
            break
        blob = (row["namespace"], row["content_hash"])
        if blob not in lost:
            found.append(blob)
    return found


def _prune(at: BackupPlace, store: ObjectStore, keep: int, made: BackupManifest) -> tuple[str, ...]:
    """Leave the newest ``keep`` backups, the one that was just made among them, whatever the clock says;
    remove older and unfinished ones, and the blobs that none names.

    Only files of the form that a backup has are touched. Raises ``E_BACKUP`` while a backup that is there
    cannot be read, since nobody knows which blobs it needs.
    """
    found, bad = _manifests(at, store)
    if bad:
        raise TabootError("E_BACKUP", f"{bad[0].what} Remove {_BACKUPS}/{bad[0].backup}, or mend it.")
    others = [m for m in found if m.id != made.id]
    left = [*(others[1 - keep :] if keep > 1 else ()), made]
    named = {f"{_BLOBS}/{n}/{sha256}" for m in left for n, sha256 in _blobs(m, _catalog(at, store, m))}
    ids = {m.id for m in left}
    gone = {
        path
        for path in at.sizes(store, _BACKUPS)
        if (match := _BACKUP_FILE.fullmatch(path)) is not None and match["id"] not in ids
    }
    # A manifest goes first, so that what is removed half way is no backup any more.
    manifests = {path for path in gone if path.endswith(_MANIFEST)}
    at.remove(store, manifests)
    at.remove(store, gone - manifests)
    at.remove(store, {p for p in at.sizes(store, _BLOBS) if _BLOB_FILE.fullmatch(p) and p not in named})
    return tuple(m.id for m in others if m.id not in ids)


def verify(where: str, storage: StorageSettings, *, progress: Progress = no_progress) -> Verified:
    """Read every byte at a place, and say what is missing or has other bytes than it should."""
    at = BackupPlace(where, storage)
    store = at.store()
    named, read = dict[str, list[str]](), 0
    manifests, damages = _manifests(at, store)
    for m in manifests:
        try:
            catalog = _catalog(at, store, m)
            for namespace, sha256 in _blobs(m, catalog):
                named.setdefault(f"{_BLOBS}/{namespace}/{sha256}", []).append(m.id)
            _sources_text(at, store, m)
        except TabootError as error:
            if error.code != "E_BACKUP":
                raise
            damages.append(Damage(m.id, str(error.details.get("file", "")), error.message))
        else:
            read += len(catalog)
        damages += [Damage(m.id, sha256, "was lost before the backup was made") for _, sha256 in m.lost]
    for done, path in enumerate(sorted(named), 1):
        data = at.get(store, path)
        if data is None or sha256_hex(data) != path.rsplit("/", 1)[1]:
            what = "is missing" if data is None else "has other bytes"
            damages += [Damage(backup, path, what) for backup in named[path]]
        read += 0 if data is None else len(data)
        progress(STAGE, done, len(named))
    return Verified(len(manifests), len(named), read, tuple(damages))


def _sources_text(at: BackupPlace, store: ObjectStore, manifest: BackupManifest) -> bytes | None:
    """The sources file of a backup, None if there was none. Raises ``E_BACKUP``."""
    if manifest.sources_sha256 is None:
        return None
    path = f"{_BACKUPS}/{manifest.id}/{_SOURCES}"
    data = at.get(store, path)
    if data is None or sha256_hex(data) != manifest.sources_sha256:
        raise TabootError(
            "E_BACKUP", f"{path} {'is missing' if data is None else 'has other bytes'}.", file=path
        )
    return data


@dataclass(frozen=True)
class Restoration:
    """A backup that was restored, how many documents are served of it, and the servers that did not take it
    yet."""

    manifest: BackupManifest
    documents: int
    followed: Followed


def restore(
    workspace: Workspace, where: str, backup_id: str | None = None, *, progress: Progress = no_progress
) -> Restoration:
    """Fill an empty home, or empty servers, from a backup (by default the newest), and make all that follows
    from it: documents, vectors, graph, shards, and the servers that are configured.

    One that was killed is gone on with by the next. Raises ``E_BACKUP`` where the home is not empty, there is
    no such backup, or a file of it is damaged (then nothing is written), and what the stages raise.
    """
    at = BackupPlace(where, workspace.settings.storage)
    at.refuse_home(workspace)
    store, database, tenant = at.store(), workspace.catalog.database, workspace.settings.namespace
    begun = None if copies.is_empty(database) else copies.loaded(database, tenant)
    manifest = _chosen(at, store, backup_id or begun)
    if not copies.is_empty(database) and begun != manifest.id:
        raise TabootError(
            "E_BACKUP",
            "The catalog holds sources already: a backup is restored into an empty home.",
            remedy="Set TABOOT_HOME, or the URLs of the servers, to a place that holds nothing yet.",
        )
    if begun is None:
        catalog, sources_file = _catalog(at, store, manifest), _sources_text(at, store, manifest)
        for _ in _read_catalog(catalog):
            pass  # nothing is written of a catalog that cannot be read to its end
        blobs = _blobs(manifest, catalog)
        for done, (namespace, sha256) in enumerate(blobs, 1):
            blob = at.get(store, f"{_BLOBS}/{namespace}/{sha256}")
            if blob is None or sha256_hex(blob) != sha256:
                raise TabootError(
                    "E_BACKUP",
                    f"Blob {sha256} of backup {manifest.id} is {'missing' if blob is None else 'damaged'}.",
                    remedy="`taboot backup verify` lists what is; restore another backup.",
                )
            workspace.blobs.put(namespace, blob)
            progress(STAGE, done, len(blobs))
        _restore_sources_file(workspace, sources_file)
        # The rows last, in one transaction: until then the home counts as empty.
        rows = _read_catalog(catalog)
        copies.load(database, rows, manifest.revision, namespace=tenant, event=manifest.id)
    pending: dict[str, str] = {}
    failure: TabootError | None = None
    restored = _sources(workspace)
    for namespace, sources in restored.items():
        with workspace.leases.several(namespace, sources):
            followed = follow(workspace, namespace, sources)
        pending |= followed.pending
        failure = failure or followed.failure
    workspace.catalog.audit_log.record(tenant, copies.RESTORED, manifest.id)
    published = [load_manifest(workspace.shards, namespace) for namespace in restored]
    return Restoration(
        manifest,
        sum(found.documents for found in published if found is not None),
        Followed(pending, failure),
    )


def _restore_sources_file(workspace: Workspace, data: bytes | None) -> None:
    """Write the sources file where there is none."""
    file = workspace.settings.sources_file
    if data is not None and not file.exists():
        with on_disk("The sources file cannot be written", file):
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, data)


def _chosen(at: BackupPlace, store: ObjectStore, backup_id: str | None) -> BackupManifest:
    found, bad = _manifests(at, store)
    known = sorted([*(m.id for m in found), *(d.backup for d in bad)])
    chosen = known[-1:] if backup_id is None else [i for i in known if i.startswith(backup_id)]
    if len(chosen) != 1:
        what = "no backup" if backup_id is None else f"{len(chosen) or 'no'} backup(s) {backup_id!r}"
        raise TabootError(
            "E_BACKUP", f"At {at.where} there is {what}.", remedy="`taboot backup list` names them."
        )
    for damage in bad:
        if damage.backup == chosen[0]:
            raise TabootError("E_BACKUP", damage.what, remedy="Name another one with --backup.")
    return next(m for m in found if m.id == chosen[0])


def _sources(workspace: Workspace) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in workspace.catalog.sources.find():
        found.setdefault(row["namespace"], []).append(row["source_id"])
    return found


def _read_catalog(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a catalog. Raises ``E_BACKUP`` for what no release of ours has written: names that
    are none become paths, and a line without an end would fill the memory."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as lines:
            while line := lines.readline(_LONGEST + 1):
                if len(line) > _LONGEST:
                    raise ValueError("a line is too long")
                table, row = orjson.loads(line)
                names = (row["namespace"], row.get("source_id", "x"))
                sha256 = row.get("content_hash", _NO_HASH)
                if not (_plain_names(*names) and isinstance(table, str) and _HASH.fullmatch(sha256)):
                    raise ValueError("a name is none")
                yield table, row
    except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise TabootError(
            "E_BACKUP", f"The catalog of the backup cannot be read ({error}).", remedy="Restore another one."
        ) from None


def _plain_names(namespace: object, source_id: object) -> bool:
    """Whether these can be a namespace and the id of a source, an own one of ours included."""
    named = isinstance(namespace, str) and NAME_PATTERN.fullmatch(namespace) is not None
    return named and (
        source_id in (None, "") or (isinstance(source_id, str) and _SOURCE.fullmatch(source_id) is not None)
    )


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
