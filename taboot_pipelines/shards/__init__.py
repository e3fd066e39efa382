"""Content-addressed shards: the embedded serving store and the portable copy of a knowledge base."""

from __future__ import annotations

from taboot_pipelines.shards.files import damaged_shards, verify
from taboot_pipelines.shards.inputs import DocumentRows, PublishReport, ShardInput
from taboot_pipelines.shards.manifest import Manifest
from taboot_pipelines.shards.publish import plan, prune, publish
from taboot_pipelines.shards.reader import DocumentShard, Shards
from taboot_pipelines.shards.store import ShardStore, load_manifest, open_shards

__all__ = [
    "DocumentRows",
    "DocumentShard",
    "Manifest",
    "PublishReport",
    "ShardInput",
    "ShardStore",
    "Shards",
    "damaged_shards",
    "load_manifest",
    "open_shards",
    "plan",
    "prune",
    "publish",
    "verify",
]
