"""The stage raw_blobs from outside: what it counts, stores and logs for each kind of file and change."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages import raw_blobs
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stores.catalog.locators import Locators
from taboot_pipelines_tests.connectors.servers import send, serve
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

NS, SOURCE = "default", "notes"
MAX_BYTES = 400


def fetch(world: World, **options: Any) -> StageReport:
    """Run the stage under test alone; return its report."""
    return world.run("raw_blobs", SOURCE, **options)


@pytest.fixture
def small_world(tmp_path: Path, tei: FakeTei) -> Iterator[World]:
    """A world that refuses files of more than ``MAX_BYTES``."""
    made = World(tmp_path, tei.url, limits={"max_blob_bytes": MAX_BYTES})
    yield made
    made.workspace.close()


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that refuses from its call on to open or list paths with certain endings.

    Called without endings it refuses nothing. The superuser may read everything, so the system's
    refusal is simulated.
    """
    really_open, really_scan = os.open, os.scandir

    def set_up(*ends: str) -> None:
        def refused(path: Any) -> bool:
            return bool(ends) and str(path).endswith(ends)

        def open_(path: Any, *args: Any, **options: Any) -> int:
            if refused(path):
                raise PermissionError(errno.EACCES, "Permission denied")
            return really_open(path, *args, **options)

        def scan(path: Any = ".") -> Any:
            if refused(path):
                raise PermissionError(errno.EACCES, "Permission denied")
            return really_scan(path)

        monkeypatch.setattr(os, "open", open_)
        monkeypatch.setattr(os, "scandir", scan)

    return set_up


def write(folder: Path, count: int) -> None:
    for i in range(count):
        (folder / f"{i:02}.md").write_text(f"Document number {i} of many.\n")


def present(world: World) -> set[str]:
    return set(world.workspace.catalog.locators.of_source(NS, SOURCE))


def letters(world: World) -> dict[str, tuple[str, str]]:
    """Return {item: (code, kind)} of each item with a dead letter."""
    return {
        d["item"]: (d["code"], d["kind"])
        for d in world.workspace.catalog.dead_letters.find(NS, SOURCE, raw_blobs.STAGE)
    }


def blobs(world: World) -> set[str]:
    """Return the hashes of all blobs on disk."""
    return {ids.sha256_hex(p.read_bytes()) for p in (world.home / "blobs").rglob("*") if p.is_file()}


def fetch_log(world: World) -> list[tuple[Any, ...]]:
    """Return (path, event, hash of the bytes) in the order in which they were logged."""
    with sqlite3.connect(world.home / "catalog.db") as connection:
        return connection.execute("SELECT path, event, sha256 FROM fetch ORDER BY id").fetchall()


def pointer(world: World) -> tuple[Any, ...]:
    """Return the published pointer as it is stored, with the time of its writing."""
    with sqlite3.connect(world.home / "catalog.db") as connection:
        (row,) = connection.execute(
            "SELECT * FROM pointer WHERE owner = ? AND stage = ?", (SOURCE, raw_blobs.STAGE)
        ).fetchall()
    return tuple(row)


def assert_ledger(world: World, report: StageReport) -> None:
    """Assert that every item that was discovered is accounted for.

    This holds in the report and in the catalog's record of the job.
    """
    counts = report.counts
    parts = ("fetched", "not_modified", "skipped", "failed")
    assert counts["discovered"] == sum(counts[p] for p in parts)
    job = world.workspace.catalog.jobs.find(NS, SOURCE)[0]
    assert job["state"] == "succeeded"
    assert {k: job[k] for k in ("discovered", *parts)} == {k: counts[k] for k in ("discovered", *parts)}
    assert counts["present"] == len(present(world))


