"""The sensor of Qdrant's retry queue requests one run of the namespace when it is due.

That run drains the queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import dagster as dg
import pytest

from taboot_pipelines.defs.retries import qdrant_retries
from taboot_pipelines.stages import qdrant_points
from taboot_pipelines_tests.defs.conftest import COMPOSE, GUIDE, Project
from taboot_pipelines_tests.defs.test_operations import requested, tick
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World


@pytest.fixture
def qdrant() -> Iterator[FakeQdrant]:
    with FakeQdrant() as server:
        yield server


@pytest.fixture
def served(tmp_path, tei: FakeTei, qdrant: FakeQdrant) -> Iterator[Project]:
    world = World(tmp_path, tei.url, qdrant={"url": qdrant.url, "max_retries": 0})
    (world.source("guides") / "guide.md").write_text(GUIDE)
    (world.source("stack", "compose") / "compose.yaml").write_text(COMPOSE)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(world, instance)
    world.workspace.close()


def test_nothing_is_asked_where_qdrant_is_not_set(project: Project) -> None:
    assert isinstance(tick(project, qdrant_retries), dg.SkipReason)


def test_a_namespace_that_failed_is_run_again_when_it_is_due(
    served: Project, qdrant: FakeQdrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.sync()
    assert isinstance(tick(served, qdrant_retries), dg.SkipReason)
    qdrant.stop()
    with pytest.raises(Exception, match="E_QDRANT"):
        served.world.ingest()
    assert isinstance(tick(served, qdrant_retries), dg.SkipReason), "not before its time"
    later = time.time() + 3600
    monkeypatch.setattr("taboot_pipelines.defs.retries.time.time", lambda: later)
    first = requested(tick(served, qdrant_retries))
    assert set(first) == {"guides"} and requested(tick(served, qdrant_retries)) == first, (
        "the same key until the next failure"
    )
    (request,) = tick(served, qdrant_retries).run_requests
    assert request.asset_selection == [dg.AssetKey("qdrant_points")]
    qdrant.start()
    monkeypatch.undo()
    result = (
        served.defs.resolve_job_def("ingest_source")
        .get_subset(asset_selection=set(request.asset_selection))
        .execute_in_process(
            instance=served.instance,
            partition_key=request.partition_key,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    )
    assert result.success and {e.asset_key.path[-1] for e in result.get_asset_materialization_events()} == {
        "qdrant_points"
    }
    assert list(qdrant_points.TARGET.audit(served.world.workspace, "default")) == []
    monkeypatch.setattr("taboot_pipelines.defs.retries.time.time", lambda: later)
    assert isinstance(tick(served, qdrant_retries), dg.SkipReason)
