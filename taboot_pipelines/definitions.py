"""The entry point of ``dagster dev``, ``dg dev`` and ``workspace.yaml``."""

from __future__ import annotations

from taboot_pipelines.defs import build_defs

defs = build_defs()
