"""Tier A's observations: which units a change interprets again, and what is remembered of their runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.model import ids
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.tier_a_triples import STAGE, TIER
from taboot_pipelines_tests.world import World, rows_of

SERVICE = "services:\n  {0}:\n    image: {1}\n"


def interpret(world: World, source: str) -> StageReport:
    """Bring a source's observations up to date; return the report of the last stage."""
    for stage in ("raw_blobs", "documents", "chunks"):
        world.run(stage, source)
    return world.run(STAGE, source)


def observations(world: World, source: str) -> list[dict[str, Any]]:
    tables = world.workspace.tables
    version = tables.version("default", source, "observations")
    found: list[dict[str, Any]] = tables.read("default", source, "observations", version).to_pylist()
    return found


def scopes(world: World) -> set[str]:
    """Return the scopes of the services that are declared: {place}/{project}."""
    return {
        json.loads(row["start_key"])[0]
        for row in observations(world, "stacks")
        if row["start_label"] == "Service" and row["method"] == "declaration"
    }


def units(world: World, source: str) -> dict[str, str]:
    """Return {unit: run} of the runs that are remembered."""
    states = world.workspace.catalog.runs.unit_states("default", source, TIER.source)
    return {unit: state["run_id"] for unit, state in states.items()}


def active(world: World, unit: str) -> list[str]:
    return [row["run_id"] for row in world.workspace.catalog.runs.find("default", unit_id=unit, active=True)]


@pytest.fixture
def stacks(world: World) -> Path:
    path = world.source("stacks", "compose", host="box")
    for name in ("one", "two", "three"):
        (path / name).mkdir()
        (path / name / "compose.yaml").write_text(SERVICE.format(name, f"{name}:${{TAG:-1}}"))
    interpret(world, "stacks")
    return path


def test_an_edit_re_interprets_its_units_and_only_those(world: World, stacks: Path) -> None:
    before, rows = units(world, "stacks"), observations(world, "stacks")
    assert len(before) == 6, "each file is a project and a document"
    (stacks / "one/compose.yaml").write_text(SERVICE.format("one", "other:2"))
    report = interpret(world, "stacks")
    assert {k: report.counts[k] for k in ("units", "interpreted", "reused", "removed")} == {
        "units": 6,
        "interpreted": 2,
        "reused": 4,
        "removed": 0,
    }
    after = units(world, "stacks")
    edited = {unit for unit in before if before[unit] != after[unit]}
    document = world.workspace.catalog.locators.of_source("default", "stacks")["one/compose.yaml"].doc_id
    assert edited == {"compose:one/compose.yaml", f"document:{document}"}
    kept = [r for r in rows if r["unit_id"] not in edited]
    assert [r for r in kept if r not in observations(world, "stacks")] == []
    assert {r["run_id"] for r in observations(world, "stacks")} <= set(after.values())


def test_a_file_looked_for_and_absent_is_an_input_when_it_appears(world: World, stacks: Path) -> None:
    before = units(world, "stacks")
    (stacks / "two/.env").write_text("TAG=9\n")
    assert interpret(world, "stacks").counts["interpreted"] == 1
    after = units(world, "stacks")
    assert {u for u in after if after[u] != before[u]} == {"compose:two/compose.yaml"}
    images = {r["end_name"] for r in observations(world, "stacks") if r["end_label"] == "Image"}
    assert any(name.endswith("two:9") for name in images), images
    (stacks / "two/.env").unlink()
    assert interpret(world, "stacks").counts["interpreted"] == 1
    assert units(world, "stacks") == before


def test_a_file_that_comes_to_match_a_pattern_is_an_input(world: World) -> None:
    path = world.source("proxy", "swag", include=["**/*.conf"])
    (path / "locations").mkdir()
    (path / "app.conf").write_text("server { server_name app.x.org; include locations/*.inc; }\n")
    (path / "other.conf").write_text(
        "server { server_name b.x.org; location / { proxy_pass http://b:80; } }\n"
    )
    interpret(world, "proxy")
    before = units(world, "proxy")
    world.source("proxy", "swag", include=["**/*.conf", "**/*.inc"])
    (path / "locations/a.inc").write_text("location / { proxy_pass http://newcomer:80; }\n")
    interpret(world, "proxy")
    after = units(world, "proxy")
    assert before["nginx:app.conf"] != after["nginx:app.conf"]
    assert before["nginx:other.conf"] == after["nginx:other.conf"]
    assert "newcomer" in {r["end_name"] for r in observations(world, "proxy")}


