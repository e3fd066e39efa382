"""``taboot``: the command for people without a browser at hand. One module per subject; none but ``ingest``
and ``ui`` loads Dagster.
"""

from __future__ import annotations

from taboot_pipelines.cli.group import main

__all__ = ["main"]
