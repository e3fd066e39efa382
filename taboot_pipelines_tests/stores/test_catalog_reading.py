"""A catalog that is only read: a file in a folder that cannot be written, and a role of PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import migrator, open_catalog
from taboot_pipelines.stores.catalog.catalog import Catalog
from taboot_pipelines.stores.catalog.database import Database, retried
from taboot_pipelines.stores.catalog.outages import TryAgain
from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines_tests.servers import PostgresServer
from taboot_pipelines_tests.stores.roles import ROLES, Roles, plain, with_roles
from taboot_pipelines_tests.unwritable import PYTHON, tree, unwritable

#: Prints what the catalogs of some homes hold, each in a line.
READS = """
import sys
from pathlib import Path
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases import open_leases
for home in sys.argv[1:]:
    settings = Settings(home=Path(home), read_only=True)
    catalog = open_catalog(settings, open_leases(settings))
    print(sorted(row["source_id"] for row in catalog.jobs.find("n")))
    catalog.close()
"""
#: Starts a job in the catalog of a home, says so, and keeps it open.
WRITES = """
import sys
from pathlib import Path
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.leases import open_leases
settings = Settings(home=Path(sys.argv[1]))
catalog = open_catalog(settings, open_leases(settings))
catalog.jobs.start("n", "logged")
print("ready", flush=True)
sys.stdin.read()
"""


def opened(
    home: Path, url: str | None = None, admin: str | None = None, *, read_only: bool = False
) -> Catalog:
    settings = Settings(home=home, catalog_url=url, catalog_admin_url=admin, read_only=read_only)
    return open_catalog(settings, open_leases(settings, 5))


def sources(catalog: Catalog) -> list[str]:
    return sorted(row["source_id"] for row in catalog.jobs.find("n"))


def jobs_of(read: Path) -> list[str]:
    catalog = opened(read, read_only=True)
    try:
        return sources(catalog)
    finally:
        catalog.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose catalog has one job, and that nobody has open."""
    catalog = opened(tmp_path / "quiet")
    catalog.jobs.start("n", "filed")
    catalog.close()
    return tmp_path / "quiet"


