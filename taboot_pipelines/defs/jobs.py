"""The jobs: one source through the chain, and all sources through it."""

import dagster as dg

from taboot_pipelines.defs import freshness, readiness
from taboot_pipelines.defs.assets import ASSETS
from taboot_pipelines.defs.checks import CHECKS
from taboot_pipelines.defs.ingest_all import ingest_all

__all__ = ["ASSETS", "CHECKS", "ingest_all", "ingest_source"]

ingest_source = dg.define_asset_job(
    "ingest_source",
    selection=dg.AssetSelection.assets(*ASSETS)
    - dg.AssetSelection.checks(*readiness.CHECKS, *freshness.CHECKS),
    description="The whole chain for one source, its checks included.",
)
