"""Quotas: a namespace holds no more than it may, nothing is lost by that, and what is refused comes later."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.notifications import EventKind
from taboot_pipelines.stages import notifications, quotas, storage_audit
from taboot_pipelines.stages.deletion import delete
from taboot_pipelines_tests.world import World, differences, logical, take_in


def pages(folder: Path, count: int, size: int = 1000) -> None:
    for number in range(count):
        text = f"# Page {number}\n\nThe page {number} of the house tells of itself. "
        (folder / f"{number:03}.md").write_text(text + "x" * (size - len(text.encode())))


def limited(world: World, namespace: str = "default", **limits: int) -> None:
    """Let the sources file give a namespace limits."""
    file = world.directory / "sources.yaml"
    file.write_text(yaml.safe_dump({"sources": world.entries, "quotas": {namespace: limits}}))
    world.workspace.sync_sources()


def ingest(world: World) -> dict[str, int]:
    (report,) = [r for r in take_in(world.workspace, "notes") if r.stage == "raw_blobs"]
    return report.counts


@pytest.mark.parametrize(("limit", "what"), [({"bytes": 5_500}, "bytes"), ({"documents": 5}, "documents")])
def test_what_would_be_too_much_waits_and_comes_once_there_is_room(
    world: World, limit: dict[str, int], what: str
) -> None:
    folder = world.source("notes")
    pages(folder, 8)
    limited(world, **limit)
    counts = ingest(world)
    assert (counts["fetched"], counts["skipped"], counts["discovered"]) == (5, 3, 8)
    held = quotas.usage(world.workspace, "default")
    assert held.shares()[what][0] <= held.shares()[what][1]
    letters = world.workspace.catalog.dead_letters.find("default", "notes")
    assert {x["code"] for x in letters} == {"E_QUOTA"} and len(letters) == 3
    # What is there is served, edited within the limit, and never given up for what waits.
    assert len(world.kb().documents()) == 5
    assert ingest(world)["skipped"] == 3 and len(world.kb().documents()) == 5
    gone = world.workspace.catalog.locators.of_source("default", "notes")["000.md"].doc_id
    delete(world.workspace, "default", [gone], erase=True)
    assert ingest(world)["fetched"] == 1
    limited(world)
    assert ingest(world)["fetched"] == 2
    assert not world.workspace.catalog.dead_letters.find("default", "notes", "raw_blobs")[1:]
    scratch = world.open(world.replay())
    try:
        assert differences(logical(world.workspace), logical(scratch)) == {}
    finally:
        scratch.close()


def test_the_settings_hold_where_the_file_says_nothing(world: World, tmp_path: Path) -> None:
    world.overrides["quota"] = {"documents": 3}
    world.workspace.close()
    world.workspace = world.open(world.home)
    pages(world.source("notes"), 5)
    world.workspace.sync_sources()
    assert ingest(world)["fetched"] == 3
    limited(world, documents=4)
    assert ingest(world)["fetched"] == 1
    with pytest.raises(TabootError, match="E_QUOTA"):
        world.kb().upload(b"One page more.", name="more.txt")
    assert world.workspace.catalog.uploaded.all("default") == []
    limited(world, documents=5)
    world.kb().upload(b"One page more.", name="more.txt")
    with pytest.raises(TabootError, match="E_SOURCES"):
        limited(world, pages=5)


def test_processes_that_read_at_once_do_not_go_beyond_it_by_more_than_a_batch(world: World) -> None:
    names = ["one", "two", "three", "four"]
    for name in names:
        folder = world.source(name)
        pages(folder, 120)
        for file in folder.iterdir():  # no two have the same bytes
            file.write_text(f"{name} {file.read_text()}")
    limited(world, documents=100)
    failures: list[BaseException] = []

    def read(name: str) -> None:
        workspace = world.open(world.home)
        try:
            take_in(workspace, name)
        except BaseException as error:
            failures.append(error)
        finally:
            workspace.close()

    threads = [threading.Thread(target=read, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    held = quotas.usage(world.workspace, "default").documents
    assert 100 <= held <= 100 + 3 * quotas.EVERY


def test_it_is_told_of_before_and_when_it_is_used_up(world: World) -> None:
    pages(world.source("notes"), 9)
    limited(world, documents=10)
    ingest(world)
    told = [e for e in notifications.events(world.workspace, "default", 0) if e.kind is EventKind.QUOTA]
    assert [e.facts for e in told] == [{"what": "documents", "used": 9, "limit": 10}]


def test_bytes_are_counted_anew_by_the_audit(world: World) -> None:
    pages(world.source("notes"), 2)
    world.ingest()
    before = quotas.usage(world.workspace, "default").bytes
    with world.workspace.catalog.database.begin("default") as c:
        c.exec_driver_sql("UPDATE storage_usage SET total_bytes = total_bytes + 77")
    assert quotas.usage(world.workspace, "default").bytes == before + 77
    storage_audit.run(world.workspace, "default")
    assert quotas.usage(world.workspace, "default").bytes == before
