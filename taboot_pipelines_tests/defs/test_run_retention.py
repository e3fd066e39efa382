"""Dagster's own storage stays bounded, and keeps what a person looks for."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import BACKFILL_ID_TAG, RUN_KEY_TAG

from taboot_pipelines.checks import CHECKS
from taboot_pipelines.defs import operations
from taboot_pipelines.defs import run_retention as retention
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.partitions import TAG
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import RetentionSettings
from taboot_pipelines.stages import running
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines_tests.defs.conftest import GUIDE, Project
from taboot_pipelines_tests.defs.test_operations import tick
from taboot_pipelines_tests.world import World

ASSETS = (
    *("raw_blobs", "crawl_graph", "documents", "chunks", "links", "embeddings"),
    *("tier_a_triples", "entity_snapshots", "kb_shards"),
)


@pytest.fixture
def stored(world: World) -> Iterator[Project]:
    """A project with the storage on disk that a home has."""
    (world.source("guides") / "guide.md").write_text(GUIDE)
    (world.source("notes") / "note.md").write_text(f"{GUIDE}\nA note.\n")
    with open_instance(world.workspace.settings) as instance:
        yield Project(world, instance)


def files(project: Project) -> set[str]:
    folder = project.world.home / "dagster" / "history" / "runs"
    return {p.stem for p in folder.glob("*.db")} - {"index"}


def recorded(project: Project) -> set[str]:
    return {run.run_id for run in project.instance.get_runs()}


def rows(project: Project) -> dict[str, int]:
    """Return the rows of every table of Dagster's databases that spans runs."""
    history = project.world.home / "dagster" / "history"
    found = {}
    for path in (history / "runs" / "index.db", history / "runs.db"):
        with sqlite3.connect(path) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            found |= {
                f"{path.stem}.{name}": connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                for (name,) in tables
            }
    return found


def last_run_of(project: Project, asset: str, partition: str) -> str:
    (record,) = project.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition]), limit=1
    ).records
    return record.run_id


def test_unchanged_runs_leave_what_one_of_them_leaves(stored: Project) -> None:
    first, other = stored.run("guides"), stored.run("notes")
    second = stored.run_only("guides")
    after_one = rows(stored)
    runs = [stored.run_only("guides").run_id for _ in range(2)]
    # The run that brought something, the last one, and that of the other source.
    kept = {first.run_id, other.run_id, runs[-1]}
    assert recorded(stored) == files(stored) == kept and second.run_id not in kept
    # Dagster has no way to delete what a check found; all else is as after one of them.
    of_checks = "index.asset_check_executions"
    now = rows(stored)
    assert now.pop(of_checks) > after_one.pop(of_checks) and now == after_one
    # The UI shows of every partition when it was looked at last, with all its events.
    for asset in ASSETS:
        assert last_run_of(stored, asset, "guides") == runs[-1]
        assert last_run_of(stored, asset, "notes") == other.run_id
    assert len(stored.instance.all_logs(runs[-1])) > 50
    assert stored.instance.get_materialized_partitions(dg.AssetKey("kb_shards")) == {"guides", "notes"}

    (stored.world.directory / "guides" / "guide.md").write_text(f"{GUIDE}\nAn edit.\n")
    edited = stored.run_only("guides").run_id
    stored.run_only("guides")
    assert {first.run_id, edited} < recorded(stored)


