"""Kept connections change the speed of Dagster's storage, not its content."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import dagster as dg
import pytest

from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines_tests.world import World


@dg.asset
def number() -> int:
    return 1


def layout(path: Path) -> tuple[set[str], list[str], str]:
    with sqlite3.connect(path) as connection:
        names = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        revision = [v for (v,) in connection.execute("SELECT version_num FROM alembic_version")]
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return {" ".join(n.split()) for n in names if "alembic" not in n}, revision, mode


def test_a_run_is_stored_as_dagster_itself_stores_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = world.workspace.settings
    with open_instance(settings) as instance:
        ours = [dg.materialize([number], instance=instance).run_id for _ in range(3)]
        again = [e.message for e in instance.all_logs(ours[0])]
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as stock:
        assert {r.run_id: r.status for r in stock.get_runs()} == dict.fromkeys(
            ours, dg.DagsterRunStatus.SUCCESS
        )
        assert [e.message for e in stock.all_logs(ours[0])] == again != []
        theirs = dg.materialize([number], instance=stock).run_id
        assert stock.get_latest_materialization_event(dg.AssetKey("number")).run_id == theirs
    shards = settings.dagster_home / "history" / "runs"
    assert layout(shards / f"{ours[-1]}.db") == layout(shards / f"{theirs}.db")


def test_threads_may_share_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with open_instance(world.workspace.settings) as instance:
        run_id = dg.materialize([number], instance=instance).run_id
        errors: list[BaseException] = []

        def work(i: int) -> None:
            try:
                for k in range(20):
                    instance.add_dynamic_partitions("p", [f"{i}-{k}"])
                    assert instance.all_logs(run_id) and instance.get_runs()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == [] and len(instance.get_dynamic_partitions("p")) == 80
