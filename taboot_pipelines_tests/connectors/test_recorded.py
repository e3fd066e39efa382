"""Folders of recorded files: containers and single items, what is remembered of them, and what is never lost.

The reader is the tests' own: a file that begins with ``LIST`` holds an item on each further line
(``name: text``), one with ``ONE`` is an item itself, and anything else is not of the type.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from taboot_pipelines.connectors.access import Access, HttpAccess, MemoryState
from taboot_pipelines.connectors.entries import RecordedSource
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import (
    Checkpoint,
    Enumerated,
    Event,
    Failed,
    Fetched,
    Known,
    Skipped,
    Unchanged,
)
from taboot_pipelines.settings import HttpSettings

LIMIT = 200


class Lines:
    """The reader. ``during(path)`` runs before the last line of a file is read."""

    def __init__(self) -> None:
        self.version = "1"
        self.opened: list[str] = []
        self.during: Callable[[str], None] = lambda _: None

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        self.opened.append(file.path)
        head = file.stream.readline().strip()
        if head == b"ONE":
            file.stream.seek(0)
            yield Part(file.read(), mime="text/plain")
        elif head == b"LIST":
            for line in file.stream:
                name, colon, text = line.decode().strip().partition(": ")
                if name == "BUG":
                    raise ValueError(text)
                if not colon:
                    raise TabootError("E_PARSE", "A line lacks its colon.")
                yield Part(text.encode(), name)
            self.during(file.path)
        else:
            raise TabootError("E_MIME", f"{file.path} is none of ours.")


class Folder:
    """A folder with what a catalog would know of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.reader, self.state = root, Lines(), MemoryState()
        self.known: dict[str, Known] = {}
        self.stored: dict[str, bytes] = {}
        self.tombstones: set[str] = set()

    def write(self, path: str, *lines: str, old: bool = True) -> None:
        file = self.root / path
        file.write_text("\n".join(lines))
        # Written long ago: a file of this moment is read again (its times do not tell its bytes).
        self.age = getattr(self, "age", 0) + 1
        if old:
            os.utime(file, (self.age, self.age))

    def events(self, stop_after: int | None = None) -> list[Event]:
        """One run, killed after ``stop_after`` events: what it told until then is stored."""
        entry = RecordedSource(id="x", type="x", path=str(self.root))
        access = Access(
            root=self.root,
            home=self.root / ".home",
            max_blob_bytes=LIMIT,
            http=HttpAccess(HttpSettings()),
            state=self.state,
        )
        connector = RecordedFiles(entry, access, self.reader, default_include=("*.txt",))
        self.reader.opened = []
        told: list[Event] = []
        seen: set[str] = set()
        for event in connector.events(dict(self.known), self.tombstones.__contains__):
            if stop_after is not None and len(told) == stop_after:
                break
            told.append(event)
            match event:
                case Fetched():
                    seen.add(event.path)
                    self.known[event.path] = Known("", event.etag)
                    self.stored[event.path] = event.data
                case Unchanged():
                    seen.update(event.roles)
                case Skipped() if not event.outside:
                    seen.add(event.path)
                case Failed():
                    seen.add(event.path)
                case Enumerated(complete=True):
                    for path in self.known.keys() - seen:
                        del self.known[path], self.stored[path]
                case _:
                    pass
        return told

    def texts(self) -> dict[str, str]:
        return {path: data.decode() for path, data in sorted(self.stored.items())}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    # The time of a file's last change cannot be set back, so here every file counts as written long ago.
    monkeypatch.setattr("taboot_pipelines.connectors.recorded.settled", lambda info, begun: True)
    return Folder(tmp_path)


def codes(events: Collection[Event]) -> list[tuple[str, str]]:
    return [(e.path, e.code) for e in events if isinstance(e, Skipped)] + [
        (e.path, e.error.code) for e in events if isinstance(e, Failed)
    ]