def test_a_run_that_fails_half_way_leaves_the_last_materializations(
    stored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.run("guides")
    whole = stored.run_only("guides").run_id
    run_together = running.run_together

    def failing(workspace: Any, stage: Any, *arguments: Any) -> Any:
        if stage.name == "kb_shards":
            raise TabootError("E_TABLE", "A table is not what it should be.")
        return run_together(workspace, stage, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_together", failing)
        failed = stored.run_only("guides")
    assert not failed.success
    assert last_run_of(stored, "kb_shards", "guides") == whole
    assert last_run_of(stored, "documents", "guides") == failed.run_id
    last = stored.run_only("guides").run_id
    # The failure stays; the run before it has nothing more to say.
    assert {failed.run_id, last} < recorded(stored) and whole not in recorded(stored)


class Made:
    """Runs that never ran, as far as the storage of Dagster can tell."""

    def __init__(self, project: Project) -> None:
        self.instance = project.instance
        self.job = project.defs.resolve_job_def("ingest_source")

    def __call__(
        self,
        status: dg.DagsterRunStatus = dg.DagsterRunStatus.SUCCESS,
        /,
        partition: str = "guides",
        **tags: str,
    ) -> str:
        named = {name.replace("__", "/"): value for name, value in tags.items()}
        run = self.instance.create_run_for_job(self.job, status=status, tags={TAG: partition, **named})
        return run.run_id


def test_of_runs_that_changed_something_or_failed_the_newest_stay(project: Project) -> None:
    made = Made(project)
    failed = [made(dg.DagsterRunStatus.FAILURE) for _ in range(5)]
    changed = [made(**{retention.CHANGED_TAG.replace("/", "__"): "yes"}) for _ in range(2)]
    others = [made(dg.DagsterRunStatus.CANCELED, partition="notes") for _ in range(2)]
    going = [made(s) for s in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING)]
    idle = [made() for _ in range(3)]
    gone = retention.forget_old(project.instance, RetentionSettings(runs=4))
    assert set(gone) == {*failed[:3], *idle}
    assert recorded(project) == {*failed[3:], *changed, *others, *going}
    assert retention.forget_old(project.instance, RetentionSettings(runs=4)) == []


def test_runs_of_long_ago_go_however_few_there_are(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(project)
    failed, going = made(dg.DagsterRunStatus.FAILURE), made(dg.DagsterRunStatus.STARTED)
    now = time.time
    monkeypatch.setattr(retention.time, "time", lambda: now() + 89 * 24 * 3600)
    assert retention.forget_old(project.instance, RetentionSettings()) == []
    monkeypatch.setattr(retention.time, "time", lambda: now() + 91 * 24 * 3600)
    assert retention.forget_old(project.instance, RetentionSettings()) == [failed]
    assert recorded(project) == {going}


def test_runs_that_somebody_still_counts_stay(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(project)
    backfill = PartitionBackfill(
        backfill_id="under-way",
        status=BulkActionStatus.REQUESTED,
        from_failure=False,
        tags={},
        backfill_timestamp=time.time(),
    )
    project.instance.add_backfill(backfill)
    counted = made(**{BACKFILL_ID_TAG.replace("/", "__"): "under-way"})
    asked = made(**{RUN_KEY_TAG.replace("/", "__"): "retry:default:guides:1:5"})
    due = made(**{RUN_KEY_TAG.replace("/", "__"): "due:guides:2026-03-01T12:00:00+00:00"})
    assert retention.forget_old(project.instance, RetentionSettings()) == [due]
    project.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_SUCCESS))
    assert retention.forget_old(project.instance, RetentionSettings()) == [counted]
    now = time.time
    monkeypatch.setattr(retention.time, "time", lambda: now() + 25 * 3600)
    assert retention.forget_old(project.instance, RetentionSettings()) == [asked]


def test_the_sensor_forgets_and_says_so(project: Project) -> None:
    Made(project)()
    said = tick(project, operations.run_retention)
    assert isinstance(said, dg.SkipReason) and said.skip_message == "1 runs are forgotten."
    assert recorded(project) == set()


def test_the_file_of_a_run_is_small(stored: Project) -> None:
    run = stored.run("guides").run_id
    path = Path(stored.world.home / "dagster" / "history" / "runs" / f"{run}.db")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # Events, figures, schemas of tables.
    assert path.stat().st_size < 17_000 * (len(CHAIN.names) + len(CHECKS))
