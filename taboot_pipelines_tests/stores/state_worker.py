"""State backends as another process opens them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines.stores.catalog import open_catalog, schema
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.catalog import CatalogState
from taboot_pipelines.stores.state.protocol import State


def open_backend(backend: str, where: str) -> State:
    """``catalog-sqlite`` at a home, ``catalog-postgres`` or ``redis`` at a URL."""
    if backend == "redis":
        return open_state(load_settings(redis={"url": where}), None)
    home = Path(where) if backend == "catalog-sqlite" else Path("/nonexistent")
    url = None if backend == "catalog-sqlite" else where
    return open_state(
        load_settings(), open_catalog(Settings(home=home, catalog_url=url), FileLeases(home, 5))
    )


def set_clock_back(state: State, namespace: str, seconds: float) -> None:
    """Make everything that is stored look as if the backend's clock had been set back (forward, if negative)
    since."""
    if isinstance(state, CatalogState):
        with state._catalog.database.begin(namespace) as c:
            for table in (schema.state_value, schema.state_lock, schema.state_bucket, schema.state_circuit):
                times = [column for column in table.c if column.name.endswith(("_at", "_failure"))]
                moved = {column: column + int(seconds * 1_000_000) for column in times}
                c.execute(sa.update(table).where(table.c.namespace == namespace).values(moved))
        return
    client: Any = state._client
    for key in client.scan_iter(f"taboot:{namespace}:*"):
        if client.type(key) == b"hash":
            for field in (b"updated_at", b"opened_at", b"trial_at", b"last_failure"):
                if client.hexists(key, field):
                    client.hset(key, field, f"{int(client.hget(key, field)) + int(seconds * 1_000_000)}")
        if client.pttl(key) > 0:
            left = client.pttl(key) + int(seconds * 1000)
            _ = client.pexpire(key, left) if left > 0 else client.unlink(key)


def let_pass(state: State, namespace: str, seconds: float) -> None:
    """Let so much time pass for everything that is stored: tests that waited would hang on the machine's
    speed."""
    set_clock_back(state, namespace, -seconds)


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
