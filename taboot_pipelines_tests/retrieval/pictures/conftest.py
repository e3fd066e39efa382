"""The browser and the house, of which each process has one at a time."""

from __future__ import annotations

from taboot_pipelines_tests.browse.conftest import chromium, context
from taboot_pipelines_tests.docs.conftest import ingested

# Names that pytest finds here are fixtures of these tests.
__all__ = ["chromium", "context", "ingested"]