def test_equal_input_makes_the_archived_run_active_again(world: World, stacks: Path) -> None:
    unit, file = "compose:one/compose.yaml", stacks / "one/compose.yaml"
    text, rows = file.read_text(), observations(world, "stacks")
    (first,) = active(world, unit)
    file.write_text(SERVICE.format("one", "other:2"))
    interpret(world, "stacks")
    (second,) = active(world, unit)
    file.write_text(text)
    interpret(world, "stacks")
    assert active(world, unit) == [first] != [second]
    assert sorted(r["run_id"] for r in world.workspace.catalog.runs.find("default", unit_id=unit)) == sorted(
        [first, second]
    ), "archived, never deleted"
    assert sorted(map(str, observations(world, "stacks"))) == sorted(map(str, rows))
    fingerprint = world.workspace.catalog.runs.unit_states("default", "stacks", TIER.source)[unit][
        "fingerprint"
    ]
    assert first == ids.run_id(unit, "tier_a", fingerprint)


def test_what_the_store_keeps_from_being_read_is_not_remembered(world: World, stacks: Path) -> None:
    unit = "compose:two/compose.yaml"
    blobs, catalog = world.workspace.blobs, world.workspace.catalog
    sha256 = catalog.locators.of_source("default", "stacks")["two/compose.yaml"].sha256
    file = next((world.home / "blobs").rglob(sha256))
    file.rename(world.root / "away")
    world.source("stacks", "compose", host="newbox")

    def again() -> StageReport:
        return world.run(STAGE, "stacks")

    report = again()
    assert report.counts["interpreted"] == 3, "the host is an input of each project"
    assert [(p["code"], p["item"]) for p in report.problems] == [("E_BLOB_MISSING", unit)]
    assert unit not in units(world, "stacks") and active(world, unit) == []
    assert not [r for r in observations(world, "stacks") if r["unit_id"] == unit]
    pointer = catalog.pointers.get("default", "stacks", STAGE)
    assert pointer is not None and pointer.inputs != report.data_version, "it has not applied its input"
    # As long as it lasts, it is that unit which is tried again.
    report = again()
    assert (report.skipped, report.counts["interpreted"], report.counts["failed"]) == (None, 1, 1)
    (world.root / "away").rename(file)
    assert blobs.get("default", sha256)
    report = again()
    assert (report.counts["interpreted"], report.counts["failed"], report.problems) == (1, 0, [])
    assert len(active(world, unit)) == 1 and catalog.dead_letters.find("default", "stacks", STAGE) == []
    assert again().skipped == "unchanged"


def test_a_file_that_another_takes_in_has_no_rows_until_it_is_let_go(world: World, stacks: Path) -> None:
    unit, taker = "compose:base.yaml", stacks / "one/compose.yaml"
    (stacks / "base.yaml").write_text(SERVICE.format("base", "redis:7"))
    interpret(world, "stacks")

    def rows() -> list[str]:
        return sorted(str(r) for r in observations(world, "stacks") if r["unit_id"] == unit)

    own, text, (run,) = rows(), taker.read_text(), active(world, unit)
    assert own
    taker.write_text("include: [../base.yaml]\n" + text)
    report = interpret(world, "stacks")
    assert rows() == [] and active(world, unit) == []
    assert report.counts["interpreted"] == 2, "base.yaml itself did not change"
    assert [r["start_name"] for r in observations(world, "stacks") if r["start_name"] == "base"], (
        "its facts are those of the unit that takes it in"
    )
    taker.write_text(text)
    interpret(world, "stacks")
    assert rows() == own and active(world, unit) == [run]


def test_a_unit_that_left_takes_its_rows_along(world: World, stacks: Path) -> None:
    shutil.rmtree(stacks / "three")
    report = interpret(world, "stacks")
    assert (report.counts["removed"], report.counts["interpreted"]) == (2, 0)
    assert "three" not in {r["start_name"] for r in observations(world, "stacks")}
    assert len(units(world, "stacks")) == 4 and active(world, "compose:three/compose.yaml") == []


def test_unchanged_input_writes_nothing(world: World, stacks: Path) -> None:
    tables = world.workspace.tables
    version = tables.version("default", "stacks", "observations")
    report = interpret(world, "stacks")
    assert (report.skipped, report.tables) == ("unchanged", {"observations": version})
    assert tables.version("default", "stacks", "observations") == version


def test_a_lost_table_is_made_again_whatever_is_remembered(world: World, stacks: Path) -> None:
    tables = world.workspace.tables
    before = rows_of(tables.read("default", "stacks", "observations", 0))
    shutil.rmtree(world.home / "tables/default/stacks/observations")
    report = interpret(world, "stacks")
    assert (report.counts["interpreted"], report.counts["reused"]) == (6, 0)
    version = tables.version("default", "stacks", "observations")
    assert rows_of(tables.read("default", "stacks", "observations", version)) == before


