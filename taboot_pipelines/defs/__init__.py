"""The Dagster project: the only package that imports Dagster.

The module of a group of the chain holds that group's assets and checks. Every other module has one subject:
partitions, pools, resources, I/O, metadata, jobs, sensors, the sweeper. :func:`build_defs` puts them together
and is the seam for tests. Importing the package opens no store and touches no network.
"""

from __future__ import annotations

from taboot_pipelines.defs.build import build_defs

__all__ = ["build_defs"]
