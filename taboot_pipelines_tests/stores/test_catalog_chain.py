"""The whole chain on PostgreSQL, as the application's role, gives what it gives on SQLite."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Set
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.catalog.writing import write
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import PostgresServer, own_postgres
from taboot_pipelines_tests.stores.roles import with_roles
from taboot_pipelines_tests.world import INPUT_TABLES, World, differences, graph, logical

ROUNDS = 4

COMPOSE = """
services:
  web:
    image: nginx:1.27
    ports: ["8080:80"]
    depends_on: [db]
  db:
    image: postgres:16
"""


#: Tables of inputs that no run here fills, and those that only a person fills.
UNUSED = frozenset({"confirmation", "tombstone", "llm_answer"})
DECIDED = frozenset({"assertion", "feedback", "chosen_run", "retention_policy", "uploaded", "document_tag"})


def live(world: World) -> None:
    """Adds, an edit, an absence, a deletion with its return, an erasure, a source that left, a promotion that
    stands beside one that was taken back, and a correction.
    """
    notes, stack, old = (
        world.source("notes", retention_days=300),
        world.source("stack", "compose", host="atlas"),
        world.source("old"),
    )
    for name in ("one", "two", "three", "four"):
        (notes / f"{name}.md").write_text(
            f"# {name}\n\nThe web service {name} runs on atlas and asks db for its rows, day and night.\n"
        )
    (old / "gone.md").write_text("# Gone\n\nNobody will miss this page about the web service.\n")
    (stack / "compose.yaml").write_text(COMPOSE)
    world.ingest()
    (notes / "one.md").write_text(
        "# one\n\nThe web service moved to another shelf in the rack, which is cooler.\n"
    )
    (notes / "two.md").unlink()
    (stack / "compose.yaml").write_text(COMPOSE.replace("8080", "8081"))
    world.remove_source("old")
    world.ingest(confirm_deletes=True)
    ids = {
        path: x.doc_id for path, x in world.workspace.catalog.locators.of_source("default", "notes").items()
    }
    kb = world.kb()
    kb.delete([ids["three.md"]])
    kb.restore([ids["three.md"]])
    kb.delete([ids["four.md"]], erase=True)
    world.ingest()
    kb.reinterpret(source="stack", tier="A", promote=True)
    kb.reinterpret(source="notes", tier="A", promote=True)
    kb.rollback(source="notes", tier="A")
    runs = kb.runs("stack", "A", document="compose.yaml", active=True).items
    (promoted,) = (run for run in runs if run.config["extractor"] == "compose")
    kb.correct("web", "description", "the page", reason="asked", label="Service")
    kb.feedback("Which image does web run?", "right", must=["nginx"])
    kb.upload(b"# Handed\n\nThe web service was handed over.\n", name="handed.md", tags=["by hand"])
    assert promoted.number == 1 and kb.edges().column("run_id").to_pylist().count(promoted.run_id) > 3


def replayed_on_sqlite(server: World, tei: FakeTei, decided: Set[str]) -> World:
    """A world with the same sources and blobs whose SQLite catalog is given the inputs that PostgreSQL
    holds. Of the tables of decisions, those of ``decided`` must hold some.
    """
    assert not (server.home / "catalog.db").exists()
    # Beside blobs no catalog is begun anew, since it would know of no deletion: this one was begun in an
    # empty home, and is given all of it.
    empty = World(server.root / "empty", tei.url)
    empty.workspace.close()
    shutil.copy(empty.home / "catalog.db", server.home)
    file = World(server.root, tei.url)
    with (
        server.workspace.catalog.database.read(None) as source,
        file.workspace.catalog.database.begin(None) as target,
    ):
        for table in (metadata.tables[name] for name in INPUT_TABLES if name != "alembic_version"):
            rows = [dict(r._mapping) for r in source.execute(table.select())]
            assert rows or table.name in UNUSED | DECIDED - decided, table.name
            write(target, table, rows)
    return file


def assert_equal_to_its_replay(server: World, tei: FakeTei, decided: Set[str] = frozenset()) -> None:
    file = replayed_on_sqlite(server, tei, decided)
    home = file.replay()
    replayed = file.open(home)
    try:
        here, there = logical(server.workspace), logical(replayed)
        assert here == there, differences(here, there)
        here, there = graph(server.kb()), graph(file.kb(home=home))
        assert here == there, differences(here, there)
        assert here["nodes"] and here["edges"] and here["documents"]
        usage, blobs = (
            server.workspace.catalog.blobs.usage("default"),
            server.workspace.catalog.blobs.all("default"),
        )
        assert (usage["total_sources"], usage["total_bytes"]) == (
            len(blobs),
            sum(b["byte_size"] for b in blobs),
        )
    finally:
        replayed.close()
        file.workspace.close()


def test_the_chain_on_postgresql_equals_a_replay_of_its_inputs_on_sqlite(
    tmp_path: Path, tei: FakeTei, postgres: PostgresServer
) -> None:
    roles = with_roles(postgres, "chain")
    server = World(tmp_path, tei.url, catalog_url=roles.app, catalog_admin_url=roles.owner)
    try:
        live(server)
        assert len(server.kb().documents()) == 4
        assert_equal_to_its_replay(server, tei, DECIDED)
    finally:
        server.workspace.close()


def test_a_path_that_no_index_holds_is_refused_and_fails_nothing_else(
    tmp_path: Path, tei: FakeTei, postgres: PostgresServer
) -> None:
    """PostgreSQL's limit, kept on SQLite too, so that both hold the same documents."""
    random_ = random.Random(3)
    # Random, since PostgreSQL compresses what repeats.
    deep = [f"{random_.getrandbits(880):0220x}" for _ in range(14)]
    for name, settings in (("server", {"catalog_url": postgres.database("long_path")}), ("file", {})):
        world = World(tmp_path / name, tei.url, **settings)
        notes = world.source("notes")
        (notes / "fine.md").write_text("# Fine\n\nThe web service is fine.\n")
        at = os.open(notes, os.O_RDONLY)
        for depth, part in enumerate(deep, 1):
            os.mkdir(part, dir_fd=at)
            at, above = os.open(part, os.O_RDONLY, dir_fd=at), at
            os.close(above)
            if depth in (8, 14):
                with os.fdopen(os.open("page.md", os.O_CREAT | os.O_WRONLY, dir_fd=at), "w") as page:
                    page.write(f"# Deep\n\nAt a depth of {depth}.\n")
        os.close(at)
        raw = next(r for r in world.ingest() if r.stage == "raw_blobs")
        assert (raw.counts["fetched"], raw.counts["skipped"], raw.counts["failed"]) == (2, 1, 0)
        (letter,) = world.workspace.catalog.dead_letters.find("default")
        assert (letter["code"], letter["kind"]) == ("E_TOO_LARGE", "skipped") and len(letter["item"]) < 300
        assert len(world.kb().documents()) == 2
        raw = next(r for r in world.ingest() if r.stage == "raw_blobs")
        assert (raw.counts["not_modified"], raw.counts["skipped"], raw.counts["removed"]) == (2, 1, 0)
        world.workspace.close()