def test_the_ledger_adds_up_over_every_kind_of_file(small_world: World, refuse: Callable[..., None]) -> None:
    world = small_world
    path = world.source(SOURCE)
    for name in ("same.md", "edited.md", "grown.md", "locked.md", "old-name.md", "deleted.md", "gone.md"):
        (path / name).write_text(f"The first text of {name}.\n")
    (path / ".env").write_text("NOT=taken\n")
    report = fetch(world)
    assert_ledger(world, report)
    assert report.counts["discovered"] == report.counts["fetched"] == report.counts["new_blobs"] == 7
    assert letters(world) == {} and len(blobs(world)) == 7

    deleted = world.workspace.catalog.locators.of_source(NS, SOURCE)["deleted.md"].doc_id
    world.workspace.catalog.tombstones.add(NS, [deleted], "a test")
    (path / "edited.md").write_text("The second text.\n")
    (path / "grown.md").write_text("x" * (MAX_BYTES + 1))
    (path / "born-large.md").write_text("y" * (MAX_BYTES + 1))
    (path / "old-name.md").rename(path / "new-name.md")
    (path / "gone.md").unlink()
    (path / "new.md").write_text("A new file.\n")
    (path / "born-locked.md").write_text("A file that may not be read.\n")
    refuse("/locked.md", "/born-locked.md")
    report = fetch(world)

    assert_ledger(world, report)
    assert {k: report.counts[k] for k in raw_blobs.LEDGER} == {
        "discovered": 9,
        "fetched": 3,  # edited, new, and the renamed file under its new name
        "not_modified": 1,
        "skipped": 3,  # two too large, one tombstoned
        "failed": 2,
        "removed": 2,  # what is gone, and the old name
    }
    assert letters(world) == {
        "grown.md": ("E_TOO_LARGE", "skipped"),
        "born-large.md": ("E_TOO_LARGE", "skipped"),
        # Of what was deleted on purpose nothing is written down but the id.
        deleted: ("E_TOMBSTONED", "skipped"),
        "locked.md": ("E_UNREADABLE", "failed"),
        "born-locked.md": ("E_UNREADABLE", "failed"),
    }
    # Of what is too large, only that is a problem of which earlier bytes are served.
    assert [(p["code"], p["item"]) for p in report.problems] == [
        ("E_UNREADABLE", "born-locked.md"),
        ("E_TOO_LARGE", "grown.md"),
        ("E_UNREADABLE", "locked.md"),
    ]
    # What was seen but not read keeps its last known bytes.
    assert present(world) >= {"grown.md", "locked.md"}
    assert not {"born-large.md", "born-locked.md", "gone.md", "old-name.md"} & present(world)

    refuse()
    for name in ("grown.md", "born-large.md"):
        (path / name).write_text(f"{name} is small now.\n")
    report = fetch(world)
    assert_ledger(world, report)
    assert report.counts["failed"] == 0 and set(letters(world)) == {deleted}


def test_a_path_that_is_too_long_is_skipped_and_shown_shortened(world: World) -> None:
    path = world.source(SOURCE, include=["**/*.md"])
    (path / "short.md").write_text("Read.\n")
    deep = path
    while len(os.fsencode(deep.relative_to(path))) <= raw_blobs.MAX_PATH_BYTES:
        deep /= "d" * 200
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("Not read.\n")
    report = fetch(world)
    assert_ledger(world, report)
    assert (report.counts["fetched"], report.counts["skipped"]) == (1, 1) and present(world) == {"short.md"}
    ((item, letter),) = letters(world).items()
    assert letter == ("E_TOO_LARGE", "skipped") and len(item) < 300


def test_equal_bytes_under_another_path_store_no_blob(world: World) -> None:
    path = world.source(SOURCE)
    write(path, 3)
    first = fetch(world)
    stored = blobs(world)
    assert first.counts["new_blobs"] == len(stored) == 3 and first.bytes > 0
    shutil.copy(path / "00.md", path / "copy.md")
    (path / "01.md").rename(path / "moved.md")
    second = fetch(world)
    assert_ledger(world, second)
    assert (second.counts["fetched"], second.counts["new_blobs"], second.bytes) == (2, 0, 0)
    assert blobs(world) == stored and second.counts["removed"] == 1
    located = world.workspace.catalog.locators.of_source(NS, SOURCE)
    assert located["copy.md"].sha256 == located["00.md"].sha256
    # A document is identified by its path, not by its bytes.
    assert len({x.doc_id for x in located.values()}) == len(located) == 4


