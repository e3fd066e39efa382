"""Where shards and manifests are kept: what a publisher and a reader ask of a directory or an object store
alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.settings import StorageSettings
from taboot_pipelines.shards.manifest import Manifest, ShardEntry, parse_manifest

#: Fills an empty folder with a shard's files, each synced, and tells what it holds.
Build = Callable[[Path], ShardEntry]


@dataclass(frozen=True, slots=True)
class Seen:
    """A manifest as a reader found it; ``state`` tells a later look whether there is another."""

    state: object
    manifest: Manifest


class ShardStore(Protocol):
    """Every method raises ``E_STORAGE`` where the store refuses or does not answer. Namespaces are valid
    names.
    """

    def read_manifest(self, namespace: str) -> tuple[bytes, str] | None:
        """The manifest's bytes now, and its etag for :meth:`swap_manifest`; None if there is none."""

    def swap_manifest(self, manifest: Manifest, etag: str) -> None:
        """Publish ``manifest`` if the current one still has this etag (empty: there is none); else
        ``E_CONFLICT``, nothing written.
        """

    def look(self, namespace: str, last: Seen | None, *, now: bool = False) -> Seen | None:
        """The current manifest; ``last`` itself while it has not changed. A store far away is asked at most
        once a second unless it must be ``now``."""

    def damage(self, namespace: str) -> Callable[[ShardEntry], bool]:
        """Tells of an entry whether a file is missing, has another size, or was found corrupt by a reader:
        cheap, by sizes.
        """

    def obtain(self, namespace: str, key: str, build: Build) -> tuple[ShardEntry, int]:
        """The finished shard of this key, built if it is not there whole; and the bytes written for it."""

    def leave(self, namespace: str, keys: set[str]) -> None:
        """These shards have left the manifest: their grace begins."""

    def fetch(self, namespace: str, shard: ShardEntry, name: str, *, fresh: bool = False) -> Path:
        """A local path of a shard's file; ``fresh`` does not trust a copy. Raises ``E_SHARD_MISSING``,
        ``E_SHARD_CORRUPT``.
        """

    def mark_damaged(self, namespace: str, shard: ShardEntry) -> None:
        """Ask the next publish to build the shard again; best effort, since a reader may have no right to
        write.
        """

    def prune(self, namespace: str, keep: Manifest | None, min_age_seconds: float) -> list[str]:
        """Delete what ``keep`` does not name and that was written, or left the manifest, so long ago. Returns
        the names.
        """

    def health(self) -> Health: ...


def open_shards(home: Path, url: str | None = None, storage: StorageSettings | None = None) -> ShardStore:
    """The shards under a home, or under ``TABOOT_SHARD_URL`` with a cache under the home. Asks no server;
    ``E_CONFIG`` names a wrong URL."""
    from taboot_pipelines.shards.directory import DirectoryShards

    if not url:
        return DirectoryShards(home / "kb")
    from taboot_pipelines.stores.objects import place

    at = place("TABOOT_SHARD_URL", url, storage or StorageSettings())
    if at.directory is not None:
        return DirectoryShards(at.directory)
    from taboot_pipelines.shards.bucket import BucketShards

    return BucketShards(at, home / "cache" / "shards")


def shards_at(where: Path | ShardStore) -> ShardStore:
    """A store, or the one in a directory."""
    from taboot_pipelines.shards.directory import DirectoryShards

    return DirectoryShards(where) if isinstance(where, Path) else where


def load_manifest(where: Path | ShardStore, namespace: str) -> Manifest | None:
    """The current manifest, or None if nothing was published yet. ``E_SHARD_CORRUPT`` if it cannot be
    understood.
    """
    found = shards_at(where).read_manifest(check_namespace(namespace))
    return None if found is None else parse_manifest(found[0], namespace)


def manifest_and_etag(where: ShardStore, namespace: str) -> tuple[Manifest | None, str]:
    """What a publisher starts from: the manifest, and the etag to swap it by. A manifest that is damaged or
    of another format counts as none, and is replaced."""
    found = where.read_manifest(namespace)
    if found is None:
        return None, ""
    try:
        return parse_manifest(found[0], namespace), found[1]
    except TabootError:
        return None, found[1]
