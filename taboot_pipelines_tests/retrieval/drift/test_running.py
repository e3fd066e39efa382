"""What runs beside what is declared: each field, both sides with lines, and nothing of what is equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.cli.group import main
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.results.drift import DriftItem
from taboot_pipelines_tests.fakes.docker import DB, SECRET, FakeDocker, inspected, jellyfin
from taboot_pipelines_tests.world import World

COMPOSE = """\
name: media
services:
  jellyfin:
    image: jellyfin/jellyfin:10.10.7
    container_name: jellyfin
    restart: unless-stopped
    ports: ["127.0.0.1:8096:8096"]
    networks: [front]
    volumes:
      - ./config:/config
      - cache:/cache:ro
  db:
    image: postgres:16
    environment: {POSTGRES_PASSWORD: example}
networks:
  front:
volumes:
  cache:
"""


class House:
    """One project, and the folder of its machine's dumps."""

    def __init__(self, world: World, host: str | None = "nas.lan") -> None:
        self.world = world
        fields = {} if host is None else {"host": host}
        stacks = world.source("stacks", "compose", **fields)
        (stacks / "media").mkdir()
        (stacks / "media" / "compose.yaml").write_text(COMPOSE)
        self.dumps = world.source("nas", "runtime", **fields)

    def drifts(self, *containers: dict[str, Any]) -> tuple[DriftItem, ...]:
        (self.dumps / "inspect.out").write_text(json.dumps(containers, indent=4))
        self.world.ingest()
        return self.world.kb().drift().items


@pytest.fixture
def house(world: World) -> House:
    return House(world)


def test_what_runs_as_it_is_declared_is_no_drift(house: House) -> None:
    assert house.drifts(jellyfin(), DB) == ()


def volume(**changed: Any) -> list[dict[str, Any]]:
    config, cache = jellyfin()["Mounts"]
    return [config, {**cache, **changed}]


@pytest.mark.parametrize(
    ("changed", "kind", "statement", "line"),
    [
        (
            {"image": "jellyfin/jellyfin:10.9.0"},
            "running_image",
            "jellyfin runs jellyfin/jellyfin:10.9.0, but media/jellyfin declares jellyfin/jellyfin:10.10.7.",
            4,
        ),
        (
            {"image": f"jellyfin/jellyfin:10.10.7@sha256:{'d' * 64}"},
            "running_image",
            f"jellyfin runs jellyfin/jellyfin:10.10.7@sha256:{'d' * 64},"
            " but media/jellyfin declares jellyfin/jellyfin:10.10.7.",
            4,
        ),
        (
            {"ports": {"8096/tcp": [{"HostIp": "", "HostPort": "8096"}]}},
            "running_port",
            "jellyfin publishes 8096:8096/tcp, but media/jellyfin declares 127.0.0.1:8096:8096/tcp.",
            7,
        ),
        (
            {"ports": {}},
            "running_port",
            "jellyfin does not publish 127.0.0.1:8096:8096/tcp,"
            " but media/jellyfin declares 127.0.0.1:8096:8096/tcp.",
            7,
        ),
        (
            {"networks": ["media_front", "proxy"]},
            "running_network",
            "jellyfin is on the network proxy, but media/jellyfin does not declare it.",
            None,
        ),
        (
            {"networks": []},
            "running_network",
            "jellyfin is not on the network media_front, but media/jellyfin declares it.",
            8,
        ),
        (
            {"mounts": volume(Name="old_cache")},
            "running_mount",
            "jellyfin mounts old_cache:/cache:ro, but media/jellyfin declares media_cache:/cache:ro.",
            11,
        ),
        (
            {"mounts": volume(RW=True)},
            "running_mount",
            "jellyfin mounts media_cache:/cache, but media/jellyfin declares media_cache:/cache:ro.",
            11,
        ),
        (
            {"mounts": volume()[1:]},
            "running_mount",
            "jellyfin mounts nothing at /config, but media/jellyfin declares ./config:/config.",
            10,
        ),
        (
            {"restart": "always"},
            "running_restart",
            "jellyfin has the restart policy always, but media/jellyfin declares unless-stopped.",
            6,
        ),
        (
            {"state": "exited", "code": 0},
            "not_running",
            "jellyfin is exited, but media/jellyfin is declared.",
            4,
        ),
    ],
)
def test_each_field_is_compared_and_both_sides_are_quoted(
    house: House, changed: dict[str, Any], kind: str, statement: str, line: int | None
) -> None:
    (item,) = house.drifts(jellyfin(**changed), DB)
    assert (item.kind, item.statement, item.name) == (kind, statement, "jellyfin")
    runs, declares = item.sides
    assert Path(runs.url).name == "inspect.out" and runs.line > 1 and runs.quote is not None
    assert Path(declares.url).name == "compose.yaml" and declares.quote is not None
    assert line is None or declares.line == line
    assert item.as_of is not None and datetime.now(UTC) - item.as_of < timedelta(minutes=5)


def test_a_service_without_a_container_and_a_container_without_a_service(house: House) -> None:
    stray = inspected("", "redis:7", project="", name="stray", id="e" * 64)
    items = house.drifts(jellyfin(), stray)
    assert items[0].sides[0].quote is None, "what is missing stands nowhere"
    assert [(i.kind, i.name, i.statement) for i in items] == [
        ("not_running", "db", "media/db is declared, but inspect.out has no container of it."),
        ("not_declared", "stray", "stray (redis:7) is running, and nothing declares it."),
    ]


