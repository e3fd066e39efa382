"""A world that was filled once, for many tests that each begin with it as it was then."""

from __future__ import annotations

import copy
import shutil

from taboot_pipelines_tests.world import World


class Kept:
    """A filled world, and a copy of all that lies under its root; to copy it back costs no ingest.

    It is put back at the same place, since a catalog names the directories of its sources. Hence it belongs
    to a module, whose tests run one after another.
    """

    def __init__(self, world: World) -> None:
        """Close the world and copy it."""
        world.workspace.close()
        self._root, self._entries = world.root, copy.deepcopy(world.entries)
        self._copy = world.root.with_name(f"{world.root.name}.kept")
        shutil.copytree(self._root, self._copy)

    def put_back(self, world: World) -> World:
        """Let a world that nothing has been done with be the one that was kept, opened by a new process."""
        world.workspace.close()
        shutil.rmtree(self._root)
        shutil.copytree(self._copy, self._root)
        world.root, world.home, world.directory = self._root, self._root / "home", self._root / "sources"
        world.entries = copy.deepcopy(self._entries)
        world.workspace = world.open(world.home)
        return world
