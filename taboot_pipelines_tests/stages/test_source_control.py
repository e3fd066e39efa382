"""What an entry says of its source beside where it is: paused, kept out of the graph, read first."""

from __future__ import annotations

from taboot_pipelines.stages.source_state import fingerprint
from taboot_pipelines_tests.defs.conftest import COMPOSE
from taboot_pipelines_tests.world import World, differences, logical


def stack(world: World, **fields: object) -> None:
    folder = world.source("stack", "compose", host="box.lan", **fields)
    (folder / "compose.yaml").write_text(COMPOSE)


def test_a_paused_source_is_not_read_and_stays_served(world: World) -> None:
    stack(world)
    notes = world.source("notes")
    (notes / "a.md").write_text("# A\n\nThe first note about the night.\n")
    world.ingest()
    world.source("notes", enabled=False)
    (notes / "a.md").write_text("# A\n\nAnother note about the morning.\n")
    (notes / "b.md").write_text("# B\n\nA second note.\n")
    raw = next(r for r in world.ingest() if (r.stage, r.source_id) == ("raw_blobs", "notes"))
    assert raw.skipped == "paused (enabled: false)" and not raw.counts
    rows = {row["path"]: row["title"] for row in world.kb().documents().to_pylist()}
    assert "b.md" not in rows and world.kb().search("night").hits[0].source == "notes"
    job = world.workspace.catalog.jobs.last_succeeded("default", "notes")
    entry = world.workspace.entries("notes")[0]
    assert job is not None and job["configuration"] == fingerprint(world.workspace.settings, entry)

    # What is read again is known to wait for a run, though nothing else of its entry changed.
    world.source("notes")
    world.workspace.sync_sources()
    job = world.workspace.catalog.jobs.last_succeeded("default", "notes")
    assert job is not None and job["configuration"] != fingerprint(world.workspace.settings, entry)
    world.ingest()
    assert {"a.md", "b.md"} <= set(world.kb().documents().column("path").to_pylist())


def test_a_source_outside_of_the_graph_is_searched_and_states_nothing(world: World) -> None:
    stack(world)
    world.ingest()
    assert "web" in world.kb().nodes().column("name").to_pylist()
    stack(world, graph=False)
    world.ingest()
    assert set(world.kb().nodes().column("label").to_pylist()) == {"Document"}
    assert world.kb().search("nginx").hits[0].source == "stack"
    scratch = world.open(world.replay())
    assert not differences(logical(world.workspace), logical(scratch))
    scratch.close()
    stack(world)
    world.ingest()
    assert "web" in world.kb().nodes().column("name").to_pylist()


def test_sources_are_read_by_their_priority_and_what_left_goes_first(world: World) -> None:
    for source, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5)):
        (world.source(source, run_priority=priority) / "note.md").write_text(f"# {source}\n\nA note.\n")
    world.ingest()
    assert world.workspace.in_order(["c", "a", "d", "b"]) == ["b", "d", "a", "c"]
    world.remove_source("c")
    world.workspace.sync_sources()
    assert world.workspace.in_order(["c", "a", "d", "b"]) == ["c", "b", "d", "a"]
