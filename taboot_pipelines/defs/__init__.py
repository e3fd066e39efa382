"""The Dagster project: the only package that imports Dagster.

One module per group of the chain holds its assets and checks; the rest is one subject per module (partitions,
pools, resources, I/O, metadata, jobs, sensors, the sweeper). :func:`build_defs` puts them together and is the
tests' seam. Importing it opens no store and touches no network.
"""

from __future__ import annotations

from taboot_pipelines.defs.build import build_defs

__all__ = ["build_defs"]
