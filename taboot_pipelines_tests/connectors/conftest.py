"""Where the real data lies."""

from __future__ import annotations

from taboot_pipelines_tests.needs import DATA as DATA
