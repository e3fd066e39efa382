"""What a connector keeps is written behind what it covers, and forgotten where it would hide something.

The connector is the tests' own: it tells what a made-up service has that is newer than its cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from taboot_pipelines.connectors.access import SourceState
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Checkpoint, Enumerated, Event, Fetched, Known, Unchanged
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.stages import raw_blobs
from taboot_pipelines.stages.deletion import delete, restore
from taboot_pipelines.stages.source_state import BatchState
from taboot_pipelines_tests.world import World


@dataclass
class Service:
    """Items with the number of their last change; ``dies_after`` items told, a run is killed."""

    items: dict[str, tuple[int, str]] = field(default_factory=dict)
    clock: int = 0
    asked_since: list[int | None] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    dies_after: int | None = None

    def put(self, path: str, text: str) -> None:
        self.clock += 1
        self.items[path] = (self.clock, text)


class Killed(BaseException):
    pass


class Incremental:
    def __init__(self, service: Service, state: SourceState) -> None:
        self._service, self._state = service, state

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        service = self._service
        since = self._state.load("since")
        service.asked_since.append(since)
        service.told = []
        newer = sorted((at, path) for path, (at, _) in service.items.items() if at > (since or 0))
        old = {p for p in service.items if p in known} - {p for _, p in newer}
        if old:
            yield Unchanged(dict.fromkeys(old, "document"))
        for at, path in newer:
            if tombstoned(path):
                continue
            if service.dies_after is not None and len(service.told) == service.dies_after:
                raise Killed
            service.told.append(path)
            yield Fetched(path, service.items[path][1].encode(), "document", mime="text/markdown")
            self._state.save("since", at)
            if at % 2 == 0:
                yield Checkpoint()
        yield Enumerated(True)


@pytest.fixture
def service(world: World, monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()

    def connect(workspace: Any, entry: Any, present: Any, frontier: Any, state: SourceState) -> Incremental:
        return Incremental(made, state)

    monkeypatch.setattr(raw_blobs, "open_source", connect)
    world.source("api")
    for number in range(6):
        made.put(f"item-{number}.md", f"# Item {number}\n\nThe host atlas{number} keeps ledgers.\n")
    return made


def present(world: World) -> set[str]:
    return set(world.workspace.catalog.locators.of_source("default", "api"))


def doc_id(world: World, path: str) -> str:
    return world.workspace.catalog.locators.of_source("default", "api")[path].doc_id


def kept(world: World) -> dict[str, Any]:
    (entry,) = world.workspace.entries("api")
    state = BatchState(world.workspace.catalog, entry, damaged=False)
    return {"since": state.load("since")}


def test_a_cursor_goes_on_where_it_was(world: World, service: Service) -> None:
    world.run("raw_blobs", "api")
    assert present(world) == set(service.items) and kept(world) == {"since": 6}
    world.run("raw_blobs", "api")
    assert service.asked_since == [None, 6] and service.told == []
    service.put("item-2.md", "# Changed\n\nIt is other now.\n")
    world.run("raw_blobs", "api")
    assert service.told == ["item-2.md"] and kept(world) == {"since": 7}


@pytest.mark.parametrize("dies_after", range(6))
def test_a_killed_run_loses_nothing(world: World, service: Service, dies_after: int) -> None:
    service.dies_after = dies_after
    with pytest.raises(Killed):
        world.run("raw_blobs", "api")
    since = kept(world)["since"] or 0
    # What the cursor covers is stored.
    assert {p for p, (at, _) in service.items.items() if at <= since} <= present(world)
    service.dies_after = None
    world.run("raw_blobs", "api")
    assert present(world) == set(service.items)
    assert service.asked_since[-1] == (since or None)


def test_an_entry_that_changed_begins_anew(world: World, service: Service) -> None:
    world.run("raw_blobs", "api")
    world.source("api", languages=["en", "de"])
    world.run("raw_blobs", "api")
    assert service.asked_since == [None, None]


def test_held_deletions_forget_the_cursor(world: World, service: Service) -> None:
    world.run("raw_blobs", "api")
    service.items.clear()
    report = world.run("raw_blobs", "api")
    assert report.held and present(world) and kept(world) == {"since": None}
    service.put("new.md", "# New\n")
    world.run("raw_blobs", "api", confirm_deletes=True)
    assert service.asked_since[-1] is None and present(world) == {"new.md"}
    assert kept(world) == {"since": service.clock}


def test_a_damaged_blob_forgets_the_cursor(world: World, service: Service) -> None:
    world.run("raw_blobs", "api")
    sha256 = world.workspace.catalog.locators.of_source("default", "api")["item-1.md"].sha256
    (blob,) = (p for p in (world.home / "blobs").rglob("*") if p.is_file() and sha256 in p.name)
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    letter = {
        "item": "item-1.md",
        "code": "E_BLOB_CORRUPT",
        "message": "",
        "fingerprint": "",
        "kind": "failed",
    }
    world.workspace.catalog.dead_letters.record("default", "api", "documents", [letter], [])
    world.run("raw_blobs", "api")
    assert service.asked_since == [None, None] and kept(world) == {"since": 6}
    assert world.workspace.blobs.get("default", sha256) == service.items["item-1.md"][1].encode()


def test_a_state_is_written_by_commit_alone(world: World, service: Service) -> None:
    world.run("raw_blobs", "api")
    (entry,) = world.workspace.entries("api")
    state = BatchState(world.workspace.catalog, entry, damaged=True)
    assert state.load("since") is None
    state.save("since", 9)
    assert state.load("since") == 9 and kept(world) == {"since": 6}
    state.commit()
    assert kept(world) == {"since": 9}
    state.forget()
    assert kept(world) == {"since": None} and state.load("since") is None


def test_restored_and_erased_documents_are_asked_for_again(world: World, service: Service) -> None:
    world.ingest("api")
    gone = doc_id(world, "item-3.md")
    delete(world.workspace, "default", [gone], erase=False)
    world.ingest("api")
    assert "item-3.md" not in present(world) and kept(world) == {"since": 6}
    restore(world.workspace, "default", [gone])
    assert kept(world) == {"since": None}
    world.ingest("api")
    assert present(world) == set(service.items) and kept(world) == {"since": 6}
    delete(world.workspace, "default", [gone], erase=True)
    assert kept(world) == {"since": None}
    assert isinstance(world.kb(), KnowledgeBase)


def test_a_source_that_comes_back_begins_anew(world: World, service: Service) -> None:
    world.source("other")
    world.ingest("api")
    entries = list(world.entries)
    world.remove_source("api")
    world.ingest("api", confirm_deletes=True)
    assert present(world) == set()
    world.entries = entries
    world.declare()
    world.ingest("api")
    assert present(world) == set(service.items) and service.asked_since[-1] is None


def test_a_value_that_cannot_be_written_is_refused(world: World, service: Service) -> None:
    world.workspace.sync_sources()
    (entry,) = world.workspace.entries("api")
    state = BatchState(world.workspace.catalog, entry, damaged=False)
    with pytest.raises((TypeError, TabootError)):
        state.save("since", object())
