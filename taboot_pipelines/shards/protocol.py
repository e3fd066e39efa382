"""What every store of shards offers: a publisher and a reader ask the same of a local directory and of an
object store. One conformance suite runs against both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from taboot_pipelines.model.health import Health
from taboot_pipelines.shards.files import Verified
from taboot_pipelines.shards.manifest import Manifest, ShardEntry

#: Fills an empty folder with a shard's files, each synced to disk, and returns the entry that describes them.
Build = Callable[[Path], ShardEntry]


@dataclass(frozen=True, slots=True)
class Seen:
    """A manifest as a reader found it. ``state`` tells a later look whether there is a newer one."""

    state: object
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Left:
    """A shard that the manifest does not name: when it was written or left it (Unix time), and its bytes."""

    since: float
    bytes: int


#: A reader that has just looked at the manifest has opened its files by then, however little room there is.
LEAST_GRACE_SECONDS = 10.0


def doomed(
    left: Mapping[str, Left], now: float, min_age_seconds: float, max_bytes: int | None = None
) -> list[str]:
    """Return the names of the shards to delete: the old ones, and the oldest of an excess of bytes."""
    gone = {name for name, shard in left.items() if now - shard.since >= min_age_seconds}
    if max_bytes is not None:
        rest = sorted(left.keys() - gone, key=lambda name: (left[name].since, name))
        excess = sum(left[name].bytes for name in rest) - max_bytes
        for name in rest:
            if excess <= 0 or now - left[name].since < LEAST_GRACE_SECONDS:
                break
            gone.add(name)
            excess -= left[name].bytes
    return sorted(gone)


class ShardStore(Protocol):
    """Every method raises ``E_STORAGE`` where the store refuses or does not answer.

    Namespaces that come here have been checked to be valid names. ``verified``: the local files that were
    hashed.
    """

    verified: Verified

    def read_manifest(self, namespace: str) -> tuple[bytes, str] | None:
        """The current manifest's bytes and its ETag for :meth:`swap_manifest`; None if there is none."""

    def swap_manifest(self, manifest: Manifest, etag: str) -> None:
        """Publish ``manifest`` if the current one still has this ETag (empty: there is none yet).

        Raises ``E_CONFLICT`` otherwise, and has then written nothing.
        """

    def look(self, namespace: str, last: Seen | None, *, now: bool = False) -> Seen | None:
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
        together (see :func:`doomed`). Returns the names of the shards' folders that are gone, sorted.
        """

    def health(self) -> Health: ...