def test_a_project_at_the_root_of_its_source_has_the_name_of_its_folder(world: World) -> None:
    for folder in ("Home.Lab", "other"):
        (world.directory / folder).mkdir()
        (world.directory / folder / "compose.yaml").write_text(SERVICE.format("web", "nginx"))
    world.source("stacks", "compose", path="./other/../Home.Lab/")
    interpret(world, "stacks")
    assert scopes(world) == {"stacks/homelab"}
    assert interpret(world, "stacks").counts.get("interpreted", 0) == 0
    # The same bytes in another folder are another project.
    world.source("stacks", "compose", path="other")
    interpret(world, "stacks")
    assert scopes(world) == {"stacks/other"}


def test_a_dockerfile_that_only_two_files_together_name_is_taken_and_read(world: World) -> None:
    path = world.source("stacks", "compose")
    for name, text in {
        "app/compose.yaml": "services: {web: {extends: {file: ../lib/c.yml, service: w}, build: mine}}",
        "lib/c.yml": "services: {w: {build: {context: theirs, dockerfile: build.txt}}}",
        "app/mine/build.txt": "FROM mine:1\n",
        "lib/theirs/build.txt": "FROM theirs:1\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    interpret(world, "stacks")
    built = {row["end_name"] for row in observations(world, "stacks") if row["method"] == "dockerfile_from"}
    assert "docker.io/library/mine:1" in built


def test_the_files_that_compose_file_names_are_one_project_as_long_as_it_names_them(world: World) -> None:
    path = world.source("stacks", "compose", host="box")
    (path / "compose.yaml").write_text(SERVICE.format("web", "nginx:1"))
    (path / "base.yml").write_text(SERVICE.format("web", "nginx:2"))
    env = path / ".env"
    alone = {"box/stacks", "box/stacks-base"}
    interpret(world, "stacks")
    assert scopes(world) == alone
    env.write_text("COMPOSE_FILE=base.yml:compose.yaml\n")
    interpret(world, "stacks")
    assert scopes(world) == {"box/stacks"}
    images = {row["end_name"] for row in observations(world, "stacks") if row["method"] == "compose_image"}
    assert images == {"docker.io/library/nginx:1"}
    (path / "base.yml").unlink()
    interpret(world, "stacks")
    assert scopes(world) == {"box/stacks"}
    env.unlink()
    (path / "base.yml").write_text(SERVICE.format("web", "nginx:2"))
    interpret(world, "stacks")
    assert scopes(world) == alone


def test_variables_without_a_value_are_told_once_for_the_source(world: World) -> None:
    path = world.source("stacks", "compose")
    label = "traefik.http.routers.r.rule=Host(`{0}.${{DOMAIN}}`)"
    rule = f"services:\n  {{0}}:\n    image: x\n    labels: ['{label}']\n"
    for name in ("one", "two"):
        (path / name).mkdir()
        (path / name / "compose.yaml").write_text(rule.format(name))
    (path / "two/compose.yaml").write_text(rule.format("two") + "    hostname: ${NAME}\n")

    def letters() -> list[tuple[str, str, str, str]]:
        found = world.workspace.catalog.dead_letters.find("default", "stacks", STAGE)
        return [(row["item"], row["code"], row["message"], row["kind"]) for row in found]

    def hosts() -> set[str]:
        rows = [row for row in observations(world, "stacks") if row["type"] == "ROUTES_TO"]
        return {json.loads(row["properties"])["host"] for row in rows}

    assert interpret(world, "stacks").counts["noted"] == 1
    told = "DOMAIN has no value (in 2), NAME has no value (in 1)."
    assert letters() == [("variables", "E_UNSET", told, "skipped")]
    assert hosts() == {"one.${DOMAIN}", "two.${DOMAIN}"}
    (path / "two/.env").write_text("DOMAIN=x.org\nNAME=two\n")
    interpret(world, "stacks")
    assert letters() == [("variables", "E_UNSET", "DOMAIN has no value (in 1).", "skipped")]
    assert hosts() == {"one.${DOMAIN}", "two.x.org"}
    (path / "one/.env").write_text("DOMAIN=x.org\n")
    interpret(world, "stacks")
    assert letters() == [] and hosts() == {"one.x.org", "two.x.org"}
    (path / "two/.env").unlink()
    interpret(world, "stacks")
    assert letters()[0][2] == told.replace("2", "1") and hosts() == {"one.x.org", "two.${DOMAIN}"}
