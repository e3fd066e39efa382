"""The snapshot: names that gain and lose a meaning, what a change costs, tiers side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from taboot_pipelines.extraction.tier_a.prose import deciding
from taboot_pipelines.stages import entity_snapshots
from taboot_pipelines.stages.chain import AGREEING, CHAIN
from taboot_pipelines.stages.entity_snapshots import STAGE, TABLES
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.source_versions import source_versions
from taboot_pipelines.stores.tables import NAMESPACE, Tables
from taboot_pipelines_tests.world import World, differences, logical, rows_of

VAULT = "services:\n  quasarhub:\n    image: redis:7\n    container_name: qh\n"


def prepare(world: World, *sources: str) -> None:
    """Run the stages of some sources up to their observations."""
    for source in sources:
        for stage in CHAIN.of_source:
            world.run(stage.name, source)


def take(world: World) -> StageReport:
    """Run the stage under test alone; return its report."""
    (stage,) = (s for s in CHAIN.of_namespace if s.name == STAGE)
    return stage.run(world.workspace, "default", "")


def snapshot(world: World, *sources: str) -> StageReport:
    prepare(world, *sources)
    return take(world)


def read(world: World, name: str) -> Any:
    tables = world.workspace.tables
    return tables.read("default", NAMESPACE, name, tables.version("default", NAMESPACE, name))


def table(world: World, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(world, name).to_pylist()
    return found


def mentions(world: World, source: str, name: str) -> set[str]:
    """Return the paths of a source's documents that mention a node by a name."""
    paths = {x.doc_id: p for p, x in world.workspace.catalog.locators.of_source("default", source).items()}
    return {
        paths[r["doc_id"]]
        for r in table(world, "relations")
        if r["type"] == "MENTIONS" and r["end_name"] == name and r["doc_id"] in paths
    }


@pytest.fixture
def notes(world: World) -> Path:
    path = world.source("notes")
    for i in range(6):
        (path / f"{i}.md").write_text(f"Note {'x' * i} says nothing of note.\n")
    (path / "1.md").write_text("Restart quasarhub before lunch.\n")
    (path / "2.md").write_text("# Hub\n\nThe QUASARHUB is down; so is http://quasarhub.example.com:99/x.\n")
    (path / "3.md").write_text("A quasar, and a hub.\n")
    snapshot(world, "notes")
    return path


def test_a_name_that_is_declared_elsewhere_resolves_and_ceases_to(world: World) -> None:
    proxy = world.source("proxy", "swag")
    conf = "server { server_name q.x.org; location / { proxy_pass http://quasarhub:8200; } }\n"
    (proxy / "q.conf").write_text(conf)
    report = snapshot(world, "proxy")
    bare = '["","quasarhub"]'
    services = {r["key"]: r for r in table(world, "entities") if r["label"] == "Service"}
    assert set(services) == {bare} and table(world, "names") == []
    before = logical(world.workspace)

    stacks = world.source("stacks", "compose", host="box")
    (stacks / "quasarhub").mkdir()
    (stacks / "quasarhub/compose.yaml").write_text(VAULT)
    report = snapshot(world, "stacks")
    (name,) = [r for r in table(world, "names") if r["observed_key"] == bare]
    (service,) = [r for r in table(world, "entities") if r["label"] == "Service"]
    assert name["resolved_key"] == service["key"] != bare and service["name"] == "quasarhub"
    assert name["observed_key"] == bare and name["candidates"] == [service["key"]]
    locators = {s: world.workspace.catalog.locators.of_source("default", s) for s in ("proxy", "stacks")}
    doc_ids = {x.doc_id for found in locators.values() for x in found.values()}
    assert {c for c in doc_ids if c in service["claims"]} == doc_ids, "both documents' claims are joined"
    # The relation itself is stored by the name as observed: no row of it changes.
    route = [r for r in table(world, "relations") if r["type"] == "ROUTES_TO"]
    assert route and {r["end_key"] for r in route} == {bare}
    assert report.counts["names_changed"] >= 1

    # A second candidate undoes the first.
    (stacks / "second").mkdir()
    (stacks / "second/compose.yaml").write_text(VAULT)
    snapshot(world, "stacks")
    (name,) = [r for r in table(world, "names") if r["observed_key"] == bare]
    assert name["resolved_key"] is None and len(name["candidates"]) == 2
    assert bare in {r["key"] for r in table(world, "entities") if r["label"] == "Service"}

    shutil.rmtree(stacks / "second")
    shutil.rmtree(stacks / "quasarhub")
    (stacks / "other.yaml").write_text("services:\n  other:\n    image: redis:7\n")
    snapshot(world, "stacks")
    (stacks / "other.yaml").unlink()
    world.workspace.sync_sources()
    world.ingest("stacks", confirm_deletes=True)
    after = {k: v for k, v in logical(world.workspace).items() if not k.startswith("stacks/")}
    assert differences(before, after) == {}


