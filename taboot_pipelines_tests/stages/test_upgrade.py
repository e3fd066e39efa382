"""Homes of earlier releases, brought up to date by an ingest that fetches nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from taboot_pipelines.cli.state import gather
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.runs import ARCHIVES
from taboot_pipelines.knowledge.structured import STATED
from taboot_pipelines.model import tables as model
from taboot_pipelines.shards import layout
from taboot_pipelines.stages import storage_audit, upgrade
from taboot_pipelines.stages.assertions import OBSERVATIONS as STATED_OBSERVATIONS
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stores.tables import NAMESPACE, Tables
from taboot_pipelines_tests.earlier_homes import table, without_column, without_record, without_stage
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, graph, logical

QUERIES = ("where does forgejo keep its repositories", "reverse proxy", "postgres 5432", "backup")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Iterator[World]:
    """Five files in two sources, two decisions, and beside the home a copy of it as it was then."""
    world = World(tmp_path_factory.mktemp("house"), tei.url)
    stack, notes = world.source("stack", "compose"), world.source("notes")
    files = {
        stack / "compose.yaml": "services:\n"
        "  forgejo:\n    image: forgejo/forgejo:8\n    depends_on: [db]\n    ports: ['3000:3000']\n"
        "  db:\n    image: postgres:16\n    expose: ['5432']\n",
        notes / "forgejo.md": "# Forgejo\n\nForgejo keeps its repositories under /data/git. See"
        " [the backup](backup.md).\n\nForgejo depends on postgres.\n",
        notes / "backup.md": "# Backup\n\nThe backup of forgejo runs at four. It uses postgres.\n",
        notes / "same.md": "# Backup\n\nThe backup of forgejo runs at four. It uses postgres.\n",
        notes / "proxy.md": "# Proxy\n\nThe reverse proxy sends git.example.org to forgejo.\n",
    }
    for path, text in files.items():
        path.write_text(text)
    world.ingest()
    compose = stack / "compose.yaml"
    compose.write_text(compose.read_text().replace("forgejo:8", "forgejo:9"))
    world.ingest()
    world.kb().correct("forgejo", "version", "10", "it was updated", label="Service")
    world.kb().ingest_structured("Host", {"hostname": "nas", "ip": "10.0.0.8"})
    world.workspace.close()
    shutil.copytree(world.home, world.root / "kept")
    yield world


@pytest.fixture
def house(built: World) -> Iterator[World]:
    """The same home, as it was."""
    shutil.rmtree(built.home)
    shutil.copytree(built.root / "kept", built.home)
    built.workspace = built.open(built.home)
    yield built
    built.workspace.close()


@pytest.fixture(scope="module")
def expected(built: World) -> dict[str, Any]:
    """What a home holds and says that this release has made from the beginning."""
    shutil.rmtree(built.home)
    shutil.copytree(built.root / "kept", built.home)
    scratch = built.replay()
    shutil.rmtree(built.home)
    scratch.rename(built.home)
    built.workspace = built.open(built.home)
    found = seen(built)
    built.workspace.close()
    return found


def seen(world: World) -> dict[str, Any]:
    """All that is derived, and what readers are told."""
    kb = world.kb()
    hits = {
        query: [(h.chunk_id, h.score, h.text) for h in kb.search(query, mode=mode).hits]
        for query in QUERIES
        for mode in ("keyword", "hybrid")
    }
    return {**logical(world.workspace), **graph(kb), **{q: list(map(str, h)) for q, h in hits.items()}}


def reopened(world: World) -> World:
    world.workspace.close()
    world.workspace = world.open(world.home)
    return world


def position(world: World) -> dict[str, int]:
    return {s: world.workspace.catalog.locators.position("default", s) for s in ("stack", "notes")}


def lacking(owner: str, name: str, column: str) -> Callable[[World], None]:
    return lambda world: without_column(table(world.home, owner, name), column)


def lacking_vector_column(world: World) -> None:
    (folder,) = (world.home / "tables" / "default" / NAMESPACE).glob("vectors.*")
    without_column(folder, "sha256")


def lacking_links(world: World) -> None:
    without_stage(world.workspace.catalog, world.home, "links", "links")


def lacking_table(world: World) -> None:
    shutil.rmtree(table(world.home, NAMESPACE, "title_links"))


def older_catalog(world: World) -> None:
    world.workspace.catalog.database.migrator.migrate("0009")


EARLIER = {
    "today": lambda world: None,
    "documents-column": lacking("notes", "documents", "lang"),
    "chunks-column": lacking("notes", "chunks", "section"),
    "links-column": lacking("notes", "links", "page"),
    "tier-a-column": lacking("stack", "observations", "line"),
    "tier-b-column": lacking("notes", "observations.tier_b", "line"),
    "stated-column": lacking(STATED, STATED_OBSERVATIONS, "line"),
    "entities-column": lacking(NAMESPACE, "entities", "scope"),
    "relations-column": lacking(NAMESPACE, "relations", "supports"),
    "no-links-stage": lacking_links,
    "no-snapshot-table": lacking_table,
    "catalog-0009": older_catalog,
}


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_earlier_home_is_brought_up_to_date_by_an_ingest_that_fetches_nothing(
    house: World, expected: dict[str, Any], earlier: str
) -> None:
    log = position(house)
    EARLIER[earlier](house)
    without_record(house.workspace.catalog)
    # Of one source only: what the other holds in tables of earlier columns is read by the stages after it.
    reports = reopened(house).ingest("notes")
    assert [r.counts["fetched"] for r in reports if r.stage == "raw_blobs"] == [0]
    assert position(house) == log
    assert differences(expected, seen(house)) == {}
    assert storage_audit.run(house.workspace, "default", deep=True).found == []
    after = reopened(house).ingest("stack")
    assert {r.stage for r in after if r.skipped is None} <= {"raw_blobs", "crawl_graph"}


def manifest_file(world: World) -> Path:
    return world.home / "kb" / layout.manifest_name("default")


def test_shards_of_an_earlier_format_are_published_anew(
    house: World, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(layout, "FORMAT", layout.FORMAT - 1)
        shutil.rmtree(house.home / "kb")
        house.ingest("notes")
    published = json.loads(manifest_file(house).read_bytes())
    manifest_file(house).write_text(json.dumps(published | {"format": layout.FORMAT - 1, "version": 7}))
    with pytest.raises(TabootError, match="another release") as caught:
        house.kb().search("forgejo")
    assert "taboot ingest" in caught.value.remedy
    reopened(house).ingest("notes")
    after = json.loads(manifest_file(house).read_bytes())
    # Readers note the version of what they have read: it does not come again.
    assert (after["format"], after["version"]) == (layout.FORMAT, 8)
    documents = [{s["key"] for s in m["shards"] if s["kind"] == "documents"} for m in (published, after)]
    assert documents[0].isdisjoint(documents[1])
    assert differences(expected, seen(house)) == {}


@pytest.mark.parametrize("unknown", [{}, {"a_field_of_later": 1}])
def test_shards_of_a_newer_release_are_left_alone(house: World, unknown: dict[str, Any]) -> None:
    later = json.loads(manifest_file(house).read_bytes()) | {"format": layout.FORMAT + 1, **unknown}
    manifest_file(house).write_text(json.dumps(later))
    for use in (lambda: house.kb().search("forgejo"), lambda: reopened(house).ingest("notes")):
        with pytest.raises(TabootError, match="newer release") as caught:
            use()
        assert caught.value.code == "E_SHARD_CORRUPT" and "Install" in caught.value.remedy
    assert json.loads(manifest_file(house).read_bytes()) == later


def test_tables_of_a_newer_release_are_left_alone(house: World) -> None:
    pointers = house.workspace.catalog.pointers
    pointer = pointers.get("default", NAMESPACE, upgrade.STAGE)
    assert pointer is not None
    later = replace(pointer, inputs="other columns", applied={"release": "99.0"})
    pointers.publish("default", NAMESPACE, later)
    before = logical(house.workspace)
    doc_id = next(iter(house.workspace.catalog.locators.of_source("default", "notes").values())).doc_id
    for use in (lambda: house.ingest("notes"), lambda: delete(house.workspace, "default", [doc_id])):
        with pytest.raises(TabootError, match="newer than this version") as caught:
            use()
        assert caught.value.code == "E_TABLE" and "Install" in caught.value.remedy
    assert differences(before, logical(reopened(house).workspace)) == {}
    # An older release is no reason to stop.
    pointers.publish("default", NAMESPACE, replace(later, applied={"release": "0.1.0"}))
    house.ingest("notes")
    assert differences(before, logical(house.workspace)) == {}


def test_a_deletion_on_an_earlier_home_brings_it_up_to_date_first(house: World) -> None:
    located = house.workspace.catalog.locators.of_source("default", "notes")["proxy.md"]
    for owner, name, column in (("stack", "documents", "lang"), (NAMESPACE, "doc_state", "recency")):
        without_column(table(house.home, owner, name), column)
    without_record(house.workspace.catalog)
    receipt = delete(reopened(house).workspace, "default", [located.doc_id], erase=True)
    assert set(receipt.stores.values()) == {"done"}
    assert "proxy.md" not in str(seen(house))
    scratch = house.open(house.replay())
    assert differences(logical(house.workspace), logical(scratch)) == {}
    scratch.close()


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_killed_upgrade_is_completed_by_the_next_run(
    house: World, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    for name, column in (("documents", "lang"), ("chunks", "section"), ("links", "page")):
        without_column(table(house.home, "notes", name), column)
    without_record(house.workspace.catalog)
    drop, left = Tables.drop, [call]

    def dying(self: Tables, *place: str) -> None:
        left[0] -= 1
        drop(self, *place)
        if left[0] == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as dangerous, pytest.raises(KeyboardInterrupt):
        dangerous.setattr(Tables, "drop", dying)
        reopened(house).ingest("stack")
    reopened(house).ingest("stack")
    assert differences(expected, seen(house)) == {}


def test_vectors_and_archived_runs_are_carried_over(
    house: World, tei: FakeTei, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, space = house.workspace.tables, house.workspace.embedder.space
    archive = next(name for name in tables.names("default", "stack") if name.startswith(ARCHIVES))
    kept = [(NAMESPACE, f"vectors.{space.id}"), ("stack", archive)]

    def rows(owner: str, name: str, *columns: str) -> list[str]:
        found = tables.read(
            "default", owner, name, tables.version("default", owner, name), columns=columns or None
        )
        return sorted(map(str, found.to_pylist()))

    before = {name: rows(owner, name) for owner, name in kept}
    assert all(before.values())
    for name, extra in (
        ("vectors", pa.field("model", pa.string())),
        ("observations", pa.field("column", pa.int32(), False)),
    ):
        schema, key = model.TABLES[name]
        monkeypatch.setitem(model.TABLES, name, (schema.append(extra), key))
    asked = tei.requests
    upgrade._replace(house.workspace, "default")
    assert tei.requests == asked
    for (owner, name), (column, nothing) in zip(kept, (("model", None), ("column", 0)), strict=True):
        schema = model.TABLES[name.partition(".")[0]][0]
        assert rows(owner, name, *schema.names[:-1]) == before[name]
        assert rows(owner, name, column) == [str({column: nothing})] * len(before[name])
        assert tables.fits("default", owner, name)
    assert not tables.names("default", "stack").count("observations")


@pytest.mark.parametrize("emptied", [False, True])
def test_a_lost_catalog_is_not_begun_anew_beside_what_it_knew_of(house: World, emptied: bool) -> None:
    house.workspace.close()
    for file in house.home.glob("catalog.db*"):
        file.unlink()
    if emptied:
        (house.home / "catalog.db").touch()
    for _ in range(2):
        with pytest.raises(TabootError, match="gone or empty") as caught:
            house.open(house.home)
        assert caught.value.code == "E_CATALOG" and "backup" in caught.value.remedy
    told = gather(house.settings(house.home), [], [], ask_parts=True)
    assert not told["ok"] and (not emptied or told["error"]["code"] == "E_CATALOG")
    shutil.copy(house.root / "kept" / "catalog.db", house.home)
    house.workspace = house.open(house.home)
    house.ingest("notes")


def test_the_state_of_a_home_that_waits_for_a_migration_is_told(house: World) -> None:
    older_catalog(house)
    house.workspace.close()
    told = gather(house.settings(house.home), [], [])
    assert {h["part"]: h["message"] for h in told["health"] if h["part"] in {"catalog", "state"}} == {
        "catalog": "",
        "state": "",
    }
    assert "error" not in told and {s["id"] for s in told["sources"]} == {"notes", "stack"}
    house.workspace = house.open(house.home)
