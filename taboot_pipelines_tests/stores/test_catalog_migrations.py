"""Migrations of the catalog on both databases: up, down, at once, by whom, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import taboot_pipelines.stores.catalog as package
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.crawls import (
    CrawlPlan,
    DoneUrl,
    FoundUrl,
    Fresh,
    LastAnswer,
    Listing,
    Outcome,
    url_id,
)
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.migrator import HEAD, REVISIONS
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import Roles, plain, with_roles

_NUMBER = count()


@pytest.fixture
def roles(postgres: PostgresServer) -> Roles:
    return with_roles(postgres, f"migrations_{next(_NUMBER)}")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def owned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Catalog, sa.Engine]]:
    """A catalog of which one role is owner and user, and an engine that sees all of it."""
    if request.param == "sqlite":
        url, seer = None, f"sqlite:///{tmp_path / 'catalog.db'}"
    else:
        made: Roles = request.getfixturevalue("roles")
        url, seer = made.owner, made.superuser
    catalog, engine = opened(tmp_path, url), sa.create_engine(seer)
    yield catalog, engine
    catalog.close()
    engine.dispose()


def opened(home: Path, url: str | None, admin: str | None = None) -> Catalog:
    return open_catalog(
        Settings(home=home, catalog_url=url, catalog_admin_url=admin),
        open_leases(Settings(home=home, catalog_url=url), 5),
    )


def revision(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        return found


def test_the_migrations_give_exactly_the_declared_schema(owned: tuple[Catalog, sa.Engine]) -> None:
    catalog, engine = owned
    catalog.blobs.all("n")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    config = Config()
    config.set_main_option("script_location", str(Path(package.__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_current_head() == HEAD and sorted(
        s.revision for s in scripts.walk_revisions()
    ) == list(REVISIONS)


def test_down_and_up_again_keeps_the_rows(owned: tuple[Catalog, sa.Engine], tmp_path: Path) -> None:
    catalog, engine = owned
    pointer = Pointer(stage="chunks", tables={"chunks": "7"}, inputs="in", txn="t", applied={"documents": 3})
    catalog.pointers.publish("n", "s", pointer)
    catalog.database.migrator.migrate("0001")
    assert revision(engine) == "0001"
    assert "state_value" not in sa.inspect(engine).get_table_names()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM pointer")).scalar() == 1
    url = (
        None
        if engine.dialect.name == "sqlite"
        else catalog.database.engine.url.render_as_string(hide_password=False)
    )
    again = opened(tmp_path, url)
    assert (
        again.pointers.get("n", "s", "chunks") == pointer
        and again.pointers.get("m", "s", "chunks") is None
        and revision(engine) == HEAD
    )
    again.database.migrator.migrate("base")
    assert set(sa.inspect(engine).get_table_names()) <= {"alembic_version", "sqlite_sequence"}
    again.close()


def test_urls_of_crawls_outlive_the_upgrade_from_each_revision(
    owned: tuple[Catalog, sa.Engine], tmp_path: Path
) -> None:
    """A crawl that was begun by the version before goes on, and its pages have no answer to be reused."""
    catalog, engine = owned
    plan = CrawlPlan(("http://h/",), 9, 100)
    crawl = catalog.crawls.begin("n", "s", plan)
    found = [FoundUrl(url_id(k), k, k, "h") for k in ("http://h/", "http://h/b")]
    frontier = catalog.crawls.frontier("n", crawl)
    frontier.add_roots(found, Listing())
    a, b = frontier.claim(9)
    fresh = Fresh(1, 1 << 60, 60)
    frontier.finish([DoneUrl(a, Outcome.FETCHED, canonical="http://h/c", fresh=fresh)], [])
    catalog.database.migrator.migrate("0004")
    columns = {c["name"] for c in sa.inspect(engine).get_columns("crawl_url")}
    assert not columns & {"canonical", "fresh_since", "fresh_until", "fresh_max_age"}
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM crawl_url")).scalar() == 2
    url = (
        None
        if engine.dialect.name == "sqlite"
        else catalog.database.engine.url.render_as_string(hide_password=False)
    )
    again = opened(tmp_path, url)
    assert again.crawls.begin("n", "s", plan).crawl_id == crawl.crawl_id and revision(engine) == HEAD
    frontier = again.crawls.frontier("n", crawl)
    frontier.reclaim(alone=True)
    (b,) = frontier.claim(9)
    frontier.finish([DoneUrl(b, Outcome.FETCHED, canonical="http://h/d", fresh=fresh)], [])
    frontier.end(complete=True)
    later = again.crawls.frontier("n", again.crawls.begin("n", "s", plan))
    assert later.last_answers([a.url_id, b.url_id]) == {
        a.url_id: LastAnswer(a.url, None, None),
        b.url_id: LastAnswer(b.url, "http://h/d", fresh),
    }
    assert again.crawls.frontier("m", later.crawl).last_answers([b.url_id]) == {}
    again.close()


def test_a_database_ahead_of_the_code_is_refused_in_words(
    owned: tuple[Catalog, sa.Engine], tmp_path: Path
) -> None:
    catalog, engine = owned
    catalog.blobs.all("n")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
    url = (
        None
        if engine.dialect.name == "sqlite"
        else catalog.database.engine.url.render_as_string(hide_password=False)
    )
    with pytest.raises(TabootError, match=r"E_CATALOG.*0099.*newer version"):
        opened(tmp_path, url).blobs.all("n")
    assert revision(engine) == "0099"


def test_opening_touches_no_network(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    catalog = opened(tmp_path, url, url)
    assert not catalog.health().ok
    catalog.close()


OPENING = """
import sys, pathlib
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases import open_leases
home, url, admin = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = Settings(home=home, catalog_url=url, catalog_admin_url=admin)
catalog = open_catalog(settings, open_leases(settings, 30))
print("ready", flush=True); sys.stdin.readline()
print(len(catalog.sources.find()), flush=True)
"""


def test_of_processes_that_migrate_at_once_one_does(roles: Roles, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(tmp_path), roles.app, roles.owner],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for p in processes:
        assert p.stdout is not None and p.stdout.readline() == "ready\n"
    for p in processes:
        assert p.stdin is not None
        p.stdin.write("\n")
        p.stdin.flush()
    assert [p.communicate(timeout=300)[0].strip() for p in processes] == ["0"] * 3
    assert [p.returncode for p in processes] == [0] * 3


def test_the_application_neither_migrates_nor_owns(roles: Roles, tmp_path: Path) -> None:
    """Without the owner's URL it says whose turn it is; with it once, it works on without."""
    with pytest.raises(TabootError, match=r"E_CATALOG.*insufficient privilege.*TABOOT_CATALOG_ADMIN_URL"):
        opened(tmp_path, roles.app).blobs.all("n")
    owner = opened(tmp_path, roles.owner)
    owner.blobs.all("n")
    owner.database.migrator.migrate("0001")
    owner.close()
    with pytest.raises(TabootError, match=r"E_CATALOG.*TABOOT_CATALOG_ADMIN_URL"):
        opened(tmp_path, roles.app).blobs.all("n")
    assert "pending" in opened(tmp_path, roles.owner).health().message
    first = opened(tmp_path, roles.app, roles.owner)
    assert first.sources.find() == []
    later = opened(tmp_path, roles.app)
    assert later.sources.find() == [] and later.health().ok, later.health()
    with psycopg.connect(plain(roles.app), autocommit=True) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        for statement in (
            "UPDATE alembic_version SET version_num = 'x'",
            "DELETE FROM alembic_version",
            "DROP TABLE locator",
            "ALTER TABLE locator NO FORCE ROW LEVEL SECURITY",
            "CREATE POLICY mine ON locator USING (true)",
            "TRUNCATE locator",
            "CREATE TABLE mine (n int)",
            "ALTER ROLE taboot_app BYPASSRLS",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    for catalog in (first, later):
        catalog.close()


def test_every_table_of_the_catalog_is_bound_by_its_policies(roles: Roles, tmp_path: Path) -> None:
    opened(tmp_path, roles.app, roles.owner).blobs.all("n")
    with psycopg.connect(plain(roles.superuser)) as connection:
        found = connection.execute(
            "SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner),"
            " array_agg(p.polname ORDER BY p.polname)::text[] FROM pg_class c LEFT JOIN pg_policy p ON"
            " p.polrelid = c.oid WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND"
            " c.relname <> 'alembic_version' GROUP BY c.oid"
        ).fetchall()
        [(flags,)] = connection.execute(
            "SELECT rolsuper OR rolbypassrls OR rolinherit OR rolcreaterole FROM pg_roles WHERE rolname ="
            " 'taboot_app'"
        ).fetchall()
    assert {r[0] for r in found} == set(metadata.tables) and flags is False
    assert {tuple(map(str, r[1:4])) for r in found} == {("True", "True", "taboot_owner")}
    assert {tuple(r[4]) for r in found} == {("taboot_maintenance", "taboot_namespace", "taboot_owner")}
    assert all("namespace" in table.c for table in metadata.tables.values())


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "not a url hunter2", "postgresql://u:hunter2@h:port/d"]
)
def test_a_url_of_another_kind_is_refused_without_being_quoted(tmp_path: Path, url: str) -> None:
    with pytest.raises(TabootError, match=r"E_CONFIG.*TABOOT_CATALOG_URL") as error:
        opened(tmp_path, url)
    assert "hunter2" not in str(error.value)
