"""Many sources at once: the namespace's stages run once for all, and one that fails stops no other."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pytest

from taboot_pipelines.defs import materialize
from taboot_pipelines.defs.partitions import NAME, RANGE_TAGS, Busy
from taboot_pipelines.shards.publish import publish
from taboot_pipelines.stages import kb_shards
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines_tests.defs.conftest import GUIDE, Project
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, logical

SOURCES = 5


def lay_out(world: World) -> None:
    for i in range(SOURCES):
        (world.source(f"s{i:02d}") / "guide.md").write_text(f"{GUIDE}\nNumber {i} of the guides.\n")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of shards that each publish wrote, as they come."""
    counts: list[int] = []

    def counted(*arguments: object) -> object:
        report = publish(*arguments)
        counts.append(report.shards_new)
        return report

    monkeypatch.setattr(kb_shards, "publish", counted)
    return counts


def range_tags(keys: Sequence[str]) -> dict[str, str]:
    """The tags that Dagster's own backfill gives the run of neighbouring partitions."""
    return dict(zip(RANGE_TAGS, (keys[0], keys[-1]), strict=True))


def run_range(project: Project, *sources: str) -> dg.ExecuteInProcessResult:
    keys = [key for key in project.instance.get_dynamic_partitions(NAME) if key in sources]
    return project.defs.resolve_job_def("ingest_source").execute_in_process(
        instance=project.instance,
        tags=range_tags(keys),
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def materialized(result: dg.ExecuteInProcessResult, asset: str) -> set[str | None]:
    return {
        e.materialization.partition
        for e in result.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey(asset)
    }


def test_a_backfill_of_many_sources_publishes_once_and_ends_as_one_by_one(
    project: Project, published: list[int], tei: FakeTei, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialize, "_SECONDS_BETWEEN_LOGS", 0.0)
    lay_out(project.world)
    project.sync()
    everyone = project.partitions()
    result = run_range(project, *everyone)
    logged = [e.user_message for e in project.instance.all_logs(result.run_id) if not e.is_dagster_event]
    assert logged.count(f"3 of {SOURCES + 2} sources done, 0 of them failed.") == len(CHAIN.of_source)
    assert result.success and len(everyone) == SOURCES + 2
    assert published == [2], "one document shard and one of entities"
    for asset in ("raw_blobs", "embeddings", "entity_snapshots", "kb_shards"):
        assert materialized(result, asset) == everyone
    # Each partition says what was done for it.
    (own,) = [
        e.materialization
        for e in result.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey("documents") and e.materialization.partition == "s03"
    ]
    assert own.metadata["source"].value == "default/s03" and own.metadata["new"].value == 1
    # What ran once for all of them is told of each by its own name.
    shared = {
        str(e.materialization.partition): e.materialization.metadata["source"].value
        for e in result.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey("entity_snapshots")
    }
    assert shared == {key: f"default/{key}" for key in everyone}
    assert set(project.checks(result).values()) == {True}

    single = World(project.world.root / "single", tei.url)
    single.entries, single.directory = project.world.entries, project.world.directory
    single.workspace.close()
    single.home = project.world.root / "single-home"
    single.workspace = single.open(single.home)
    single.workspace.settings = single.workspace.settings.model_copy(
        update={"sources": project.world.directory / "sources.yaml"}
    )
    single.workspace.sync_sources()
    for source in sorted(everyone):
        run_chain(single.workspace, source)
    assert len(published) > SOURCES
    left, right = logical(project.world.workspace), logical(single.workspace)
    assert not differences(_timeless(left), _timeless(right))
    single.workspace.close()


def _timeless(stores: dict[str, object]) -> dict[str, object]:
    """Return what two ingests of the same files have in common: not the times and jobs of their fetches."""
    return {name: len(rows) if isinstance(rows, list) else rows for name, rows in stores.items()}


def test_every_asset_of_a_source_is_backfilled_in_one_run(project: Project) -> None:
    graph = project.defs.resolve_asset_graph()
    assert {
        graph.get(key).backfill_policy for key in graph.get_all_asset_keys() if graph.get(key).is_partitioned
    } == {dg.BackfillPolicy.single_run()}
    # The UI launches a backfill of the job by this.
    assert project.defs.resolve_job_def("ingest_source").backfill_policy == dg.BackfillPolicy.single_run()


def test_a_source_that_fails_in_a_backfill_is_the_only_one_without_a_materialization(
    project: Project,
) -> None:
    project.world.source("broken").rmdir()
    project.sync()
    result = run_range(project, *project.partitions())
    assert not result.success and materialized(result, "raw_blobs") == {"stack", "guides"}
    (failure,) = [e for e in result.all_events if e.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None and "broken" in (said.description or "")
    assert "E_PATH" in str(said.metadata["failed"].value)
    # What the others fetched is not fetched again, and goes on without it.
    again = run_range(project, "stack", "guides")
    assert again.success and project.world.kb().documents().num_rows == 2


def test_a_source_is_busy_while_a_run_of_several_has_it(project: Project) -> None:
    lay_out(project.world)
    project.sync()
    order = list(project.instance.get_dynamic_partitions("sources"))
    project.instance.create_run_for_job(
        project.defs.resolve_job_def("ingest_source"),
        status=dg.DagsterRunStatus.STARTED,
        tags=range_tags(order[2:5]),
    )
    busy = Busy(project.instance, project.world.workspace)
    assert {s for s in order if s in busy} == set(order[2:5])
