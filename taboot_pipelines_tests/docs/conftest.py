"""The homelab, ingested once for everything that the pages promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from taboot_pipelines_tests.world import homelab_home

ROOT = Path(__file__).parents[2]


SOURCES = ROOT / "examples" / "homelab" / "sources.yaml"


@pytest.fixture(scope="session")
def ingested() -> Path:
    """The homelab's home, one for all workers, to be read only."""
    return homelab_home()


@pytest.fixture
def homelab(ingested: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That home, named by the environment."""
    monkeypatch.setenv("TABOOT_HOME", str(ingested))
    monkeypatch.setenv("TABOOT_SOURCES", str(SOURCES))
    return ingested
