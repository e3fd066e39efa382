"""A file is hashed once on a machine, and every time that it may have changed since."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import ShardSettings
from taboot_pipelines.shards import files
from taboot_pipelines.shards.cache import LocalCache
from taboot_pipelines.shards.directory import DirectoryShards
from taboot_pipelines.shards.files import Verified, file_entry, hash_open
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.shards.publish import publish
from taboot_pipelines.shards.reader import Shards, verify
from taboot_pipelines_tests.shards.builder import NAMESPACE, Doc, World
from taboot_pipelines_tests.shards.searching import search_path


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is a minute ahead: what was just written counts as written long ago."""
    now = time.time_ns
    monkeypatch.setattr(files.time, "time_ns", lambda: now() + 60_000_000_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.f32"
    path.write_bytes(b"first bytes")
    return path


def hashed(memory: Path | None, path: Path, expected: files.FileEntry) -> tuple[bool, int]:
    """Whether a new process finds the file right, and how often it hashes it."""
    verified, calls = Verified(memory), []
    with path.open("rb") as f:
        right = verified.matches(path, f, expected, lambda: calls.append(1) or hash_open(f))
    verified.keep()
    return right, len(calls)


def test_a_second_process_does_not_hash_what_has_not_changed(tmp_path, file):
    memory, expected = tmp_path / "cache" / "verified.json", file_entry(file)
    assert hashed(memory, file, expected) == (True, 1)
    assert hashed(memory, file, expected) == (True, 0)
    # What has another path, or should be something else, is another matter.
    os.link(file, tmp_path / "other")
    assert hashed(memory, tmp_path / "other", expected)[1] == 1
    assert hashed(memory, file, _other(expected)) == (False, 1)
    assert [p.name for p in memory.parent.iterdir()] == ["verified.json"]


def _other(expected: files.FileEntry) -> files.FileEntry:
    return expected.model_copy(update={"sha256": "0" * 64})


def test_changed_bytes_of_equal_size_are_seen_though_the_time_was_set_back(tmp_path, file):
    memory, expected, before = tmp_path / "verified.json", file_entry(file), file.stat()
    kept = Verified(memory)
    assert kept.holds(file, expected)
    kept.keep()
    with file.open("r+b") as f:
        f.write(b"other bytes")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert not kept.holds(file, expected), "by the process that had hashed it"
    assert hashed(memory, file, expected) == (False, 1)
    # Put right again, it is hashed again: what was known of it is gone.
    file.write_bytes(b"first bytes")
    assert hashed(memory, file, expected) == (True, 1)


def test_what_was_written_a_moment_ago_is_not_trusted(tmp_path, file, monkeypatch):
    memory, expected = tmp_path / "verified.json", file_entry(file)
    at = file.stat().st_ctime_ns
    for seconds, times in ((1.9, 1), (1.9, 1), (2.1, 1), (2.1, 0), (1.9, 1), (-5, 1)):
        monkeypatch.setattr(files.time, "time_ns", lambda s=seconds: at + int(s * 1e9))
        assert hashed(memory, file, expected) == (True, times), seconds


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"[]", b'{"a": 1}', b'{"a": [1]}', b"\xff", b'{"vectors.f32": [1, 2, 3, 4, "x"]}']
)
def test_a_memory_that_cannot_be_read_counts_as_none(tmp_path, file, kept):
    memory, expected = tmp_path / "verified.json", file_entry(file)
    memory.write_bytes(kept)
    assert hashed(memory, file, expected) == (True, 1)
    assert hashed(memory, file, expected) == (True, 0)


def test_a_memory_that_cannot_be_written_is_done_without(tmp_path, file):
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    memory, expected = tmp_path / "cache" / "verified.json", file_entry(file)
    assert [hashed(memory, file, expected) for _ in range(2)] == [(True, 1), (True, 1)]


def test_processes_add_to_one_memory_and_files_that_are_gone_leave_it(tmp_path, file):
    memory, other = tmp_path / "verified.json", tmp_path / "chunks.arrow"
    other.write_bytes(b"more")
    first, second = Verified(memory), Verified(memory)
    assert first.holds(file, file_entry(file)) and second.holds(other, file_entry(other))
    first.keep()
    second.keep()
    assert hashed(memory, file, file_entry(file))[1] == hashed(memory, other, file_entry(other))[1] == 0
    other.unlink()
    third = tmp_path / "third"
    third.write_bytes(b"third")
    hashed(memory, third, file_entry(third))
    assert b"third" in memory.read_bytes() and b"chunks.arrow" not in memory.read_bytes()


def test_a_reader_hashes_no_shard_twice_and_an_audit_hashes_all(tmp_path, monkeypatch):
    store = DirectoryShards(tmp_path / "kb")
    publish(
        store, World([Doc(f"{i}.md", f"note {i}") for i in range(6)]).input(), ShardSettings(max_chunks=2)
    )
    manifest = load_manifest(store, NAMESPACE)
    assert manifest is not None

    def reader() -> DirectoryShards:
        verified = Verified(tmp_path / "cache" / "verified.json")
        return DirectoryShards(tmp_path / "kb", verified, LocalCache(tmp_path / "cache"))

    Shards.open(reader(), manifest).prepare()
    shard = Shards.open(reader(), manifest).documents[0]
    database, cached = shard.database(), search_path(reader(), manifest, 0)
    whole = cached.read_bytes()
    monkeypatch.setattr(files.Verified, "_trusts", _counting(asked := []))
    Shards.open(reader(), manifest).prepare()
    assert asked and all(asked)
    # Bits that change below the file system leave no trace: only who hashes everything sees them.
    for path in (cached, database):
        state = path.stat()
        path.chmod(0o600)
        with path.open("r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last ^ 1]))
        monkeypatch.setattr(files.os, "fstat", _pretending(path.stat().st_ino, state))
        Shards.open(reader(), manifest).prepare()
        if path == cached:
            verify(reader(), manifest)  # what is derived is made again by who needs it next
            assert not path.exists()
            Shards.open(reader(), manifest).prepare()
            assert path.read_bytes() == whole
    with pytest.raises(TabootError, match=r"shard-00000\.duckdb") as caught:
        verify(reader(), manifest)
    assert caught.value.code == "E_SHARD_CORRUPT"
    # From then on every process knows.
    with pytest.raises(TabootError, match=r"shard-00000\.duckdb"):
        Shards.open(reader(), manifest).documents[0].database()


def _counting(asked: list[bool]):
    trusts = files.Verified._trusts

    def counted(self, name, state):
        asked.append(trusts(self, name, state))
        return asked[-1]

    return counted


def _pretending(inode: int, state: os.stat_result):
    fstat = os.fstat
    return lambda fd: state if (now := fstat(fd)).st_ino == inode else now