def test_a_container_and_a_network_of_a_text_are_those_that_are_declared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Networks are read from text as soon as that is right often enough.
    monkeypatch.setattr(deciding, "LEAST_OF_RELATION", 0.0)
    notes = world.source("notes")
    (notes / "where.md").write_text(
        "| Container | Network | Host |\n|---|---|---|\n| quasarhub | hubnet | node3 |\n"
    )
    snapshot(world, "notes")

    def ends() -> dict[str, list[tuple[str, str, Any]]]:
        entities = {(r["label"], r["key"]): r for r in table(world, "entities")}
        resolved = {r["observed_key"]: r["resolved_key"] for r in table(world, "names")}
        found: dict[str, list[tuple[str, str, Any]]] = {}
        for r in table(world, "relations"):
            if r["extraction_method"].startswith("prose_table"):
                for side in ("start", "end"):
                    key = resolved.get(r[f"{side}_key"]) or r[f"{side}_key"]
                    node = entities[r[f"{side}_label"], key]
                    declared = json.loads(node["properties"]).get("declared")
                    found.setdefault(r["type"], []).append((node["label"], node["name"], declared))
        return found

    alone = ends()
    assert alone == {
        "RUNS": [("Container", "quasarhub", False), ("Host", "node3", None)],
        "RUNS_IN": [("Container", "quasarhub", False), ("Network", "hubnet", False)],
    }
    before = logical(world.workspace)

    stacks = world.source("stacks", "compose", host="box")
    (stacks / "hub").mkdir()
    compose = VAULT + "    networks: [hubnet]\nnetworks:\n  hubnet: {}\n"
    (stacks / "hub/compose.yaml").write_text(compose)
    snapshot(world, "stacks")
    assert ends() == {
        "RUNS": [("Container", "qh", True), ("Host", "node3", None)],
        "RUNS_IN": [("Container", "qh", True), ("Network", "hub_hubnet", None)],
    }
    (network,) = [r for r in table(world, "entities") if r["label"] == "Network"]
    assert len(json.loads(network["claims"])) > 1, "text and project speak of one network"

    # Of two of the name none is meant.
    (stacks / "second").mkdir()
    (stacks / "second/compose.yaml").write_text(compose.replace("qh", "qh2"))
    snapshot(world, "stacks")
    assert ends() == alone

    shutil.rmtree(stacks / "second")
    shutil.rmtree(stacks / "hub")
    (stacks / "other.yaml").write_text("services:\n  other:\n    image: redis:7\n")
    snapshot(world, "stacks")
    (stacks / "other.yaml").unlink()
    world.workspace.sync_sources()
    world.ingest("stacks", confirm_deletes=True)
    after = {k: v for k, v in logical(world.workspace).items() if not k.startswith("stacks/")}
    assert differences(before, after) == {}


def test_only_documents_that_hold_the_words_of_a_new_name_are_looked_at_again(
    world: World, notes: Path
) -> None:
    assert mentions(world, "notes", "quasarhub") == set()
    # With the first thing that is declared, all texts are read otherwise.
    first = world.source("first", "compose")
    (first / "compose.yaml").write_text("services: {lighthouse: {image: redis:7}}\n")
    assert snapshot(world, "first").counts["rescanned"] == 6
    versions = {name: world.workspace.tables.version("default", NAMESPACE, name) for name in TABLES}
    stacks = world.source("stacks", "compose")
    (stacks / "compose.yaml").write_text(VAULT)
    report = snapshot(world, "stacks")
    assert {k: report.counts[k] for k in ("changed", "removed", "rescanned", "documents")} == {
        "changed": 1,
        "removed": 0,
        "rescanned": 2,
        "documents": 8,
    }
    assert mentions(world, "notes", "quasarhub") == {"1.md", "2.md"}
    exact = next(r for r in table(world, "relations") if (r["end_name"], r["line"]) == ("quasarhub", 1))
    assert (exact["end_name"], exact["end_basis"], exact["extraction_method"]) == (
        "quasarhub",
        "bytes",
        "declared_name",
    )
    assert versions != dict(report.tables)
    # A change of a document that declares nothing new is that document's alone.
    (notes / "0.md").write_text("Ask quasarhub.\n")
    report = snapshot(world, "notes")
    assert (report.counts["changed"], report.counts["rescanned"], report.counts["names_changed"]) == (1, 0, 0)
    assert mentions(world, "notes", "quasarhub") == {"0.md", "1.md", "2.md"}
    # And when the name goes, its mentions go, wherever they are.
    (stacks / "compose.yaml").write_text("services:\n  nova:\n    image: redis:7\n")
    report = snapshot(world, "stacks")
    assert report.counts["rescanned"] == 3 and mentions(world, "notes", "quasarhub") == set()