@pytest.fixture
def writer(home: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has a copy of it open and has written to its log."""
    shutil.copytree(home, tmp_path / "written")
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(tmp_path / "written")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_whatever_a_writer_does_the_catalog_is_read_and_its_folder_left_alone(
    home: Path, tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    """Without a log, beside an empty one, beside that of a writer at work, and of one that was killed."""
    emptied, written, killed = (tmp_path / name for name in ("emptied", "written", "killed"))
    shutil.copytree(home, emptied)
    (emptied / "catalog.db-wal").touch()
    shutil.copytree(written, killed)
    homes = (home, emptied, written, killed)
    before = [tree(h) for h in homes]
    # In this process root may write, so that what is attempted is done and seen.
    assert [jobs_of(h) for h in homes] == [["filed"], ["filed"], ["filed", "logged"], ["filed", "logged"]]
    assert [tree(h) for h in homes] == before
    with unwritable(home), unwritable(emptied), unwritable(written), unwritable(killed):
        done = subprocess.run(
            [*PYTHON, "-c", READS, *map(str, homes)], capture_output=True, text=True, check=False
        )
    assert done.stdout.splitlines() == ["['filed']"] * 2 + ["['filed', 'logged']"] * 2, done.stderr
    assert [tree(h) for h in homes] == before
    # Its log is kept when it is killed, and what it wrote with it.
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    assert jobs_of(written) == ["filed", "logged"]


class Looking:
    """Reads twice in one transaction; somebody writes in between, the first time."""

    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self.home = home
        self.tries = 0

    @retried
    def look(self) -> list[int]:
        self.tries += 1
        count = sa.text("SELECT count(*) FROM job")
        with self.database.read("n") as c:
            found = [c.execute(count).scalar_one()]
            if self.tries == 1:
                # Other pages than the reader has by now; its end copies the log into the file.
                other = opened(self.home)
                other.jobs.start("n", "late")
                other.close()
            return [*found, c.execute(count).scalar_one()]


def test_what_is_changed_while_it_is_read_is_read_again(home: Path) -> None:
    catalog = opened(home, read_only=True)
    looking = Looking(catalog.database, home)
    assert looking.look() == [2, 2] and looking.tries == 2
    with pytest.raises(TryAgain), catalog.database.read("n"):
        other = opened(home)
        other.jobs.start("n", "later")
        other.close()
    assert sources(catalog) == ["filed", "late", "later"]
    # What SQLite says where a writer takes the index away at that moment.
    with pytest.raises(TryAgain), catalog.database.read("n") as c:
        c.execute(sa.text("DELETE FROM job"))
    catalog.close()


def test_a_writer_of_the_same_process_is_not_kept_from_writing(
    home: Path, tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    """SQLite shares one index among all connections of a process."""
    written = tmp_path / "written"
    opened(written).close()
    reading = opened(written, read_only=True)
    with reading.database.read("n") as c:
        assert c.execute(sa.text("SELECT count(*) FROM job")).scalar_one() == 2
        catalog = opened(written)
        catalog.jobs.start("n", "ours")
    assert sources(reading) == ["filed", "logged", "ours"]
    catalog.close()
    reading.close()


def test_a_file_that_is_no_catalog_is_told(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "catalog.db").close()
    with pytest.raises(TabootError, match=r"E_CATALOG.*revision none"):
        opened(tmp_path, read_only=True)
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(TabootError, match="E_CATALOG"):
        opened(tmp_path, read_only=True)
    assert not (tmp_path / "catalog.db").exists()


# --- PostgreSQL


@pytest.fixture
def read_roles(postgres: PostgresServer) -> Roles:
    return with_roles(postgres, "catalog_reading")


def test_the_database_itself_refuses_every_write_of_the_reader(read_roles: Roles, tmp_path: Path) -> None:
    catalog = opened(tmp_path, read_roles.app, read_roles.owner)
    for namespace in ("n", "others"):
        catalog.jobs.start(namespace, f"of-{namespace}")
    statements = [
        statement
        for name, table in metadata.tables.items()
        for statement in (
            f'INSERT INTO "{name}" DEFAULT VALUES',
            f'UPDATE "{name}" SET namespace = namespace',
            f'DELETE FROM "{name}"',
            f'TRUNCATE "{name}"',
            f'DROP TABLE "{name}"',
        )
    ]
    statements += [
        "UPDATE alembic_version SET version_num = 'x'",
        "ALTER TABLE job NO FORCE ROW LEVEL SECURITY",
        "CREATE TABLE mine (n int)",
        "SET ROLE taboot_maintenance",
        "SET ROLE taboot_app",
        "ALTER ROLE taboot_reader BYPASSRLS",
    ]
    with psycopg.connect(plain(read_roles.reader), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMP TABLE mine (n int)")
        # What a session may set otherwise is not what keeps it from writing.
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("SET taboot.namespace = 'n'")
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        # It reads what its namespace holds, and of no namespace nothing.
        assert connection.execute("SELECT source_id FROM job").fetchall() == [("of-n",)]
        connection.execute("SET taboot.namespace = ''")
        connection.execute("SET taboot.maintenance = 'on'")
        assert connection.execute("SELECT source_id FROM job").fetchall() == []
    reading = opened(tmp_path, read_roles.reader, read_only=True)
    assert sources(reading) == ["of-n"] and reading.health().ok and not reading.health().message
    with pytest.raises(TabootError, match=r"E_CATALOG.*taboot_reader"):
        reading.sources.find()
    for each in (catalog, reading):
        each.close()


def test_tables_that_were_there_before_the_reader_are_opened_by_the_roles(
    read_roles: Roles, tmp_path: Path
) -> None:
    catalog = opened(tmp_path, read_roles.app, read_roles.owner)
    catalog.jobs.start("n", "early")
    catalog.close()
    with psycopg.connect(plain(read_roles.superuser), autocommit=True) as connection:
        connection.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM taboot_reader")
        connection.execute("CREATE TABLE foreign_to_us (n int)")
    reading = opened(tmp_path, read_roles.reader, read_only=True)
    with pytest.raises(TabootError, match=r"E_CATALOG.*taboot_reader"):
        sources(reading)
    assert "roles.sql" in reading.health().message
    psql = ["psql", "-X", "-q", "-d", plain(read_roles.superuser), "-f", str(ROLES)]
    subprocess.run(psql, check=True, stdout=subprocess.DEVNULL)
    assert "early" in sources(reading)
    reading.close()
    with (
        psycopg.connect(plain(read_roles.reader), autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("SELECT * FROM foreign_to_us")


def test_a_server_without_the_reader_is_migrated_all_the_same(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = with_roles(postgres, "catalog_without_reader")
    monkeypatch.setattr(migrator, "READER_ROLE", "taboot_absent")
    catalog = opened(tmp_path, roles.app, roles.owner)
    catalog.jobs.start("n", "s")
    assert sources(catalog) == ["s"]
    catalog.close()
    with pytest.raises(TabootError, match=r"E_CATALOG.*taboot_reader"):
        sources(opened(tmp_path, roles.reader, read_only=True))
