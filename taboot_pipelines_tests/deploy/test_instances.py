"""Every ``dagster.yaml`` is loaded by Dagster, those on PostgreSQL against a real one."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import psycopg
import pytest
import yaml
from dagster._core.instance.ref import InstanceRef
from sqlalchemy.engine import make_url

from taboot_pipelines.defs.instance import DAGSTER_YAML
from taboot_pipelines_tests.deploy.files import DEPLOY
from taboot_pipelines_tests.servers import PostgresServer


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*/dagster.yaml")), ids=lambda p: p.parent.name)
def test_an_instance_tells_nobody_keeps_its_pools_and_forgets_its_ticks(path: Path) -> None:
    config = yaml.safe_load(path.read_text())
    assert config["telemetry"] == {"enabled": False}
    assert config["nux"] == {"enabled": False}
    assert config["run_monitoring"]["enabled"] is True
    # One behaviour everywhere: only where things are kept and started differs.
    ours = yaml.safe_load(DAGSTER_YAML)
    for section in ("concurrency", "compute_logs", "retention"):
        assert config[section] == ours[section], section


def test_the_local_instance_is_the_one_that_the_command_line_writes() -> None:
    assert yaml.safe_load((DEPLOY / "local" / "dagster.yaml").read_text()) == yaml.safe_load(DAGSTER_YAML)


@dg.asset
def probe() -> None: ...


@pytest.mark.parametrize("variant", ["compose", "celery"])
def test_an_instance_on_postgres_keeps_its_runs_there(
    variant: str, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(postgres.database(f"dagster_{variant}"))
    for key, value in {
        "HOST": url.host,
        "PORT": url.port,
        "USER": url.username,
        "PASSWORD": url.password or "any",
        "DB": url.database,
    }.items():
        monkeypatch.setenv(f"DAGSTER_PG_{key}", str(value))
    shutil.copy(DEPLOY / variant / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(tmp_path))) as instance:
        run_id = dg.materialize([probe], instance=instance).run_id
        assert instance.run_monitoring_enabled
        assert instance.telemetry_enabled is False
    with psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        assert connection.execute("SELECT run_id, status FROM runs").fetchall() == [(run_id, "SUCCESS")]
