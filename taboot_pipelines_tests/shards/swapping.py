"""A process that swaps the manifest again and again; its own module, since each process imports it."""

from __future__ import annotations

from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.manifest import Manifest, SpaceEntry


def increments(settings: Settings, name: str, count: int, start: Any, results: Any) -> None:
    """Raise the version ``count`` times, each time by one; tells how often another process was first."""
    store = open_shards(settings)
    space = SpaceEntry(model="tests/hash", revision="1", dimension=16, max_tokens=256)
    conflicts = 0
    for i in range(count):
        while True:
            found = store.read_manifest("default")
            if i == conflicts == 0:
                # All have read the same when the first of them writes.
                start.wait()
            version = Manifest.model_validate_json(found[0]).version + 1 if found else 1
            manifest = Manifest(
                namespace="default",
                version=version,
                snapshot=f"{name}-{i}",
                space=space,
                analyzer=ANALYZER,
                sources={},
                shards=(),
            )
            try:
                store.swap_manifest(manifest, found[1] if found else "")
                break
            except TabootError as error:
                if error.code != "E_CONFLICT":
                    raise
                conflicts += 1
    results.put(conflicts)
