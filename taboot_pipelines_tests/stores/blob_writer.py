"""A process that stores the same bytes as others at the same time; its own module, since each process imports
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taboot_pipelines.settings import Settings, StorageSettings
from taboot_pipelines.stores.blobs import open_blobs


def write_equal(home: Path, url: str, storage: StorageSettings, start: Any, results: Any) -> None:
    """Tells for each blob whether this process was the first."""
    store = open_blobs(Settings(home=home, blob_url=url, storage=storage))
    start.wait()
    results.put([store.put("n", f"text {i}".encode())[1] for i in range(40)])
