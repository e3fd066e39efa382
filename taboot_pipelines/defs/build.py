"""Puts the project's definitions together.

Nothing is opened here: the resource opens the stores in the process that uses them.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

from taboot_pipelines.defs import (
    audit,
    crawls,
    freshness,
    interpretations,
    letters,
    quality,
    readiness,
    retention,
    retries,
)
from taboot_pipelines.defs.executors import executor, placed
from taboot_pipelines.defs.ingest_all import PASSED_ON
from taboot_pipelines.defs.io import KEY, TableIOManager
from taboot_pipelines.defs.jobs import ASSETS, CHECKS, ingest_all, ingest_source
from taboot_pipelines.defs.operations import SENSORS
from taboot_pipelines.defs.resources import KnowledgeBaseResource, Runtime, WorkspaceResource
from taboot_pipelines.settings import Settings, load_settings


def build_defs(settings: Settings | None = None, **overrides: Any) -> dg.Definitions:
    """Return the definitions for ``settings``, by default those of the environment.

    ``overrides`` replace resources by name (``workspace``, ``knowledge_base``, ``tables``): the seam for
    tests and for callers that watch the work. Raises ``E_CONFIG`` for a wrong setting, ``E_EXTRA`` for an
    executor that is not installed.
    """
    if settings is None:
        settings = load_settings()
    workspace = overrides.get("workspace") or WorkspaceResource(runtime=Runtime(settings))
    resources = {
        "workspace": workspace,
        KEY: TableIOManager(workspace=workspace),
        PASSED_ON: dg.mem_io_manager,
        "knowledge_base": KnowledgeBaseResource(home=str(settings.home_dir), namespace=settings.namespace),
        **overrides,
    }
    return dg.Definitions(
        assets=[*placed(ASSETS, settings), *audit.ASSETS, *retention.ASSETS, *quality.ASSETS],
        asset_checks=[*CHECKS, *readiness.CHECKS, *freshness.CHECKS, *quality.CHECKS],
        jobs=[
            ingest_source,
            ingest_all,
            *crawls.JOBS,
            *audit.JOBS,
            *retention.JOBS,
            *quality.JOBS,
            *interpretations.JOBS,
            *letters.JOBS,
        ],
        schedules=[*audit.SCHEDULES, *retention.SCHEDULES],
        sensors=[*SENSORS, *retention.SENSORS, *retries.SENSORS, *readiness.SENSORS, *freshness.SENSORS],
        resources=resources,
        executor=executor(settings),
    )
