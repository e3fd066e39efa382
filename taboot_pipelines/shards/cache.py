"""The local cache of a store of shards: files that are named by a hash, shared by all processes of a home.

It holds what was downloaded from an object store, by the SHA-256 of its bytes, and the search files that were
derived from the shards' databases (``search_files.py``). Every file of it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from taboot_pipelines.errors import TabootError
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.manifest import Manifest

#: Files that the manifest does not name stay this long, since another process may be about to map them. A
#: reader sweeps the cache as often.
GRACE_SECONDS = 60.0
#: In a younger folder of the cache another process may still be building.
_BUILDING_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class RemovedShard:
    """A shard that the manifest does not name: when it was written or left it (Unix time), and its bytes."""

    since: float
    bytes: int


#: A reader that has just looked at the manifest has opened its files by then, however little room there is.
LEAST_GRACE_SECONDS = 10.0


def doomed(
    left: Mapping[str, RemovedShard], now: float, min_age_seconds: float, max_bytes: int | None = None
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


class LocalCache:
    """``root`` has one folder for each namespace; ``read_only``: nothing is written there."""

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root
        self.read_only = read_only
        #: When each namespace was swept last: monotonic seconds.
        self._swept: dict[str, float] = {}

    def folder(self, namespace: str) -> Path:
        """The folder of a namespace, made where there is none. Raises ``OSError``."""
        folder = self.root / namespace
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def needed(self, what: Literal["built", "read", "written"]) -> Iterator[None]:
        """Turn an ``OSError`` of the cache into ``E_STORAGE``."""
        try:
            yield
        except OSError as error:
            raise TabootError(
                "E_STORAGE",
                f"A shard cannot be {what} in the cache {self.root}: {error.strerror}.",
                folder=str(self.root),
                remedy=(
                    "Check that TABOOT_HOME is writable and has space; its folder `cache` may be deleted at"
                    " any time."
                ),
            ) from error

    def sweep(self, namespace: str, keep: Manifest) -> None:
        """As :meth:`forget`, at most once in :data:`GRACE_SECONDS`, what is as old as that."""
        moment = time.monotonic()
        if not self.read_only and moment - self._swept.get(namespace, float("-inf")) >= GRACE_SECONDS:
            self._swept[namespace] = moment
            self.forget(namespace, keep, GRACE_SECONDS)

    def forget(self, namespace: str, keep: Manifest | None, min_age_seconds: float) -> None:
        """Drop what ``keep`` does not name and is at least so old, the oldest of the rest where it has more
        bytes than what is named, and what killed processes left.
        """
        named = {f.sha256 for s in keep.shards for f in s.files} if keep else set()
        named |= {layout.search_file_name(sha256) for sha256 in named}
        held, left, now = 0, dict[str, RemovedShard](), time.time()
        folder = self.root / namespace
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    stat = path.stat()
                    if path.is_dir():
                        if not min_age_seconds or now - stat.st_mtime >= _BUILDING_SECONDS:
                            shutil.rmtree(path, ignore_errors=True)
                    elif path.name in named:
                        held += stat.st_size
                    else:
                        left[path.name] = RemovedShard(stat.st_mtime, stat.st_size)
            for name in doomed(left, now, min_age_seconds, held):
                (folder / name).unlink(missing_ok=True)
