"""From a snapshot to a published manifest: builds the shards that are not there yet, and nothing else.

A planned shard whose key is in the manifest already is neither loaded nor written. A shard counts as there
when it is whole; the manifest follows last. Killed at any moment, a publish leaves the old manifest in force,
and the next one adopts the shards that were finished.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.collections import SavedFilter
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.model.retention import Policy
from taboot_pipelines.settings import ShardSettings
from taboot_pipelines.shards import layout
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.files import corrupt, file_entry
from taboot_pipelines.shards.inputs import ShardInput
from taboot_pipelines.shards.manifest import Manifest, RetentionEntry, ShardEntry, SourceEntry, SpaceEntry
from taboot_pipelines.shards.plan import PlannedShard, planned_shards
from taboot_pipelines.shards.protocol import (
    Kept,
    ShardStore,
    kept_manifest,
    load_manifest,
    publisher_start,
    verified_path,
)
from taboot_pipelines.shards.search_files import Buffer, add_search_file, derived

#: In microseconds.
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What one publish did. ``changed`` is False if it wrote nothing at all."""

    shards_new: int
    shards_reused: int
    shards_removed: int
    bytes_written: int
    chunks: int
    documents: int
    entities: int
    manifest_version: int
    changed: bool


#: Puts a shard in its place where the store lacks it; returns its entry and the bytes written for it.
_Obtain = Callable[[], tuple[ShardEntry, int]]


def publish(store: ShardStore, shard_input: ShardInput, settings: ShardSettings) -> PublishReport:
    """Make the knowledge base of a namespace equal to what ``shard_input`` says; write nothing if it is.

    Shards that the manifest no longer names stay, for the readers that have them open, until :func:`prune`.
    Raises ``E_CONFLICT`` if another publisher was first, ``E_TABLE`` for rows that do not fit together,
    ``E_STORAGE`` if the disk or the store refuses.
    """
    namespace = check_namespace(shard_input.namespace)

    def manifest_of(version: int, shards: tuple[ShardEntry, ...]) -> Manifest:
        try:
            return Manifest(
                namespace=namespace,
                version=version,
                snapshot=shard_input.snapshot,
                space=SpaceEntry.of(shard_input.space),
                analyzer=ANALYZER,
                shards=shards,
                sources={
                    k: _source_entry(v, shard_input.policies.sources.get(k))
                    for k, v in sorted(shard_input.sources.items())
                },
                retention={k: _retention(v) for k, v in sorted(shard_input.policies.documents.items())},
                tags=dict(sorted(shard_input.tags.items())),
                collections={
                    n: SavedFilter.model_validate(c) for n, c in sorted(shard_input.collections.items())
                },
            )
        except (ValueError, TypeError, KeyError) as error:
            raise TabootError(
                "E_CONFIG",
                "A source of the knowledge base has no type, or its tags or root are not text.",
                namespace=namespace,
            ) from error

    planned = planned_shards(shard_input, settings)
    return _published(
        store, namespace, ((p.entry, partial(_built, store, namespace, p)) for p in planned), manifest_of
    )


def copy(store: ShardStore, manifest: Manifest, target: ShardStore) -> PublishReport:
    """Make the knowledge base at ``target`` equal to a manifest of ``store``: the shards that it lacks are
    copied, each file hashed, then its manifest follows.

    Raises ``E_SHARD_MISSING`` or ``E_SHARD_CORRUPT`` if a shard cannot be read, ``E_CONFLICT`` if another
    publisher was first, ``E_STORAGE`` if the target refuses.
    """
    namespace = manifest.namespace

    def build(wanted: ShardEntry, folder: Path) -> ShardEntry:
        for f in wanted.files:
            shutil.copyfile(verified_path(store, namespace, wanted, f.name), folder / f.name)
        made = _finished(folder, wanted, wanted.length)
        if made.files != wanted.files:
            raise corrupt(wanted, wanted.files[0].name)
        return made

    return _published(
        target,
        namespace,
        ((e, partial(target.obtain, namespace, e.key, partial(build, e))) for e in manifest.shards),
        lambda version, shards: manifest.model_copy(update={"version": version, "shards": shards}),
    )


