"""Catalogs on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import Roles, empty, with_roles
from taboot_pipelines_tests.world import migrated

#: Opens the test's catalog, again and again: SQLite, or PostgreSQL as the application's role.
Opener = Callable[[], Catalog]


@pytest.fixture(scope="module")
def roles(request: pytest.FixtureRequest, postgres: PostgresServer) -> Roles:
    """A database with its roles for the tests of one module."""
    return with_roles(postgres, request.module.__name__.rpartition(".")[2].removeprefix("test_"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    url = admin = None
    if request.param == "postgresql":
        found: Roles = request.getfixturevalue("roles")
        url, admin = found.app, found.owner
        empty(found)
    else:
        # The tests of the migrations make theirs themselves.
        (tmp_path / "catalog.db").write_bytes(migrated())
    opened: list[Catalog] = []

    def open_again() -> Catalog:
        settings = Settings(home=tmp_path, catalog_url=url, catalog_admin_url=admin)
        opened.append(open_catalog(settings, open_leases(settings, 5)))
        return opened[-1]

    yield open_again
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(opener: Opener) -> Catalog:
    return opener()