def test_of_no_known_machine_a_project_is_compared_where_some_of_it_runs(world: World) -> None:
    house = House(world, host=None)
    assert [i.kind for i in house.drifts(jellyfin())] == ["not_running"]
    stray = inspected("web", "nginx:1", project="other")
    assert [i.kind for i in house.drifts(stray)] == ["not_declared"]


def of_project(project: str, *containers: dict[str, Any], folder: str = "/data/compose/7") -> Iterator[dict]:
    for one in containers:
        said = json.loads(json.dumps(one).replace("media_", f"{project}_").replace("/srv/media", folder))
        said["Config"]["Labels"]["com.docker.compose.project"] = project
        yield said


def test_a_project_that_runs_under_another_name_is_the_declared_one(house: House) -> None:
    assert house.drifts(*of_project("stack", jellyfin(), DB)) == ()
    # One whose name is declared is known by that, though the rest of its project is not there.
    assert [(i.kind, i.name) for i in house.drifts(*of_project("stack", jellyfin()))] == [
        ("not_running", "db")
    ]
    (item,) = house.drifts(*of_project("stack", jellyfin(restart="always"), DB))
    assert (item.kind, item.name) == ("running_restart", "jellyfin")
    named = COMPOSE.replace("  front:\n", "  front: {name: stack_front}\n")
    (house.world.directory / "stacks" / "media" / "compose.yaml").write_text(named)
    assert house.drifts(*of_project("stack", jellyfin(), DB)) == ()
    (item,) = house.drifts(*of_project("stack", jellyfin(networks=["media_front", "proxy"]), DB))
    assert item.statement.startswith("jellyfin is on the network proxy")


def test_a_project_without_declared_names_is_known_by_its_services_and_images(house: House) -> None:
    compose = COMPOSE.replace("    container_name: jellyfin\n", "")
    (house.world.directory / "stacks" / "media" / "compose.yaml").write_text(compose)
    one = {**jellyfin(), "Name": "/stack-jellyfin-1"}
    assert house.drifts(*of_project("stack", one, DB)) == ()
    # Two of them may both be meant; another image is another project.
    twice = [{**c, "Id": c["Id"][::-1], "Name": f"{c['Name']}-b"} for c in of_project("twin", one, DB)]
    found = [i.kind for i in house.drifts(*of_project("stack", one, DB), *twice)]
    assert found.count("not_declared") == 4
    foreign = inspected("db", "mariadb:11", networks=["media_default"])
    assert "not_declared" in [i.kind for i in house.drifts(*of_project("stack", one, foreign))]


def test_a_job_that_ended_is_not_missed(house: House) -> None:
    assert (
        house.drifts(jellyfin(), {**DB, "State": {**DB["State"], "Status": "exited", "Running": False}}) == ()
    )


def test_what_runs_changes_no_declared_fact_and_tells_no_secret(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house.world.ingest()
    before = house.world.kb()
    asked = ["Which image does jellyfin run?", "Which ports does jellyfin publish?", "What runs on nas.lan?"]
    answers = [before.answer(q).text for q in asked]
    queried = _queried(before)
    assert sum(map(len, queried.values())) > 5
    house.drifts(
        jellyfin(image="jellyfin/jellyfin:9", ports={"1/tcp": [{"HostIp": "", "HostPort": "1"}]}), DB
    )
    after = house.world.kb()
    assert [after.answer(q).text for q in asked] == answers
    assert _queried(after) == queried
    nodes = after.nodes().to_pylist()
    running = [n for n in nodes if n["label"] == "Container" and json.loads(n["properties"]).get("running")]
    assert {n["name"] for n in running} == {"jellyfin", "media-db-1"} and len(running) == 2
    edges = [e for e in after.edges().to_pylist() if e["extraction_method"].startswith("running_")]
    assert {e["type"] for e in edges} == {"BUILDS", "RUNS", "RUNS_IN", "BINDS"}
    assert all(json.loads(e["properties"])["running"] for e in edges)
    assert SECRET not in json.dumps([nodes, after.edges().to_pylist()], default=str)
    assert all(SECRET not in hit.text for hit in after.search("POSTGRES_PASSWORD", limit=50).hits)

    monkeypatch.setenv("TABOOT_HOME", str(house.world.home))
    monkeypatch.setenv("TABOOT_TEI__URL", house.world.tei)
    main(["drift", "--limit", "1"])
    left = len(after.drift().items) - 1
    assert f"{left} drifts more; --limit {left + 1} shows all." in capsys.readouterr().out
    main(["drift", "--kind", "running_image"])
    shown = capsys.readouterr().out
    assert "inspect.out:" in shown and "compose.yaml:4" in shown and "minutes ago" in shown
    assert SECRET not in shown


def _queried(kb: KnowledgeBase) -> dict[str, list[dict[str, object]]]:
    """The rows of every typed query that needs no argument."""
    return {
        q.name: [row.cells for row in kb.query(q.name).rows]
        for q in kb.queries().queries
        if not any(p.required for p in q.parameters)
    }


def test_by_a_socket_it_is_the_same(world: World, tmp_path: Path) -> None:
    house = House(world)
    with FakeDocker(tmp_path / "docker.sock") as engine:
        engine.containers = {c["Id"]: c for c in (jellyfin(), DB)}
        world.source("engine", "runtime", path=None, socket=engine.path, host="nas.lan")
        house.world.ingest()
        assert world.kb().drift().items == ()
        engine.containers = {c["Id"]: c for c in (jellyfin(restart="no"), DB)}
        house.world.ingest("engine")
        (item,) = world.kb().drift().items
    assert item.kind == "running_restart" and item.sides[0].url.endswith("containers/jellyfin.json")
    assert item.as_of is not None and datetime.now(UTC) - item.as_of < timedelta(minutes=5)