@pytest.mark.server
def test_runs_during_which_the_server_restarts_wait_or_fail_typed_and_lose_nothing(
    tmp_path: Path, tei: FakeTei
) -> None:
    """The server is killed and started while ingests go on; who holds a lease then fails, and the next run
    completes.
    """
    with own_postgres(tmp_path) as own:
        world = World(tmp_path / "world", tei.url, catalog_url=own.url)
        notes, stack, failed, completed = (
            world.source("notes"),
            world.source("stack", "compose", host="atlas"),
            [],
            0,
        )
        stop, pauses = threading.Event(), random.Random(5)

        def restart() -> None:
            while not stop.wait(pauses.uniform(0.3, 2)):
                own.stop()
                own.start()

        try:
            restarts = threading.Thread(target=restart)
            restarts.start()
            for round_ in range(ROUNDS):
                (stack / "compose.yaml").write_text(COMPOSE.replace("8080", str(8080 + round_)))
                for page in range(6):
                    (notes / f"page-{page}.md").write_text(
                        f"# Page {page}\n\nThe web service of round {round_ * (page % 2)} asks db number"
                        f" {page} for its rows, day and night.\n"
                    )
                try:
                    problems = [p for report in world.ingest() for p in report.problems]
                    assert not problems, problems
                    completed += 1
                except TabootError as error:
                    failed.append(error.code)
            stop.set()
            restarts.join()
            world.ingest()
            assert set(failed) <= {"E_CATALOG", "E_BUSY"}, failed
            assert len(failed) + completed == ROUNDS and len(world.kb().documents()) == 7
            world.workspace.catalog.jobs.fail_dead()
            assert_equal_to_its_replay(world, tei)
        finally:
            stop.set()
            restarts.join()
            world.workspace.close()
