"""A fresh database of the shared PostgreSQL with the roles of ``deploy/postgres/roles.sql``."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import make_url

from taboot_pipelines.stores.catalog.schema import metadata
from taboot_pipelines_tests.servers import PostgresServer

ROLES = Path(__file__).parents[2] / "deploy" / "postgres" / "roles.sql"


@dataclass(frozen=True)
class Roles:
    """The URLs under which the roles log in."""

    superuser: str
    owner: str
    app: str
    reader: str


def plain(url: str) -> str:
    """The URL as libpq reads it."""
    return make_conninfo(**make_url(url).translate_connect_args(username="user", database="dbname"))


def with_roles(server: PostgresServer, database: str) -> Roles:
    url = make_url(server.database(database))
    superuser = url.render_as_string(hide_password=False)
    psql = shutil.which("psql")
    assert psql, "psql is missing: it comes with PostgreSQL's client (apt-get install postgresql-client)"
    command = [psql, "-X", "-q", "-d", plain(superuser), "-f", str(ROLES)]
    for role in ("owner", "app", "reader"):
        command += ["-v", f"{role}_password={role}'s word"]
    # The roles are the whole server's: two workers must not alter them at one moment.
    with psycopg.connect(plain(server.url), autocommit=True) as one_at_a_time:
        one_at_a_time.execute("SELECT pg_advisory_lock(1)")
        for _ in range(2):  # It may be run again.
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    owner, app, reader = (
        url.set(username=role, password=f"{word}'s word").render_as_string(hide_password=False)
        for role, word in (("taboot_owner", "owner"), ("taboot_app", "app"), ("taboot_reader", "reader"))
    )
    return Roles(superuser, owner, app, reader)


def empty(roles: Roles) -> None:
    """Remove every row of the catalog, if it is there already."""
    with psycopg.connect(plain(roles.superuser), autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('locator')").fetchone() != (None,):
            connection.execute("TRUNCATE " + ", ".join(f'"{name}"' for name in metadata.tables))
