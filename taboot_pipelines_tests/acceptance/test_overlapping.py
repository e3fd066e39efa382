"""Ingests of overlapping sources at once, in four processes that share nothing but the servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.stages import storage_audit
from taboot_pipelines_tests.acceptance.full_servers import settings_of
from taboot_pipelines_tests.acceptance.ingesting import ingest_at_once
from taboot_pipelines_tests.acceptance.test_kill import untimed
from taboot_pipelines_tests.fakes.qdrant import FakeQdrant
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World, differences, graph

PROCESSES = 4


def variables(settings: Mapping[str, Any], prefix: str = "TABOOT_") -> dict[str, str]:
    """Settings as the environment variables that a process of its own reads."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= variables(value, f"{prefix}{name.upper()}__")
        else:
            found[prefix + name.upper()] = str(value)
    return found


def sources(world: World) -> list[str]:
    """Two sources over one directory, one of them over a part of it, and one that shares their texts."""
    stacks = world.source("stacks", "compose", host="box.lan")
    for name in ("nginx-nodejs-redis", "flask-redis"):
        for path in sorted(p for p in (DATA / "awesome-compose" / name).rglob("*") if p.is_file()):
            target = stacks / path.relative_to(DATA / "awesome-compose")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    world.source("part", "compose", host="box.lan", path="stacks/flask-redis")
    world.source("texts", "files", path="stacks")
    notes = world.source("notes", "files")
    pages = (DATA / "linuxserver-docs-md" / "docs" / "images").glob("*.md")
    for path in sorted(pages, key=lambda p: (p.stat().st_size, p.name))[:5]:
        (notes / path.name).write_bytes(path.read_bytes())
    for path in sorted((stacks).rglob("README.md"))[:2]:
        (notes / f"again-{path.parent.name}.md").write_bytes(path.read_bytes())
    return ["stacks", "part", "texts", "notes"]


@pytest.mark.timeout(900)
def test_four_processes_lose_nothing(
    tmp_path: Path, tei: FakeTei, postgres: Any, redis_url: str, neo4j_url: str, s3: Any, data: Path
) -> None:
    with FakeQdrant() as qdrant:
        settings = settings_of(
            catalog_url=postgres.database("overlap"),
            redis_url=redis_url,
            qdrant_url=qdrant.url,
            neo4j_url=neo4j_url,
            s3=s3,
        )
        world = World(tmp_path / "shared", tei.url, **settings)
        names = sources(world)
        homes = [tmp_path / f"home-{i}" for i in range(PROCESSES)]
        orders = [names[i:] + names[:i] for i in range(PROCESSES)]
        environment = variables(settings)
        file = world.directory / "sources.yaml"
        assert ingest_at_once(homes, file, tei.url, 120, environment, orders) == ["ok"] * PROCESSES
        check(world, tmp_path / "calm-1", tei)
        # A change that all of them find, by each in another order.
        for path in sorted((world.directory / "stacks").rglob("compose.yaml")):
            path.write_text(path.read_text() + "\n# reviewed; see http://wiki.lan:8090/stacks\n")
        (world.directory / "notes" / "new.md").write_text(
            "# New\n\nThe flask app talks to redis on 10.1.1.1:6379.\n"
        )
        assert ingest_at_once(homes, file, tei.url, 120, environment, orders) == ["ok"] * PROCESSES
        check(world, tmp_path / "calm-2", tei)
        world.workspace.close()


def check(world: World, calm_root: Path, tei: FakeTei) -> None:
    report = storage_audit.run(world.workspace, "default", deep=True)
    assert not report.found, report.found[:5]
    calm = World(calm_root, tei.url)
    calm.workspace.close()
    calm.directory = world.directory
    calm.workspace = calm.open(calm.home)
    calm.ingest()
    assert not differences(untimed(graph(world.kb())), untimed(graph(calm.kb())))
    calm.workspace.close()
