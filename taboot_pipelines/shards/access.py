"""What works over any store of shards: the manifest in force, and files that are verified before use."""

from __future__ import annotations

import hashlib
import mmap
import os
from pathlib import Path

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.shards import files
from taboot_pipelines.shards.manifest import (
    Manifest,
    NewerManifest,
    ShardEntry,
    manifest_number,
    parse_manifest,
)
from taboot_pipelines.shards.protocol import ShardStore


def load_manifest(store: ShardStore, namespace: str) -> Manifest | None:
    """The current manifest, or None if nothing was published yet.

    Raises ``E_SHARD_CORRUPT`` if it cannot be understood, ``E_NAMESPACE`` for what is no namespace.
    """
    found = store.read_manifest(check_namespace(namespace))
    return None if found is None else parse_manifest(found[0], namespace)


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


def verify(store: ShardStore, manifest: Manifest) -> None:
    """Hash every file that the manifest names, where the store keeps it.

    Raises for the first file that is missing or differs, as :func:`verified_path` does.
    """
    for shard in manifest.shards:
        for f in shard.files:
            path = store.fetch(manifest.namespace, shard, f.name, fresh=True)
            store.verified.forget(path)
            verified_path(store, manifest.namespace, shard, f.name)
    store.verified.keep()


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


def map_file(store: ShardStore, namespace: str, shard: ShardEntry, name: str) -> memoryview:
    """A file's bytes, mapped read-only and verified as by :func:`verified_path`.

    The mapping outlives the deletion of the file.
    """
    path = store.fetch(namespace, shard, name)
    with files.opened(path, shard, name) as f:
        try:
            data = (
                memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
                if os.fstat(f.fileno()).st_size
                else memoryview(b"")  # an empty file cannot be mapped
            )
        except (OSError, ValueError) as error:
            raise TabootError(
                "E_STORAGE", f"The shard file {path} cannot be mapped.", file=str(path)
            ) from error
        # Hashing the mapping rather than the file loads the pages that the scan will read.
        if not store.verified.matches(path, f, shard.file(name), lambda: hashlib.sha256(data).hexdigest()):
            store.mark_damaged(namespace, shard)
            raise files.corrupt(shard, name)
    return data
