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
