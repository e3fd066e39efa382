"""``taboot changes``: what a person reads of documents and facts that differ."""

from __future__ import annotations

from datetime import UTC, datetime

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.world import World


def test_passages_and_facts_are_shown_with_what_stood_there_before(world: World) -> None:
    source = world.source("stacks", "compose")
    (source / "web").mkdir()
    compose = source / "web" / "compose.yaml"
    compose.write_text("services:\n  web:\n    image: nginx:1.25\n    ports: ['8080:80']\n")
    world.ingest()
    between = datetime.now(UTC).isoformat()
    compose.write_text("services:\n  web:\n    image: nginx:1.27\n    ports: ['8080:80']\n")
    world.ingest()
    shown = Shell(world)("changes", "--since", between)
    assert "changed  stacks:web/compose.yaml" in shown
    assert "  -     image: nginx:1.25\n" in shown and "  +     image: nginx:1.27\n" in shown
    told = shown.partition("changed  fact")[2]
    assert "nginx:1.25" in told and "nginx:1.27" in told.partition("\n  +")[2]


def test_what_the_first_ingest_read_later_is_no_change(world: World) -> None:
    """It publishes while it still reads: what a text names is declared by a source that is read after it."""
    (world.source("notes") / "house.md").write_text(
        "# House\n\n| Service | Port |\n|---|---|\n| `wikila` | 8080 |\n| `blogger` | 9090 |\n"
    )
    stacks = world.source("stacks", "compose", host="nas.lan")
    (stacks / "compose.yaml").write_text(
        "services:\n  wikila:\n    image: nginx:1.25\n    ports: ['8080:80']\n"
    )
    world.ingest("notes")
    assert {n["name"] for n in world.kb().nodes().to_pylist()} >= {"wikila"}
    world.ingest("stacks")
    shown = Shell(world)
    assert "none changed" in shown("changes", "--since", "7d")
    (stacks / "compose.yaml").write_text(
        "services:\n  wikila:\n    image: nginx:1.27\n    ports: ['8080:80']\n"
    )
    world.ingest()
    told = shown("changes", "--since", "7d")
    assert "nginx:1.27" in told and "removed  fact" not in told
