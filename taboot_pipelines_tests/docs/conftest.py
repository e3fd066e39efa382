"""The homelab, ingested once for everything that the pages promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests import servers

ROOT = Path(__file__).parents[2]


SOURCES = ROOT / "examples" / "homelab" / "sources.yaml"


@pytest.fixture(scope="session")
def ingested() -> Path:
    """A home with examples/homelab in it, read by the bundled model: one for all workers, to be read only."""

    def make(home: Path) -> None:
        workspace = Workspace(load_settings(home=home, sources=SOURCES))
        for source in workspace.sync_sources().entries:
            run_chain(workspace, source)
        workspace.close()

    return servers.RUN.once("homelab", make)


@pytest.fixture
def homelab(ingested: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That home, named by the environment."""
    monkeypatch.setenv("TABOOT_HOME", str(ingested))
    monkeypatch.setenv("TABOOT_SOURCES", str(SOURCES))
    return ingested
