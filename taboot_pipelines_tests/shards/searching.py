"""Where the search files of a published knowledge base lie."""

from __future__ import annotations

from pathlib import Path

from taboot_pipelines.shards import layout
from taboot_pipelines.shards.manifest import Manifest
from taboot_pipelines.shards.protocol import ShardStore


def search_path(store: ShardStore, manifest: Manifest, shard: int) -> Path:
    """The path in the store's cache of the search file of a document shard."""
    entry = manifest.of_kind("documents")[shard]
    assert store.cache is not None
    name = layout.search_file_name(entry.file(layout.DATABASE).sha256)
    return store.cache.root / manifest.namespace / name
