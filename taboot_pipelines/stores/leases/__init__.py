"""Leases: who may write now. One per source and one per namespace; they die with their holder.

The protocol is in ``protocol``: an abstract class, since the order of leases and that a thread may enter what
it holds are the same for all. The backends are ``files`` (locks of the operating system, for one machine) and
``postgres`` (advisory locks, for the machines that share a catalog); ``reading`` refuses them all. What is
done under a lease does not belong here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.postgres import is_postgres

if TYPE_CHECKING:
    from taboot_pipelines.stores.leases.protocol import LeaseStore


def open_leases(settings: Settings, wait_seconds: float | None = None) -> LeaseStore:
    """Open leases in the catalog's PostgreSQL if there is one, else in files of the home; none may be taken
    where TABOOT_READ_ONLY is set. Touches no network.

    ``wait_seconds``: how long to wait for a lease, by default ``TABOOT_LIMITS__LEASE_WAIT_SECONDS``. Raises
    ``E_CONFIG`` for an unusable URL.
    """
    if settings.read_only:
        from taboot_pipelines.stores.leases.reading import NoLeases

        return NoLeases()
    wait = settings.limits.lease_wait_seconds if wait_seconds is None else wait_seconds
    url = settings.catalog_url.get_secret_value() if settings.catalog_url is not None else None
    if url is not None and is_postgres(url):
        from taboot_pipelines.stores.leases.postgres import PostgresLeases

        return PostgresLeases(url, wait)
    from taboot_pipelines.stores.leases.files import FileLeases

    return FileLeases(settings.home_dir, wait)