def test_an_incomplete_enumeration_deletes_nothing(world: World, refuse: Callable[..., None]) -> None:
    path = world.source(SOURCE)
    (path / "sub").mkdir()
    (path / "sub" / "inner.md").write_text("Inside.\n")
    write(path, 3)
    fetch(world)
    (path / "00.md").unlink()
    (path / "new.md").write_text("Additions go on.\n")
    before = present(world)
    refuse("/sub")
    report = fetch(world)
    assert_ledger(world, report)
    assert report.counts["removed"] == 0 and present(world) == before | {"new.md"}
    assert [p["item"] for p in report.problems] == ["sub", SOURCE]
    assert "not complete" in report.problems[-1]["message"]
    assert not world.workspace.catalog.jobs.find(NS, SOURCE)[0]["complete"]

    refuse()
    assert fetch(world).counts["removed"] == 1
    assert present(world) == before - {"00.md"} | {"new.md"}


@pytest.mark.parametrize(
    ("count", "unlinked", "moved", "held"),
    [
        pytest.param(20, 11, 0, 11, id="more than ten and more than half"),
        pytest.param(20, 10, 0, None, id="not more than ten"),
        pytest.param(22, 11, 0, None, id="not more than half"),
        pytest.param(20, 0, 20, None, id="all of them moved"),
        pytest.param(20, 10, 10, None, id="what moved does not count"),
        pytest.param(20, 11, 9, 11, id="what did not move counts"),
        pytest.param(3, 3, 0, 3, id="all of a few"),
    ],
)
def test_a_mass_deletion_is_held_until_it_is_confirmed(
    world: World, count: int, unlinked: int, moved: int, held: int | None
) -> None:
    path = world.source(SOURCE)
    write(path, count)
    fetch(world)
    before = present(world)
    files = sorted(path.iterdir())
    (path / "sub").mkdir()
    for file in files[:unlinked]:
        file.unlink()
    for file in files[unlinked : unlinked + moved]:
        file.rename(path / "sub" / file.name)
    left = {str(f.relative_to(path)) for f in path.rglob("*.md")}

    report = fetch(world)
    assert_ledger(world, report)
    if held is None:
        assert report.held == [] and report.counts["removed"] == unlinked + moved and present(world) == left
        return
    assert [(h["code"], h["deletions"]) for h in report.held] == [("E_MASS_DELETE", held)]
    assert f"taboot ingest {SOURCE} --confirm-deletes" in report.held[0]["remedy"]
    # Nothing goes, what moved included; what is new has come in.
    assert report.counts["removed"] == 0 and present(world) == before | left
    assert [h["code"] for h in fetch(world).held] == ["E_MASS_DELETE"], "said again until it is confirmed"
    confirmed = fetch(world, confirm_deletes=True)
    assert_ledger(world, confirmed)
    assert confirmed.held == [] and confirmed.counts["removed"] == unlinked + moved
    assert present(world) == left


def test_each_reappearance_counts_for_one_deletion(world: World) -> None:
    path = world.source(SOURCE)
    for i in range(12):
        (path / f"stub{i:02}.md").write_text("The same stub everywhere.\n")
    (path / "other.md").write_text("Another text.\n")
    fetch(world)
    for i in range(12):
        (path / f"stub{i:02}.md").unlink()
    (path / "again.md").write_text("The same stub everywhere.\n")
    assert [h["deletions"] for h in fetch(world).held] == [11]


def test_an_unchanged_run_changes_neither_the_pointer_nor_the_fetch_log(world: World) -> None:
    path = world.source(SOURCE)
    write(path, 5)
    first = fetch(world)
    log, published, located = (
        fetch_log(world),
        pointer(world),
        world.workspace.catalog.locators.of_source(NS, SOURCE),
    )
    assert Counter(event for _, event, _ in log) == {"fetched": 5}
    for file in path.iterdir():
        os.utime(file, (1, 1))  # other times, the same bytes
    second = fetch(world)
    assert_ledger(world, second)
    assert second.counts["not_modified"] == second.counts["discovered"] == 5
    assert fetch_log(world) == log and pointer(world) == published
    assert second.data_version == first.data_version
    assert world.workspace.catalog.locators.of_source(NS, SOURCE) == located

    (path / "00.md").write_text("Edited.\n")
    (path / "01.md").unlink()
    third = fetch(world)
    assert fetch_log(world)[len(log) :] == [
        ("00.md", "fetched", ids.sha256_hex(b"Edited.\n")),
        ("01.md", "absent", None),
    ]
    assert pointer(world) != published and third.data_version != first.data_version


