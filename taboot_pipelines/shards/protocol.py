"""What every store of shards offers: a publisher and a reader ask the same of a local directory and of an
object store. One conformance suite runs against both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.shards import files
from taboot_pipelines.shards.cache import LocalCache
from taboot_pipelines.shards.files import Verified
from taboot_pipelines.shards.manifest import (
    Manifest,
    NewerManifest,
    ShardEntry,
    manifest_number,
    parse_manifest,
)

#: Fills an empty folder with a shard's files, each synced to disk, and returns the entry that describes them.
Build = Callable[[Path], ShardEntry]


@dataclass(frozen=True, slots=True)
class ManifestVersion:
    """A manifest as a reader found it. ``state`` tells a later look whether there is a newer one."""

    state: object
    manifest: Manifest


@dataclass(frozen=True, order=True, slots=True)
class Kept:
    """A publication whose manifest is kept: its version, and when it was made (microseconds since the
    epoch)."""

    version: int
    at: int

    @property
    def made_at(self) -> datetime:
        return datetime.fromtimestamp(self.at / 1e6, UTC)

    @property
    def name(self) -> str:
        return f"{self.version:08d}-{self.at}.json"

    @classmethod
    def listed(cls, names: Iterable[str]) -> list[Kept]:
        """The publications of these file names, oldest first. Of one version, which a publisher that was
        killed may have written twice, the last."""
        found = sorted(cls(int(m[1]), int(m[2])) for m in map(_KEPT.fullmatch, names) if m is not None)
        return list({kept.version: kept for kept in found}.values())


_KEPT = re.compile(r"([0-9]{8,12})-([0-9]{1,18})\.json")


class ShardStore(Protocol):
    """Every method raises ``E_STORAGE`` where the store refuses or does not answer.

    Namespaces that come here have been checked to be valid names. ``verified``: the local files that were
    hashed. ``cache``: where what is derived from the shards is kept; None: with each reader.
    """

    verified: Verified

    @property
    def cache(self) -> LocalCache | None: ...

    def read_manifest(self, namespace: str) -> tuple[bytes, str] | None:
        """The current manifest's bytes and its ETag for :meth:`swap_manifest`; None if there is none."""

    def swap_manifest(self, manifest: Manifest, etag: str) -> None:
        """Publish ``manifest`` if the current one still has this ETag (empty: there is none yet).

        Raises ``E_CONFLICT`` otherwise, and has then written nothing.
        """

    def keep(self, manifest: Manifest, at: int) -> None:
        """Keep a manifest that is about to be published at ``at`` (microseconds since the epoch)."""

    def kept(self, namespace: str) -> list[Kept]:
        """The publications whose manifests are kept, the one in force included, oldest first."""

    def read_kept(self, namespace: str, kept: Kept) -> bytes | None:
        """The manifest of a kept publication; None if it is not kept any more."""

    def forget_kept(self, namespace: str, names: Collection[str]) -> None:
        """Remove what is kept under any other than these ``names``."""

    def look(
        self, namespace: str, last: ManifestVersion | None, *, now: bool = False
    ) -> ManifestVersion | None:
        """The current manifest; ``last`` itself while it has not changed; None if there is none.

        A remote store is asked at most once a second, unless ``now`` is set.
        """

    def damage(self, namespace: str) -> Callable[[ShardEntry], bool]:
        """A predicate: whether a file of the entry is missing, has another size, or was found corrupt by a
        reader. It compares sizes and hashes nothing, so it is cheap.
        """

    def obtain(self, namespace: str, key: str, build: Build) -> tuple[ShardEntry, int]:
        """The finished shard of this key and the bytes that were written for it.

        It is built if it is not there whole; 0 bytes mean that an earlier publish had finished it.
        """

    def leave(self, namespace: str, keys: set[str]) -> None:
        """Note that these shards are no longer in the manifest: their period of grace begins."""

    def fetch(self, namespace: str, shard: ShardEntry, name: str, *, fresh: bool = False) -> Path:
        """A local path of a shard's file; ``fresh`` does not trust a local copy.

        Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT``.
        """

    def mark_damaged(self, namespace: str, shard: ShardEntry) -> None:
        """Ask the next publish to build the shard again. Best effort: a reader may have no right to write."""

    def prune(
        self, namespace: str, keep: Manifest | None, min_age_seconds: float, max_bytes: int | None = None
    ) -> list[str]:
        """Delete what ``keep`` does not name and what was written, or left the manifest, at least
        ``min_age_seconds`` ago; of the rest the oldest shards, while they have more than ``max_bytes``
        together (see :func:`cache.doomed`). Returns the names of the shards' folders that are gone, sorted.
        """

    def health(self) -> Health: ...


# --- What works over any store of shards: the manifest in force, and files that are verified before use


def load_manifest(store: ShardStore, namespace: str) -> Manifest | None:
    """The current manifest, or None if nothing was published yet.

    Raises ``E_SHARD_CORRUPT`` if it cannot be understood, ``E_NAMESPACE`` for what is no namespace.
    """
    found = store.read_manifest(check_namespace(namespace))
    return None if found is None else parse_manifest(found[0], namespace)


def kept_manifest(store: ShardStore, current: Manifest, kept: Kept) -> Manifest | None:
    """The manifest of a kept publication; None for one that is gone or of another release.

    A shard that ``current`` names too is the one that it names: it may have been built again since.
    """
    data = store.read_kept(current.namespace, kept)
    try:
        manifest = None if data is None else parse_manifest(data, current.namespace)
    except TabootError:
        return None
    if manifest is None:
        return None
    known = {s.key: s for s in current.shards}
    return manifest.model_copy(update={"shards": tuple(known.get(s.key, s) for s in manifest.shards)})


def publisher_start(store: ShardStore, namespace: str) -> tuple[Manifest | None, int, str]:
    """What a publisher starts from: the current manifest, its version, and the ETag to swap it by.

    A manifest that is damaged or of an earlier format counts as none, so that the publisher replaces it. Its
    version is followed all the same (0: there is none): what readers noted of it must not fit another one.
    Raises ``E_SHARD_CORRUPT`` for a manifest of a newer release.
    """
    found = store.read_manifest(namespace)
    if found is None:
        return None, 0, ""
    data, etag = found
    try:
        manifest = parse_manifest(data, namespace)
    except NewerManifest:
        raise
    except TabootError:
        return None, manifest_number(data), etag
    return manifest, manifest.version, etag


def damaged_shards(store: ShardStore, manifest: Manifest) -> list[str]:
    """Keys of the manifest's shards that the next publish would build again (see ``ShardStore.damage``)."""
    damaged = store.damage(manifest.namespace)
    return [s.key for s in manifest.shards if damaged(s)]


def verified_path(store: ShardStore, namespace: str, shard: ShardEntry, name: str) -> Path:
    """The local path of a shard's file. Its size is checked always, its SHA-256 as ``files.Verified`` says.

    Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT``, which name the file. A corrupt shard is marked, so that
    the next publish builds it again.
    """
    path = store.fetch(namespace, shard, name)
    with files.opened(path, shard, name) as f:
        if not store.verified.matches(path, f, shard.file(name), lambda: files.hash_open(f)):
            store.mark_damaged(namespace, shard)
            raise files.corrupt(shard, name)
    return path
