"""``taboot changes``: what a person reads of documents and facts that differ."""

from __future__ import annotations

from datetime import UTC, datetime

from taboot_pipelines.model.ids import doc_id, locator
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


def test_in_its_first_week_a_home_tells_what_changed_since_it_was_read(world: World) -> None:
    notes, stacks = world.source("notes"), world.source("stacks", "compose")
    text = "# House\n\nThe `wikila` serves pages.\n"
    # The text has the smallest id, by which documents of a thing are ordered.
    compose = doc_id("default", locator("stacks", "compose.yaml"))
    names = (f"n{n}.md" for n in range(64))
    name = next(n for n in names if doc_id("default", locator("notes", n)) < compose)
    for path in (name, "other.md", "more.md"):
        (notes / path).write_text(text)
    declared = "services:\n  wikila:\n    image: nginx:1.25\n    ports: ['8080:80']\n"
    (stacks / "compose.yaml").write_text(declared)
    world.ingest()
    shell = Shell(world)
    first = "UTC 4 documents came in first."
    told = shell("changes")
    assert "new " not in told and "no document changed" in told and first in told
    (notes / "other.md").write_text(text.replace("pages", "files"))
    (notes / "late.md").write_text(text)
    (notes / "more.md").unlink()
    (stacks / "compose.yaml").write_text(declared.replace("1.25", "1.27"))
    world.ingest()
    found = shell.json("changes")
    assert {(i["kind"], i["path"]) for i in found["items"]} == {
        ("changed", "compose.yaml"),
        ("changed", "other.md"),
        ("gone", "more.md"),
        ("new", "late.md"),
    }
    (thing,) = [f for f in found["facts"] if f["what"] == "thing" and f["type"] == "Service"]
    assert "1.27" in thing["after"]["says"]
    assert {thing[side]["path"] for side in ("before", "after")} == {"compose.yaml"}
    assert first in shell("changes") and first not in shell("changes", "--since", found["since"])
    assert "1 document came in first" in shell("changes", "stacks")


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
