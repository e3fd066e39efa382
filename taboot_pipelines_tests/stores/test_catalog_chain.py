"""The whole chain on PostgreSQL, as the application's role, gives what it gives on SQLite."""

from __future__ import annotations

from pathlib import Path

from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.catalog.writing import write
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import with_roles
from taboot_pipelines_tests.world import INPUT_TABLES, World, differences, graph, logical

COMPOSE = """
services:
  web:
    image: nginx:1.27
    ports: ["8080:80"]
    depends_on: [db]
  db:
    image: postgres:16
"""


def live(world: World) -> None:
    """Adds, an edit, an absence, a deletion with its return, an erasure, and a source that left."""
    notes, stack, old = world.source("notes"), world.source("stack", "compose", host="atlas"), world.source("old")
    for name in ("one", "two", "three", "four"):
        (notes / f"{name}.md").write_text(f"# {name}\n\nThe web service {name} runs on atlas and asks db for its rows, day and night.\n")
    (old / "gone.md").write_text("# Gone\n\nNobody will miss this page about the web service.\n")
    (stack / "compose.yaml").write_text(COMPOSE)
    world.ingest()
    (notes / "one.md").write_text("# one\n\nThe web service moved to another shelf in the rack, which is cooler.\n")
    (notes / "two.md").unlink()
    (stack / "compose.yaml").write_text(COMPOSE.replace("8080", "8081"))
    world.remove_source("old")
    world.ingest()
    ids = {path: x.doc_id for path, x in world.workspace.catalog.locators("default", "notes").items()}
    kb = world.kb()
    kb.delete([ids["three.md"]])
    kb.restore([ids["three.md"]])
    kb.delete([ids["four.md"]], erase=True)
    world.ingest()


def test_the_chain_on_postgresql_equals_a_replay_of_its_inputs_on_sqlite(tmp_path: Path, tei: FakeTei, postgres: PostgresServer) -> None:
    roles = with_roles(postgres, "chain")
    server = World(tmp_path, tei.url, catalog_url=roles.app, catalog_admin_url=roles.owner)
    live(server)
    assert not (server.home / "catalog.db").exists()
    # The same home with a SQLite catalog, which is given the inputs that PostgreSQL holds.
    file = World(tmp_path, tei.url)
    with server.workspace.catalog.read(None) as source, file.workspace.catalog.begin(None) as target:
        for table in (metadata.tables[name] for name in INPUT_TABLES if name != "alembic_version"):
            rows = [dict(r._mapping) for r in source.execute(table.select())]
            assert rows or table.name == "confirmation", table.name
            write(target, table, rows)
    home = file.replay()
    replayed = file.open(home)
    try:
        here, there = logical(server.workspace), logical(replayed)
        assert here == there, differences(here, there)
        here, there = graph(server.kb()), graph(file.kb(home=home))
        assert here == there, differences(here, there)
        assert here["nodes"] and here["edges"] and len(here["documents"]) == 3
        usage = server.workspace.catalog.usage("default")
        assert usage["total_sources"] == len(server.workspace.catalog.blobs("default"))
        assert sum(b["byte_size"] for b in server.workspace.catalog.blobs("default")) == usage["total_bytes"]
    finally:
        replayed.close()
        for world in (server, file):
            world.workspace.close()
