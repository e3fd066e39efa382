"""What a killed batch leaves behind is judged as if there had been no kill, and erased like the rest.

Holds rules ``kill-anywhere``, ``complete-enumeration`` and ``deleted-stays-deleted``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.stages.deletion import delete
from taboot_pipelines.stores.catalog.jobs import Jobs
from taboot_pipelines.stores.catalog.locators import Locators
from taboot_pipelines_tests.world import World, holding

WORD = "zyxwvutquux"


class Killed(BaseException):
    """Stands for a kill: nothing may handle it."""


@pytest.fixture
def killing(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function of a catalog's class, method and position: an ingest ends before or after its next call."""

    def kill(owner: type, method: str, *, after: bool = False) -> None:
        original = getattr(owner, method)

        def last(*arguments: Any, **options: Any) -> None:
            if after:
                original(*arguments, **options)
            raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(owner, method, last)
            world.ingest()
        world.workspace.close()
        world.workspace = world.open(world.home)

    return kill


@pytest.fixture
def many(world: World) -> Path:
    path = world.source("many")
    for i in range(20):
        (path / f"{i:02}.md").write_text(f"Document number {i} of many.\n")
    world.ingest()
    return path


def held(world: World) -> list[str]:
    return [h["code"] for r in world.ingest() for h in r.held]


def test_files_moved_before_a_kill_are_no_deletions_after_it(world: World, many: Path, killing: Any) -> None:
    (many / "sub").mkdir()
    for i in range(14):
        (many / f"{i:02}.md").rename(many / "sub" / f"{i:02}.md")
    for i in range(14, 20):
        (many / f"{i:02}.md").unlink()
    # Its new paths are in the log, its old ones not yet absent: six were deleted, and not twenty.
    killing(Locators, "record_absent")
    assert held(world) == []
    assert world.kb().documents().num_rows == 14


def test_files_added_before_a_kill_hide_no_mass_deletion(world: World, many: Path, killing: Any) -> None:
    for i in range(11):
        (many / f"{i:02}.md").unlink()
    for i in range(3):
        (many / f"new{i}.md").write_text(f"New document number {i}.\n")
    killing(Locators, "record_fetched", after=True)
    killing(Jobs, "start", after=True)
    # Eleven of twenty, as they were when the last whole batch ended.
    assert held(world) == ["E_MASS_DELETE"]
    assert world.kb().documents().num_rows == 23


def test_an_erasure_takes_bytes_that_no_log_names(world: World, many: Path, killing: Any) -> None:
    (many / "00.md").write_text(f"A version with {WORD} that was stored, and never logged.\n")
    killing(Locators, "record_fetched")
    (many / "00.md").write_text(f"The next version with {WORD}.\n")
    world.ingest()
    # What a kill in the middle of an upload, or of a table's removal, leaves on disk.
    blobs = world.home / "blobs" / "sources" / "default"
    (blobs / ("0" * 64 + "#1")).write_text(WORD)
    removed = world.home / "tables" / ".removed" / "table"
    removed.mkdir(parents=True)
    (removed / "part").write_text(WORD)
    doc_id = world.workspace.catalog.locators.of_source("default", "many")["00.md"].doc_id
    delete(world.workspace, "default", [doc_id], erase=True)
    assert holding(world.home, WORD) == []
    # Every version of the document is gone; those of the others stay.
    assert len(list(blobs.iterdir())) == 19
