"""State backends as another process opens them; run as a program, it takes tokens from a bucket as fast as it can."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from taboot_pipelines.settings import load_settings
from taboot_pipelines.stores.catalog import Catalog
from taboot_pipelines.stores.leases import Leases
from taboot_pipelines.stores.state import State, open_state


def open_backend(backend: str, where: str) -> State:
    """``catalog-sqlite`` at a home, ``catalog-postgres`` or ``redis`` at a URL."""
    if backend == "redis":
        return open_state(load_settings(redis={"url": where}), None)  # type: ignore[arg-type]
    home = Path(where) if backend == "catalog-sqlite" else Path("/nonexistent")
    return open_state(load_settings(), Catalog.open(home, Leases(home, 5), None if backend == "catalog-sqlite" else where))


def take(backend: str, where: str, namespace: str, rate: str, burst: str, seconds: str) -> None:
    """Say ``ready``, wait for a line, then print how many tokens were given."""
    state = open_backend(backend, where)
    print("ready", flush=True)
    sys.stdin.readline()
    end, taken = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        taken += state.take_tokens(namespace, "rate:a", rate=float(rate), burst=float(burst)).allowed
    print(taken, flush=True)


if __name__ == "__main__":
    take(*sys.argv[1:])