def _published(
    store: ShardStore,
    namespace: str,
    wanted: Iterable[tuple[ShardEntry, _Obtain]],
    manifest_of: Callable[[int, tuple[ShardEntry, ...]], Manifest],
) -> PublishReport:
    """Obtain the wanted shards that are not there whole, then put the manifest of all, which ``manifest_of``
    makes of its version and them, in the place of the one before, unless both say the same."""
    previous, version, etag = publisher_start(store, namespace)
    damaged = store.damage(namespace)
    known = {s.key: s for s in previous.shards} if previous else {}
    shards: list[ShardEntry] = []
    new = written = 0
    for planned, obtain in wanted:
        entry = known.get(planned.key)
        if entry is None or damaged(entry):
            entry, size = obtain()
            new += 1
            written += size
        # Else the entry of the old manifest is right as it is: it depends on the shard's rows alone.
        shards.append(entry)
    manifest = manifest_of(version + 1, tuple(shards))
    stale = previous is None or not manifest.same_content(previous)
    left = known.keys() - {s.key for s in shards}
    if stale:
        # First: what was published is never missing among what is kept, whenever this process is killed.
        store.keep(manifest, time.time_ns() // 1000)
        store.swap_manifest(manifest, etag)
        # Readers may just have opened the previous manifest: what it named stays for a while.
        store.leave(namespace, left)
    return PublishReport(
        shards_new=new,
        shards_reused=len(shards) - new,
        shards_removed=len(left),
        bytes_written=written,
        chunks=manifest.chunks,
        documents=manifest.documents,
        entities=manifest.entities,
        manifest_version=manifest.version if stale or previous is None else previous.version,
        changed=stale or new > 0,
    )


@dataclass(frozen=True, slots=True)
class History:
    """How long publications are kept that are no longer in force, and how many bytes of shards of theirs
    alone."""

    days: int
    max_bytes: int


def prune(
    store: ShardStore,
    namespace: str,
    keep_manifest: Manifest | None = None,
    *,
    min_age_seconds: float = 0.0,
    max_bytes: int | None = None,
    history: History | None = None,
) -> list[str]:
    """Delete every shard of the namespace that neither ``keep_manifest`` (default: the current one) nor a
    kept publication names and that was written, or left the manifest, at least ``min_age_seconds`` ago; from
    the store's local cache as well. With ``max_bytes`` younger ones go too, the oldest first, while they have
    more than that and more than the shards of the manifest.

    ``history``: which publications stay; without it none does but that in force. Returns the names of the
    shards' folders. Call it under the namespace's lease: what another publisher is building goes too. Readers
    that have a deleted file open keep it; others look for the new manifest.
    """
    check_namespace(namespace)
    keep = keep_manifest or load_manifest(store, namespace)
    if max_bytes is not None and keep is not None:
        max_bytes = max(max_bytes, sum(f.size for s in keep.shards for f in s.files))
    if keep is not None:
        keep = _with_kept(store, keep, history)
    else:
        store.forget_kept(namespace, ())
    return store.prune(namespace, keep, min_age_seconds, max_bytes)


def _with_kept(store: ShardStore, current: Manifest, history: History | None) -> Manifest:
    """``current`` with the shards of the publications that stay as well; the others are forgotten."""
    listed = store.kept(current.namespace)
    stay = {x.name for x in listed if x.version == current.version}
    shards = {s.key: s for s in current.shards}
    size = 0
    for kept in _thinned(listed, history.days, time.time_ns() // 1000) if history is not None else ():
        manifest = kept_manifest(store, current, kept)
        if manifest is None:
            continue
        new = {s.key: s for s in manifest.shards if s.key not in shards}
        size += sum(f.size for s in new.values() for f in s.files)
        if history is None or size > history.max_bytes:
            break
        shards |= new
        stay.add(kept.name)
    store.forget_kept(current.namespace, stay)
    return current.model_copy(update={"shards": tuple(shards.values())})


def _thinned(kept: Sequence[Kept], days: int, now: int) -> Iterator[Kept]:
    """Yield those that were in force within the last ``days``, newest first: all of the last hour, of the
    last day the last of each hour, of the days before the last of each day (UTC)."""
    seen, ended = set[int](), now
    for x in reversed(kept):
        if ended <= now - days * _DAY:
            return
        ended = x.at
        age = now - x.at
        period = x.at // (1 if age < _HOUR else _HOUR if age < _DAY else _DAY)
        if period not in seen:
            seen.add(period)
            yield x


def _retention(policy: Policy) -> RetentionEntry:
    return RetentionEntry(days=policy.days, set_at=policy.set_at)


def _source_entry(given: Mapping[str, Any], policy: Policy | None) -> SourceEntry:
    """A source as the manifest lists it, from the fields ``type``, ``tags``, ``root`` and ``unread``."""
    root = given.get("root")
    return SourceEntry(
        type=given["type"],
        tags=tuple(given.get("tags") or ()),
        root=os.fspath(root) if root else None,
        retention=None if policy is None else _retention(policy),
        unread=given.get("unread"),
    )


def _built(store: ShardStore, namespace: str, planned: PlannedShard) -> tuple[ShardEntry, int]:
    """The shard in its place and the bytes written for it; 0 if an earlier publish had finished it."""
    sections: dict[str, Buffer] | None = None

    def build(folder: Path) -> ShardEntry:
        nonlocal sections
        built = planned.write(folder)
        # Of the rows at hand, and before anything is published of which a reader could not derive it.
        sections = derived(built.contents) if built else None
        return _finished(folder, planned.entry, built.length if built else 0)

    try:
        entry, size = store.obtain(namespace, planned.entry.key, build)
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise TabootError(
            "E_TABLE",
            f"The rows of shard {planned.entry.key[:16]} do not fit together ({type(error).__name__}).",
            shard=planned.entry.key,
        ) from error
    if sections is not None:
        add_search_file(store, namespace, entry, sections)
    return entry, size


def _finished(folder: Path, planned: ShardEntry, length: int) -> ShardEntry:
    """Sync a shard's files to disk, write its entry behind them, and make all of them read-only."""
    files = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as f:
            os.fsync(f.fileno())
        files.append(file_entry(path))
    entry = planned.model_copy(update={"length": length, "files": tuple(files)})
    (folder / layout.ENTRY).write_text(entry.model_dump_json(), encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o444)
    return entry
