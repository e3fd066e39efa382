"""The jobs: one source through the chain, and all sources through it."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from taboot_pipelines.defs import (
    documents,
    drift,
    freshness,
    ingest,
    kb,
    knowledge,
    readiness,
    serving_checks,
    tier_checks,
    vectors,
)
from taboot_pipelines.defs.ingest_all import ingest_all

ASSETS = [*ingest.ASSETS, *documents.ASSETS, *vectors.ASSETS, *knowledge.ASSETS, *kb.ASSETS]
CHECKS = [
    *ingest.CHECKS,
    *documents.CHECKS,
    *vectors.CHECKS,
    *tier_checks.CHECKS,
    *knowledge.CHECKS,
    *serving_checks.CHECKS,
    *drift.CHECKS,
]

ingest_source = dg.define_asset_job(
    "ingest_source",
    selection=dg.AssetSelection.assets(*ASSETS)
    - dg.AssetSelection.checks(*readiness.CHECKS, *freshness.CHECKS),
    description="The whole chain for one source, its checks included.",
)


JOBS: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = [ingest_source, ingest_all]
