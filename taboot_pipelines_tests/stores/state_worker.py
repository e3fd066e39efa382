"""State backends as another process opens them."""

from __future__ import annotations

import time
from pathlib import Path

from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases import FileLeases
from taboot_pipelines.stores.state import State, open_state


def open_backend(backend: str, where: str) -> State:
    """``catalog-sqlite`` at a home, ``catalog-postgres`` or ``redis`` at a URL."""
    if backend == "redis":
        return open_state(load_settings(redis={"url": where}), None)  # type: ignore[arg-type]
    home = Path(where) if backend == "catalog-sqlite" else Path("/nonexistent")
    url = None if backend == "catalog-sqlite" else where
    return open_state(
        load_settings(), open_catalog(Settings(home=home, catalog_url=url), FileLeases(home, 5))
    )


def take(
    backend: str, where: str, namespace: str, rate: float, burst: float, seconds: float
) -> tuple[int, float, float]:
    """Take tokens as fast as they are given, and ask as often as the burst is large however slow the machine
    is: how many, and from when to when (monotonic, one clock for the machine).
    """
    state = open_backend(backend, where)
    start, taken, asked = time.monotonic(), 0, 0
    while time.monotonic() < start + seconds or asked < burst:
        asked += 1
        taken += state.take_tokens(namespace, "rate:a", rate=rate, burst=burst).allowed
    return taken, start, time.monotonic()
