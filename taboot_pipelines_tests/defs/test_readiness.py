"""Readiness: every configured part by name, with what is wrong in words.

Nothing waits for a dead server.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from taboot_pipelines.defs import build_defs, readiness
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages import health
from taboot_pipelines_tests.defs.conftest import Project
from taboot_pipelines_tests.defs.test_operations import tick
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.world import World

PARTS = ("catalog", "state", "blobs", "tables", "shards", "embedder", "dagster")


def evaluate(world: World) -> dg.AssetCheckEvaluation:
    """Run the check by itself, as a person does from the UI; return its evaluation."""
    defs = build_defs(world.workspace.settings)
    job = dg.define_asset_job("only", selection=dg.AssetSelection.checks(readiness.readiness))
    found = dg.Definitions(
        assets=defs.assets, asset_checks=defs.asset_checks, jobs=[job], resources=defs.resources
    )
    result = found.resolve_job_def("only").execute_in_process()
    (evaluation,) = result.get_asset_check_evaluations()
    return evaluation


def rows(evaluation: dg.AssetCheckEvaluation) -> dict[str, dict[str, Any]]:
    table = evaluation.metadata["parts"]
    assert isinstance(table, dg.TableMetadataValue)
    return {str(r.data["part"]): dict(r.data) for r in table.records}


def test_all_parts_are_named_and_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    evaluation = evaluate(world)
    found = rows(evaluation)
    assert evaluation.passed and tuple(found) == PARTS
    assert {r["state"] for r in found.values()} == {"well"} and all(r["latency (ms)"] for r in found.values())


def test_a_variable_that_is_no_setting_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABOOT_QDRANT_URL", "http://127.0.0.1:1")
    evaluation = evaluate(world)
    assert not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.WARN
    assert "TABOOT_QDRANT__URL" in str(evaluation.metadata["TABOOT_QDRANT_URL"].value)


@pytest.mark.parametrize(
    ("down", "severity"),
    [
        ({"qdrant": {"url": "http://127.0.0.1:1"}}, dg.AssetCheckSeverity.WARN),
        ({"redis": {"url": "redis://:planted-pw@127.0.0.1:1/0"}}, dg.AssetCheckSeverity.ERROR),
    ],
)
def test_an_unwell_part_is_told_in_words(
    tmp_path: Path, world: World, down: dict[str, Any], severity: dg.AssetCheckSeverity
) -> None:
    broken = World(tmp_path / "broken", world.tei, **down)
    evaluation = evaluate(broken)
    broken.workspace.close()
    (part,) = [name for name, row in rows(evaluation).items() if row["state"] == "unwell"]
    assert not evaluation.passed and evaluation.severity == severity
    message = evaluation.metadata[part].value
    assert isinstance(message, str) and "Check that" in message and "planted-pw" not in message


def test_a_change_is_reported_once_without_a_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    project.sync()

    def parts(cursor: str | None) -> dg.SensorResult:
        answer = tick(project, readiness.parts_sensor, cursor)
        assert isinstance(answer, dg.SensorResult)
        return answer

    first = parts(None)
    (event,) = first.asset_events
    assert isinstance(event, dg.AssetCheckEvaluation) and event.passed and event.check_name == "readiness"
    assert parts(first.cursor).asset_events == []
    broken = project.world.workspace.settings.tei.model_copy(update={"url": "http://127.0.0.1:1"})
    project.resource.runtime.settings = project.world.workspace.settings.model_copy(update={"tei": broken})
    second = parts(first.cursor)
    (event,) = second.asset_events
    assert (
        isinstance(event, dg.AssetCheckEvaluation)
        and not event.passed
        and event.severity == dg.AssetCheckSeverity.ERROR
    )


def test_a_server_that_accepts_and_says_nothing_holds_nobody_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings = load_settings(
            home=tmp_path / "home",
            tei={"url": f"http://127.0.0.1:{port}"},
            qdrant={"url": f"http://127.0.0.1:{port}"},
            neo4j={"url": f"bolt://127.0.0.1:{port}"},
            redis={"url": f"redis://127.0.0.1:{port}/0"},
            catalog_url=f"postgresql+psycopg://u:planted-pw@127.0.0.1:{port}/x",
        )
        start = time.monotonic()
        found = {h.part: h for h in health.check(settings, deadline=3)}
        assert time.monotonic() - start < 100
    assert {p for p, h in found.items() if not h.ok} == {"catalog", "state", "embedder", "vectors", "graph"}
    for h in found.values():
        assert h.ok or (h.message.startswith("E_") and "planted-pw" not in h.message)
    assert not (tmp_path / "home").exists()


def test_dagsters_own_database_is_asked(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    settings = load_settings(home=tmp_path / "home")

    def told(storage: object) -> Any:
        (home / "dagster.yaml").write_text(json.dumps({"storage": storage}))
        return next(h for h in health.check(settings, load=False) if h.part == "dagster")

    monkeypatch.setenv("PG_URL", postgres.database("taboot_dagster_health").replace("+psycopg", ""))
    well = told({"postgres": {"postgres_url": {"env": "PG_URL"}}})
    assert well.ok and well.backend == "postgresql" and "postgresql" in well.version
    closed = {"username": "u", "password": "planted-pw", "hostname": "127.0.0.1", "db_name": "x", "port": 1}
    for storage in (
        {"postgres": {"postgres_db": closed}},
        {"postgres": {"postgres_url": {"env": "NOT_SET"}}},
        {"postgres": {"postgres_db": 7}},
        {"postgres": {}},
    ):
        unwell = told(storage)
        assert (
            not unwell.ok
            and unwell.message.startswith("E_STORAGE: Dagster's database")
            and "planted-pw" not in unwell.message
        )
    (home / "dagster.yaml").write_text("storage: [unclosed")
    assert (
        "dagster.yaml cannot be read"
        in next(h for h in health.check(settings, load=False) if h.part == "dagster").message
    )
