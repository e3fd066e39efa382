"""What a home holds is for its owner: folders and files lose the rights of everybody else, and it is said."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines_tests.world import World


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_home(tmp_path: Path) -> Path:
    """A home that was made by hand, as ``mkdir`` makes it, with files of an earlier release."""
    home = tmp_path / "home"
    (home / "dagster").mkdir(parents=True)
    for name in ("catalog.db", "answers.db"):
        (home / name).touch()
        (home / name).chmod(0o644)
    for folder in (home, home / "dagster"):
        folder.chmod(0o755)
    return home


def test_a_home_that_all_users_may_read_is_closed_and_that_is_said_once(
    tmp_path: Path, open_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        world = World(tmp_path, None)
        (world.source("notes") / "a.md").write_text("# A\n\nThe door is locked at night by Jonas.\n")
        world.ingest()
        world.kb().answer("Who locks the door?")
        with open_instance(world.workspace.settings):
            pass
        world.workspace.close()
    assert mode(open_home) == mode(open_home / "dagster") == 0o700
    assert {p.name: mode(p) for p in open_home.glob("*.db*")} == dict.fromkeys(
        (p.name for p in open_home.glob("*.db*")), 0o600
    )
    told = [r.getMessage() for r in caplog.records if str(open_home) in r.getMessage()]
    assert [m for m in told if "it is 700 now" in m] == told
    assert len([m for m in told if f"{open_home} " in m]) == 1


def test_files_are_closed_where_the_home_is_not_ours_to_close(
    tmp_path: Path, open_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chmod = Path.chmod

    def refused(path: Path, wanted: int) -> None:
        if path.is_dir():
            raise PermissionError(1, "Operation not permitted")
        chmod(path, wanted)

    monkeypatch.setattr(Path, "chmod", refused)
    world = World(tmp_path, None)
    world.source("notes")
    world.workspace.sync_sources()
    assert mode(open_home / "catalog.db") == 0o600 and mode(open_home) == 0o755
    assert any("`chmod 700` it" in r.getMessage() for r in caplog.records)


def test_what_is_granted_to_a_group_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o770)
    World(tmp_path, None).workspace.close()
    assert mode(home) == 0o770
