"""A disk that is full or read-only says so, is tried again, and nothing is lost when it has space again."""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.ingesting import TRANSIENT
from taboot_pipelines.stores.disk import refusal
from taboot_pipelines.stores.leases.files import FileLeases
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World, differences, graph, logical


class Disk:
    """A file system of its own in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def mount(self, options: str) -> None:
        _mount("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path))

    def remount(self, options: str) -> None:
        _mount("mount", "-o", f"remount,{options}", str(self.path))


def _mount(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a file system")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "home")
    try:
        yield made
    finally:
        if shutil.which("umount"):
            subprocess.run(["umount", "-l", str(made.path)], capture_output=True, check=False)


def fill(world: World, words: int = 20, padding: int = 0) -> None:
    """Thirty notes that say something so often, with so many lines of two kilobytes that say nothing."""
    folder = world.source("notes")
    for i in range(30):
        text = f"The service web{i} talks to db{i}.lan:5432 and http://h{i}.lan:80/x. "
        nothing = "".join(f"\n\n{f'nothing{j}' * 220}" for j in range(padding))
        (folder / f"n{i}.md").write_text(f"# Note {i}\n\n{text * words}{nothing}")


def assert_told(error: TabootError, home: Path) -> None:
    assert error.code == "E_STORAGE" and error.code in TRANSIENT, error
    where = error.details.get("path") or error.details.get("folder") or error.details.get("file")
    assert str(where).startswith(str(home)) and "space" in error.remedy, error


def assert_complete(world: World) -> None:
    """The home holds what a replay into an empty one gives."""
    held = logical(world.workspace)
    assert len(world.kb().documents()) == 30
    scratch = world.replay()
    other = world.open(scratch)
    try:
        assert not differences(held, logical(other))
    finally:
        other.close()
    assert graph(world.kb()) == graph(world.kb(home=scratch))


# Full in the catalog's making, in its rows, in tables of a source, in vectors, in tables of the namespace, in
# a shard's files, and in its database.
@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [4, 480, 760, 1300, 1500, 1900, 3000])
def test_a_full_disk_is_told_and_the_next_run_completes(
    disk: Disk, tmp_path: Path, tei: FakeTei, kilobytes: int
) -> None:
    disk.mount(f"size={kilobytes}k")
    world = None
    with pytest.raises(TabootError) as caught:
        world = World(tmp_path, tei.url)
        fill(world)
        world.ingest()
    assert_told(caught.value, disk.path)
    disk.remount("size=64m")
    if world is None:
        world = World(tmp_path, tei.url)
        fill(world)
    try:
        world.ingest()
        assert_complete(world)
    finally:
        world.workspace.close()


def test_blobs_that_find_no_space_are_fetched_by_the_next_run(
    disk: Disk, tmp_path: Path, tei: FakeTei
) -> None:
    disk.mount("size=600k")
    world = World(tmp_path, tei.url)
    try:
        fill(world, padding=10)
        with pytest.raises(TabootError) as caught:
            world.ingest()
        assert_told(caught.value, disk.path)
        # Some blobs found space, and nothing was made of them.
        assert 0 < sum(1 for p in (world.home / "blobs").rglob("*") if p.is_file()) < 30
        assert not (world.home / "tables").exists()
        disk.remount("size=64m")
        world.ingest()
        assert_complete(world)
    finally:
        world.workspace.close()


def test_a_disk_that_fills_later_keeps_what_is_served(disk: Disk, tmp_path: Path, tei: FakeTei) -> None:
    disk.mount("size=64m")
    world = World(tmp_path, tei.url)
    try:
        fill(world)
        world.ingest()
        before = graph(world.kb())
        ballast = disk.path / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as out:
            while True:
                out.write(b"x" * 4096)
        fill(world, words=30)
        with pytest.raises(TabootError) as caught:
            world.ingest()
        assert_told(caught.value, disk.path)
        assert graph(world.kb()) == before
        ballast.unlink()
        world.ingest()
        assert_complete(world)
    finally:
        world.workspace.close()


def test_a_limit_on_the_size_of_files_is_told(tmp_path: Path, tei: FakeTei) -> None:
    world = World(tmp_path, tei.url)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        fill(world)
        resource.setrlimit(resource.RLIMIT_FSIZE, (420_000, hard))
        try:
            with pytest.raises(TabootError) as caught:
                world.ingest()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.code == "E_STORAGE"
        world.ingest()
        assert_complete(world)
    finally:
        world.workspace.close()


def test_a_read_only_home_is_told(disk: Disk, tmp_path: Path, tei: FakeTei) -> None:
    disk.mount("size=8m")
    World(tmp_path, tei.url).workspace.close()
    disk.remount("ro")
    with pytest.raises(TabootError) as caught:
        world = World(tmp_path, tei.url)
        fill(world)
        world.ingest()
    assert caught.value.code == "E_STORAGE" and "read-only" in caught.value.message


def test_leases_on_a_disk_that_refuses(disk: Disk) -> None:
    disk.mount("size=8m,nr_inodes=3")
    leases = FileLeases(disk.path, 0)
    with leases.source("default", "a"):
        pass
    with pytest.raises(TabootError) as caught, leases.source("default", "b"):
        pass
    assert_told(caught.value, disk.path)
    # A lease whose file exists needs no space.
    (disk.path / "locks" / "default.source.a.lock").write_text("")
    with contextlib.suppress(OSError), (disk.path / "locks" / "default.source.a.lock").open("wb") as out:
        while True:
            out.write(b"x" * 4096)
    with leases.source("default", "a"):
        pass


def test_only_refusals_of_the_disk_count_as_such() -> None:
    assert refusal(FileNotFoundError(2, "No such file or directory")) is None
    assert refusal(ValueError("the table has 28 columns")) is None
    assert refusal(OSError(28, "No space left on device")) == 28
    assert refusal(RuntimeError("Unable to copy data: No space left on device (os error 28)")) == 28
    assert refusal(OSError("Error writing. Detail: [errno 122] Disk quota exceeded")) == 122
