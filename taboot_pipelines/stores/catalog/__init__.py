"""The catalog: what came in, what is alive, and which version of each table holds."""

from taboot_pipelines.stores.catalog.catalog import Catalog, Locator, Pointer
from taboot_pipelines.stores.catalog.database import now_micros

__all__ = ["Catalog", "Locator", "Pointer", "now_micros"]
