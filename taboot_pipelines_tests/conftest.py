"""Fixtures of all tests: the real data in place, a world to run the chain in, one fake embedding server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, settings
from sqlalchemy.util import LRUCache

from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.needs import DATA

# Names that pytest finds here are fixtures of every test.
from taboot_pipelines_tests.servers import neo4j_url, postgres, redis_url, s3  # noqa: F401

# … or hooks of every run.
from taboot_pipelines_tests.workers import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_make_parametrize_id,
    pytest_runtest_protocol,
    pytest_terminal_summary,
    pytest_unconfigure,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)

# JupyterLab brings a package for which jsonschema compiles 39 grammars as it is imported: three seconds, for
# formats that no schema here asks for.
sys.modules.setdefault("rfc3987_syntax", None)

# Fake models have no calibration: what they say is served unless a test says otherwise.
os.environ.setdefault("TABOOT_EXTRACTION__MIN_PRECISION", "0")

# An example takes as long as the machine needs for it; pytest's own time limit ends what hangs.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


class _Statements(LRUCache[Any, Any]):
    """What SQLAlchemy has compiled for SQLite, for whichever engine: a key begins with its dialect."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_statements, _create_engine = _Statements(2000), sqlalchemy.create_engine


def _engine_that_shares(*arguments: Any, **options: Any) -> sqlalchemy.Engine:
    """Make an engine; a process opens one for a home, and a test opens several homes, each of them anew."""
    engine = _create_engine(*arguments, **options)
    if engine.dialect.name == "sqlite":
        engine.update_execution_options(compiled_cache=_statements)
    return engine


sqlalchemy.create_engine = _engine_that_shares


@pytest.fixture(scope="session")
def data() -> Path:
    """The real data sets, read in place."""
    return DATA


@pytest.fixture(scope="session")
def tei() -> Iterator[FakeTei]:
    with FakeTei() as server:
        yield server


@pytest.fixture
def world(tmp_path: Path, tei: FakeTei):
    from taboot_pipelines_tests.world import World

    made = World(tmp_path, tei.url)
    yield made
    made.workspace.close()


@pytest.fixture
def shoot() -> Callable[..., None]:
    """Take a picture of a page, where somebody wants to look at them: into ``$TABOOT_TEST_SCREENSHOTS``."""
    folder = os.environ.get("TABOOT_TEST_SCREENSHOTS")

    def take(page: Any, name: str, *, full_page: bool = False) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=full_page)

    return take