def test_containers_and_items_are_read_once(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.write("one.txt", "ONE", "alone")
    folder.write("other.txt", "else")
    folder.write("left.md", "ONE")
    first = folder.events()
    assert folder.texts() == {"box.txt#a": "first", "box.txt#b": "second", "one.txt": "ONE\nalone"}
    assert codes(first) == [("other.txt", "E_MIME")] and first[-1] == Enumerated(True, "")
    second = folder.events()
    assert folder.reader.opened == [] and codes(second) == codes(first)
    told = {path for e in second if isinstance(e, Unchanged) for path in e.roles}
    assert told == set(folder.texts()) and not any(isinstance(e, Fetched) for e in second)


def test_what_a_container_no_longer_holds_is_gone(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.events()
    folder.write("box.txt", "LIST", "b: second")
    folder.events()
    assert folder.texts() == {"box.txt#b": "second"}
    folder.events()
    folder.events()
    assert folder.reader.opened == []
    (folder.root / "box.txt").unlink()
    folder.events()
    assert folder.texts() == {}


@pytest.mark.parametrize("line", ["no colon", "BUG: secret-of-the-file"])
def test_a_container_that_breaks_off_deletes_nothing(folder: Folder, line: str) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.write("one.txt", "ONE")
    folder.events()
    folder.write("box.txt", "LIST", "a: changed", line)
    (folder.root / "one.txt").unlink()
    told = folder.events()
    assert folder.texts() == {"box.txt#a": "changed", "box.txt#b": "second", "one.txt": "ONE"}
    assert codes(told) == [("box.txt", "E_PARSE")] and "secret" not in str(told)
    assert isinstance(told[-1], Enumerated) and not told[-1].complete
    folder.events()
    assert folder.reader.opened == ["box.txt"]  # until it can be read to its end
    folder.write("box.txt", "LIST", "a: changed")
    folder.events()
    assert folder.texts() == {"box.txt#a": "changed"}


def test_a_part_that_vanished_beside_a_broken_file_goes_as_soon_as_it_can(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.write("odd.txt", "LIST", "c: third")
    folder.events()
    folder.write("box.txt", "LIST", "a: first")
    folder.write("odd.txt", "LIST", "no colon")
    folder.events()
    assert "box.txt#b" in folder.texts()
    folder.write("odd.txt", "LIST", "c: third")
    folder.events()
    assert folder.texts() == {"box.txt#a": "first", "odd.txt#c": "third"}


def test_a_file_that_turns_unreadable_or_too_large_keeps_its_parts(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first")
    folder.write("one.txt", "ONE")
    folder.events()
    folder.write("one.txt", "ONE", "x" * LIMIT)
    told = folder.events()
    assert codes(told) == [("one.txt", "E_TOO_LARGE")] and "one.txt" in folder.texts()
    assert codes(folder.events()) == [("one.txt", "E_TOO_LARGE")] and folder.reader.opened == []
    box = folder.root / "box.txt"
    box.unlink()
    box.mkdir()  # no file at all: nothing is known to be unreadable
    folder.events()
    assert "box.txt#a" not in folder.texts()


def test_a_container_whose_reader_calls_it_too_large_keeps_its_parts(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first")
    folder.events()
    folder.write("box.txt", "LIST", "a: first", "b: second")
    real = folder.reader.__class__.__call__

    def refuse(self: Lines, file: RecordedFile) -> Iterator[Part]:
        raise TabootError("E_TOO_LARGE", "The container is too large.")
        yield

    Lines.__call__ = refuse
    try:
        assert codes(folder.events()) == [("box.txt", "E_TOO_LARGE")]
    finally:
        Lines.__call__ = real
    assert folder.texts() == {"box.txt#a": "first"}
    folder.events()
    assert folder.texts() == {"box.txt#a": "first", "box.txt#b": "second"}


def test_duplicates_and_large_parts_are_told_each_time(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "a: again", "big: " + "x" * (LIMIT + 1))
    folder.write("one.txt", "ONE")
    folder.write("one.txt#p.txt", "ONE")
    folder.write("two.txt", "LIST", "p.txt: fine")
    folder.write("one.txt", "LIST", "p.txt: has the name of a file")
    expected = {
        ("box.txt#a", "E_CONFLICT"),
        ("box.txt#big", "E_TOO_LARGE"),
        ("one.txt#p.txt", "E_CONFLICT"),
    }
    for _ in range(3):
        assert set(codes(folder.events())) == expected
        assert folder.texts() == {"box.txt#a": "first", "one.txt#p.txt": "ONE", "two.txt#p.txt": "fine"}
    assert folder.reader.opened == []


def test_a_file_that_grows_while_it_is_read_is_read_again(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.events()
    folder.write("box.txt", "LIST", "a: first")
    folder.reader.during = lambda path: folder.write(path, "LIST", "a: first", "b: second", "c: third")
    told = folder.events()
    assert not told[-1].complete and "box.txt#b" in folder.texts()
    folder.reader.during = lambda _: None
    folder.events()
    assert set(folder.texts()) == {"box.txt#a", "box.txt#b", "box.txt#c"}


def test_an_emptied_file_that_is_being_written_deletes_nothing(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first")
    folder.events()
    folder.write("box.txt", "LIST")
    folder.reader.during = lambda path: folder.write(path, "LIST", "a: first")
    told = folder.events()
    assert not told[-1].complete and folder.texts() == {"box.txt#a": "first"}


def test_tombstones_hold_and_are_lifted(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.events()
    folder.tombstones.add("box.txt#a")
    del folder.known["box.txt#a"], folder.stored["box.txt#a"]
    assert codes(folder.events()) == [("box.txt#a", "E_TOMBSTONED")]
    folder.events()
    assert folder.reader.opened == [] and folder.texts() == {"box.txt#b": "second"}
    assert "#a" not in str(folder.state.load("files"))  # its name may be what was erased
    folder.tombstones.clear()
    folder.state = MemoryState()  # as `restore` forgets it
    folder.events()
    assert set(folder.texts()) == {"box.txt#a", "box.txt#b"}


def test_a_part_that_could_not_be_stored_is_read_again(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first", "b: second")
    folder.events()
    del folder.known["box.txt#a"], folder.stored["box.txt#a"]  # the blob store was full
    folder.events()
    assert set(folder.texts()) == {"box.txt#a", "box.txt#b"}


def test_a_new_version_of_the_reader_reads_everything_once(folder: Folder) -> None:
    folder.write("box.txt", "LIST", "a: first")
    folder.write("one.txt", "ONE")
    folder.write("other.txt", "else")
    folder.events()
    folder.reader.version = "2"
    folder.events()
    assert folder.reader.opened == ["box.txt", "one.txt", "other.txt"]
    folder.events()
    assert folder.reader.opened == []


def test_killed_runs_lose_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taboot_pipelines.connectors.recorded._CHECKPOINT_FILES", 2)
    chance = random.Random(3)
    expected: dict[str, str] = {}
    for round_ in range(40):
        for number in range(4):
            if chance.random() < 0.5:
                path = f"{number}.txt"
                expected = {p: t for p, t in expected.items() if not p.startswith(path)}
                if chance.random() < 0.3:
                    (folder.root / path).unlink(missing_ok=True)
                elif chance.random() < 0.3:
                    folder.write(path, "ONE", str(round_))
                    expected[path] = f"ONE\n{round_}"
                else:
                    parts = {f"p{n}": f"{round_}-{n}" for n in range(chance.randrange(4))}
                    folder.write(path, "LIST", *(f"{k}: {v}" for k, v in parts.items()))
                    expected |= {f"{path}#{k}": v for k, v in parts.items()}
        for _ in range(chance.randrange(3)):
            folder.events(stop_after=chance.randrange(8))
        folder.events()
        assert folder.texts() == dict(sorted(expected.items())), round_
        if chance.random() < 0.3:
            folder.events()
            told = folder.events()
            assert folder.reader.opened == [] and not any(isinstance(e, Fetched | Checkpoint) for e in told)
