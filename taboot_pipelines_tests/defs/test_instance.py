"""Dagster's storage as an operator sets it: PostgreSQL by ``$DAGSTER_HOME``.

The command and the sweeper work with it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from sqlalchemy.engine import make_url

from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.defs.conftest import GUIDE
from taboot_pipelines_tests.defs.test_sweeper import STUCK_RUN, TABOOT, environment, until
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.world import World, holding

PLANTED = "planted-dagster-pw"


def dagster_home(path: Path, url: str) -> Path:
    """Make a home with the storage section of ``deploy/``, whose password is in the environment."""
    at = make_url(url)
    told = {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "concurrency": {"pools": {"granularity": "op", "default_limit": 1}},
        "storage": {
            "postgres": {
                "postgres_db": {
                    "username": at.username,
                    "password": {"env": "PG_PASSWORD"},
                    "hostname": at.host,
                    "port": at.port,
                    "db_name": at.database,
                    "scheme": "postgresql+psycopg2",
                }
            }
        },
    }
    path.mkdir()
    (path / "dagster.yaml").write_text(yaml.safe_dump(told))
    return path


def test_ingest_and_sweep_with_dagsters_storage_in_postgres(
    world: World, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (world.source(name) / "guide.md").write_text(GUIDE + name)
    home = dagster_home(tmp_path / "dagster", postgres.database("taboot_dagster_instance"))
    variables = {"DAGSTER_HOME": str(home), "PG_PASSWORD": PLANTED}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = world.workspace.settings
    marker = tmp_path / "inside"
    stuck = subprocess.Popen(
        [sys.executable, "-c", STUCK_RUN, "a", str(marker)],
        env={**environment(world), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(marker.exists)
        with open_instance(settings) as instance:
            assert "postgres" in type(instance.run_storage).__module__
            assert instance.event_log_storage.get_concurrency_info("embed").active_slot_count == 1
        stuck.send_signal(signal.SIGKILL)
    finally:
        stuck.kill()
        stuck.wait()
    again = subprocess.run(
        [*python(), "-c", TABOOT, "ingest"],
        env={**environment(world), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    with open_instance(settings) as instance:
        for asset in ("documents", "kb_shards"):
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) == {"a", "b"}
        # Whether a run of a shared database is dead Dagster's own run monitoring says: it may be of another
        # machine.
        assert instance.event_log_storage.get_concurrency_info("embed").active_slot_count == 1
    assert set(world.kb().documents().column("source").to_pylist()) == {"a", "b"}
    assert holding(tmp_path, PLANTED) == []


@pytest.mark.parametrize(
    ("storage", "code"),
    [
        (
            {
                "postgres": {
                    "postgres_db": {
                        "username": "u",
                        "password": PLANTED,
                        "hostname": "127.0.0.1",
                        "db_name": "x",
                        "port": 1,
                    }
                }
            },
            "E_STORAGE",
        ),
        ({"postgres": {"postgres_url": {"env": "NOT_SET"}}}, "E_STORAGE"),
        ({"postgres": {"postgres_url": f"postgresql://u:{PLANTED}/x@nowhere:y"}}, "E_STORAGE"),
        ({"custom": {"module": "dagster_nothing", "class": "Storage", "config": {}}}, "E_EXTRA"),
        ("postgres", "E_STORAGE"),
    ],
)
def test_a_storage_that_cannot_be_is_told_in_words(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: object, code: str
) -> None:
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text(yaml.safe_dump({"storage": storage}))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with pytest.raises(TabootError) as caught, open_instance(world.workspace.settings):
        pass
    assert (
        caught.value.code == code and "dagster.yaml" in str(caught.value) and PLANTED not in str(caught.value)
    )