def test_a_source_that_is_retiring_gives_up_its_locators_and_keeps_its_blobs(world: World) -> None:
    path = world.source(SOURCE)
    write(path, 12)
    other = world.source("other")
    write(other, 1)
    fetch(world)
    stored, published = blobs(world), pointer(world)
    world.remove_source(SOURCE)
    # Its directory need not be there any more; that all of it goes is for a person to confirm.
    shutil.rmtree(path)
    for _ in range(2):
        report = fetch(world)
        assert report.counts["held"] == report.counts["present"] == 12 and report.counts["removed"] == 0
        (why,) = report.held
        assert why["code"] == "E_MASS_DELETE" and "has left the sources file" in why["message"]
        assert present(world) and pointer(world) == published
    job = world.workspace.catalog.jobs.find(NS, SOURCE)[0]
    assert (job["state"], job["removed"], job["held"]) == ("succeeded", 0, 12)

    report = fetch(world, confirm_deletes=True)
    assert report.held == [] and report.counts["removed"] == 12 and report.counts["present"] == 0
    assert present(world) == set() and blobs(world) == stored
    assert Counter(event for _, event, _ in fetch_log(world)) == {"fetched": 12, "absent": 12}
    assert pointer(world) != published
    job = world.workspace.catalog.jobs.find(NS, SOURCE)[0]
    assert (job["state"], job["discovered"], job["complete"]) == ("succeeded", 0, 1)

    assert fetch(world).counts["removed"] == 0, "a second run finds nothing left to retire"
    write(world.source(SOURCE), 12)
    report = fetch(world)
    assert report.counts["fetched"] == report.counts["present"] == 12 and report.counts["new_blobs"] == 0


def test_a_source_that_cannot_be_enumerated_fails_and_keeps_what_is_known(world: World) -> None:
    path = world.source(SOURCE)
    write(path, 2)
    fetch(world)
    published = pointer(world)
    path.rename(world.root / "elsewhere")
    with pytest.raises(TabootError) as caught:
        fetch(world)
    assert caught.value.code == "E_PATH"
    job = world.workspace.catalog.jobs.find(NS, SOURCE)[0]
    assert job["state"] == "failed" and json.loads(job["error"])["error"]["code"] == "E_PATH"
    assert len(present(world)) == 2 and pointer(world) == published


def documents(world: World) -> set[str]:
    return {Path(url).name for url in world.kb().documents().column("url").to_pylist()}


@pytest.mark.parametrize("how", ["a link out of the root", "a pipe", "a socket", "a link to itself"])
def test_what_is_put_in_a_files_place_and_is_not_read_is_absent(
    world: World, how: str, tmp_path: Path
) -> None:
    """Outside of the source is absent: the old bytes are not served for ever."""
    path = world.source("notes")
    for i in range(4):
        (path / f"{i}.md").write_text(f"Note {i} of four.\n")
    world.ingest()
    (path / "1.md").unlink()
    match how:
        case "a link out of the root":
            (tmp_path / "elsewhere.md").write_text("Not of this source.\n")
            (path / "1.md").symlink_to(tmp_path / "elsewhere.md")
        case "a pipe":
            os.mkfifo(path / "1.md")
        case "a socket":
            here = os.getcwd()
            with socket.socket(socket.AF_UNIX) as server:
                os.chdir(path)
                server.bind("1.md")
                os.chdir(here)
        case _:
            (path / "1.md").symlink_to("1.md")
    report = world.ingest()[0]
    assert report.counts["removed"] == 1 and report.counts["skipped"] == 1 and not report.held
    assert documents(world) == {"0.md", "2.md", "3.md"}
    (path / "1.md").unlink()
    (path / "1.md").write_text("Note 1 is back.\n")
    world.ingest()
    assert documents(world) == {f"{i}.md" for i in range(4)}


