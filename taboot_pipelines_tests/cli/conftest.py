"""The example homelab as the command line sees it, taken in once for all tests that leave it as it was."""

from __future__ import annotations

import shutil

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.needs import HOMELAB
from taboot_pipelines_tests.world import World


@pytest.fixture(scope="package")
def homelab(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The example homelab, taken in with the bundled model."""
    world = World(tmp_path_factory.mktemp("homelab"), "http://127.0.0.1:9")
    shutil.copytree(HOMELAB, world.directory, dirs_exist_ok=True)
    made = Shell(world)
    del made.environment["TABOOT_TEI__URL"]
    assert made.json("ingest")["ok"]
    return made
