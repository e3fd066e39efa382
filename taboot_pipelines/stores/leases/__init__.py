"""Leases that die with their holder: one per source and one per namespace (DESIGN §2)."""

from __future__ import annotations

from pathlib import Path

from taboot_pipelines.stores.leases.base import LeaseStore
from taboot_pipelines.stores.leases.files import Leases
from taboot_pipelines.stores.postgres import is_postgres

__all__ = ["LeaseStore", "Leases", "open_leases"]


def open_leases(home: Path, wait_seconds: float, catalog_url: str | None) -> LeaseStore:
    """Locks in the catalog's PostgreSQL if it has one, else files under ``home``. Touches no network."""
    if catalog_url is not None and is_postgres(catalog_url):
        from taboot_pipelines.stores.leases.postgres import PostgresLeases

        return PostgresLeases(catalog_url, wait_seconds)
    return Leases(home, wait_seconds)
