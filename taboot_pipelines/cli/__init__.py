"""``taboot``: the command for people without a browser at hand.

One module per subject, one function per command.
``group`` joins them and decides about exit codes and errors; ``output`` and ``places`` write, ``state``
gathers what ``status`` tells. What a person types and reads belongs here, what a command does to the package
that it calls. A module imports at its head what all its commands need, and the rest where it is used: a
search must not wait for what an ingest needs. Only ``ingest`` and ``ui`` load Dagster.
"""

from __future__ import annotations

from taboot_pipelines.cli.group import main

__all__ = ["main"]
