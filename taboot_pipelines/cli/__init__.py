"""``taboot``: the command for people without a browser at hand.

One module per subject, one function per command: ``sources`` (init, sources), ``ingest``, ``plan``,
``held``, ``letters``, ``crawls``, ``query`` (search, ask, query, evaluate, cache), ``graph`` (explain,
links, neighbors, path, drift), ``rules``, ``documents`` (documents, document, collections), ``changes``,
``uploads`` (upload, tag), ``usage`` (usage, jobs), ``runs`` (list, show, diff, promote, rollback,
reinterpret, reindex), ``decide`` (correct, retract, add, merge, undo, assertions, supports), ``browse``,
``mcp``, ``status``, ``metrics``, ``notifications``, ``config``, ``backup``, ``retention`` (retention,
retain),
``capture``, ``audit``, ``domains``, ``discover``, ``completion``, ``admin`` (schema, delete, restore,
purge, ui).
``group`` joins them and decides about exit codes and errors; ``output`` and ``places`` write, ``state``
gathers what ``status`` tells. What a person types and reads belongs here, what a command does to the package
that it calls. A module imports at its head what all its commands need, and the rest where it is used: a
search must not wait for what an ingest needs. Only ``ingest`` and ``ui`` load Dagster.
"""

from __future__ import annotations

from taboot_pipelines.cli.group import main

__all__ = ["main"]
