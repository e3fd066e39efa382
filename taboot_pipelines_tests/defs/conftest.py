"""Two small sources in a world, and the project's definitions over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from taboot_pipelines.defs import build_defs
from taboot_pipelines.defs.partitions import NAME, apply_change, partition_change
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines_tests import dagster_storage  # noqa: F401
from taboot_pipelines_tests.world import World

COMPOSE = """\
services:
  web:
    image: nginx:1.27
    depends_on: [cache]
    ports: ["8080:80"]
  cache:
    image: redis:7.2
"""
GUIDE = "# Guide\n\nThe web server keeps its sessions in cache. It listens on port 8080 of the docker host.\n"


class Project:
    """Definitions, an instance that lives as long as the test, and shortcuts."""

    def __init__(self, world: World, instance: dg.DagsterInstance) -> None:
        self.world, self.instance = world, instance
        self.resource = WorkspaceResource(
            runtime=Runtime(world.workspace.settings, workspace=world.workspace)
        )
        self.defs = build_defs(world.workspace.settings, workspace=self.resource)

    def sync(self) -> None:
        self.world.workspace.sync_sources()
        apply_change(self.instance, partition_change(self.instance, self.world.workspace))

    def run(self, source: str) -> dg.ExecuteInProcessResult:
        self.sync()
        return self.run_only(source)

    def run_only(self, source: str, *, confirm_deletes: bool = False) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def("ingest_source").execute_in_process(
            instance=self.instance,
            partition_key=source,
            raise_on_error=False,
            run_config={
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {"raw_blobs": {"config": {"confirm_deletes": confirm_deletes}}},
            },
        )

    def partitions(self) -> set[str]:
        return set(self.instance.get_dynamic_partitions(NAME))

    def metadata(self, result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
        (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key.path[-1] == asset]
        return {k: v.value for k, v in event.materialization.metadata.items()}

    def checks(self, result: dg.ExecuteInProcessResult) -> dict[str, bool]:
        return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}


def two_sources(world: World) -> None:
    compose = world.source("stack", "compose", host="box.lan", schedule="*/10 * * * *")
    (compose / "compose.yaml").write_text(COMPOSE)
    (world.source("guides") / "guide.md").write_text(GUIDE)


@pytest.fixture
def project(world: World) -> Iterator[Project]:
    two_sources(world)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(world, instance)