def test_a_removed_document_takes_along_what_it_alone_supports(world: World, notes: Path) -> None:
    stacks = world.source("stacks", "compose", host="box")
    for name in ("one", "two"):
        (stacks / name).mkdir()
        (stacks / name / "compose.yaml").write_text(f"services:\n  {name}-app:\n    image: redis:7\n")
    snapshot(world, "stacks")
    gone = world.workspace.catalog.locators.of_source("default", "stacks")["one/compose.yaml"].doc_id
    shutil.rmtree(stacks / "one")
    report = snapshot(world, "stacks")
    assert (report.counts["changed"], report.counts["removed"], report.counts["documents"]) == (0, 1, 7)
    for name in ("relations", "doc_state", "declarations"):
        assert gone not in {r["doc_id"] for r in table(world, name)}, name
    entities = {(r["label"], r["name"]): r for r in table(world, "entities")}
    assert ("Service", "one-app") not in entities and ("Service", "two-app") in entities
    (image,) = [r for (label, _), r in entities.items() if label == "Image"]
    assert gone not in image["claims"], "what others support too stays, without its claims"


@pytest.mark.parametrize("lost", ["entities", "doc_state"])
def test_a_snapshot_that_lost_a_table_is_made_again(world: World, notes: Path, lost: str) -> None:
    (notes / "stack.md").write_text("`docker pull redis:7` on 10.0.0.7\n")
    snapshot(world, "notes")
    before = logical(world.workspace)
    shutil.rmtree(world.home / "tables/default" / NAMESPACE / lost)
    report = take(world)
    assert report.skipped is None and report.counts["changed"] == 7
    assert differences(before, logical(world.workspace)) == {}
    assert take(world).skipped == "unchanged"


def test_tables_of_an_earlier_release_are_made_again(world: World, notes: Path) -> None:
    (notes / "stack.md").write_text("`docker pull redis:7` on 10.0.0.7\n")
    snapshot(world, "notes")
    before = logical(world.workspace)
    # The list of documents as it was before it held their claims.
    write_deltalake(
        world.home / "tables/default" / NAMESPACE / "doc_state",
        read(world, "doc_state").drop_columns(["claims", "recency"]),
        mode="overwrite",
        schema_mode="overwrite",
    )
    catalog, tables = world.workspace.catalog, world.workspace.tables
    pointer = catalog.pointers.get("default", NAMESPACE, STAGE)
    assert pointer is not None
    old = {**pointer.tables, "doc_state": tables.version("default", NAMESPACE, "doc_state")}
    catalog.pointers.publish("default", NAMESPACE, replace(pointer, tables=old, inputs="earlier"))
    assert take(world).counts["changed"] == 7
    assert differences(before, logical(world.workspace)) == {}
    assert take(world).skipped == "unchanged"


def test_an_entity_that_everything_mentions_costs_no_more(world: World, notes: Path) -> None:
    def hub() -> dict[str, Any]:
        (row,) = [r for r in table(world, "entities") if r["label"] == "Image"]
        return row

    def note(number: int, text: str) -> None:
        # The front matter's date makes the last of them the latest.
        (notes / f"n{number:02}.md").write_text(
            f"---\ndate: 2024-01-{number + 1:02}\n---\nRun `docker pull redis:7` on it, {text}.\n"
        )

    for number in range(25):
        note(number, "as always")
    snapshot(world, "notes")
    assert len(json.loads(hub()["claims"])) == 1 and len(hub()["claims"]) < 200
    count, latest = json.loads(hub()["claims"])[0][5:7]
    assert count == 25
    # The latest document speaks no more: the one before it does, as if it had never been there.
    (notes / "n24.md").unlink()
    note(3, "in other words")
    report = snapshot(world, "notes")
    assert report.counts["changed"] == 1 and report.counts["removed"] == 1
    assert json.loads(hub()["claims"])[0][5] == 24 and json.loads(hub()["claims"])[0][6] < latest
    before = logical(world.workspace)
    shutil.rmtree(world.home / "tables/default" / NAMESPACE / "entities")
    take(world)
    assert differences(before, logical(world.workspace)) == {}


def test_unchanged_sources_write_nothing(world: World, notes: Path) -> None:
    catalog, tables = world.workspace.catalog, world.workspace.tables
    before = {name: tables.version("default", NAMESPACE, name) for name in TABLES}
    pointer = catalog.pointers.get("default", NAMESPACE, STAGE)
    report = snapshot(world, "notes")
    assert (report.skipped, dict(report.tables)) == ("unchanged", before)
    assert {name: tables.version("default", NAMESPACE, name) for name in TABLES} == before
    assert catalog.pointers.get("default", NAMESPACE, STAGE) == pointer


