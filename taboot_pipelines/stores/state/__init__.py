"""State that may be lost: caches, retry queues, rate limits, locks, circuit breakers.

It is in the catalog's database by default, and in Redis when ``TABOOT_REDIS__URL`` is set. What must not
vanish is in the catalog; a queue here is rebuilt from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.stores.catalog.catalog import Catalog
    from taboot_pipelines.stores.state.protocol import State


def open_state(settings: Settings, catalog: Catalog) -> State:
    """Open the state backend that the settings name, without touching the network.

    Raises ``E_CONFIG`` for an unusable URL, ``E_EXTRA`` without the extra ``redis``.
    """
    if settings.redis.url is not None:
        from taboot_pipelines.stores.state.redis import RedisState

        return RedisState(settings.redis)
    from taboot_pipelines.stores.state.catalog import CatalogState

    return CatalogState(catalog)
