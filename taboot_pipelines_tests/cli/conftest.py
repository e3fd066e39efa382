"""The example homelab as the command line sees it, taken in once for all tests that leave it as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
import yaml

from taboot_pipelines_tests import dagster_storage  # noqa: F401
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.needs import HOMELAB
from taboot_pipelines_tests.world import Kept, World, homelab_home


@pytest.fixture(scope="package")
def homelab(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The example homelab, taken in with the bundled model: a home of its own, the sources in place."""
    root = tmp_path_factory.mktemp("homelab")
    shutil.copytree(homelab_home(), root / "home")
    world = World(root, "http://127.0.0.1:9", directory=HOMELAB)
    made = Shell(world)
    del made.environment["TABOOT_TEI__URL"]
    return made


@pytest.fixture(scope="session")
def taken_in(tmp_path_factory: pytest.TempPathFactory, tei: FakeTei) -> Kept:
    world = World(tmp_path_factory.mktemp("taken-in"), tei.url)
    shutil.copytree(HOMELAB, world.directory, dirs_exist_ok=True)
    world.entries = yaml.safe_load((HOMELAB / "sources.yaml").read_text())["sources"]
    world.ingest()
    return Kept(world)


@pytest.fixture
def lab(taken_in: Kept) -> Iterator[Shell]:
    """The example homelab, taken in with the fake embedder, to do with as one likes."""
    world = taken_in.put_back()
    yield Shell(world)
    world.workspace.close()