def test_a_file_that_has_grown_over_the_limit_is_reported_as_stale(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url, limits={"max_blob_bytes": 1000})
    path = world.source("notes")
    (path / "a.md").write_text("A short note.\n")
    (path / "b.md").write_text("Another note.\n")
    (path / "c.md").write_text("c" * 2000)
    world.ingest()
    (path / "a.md").write_text("A long note. " * 200)
    report = world.ingest()[0]
    assert (
        report.counts["stale"] == 1 and report.counts["removed"] == 0 and documents(world) == {"a.md", "b.md"}
    )
    (problem,) = report.problems
    assert (problem["code"], problem["item"]) == ("E_TOO_LARGE", "a.md") and "are served until" in problem[
        "message"
    ]
    letters = {d["item"]: d["message"] for d in world.workspace.catalog.dead_letters.find("default", "notes")}
    assert letters["a.md"] == problem["message"] and "served" not in letters["c.md"]
    world.workspace.close()


def test_pages_beyond_a_lowered_limit_are_absent(world: World) -> None:
    with serve(
        lambda h: send(h, 200, f"The page {h.path} of the site.".encode(), content_type="text/plain")
    ) as site:
        urls = [f"{site.base}/{i}.txt" for i in range(6)]
        world.source("site", "web", urls=urls, allow_cidrs=["127.0.0.0/8"], max_pages=6, path=None)
        world.ingest()
        assert world.kb().documents().num_rows == 6
        world.source("site", "web", urls=urls, allow_cidrs=["127.0.0.0/8"], max_pages=4, path=None)
        report = world.ingest()[0]
    assert report.counts["removed"] == 2 and world.kb().documents().num_rows == 4


def test_files_that_moved_while_deletions_are_held_have_still_moved(world: World) -> None:
    path = world.source("many")
    for i in range(30):
        (path / f"{i}.md").write_text(f"Document number {i} of many.\n")
    world.ingest()
    (path / "sub").mkdir()
    for i in range(30):
        if i < 8:
            (path / f"{i}.md").rename(path / "sub" / f"{i}.md")
        elif i < 28:
            (path / f"{i}.md").unlink()
    for _ in range(3):
        (held,) = world.ingest()[0].held
        assert held["deletions"] == 20
    world.ingest(confirm_deletes=True)
    assert len(documents(world)) == 10


def test_a_file_is_read_again_only_if_it_may_have_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.source(SOURCE)
    for i in range(5):
        (path / f"{i}.md").write_text(f"Note {i}: first\n")
    really_open, opened = os.open, []

    def counting(name: Any, *args: Any, **kwargs: Any) -> int:
        if str(name).endswith(".md"):
            opened.append(Path(name).name)
        return really_open(name, *args, **kwargs)

    monkeypatch.setattr("taboot_pipelines.connectors.walk.os.open", counting)
    # Files that were written this moment are read again: they might have changed within a tick of the clock.
    fetch(world)
    time.sleep(2.1)
    fetch(world)
    opened.clear()
    report = fetch(world)
    assert opened == [] and report.counts["not_modified"] == 5
    # The same length and the same date: only the time of the last change tells.
    before = (path / "1.md").stat()
    (path / "1.md").write_text("Note 1: other\n")
    os.utime(path / "1.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    # Put in place by a rename, with the date of the old one.
    (path / "new").write_text("Note 2: other\n")
    os.utime(path / "new", ns=(before.st_atime_ns, (path / "2.md").stat().st_mtime_ns))
    (path / "new").rename(path / "2.md")
    report = fetch(world)
    assert sorted(opened) == ["1.md", "2.md"] and report.counts["fetched"] == 2
    assert_ledger(world, report)


@pytest.mark.parametrize("edited", [1, 5, 60])
def test_of_few_changes_only_their_locators_are_read(
    world: World, monkeypatch: pytest.MonkeyPatch, edited: int
) -> None:
    path = world.source(SOURCE)
    for i in range(80):
        (path / f"{i}.md").write_text(f"Note {i}: first\n")
    fetch(world)
    time.sleep(2.1)
    fetch(world)
    for i in range(edited):
        (path / f"{i}.md").write_text(f"Note {i}: second\n")
    (path / "79.md").unlink()
    read: list[str] = []
    for name in ("of_source", "at"):
        real = getattr(Locators, name)

        def counting(self: Locators, *args: Any, _name: str = name, _real: Any = real) -> Any:
            read.append(_name)
            return _real(self, *args)

        monkeypatch.setattr(Locators, name, counting)
    counts = fetch(world).counts
    assert (counts["fetched"], counts["not_modified"], counts["removed"]) == (edited, 79 - edited, 1)
    assert ("of_source" in read) == (edited > 16) and len(read) <= 18