def test_an_edit_that_says_the_same_rewrites_no_entity(world: World, notes: Path) -> None:
    stacks = world.source("stacks", "compose")
    (stacks / "compose.yaml").write_text(VAULT)
    snapshot(world, "stacks")
    version = world.workspace.tables.version("default", NAMESPACE, "entities")
    (notes / "5.md").write_text("Another text that names nothing.\n")
    report = snapshot(world, "notes")
    assert report.counts["changed"] == 1 and report.tables["entities"] == version


# --- versions of sources ------------------------------------------------------------------------------------


#: Tables of a source that a snapshot is made of, at least.
SOURCE_TABLES = ("documents", "chunks", "links", "observations", "observations.tier_b", "observations.tier_c")


def versions_of(world: World, applied: Mapping[str, Any], stages: Sequence[str]) -> dict[str, Any]:
    return source_versions(world.workspace, "default", applied, stages).versions


def test_a_source_under_way_keeps_its_last_version(world: World, notes: Path) -> None:
    catalog = world.workspace.catalog
    pointer = catalog.pointers.get("default", NAMESPACE, STAGE)
    assert pointer is not None
    assert versions_of(world, {}, AGREEING) == dict(pointer.applied)
    tables = set(pointer.applied["notes"])
    assert tables >= {*SOURCE_TABLES}
    # In the order of the chain: the last of them makes the version whole.
    *before, last = AGREEING
    (notes / "0.md").write_text("Something else.\n")
    for stage in [s.name for s in CHAIN.of_source]:
        world.run(stage, "notes")
        versions = versions_of(world, pointer.applied, AGREEING)
        # Until the chunks are cut anew nothing of the new version is published.
        assert (versions == pointer.applied) == (stage != last), stage
        if stage in before:
            assert versions_of(world, {}, AGREEING) == {}, "no version is whole"
    assert versions["notes"] == {
        name: world.workspace.tables.version("default", "notes", name) for name in tables
    }


def test_a_stage_that_has_not_run_keeps_the_source_out(world: World, notes: Path) -> None:
    assert versions_of(world, {}, (*AGREEING, "tier_d_triples")) == {}
    # With the stage that makes the documents it is the same vector.
    assert versions_of(world, {}, ("documents", *AGREEING)) == versions_of(world, {}, AGREEING)


# --- observations of several tiers --------------------------------------------------------------------------


def test_in_which_order_the_tiers_are_read_decides_nothing(world: World, notes: Path) -> None:
    (notes / "0.md").write_text(
        "# Web\n\nGitea depends on PostgreSQL.\n\n"
        "| Service | Port |\n|---|---|\n| Gitea | 3000 |\n| Loki | 3100 |\n"
    )
    snapshot(world, "notes")
    before = {name: rows_of(read(world, name)) for name in TABLES}
    assert {r["source"] for r in table(world, "relations")} >= {"tier_a", "tier_b"}
    world.workspace.catalog.pointers.drop("default", NAMESPACE, [STAGE])
    tables = ("observations.tier_c", "observations.tier_b", "observations")
    entity_snapshots.run(world.workspace, "default", "", stages=AGREEING, observation_tables=tables)
    assert {name: rows_of(read(world, name)) for name in TABLES} == before


@pytest.mark.parametrize("stated", [True, False], ids=["by this release", "by an earlier one"])
def test_an_edit_reads_the_observations_of_its_buckets_where_they_say_so(
    world: World, notes: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    """A pointer of an earlier release does not say where they lie: then they are looked for everywhere."""
    snapshot(world, "notes")
    (notes / "1.md").write_text("Restart http://quasar.example.com:81/a before lunch.\n")
    for stage in CHAIN.of_source:
        world.run(stage.name, "notes")
    pointers = world.workspace.catalog.pointers
    pointer = pointers.get("default", "notes", "tier_a_triples")
    assert pointer is not None and pointer.applied["projects"] is False
    if not stated:
        applied = {name: value for name, value in pointer.applied.items() if name != "projects"}
        pointers.publish("default", "notes", replace(pointer, applied=applied))
    everywhere: list[str] = []
    really_read = Tables.read

    def reading(self: Tables, *args: Any, **options: Any) -> Any:
        if args[2] == "observations" and options.get("buckets") is None:
            everywhere.append(args[2])
        return really_read(self, *args, **options)

    monkeypatch.setattr(Tables, "read", reading)
    report = take(world)
    assert report.counts["changed"] == 1 and bool(everywhere) is not stated
    assert mentions(world, "notes", "http://quasar.example.com:81/a") == {"1.md"}
