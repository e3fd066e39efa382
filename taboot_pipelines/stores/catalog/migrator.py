"""Looking at the database behind a URL before its first use: its revision and our role, and migrating it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.catalog import schema
from taboot_pipelines.stores.catalog.outages import as_error, of_sqlite
from taboot_pipelines.stores.leases.postgres import lock_key
from taboot_pipelines.stores.leases.protocol import LeaseStore
from taboot_pipelines.stores.postgres import connect_arguments, failure, server_url

#: Every Alembic revision, oldest first; a test compares them with the scripts.
REVISIONS = tuple(f"{number:04}" for number in range(1, 16))
HEAD = REVISIONS[-1]

MAINTENANCE_ROLE = "taboot_maintenance"
#: May only read, and spans no namespaces: no question does.
READER_ROLE = "taboot_reader"

_LOOK = """
SELECT to_regclass('alembic_version') IS NOT NULL AS migrated,
       COALESCE(has_table_privilege(to_regclass('alembic_version'), 'SELECT'), false) AS readable,
       COALESCE(has_table_privilege(to_regclass('locator'), 'SELECT'), false) AS selectable,
       COALESCE(has_table_privilege(to_regclass('locator'), 'INSERT'), false) AS writable,
       COALESCE(
           (SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = to_regclass('locator')),
           false
       ) AS owner,
       (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypasses,
       EXISTS (
           SELECT FROM pg_roles
           WHERE rolname = 'taboot_maintenance' AND pg_has_role(current_user, oid, 'MEMBER')
       ) AS maintainer,
       current_setting('server_version') AS version, current_user AS role
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A database and our role in it, as they were when looked at.

    ``revision`` is None in a database that was never migrated. On PostgreSQL ``owner`` owns the tables,
    ``bypasses`` is bound by no row-level security, ``maintainer`` may become ``taboot_maintenance``, and
    ``readable`` and ``writable`` say whether the role may read the tables, and use them at all.
    """

    revision: str | None
    version: str
    role: str = ""
    owner: bool = False
    bypasses: bool = False
    maintainer: bool = False
    readable: bool = True
    writable: bool = True


class Migrator:
    """Safe to share by threads. Of several processes that open a database at once, one migrates it.

    ``before_new`` is called before one without any revision is filled, and raises if that must not be.
    ``read_only``: none is migrated.
    """

    def __init__(
        self,
        engine: Engine,
        leases: LeaseStore,
        admin_url: str | None,
        before_new: Callable[[], None],
        *,
        read_only: bool = False,
    ) -> None:
        self._engine = engine
        self._leases = leases
        self._admin_url = admin_url
        self._before_new = before_new
        self._read_only = read_only
        self._postgres = engine.dialect.name == "postgresql"
        self._found: Found | None = None
        self._looking = threading.Lock()

    def ready(self) -> Found:
        """Look at the database once, migrate it if it needs that, and remember what was found.

        Raises ``E_CATALOG`` if it cannot be used as it is: with a remedy where a person has to act.
        """
        if self._found is not None:
            return self._found
        with self._looking:
            if self._found is None:
                found = self.look()
                if self._read_only:
                    self._found = _to_read(found)
                    return self._found
                if found.revision is None:
                    self._before_new()
                if found.revision != HEAD or not found.writable:
                    self._prepare(found)
                    found = self.look()
                if not found.writable:
                    raise TabootError(
                        "E_CATALOG",
                        f"The role {found.role} may not use the catalog's tables.",
                        remedy=(
                            "Create the roles by deploy/postgres/roles.sql and set TABOOT_CATALOG_ADMIN_URL"
                            " to the owner's URL once, so that it grants them."
                        ),
                    )
                self._found = found
            return self._found

    def look(self) -> Found:
        """Ask the database now. Raises ``E_CATALOG`` for a revision that this version does not know."""
        found = self._look_at_server() if self._postgres else self._look_at_file()
        if found.revision is not None and found.revision not in REVISIONS:
            raise TabootError(
                "E_CATALOG",
                f"The catalog is at revision {found.revision}, which this version of taboot-pipelines"
                f" (revision {HEAD}) does not know.",
                remedy=(
                    "A newer version has migrated it: install that version, or restore a backup from before."
                ),
            )
        return found

    def _look_at_file(self) -> Found:
        try:
            with self._engine.execution_options(taboot_read=True).connect() as connection:
                migrated = sa.inspect(connection).has_table("alembic_version")
                return Found(_revision(connection) if migrated else None, sqlite3.sqlite_version)
        except (sa.exc.DatabaseError, UnicodeDecodeError) as error:  # the latter of a damaged schema
            raise of_sqlite(
                "The catalog is not a readable database", error, self._engine.url.database
            ) from error

    def _look_at_server(self) -> Found:
        try:
            with self._engine.connect() as connection:
                row = connection.exec_driver_sql(_LOOK).one()
                if row.migrated and not row.readable:
                    revision: str | None = HEAD
                else:
                    revision = _revision(connection) if row.migrated else None
        except sa.exc.SQLAlchemyError as error:
            raise as_error(failure(error)) from None
        return Found(
            revision=revision,
            version=row.version.split(" ")[0],
            role=row.role,
            owner=row.owner,
            bypasses=row.bypasses,
            maintainer=row.maintainer,
            readable=row.readable and row.selectable,
            writable=row.readable and row.writable,
        )

    def warnings(self, found: Found) -> str:
        """What a person should know or do about a database that was looked at; empty if all is well."""
        warnings = []
        if found.revision != HEAD:
            warnings.append(
                f"A migration is pending, from revision {found.revision or 'none'} to {HEAD}; the next run"
                " does it."
            )
        if found.bypasses:
            warnings.append(
                f"The role {found.role} is a superuser or has BYPASSRLS, so that row-level security does not"
                " bind it: use a role made by deploy/postgres/roles.sql."
            )
        elif self._read_only:
            if not found.readable:
                warnings.append(
                    f"The role {found.role} may not read the catalog's tables: run deploy/postgres/roles.sql."
                )
        elif self._postgres and not found.writable and found.revision == HEAD:
            warnings.append(
                f"The role {found.role} may not use the catalog's tables: set TABOOT_CATALOG_ADMIN_URL once."
            )
        elif self._postgres and not (found.maintainer or found.owner) and found.revision == HEAD:
            warnings.append(
                f"The role {found.role} may not become {MAINTENANCE_ROLE}, which is needed where namespaces"
                " are spanned: run deploy/postgres/roles.sql."
            )
        return " ".join(warnings)

    def migrate(self, revision: str = "head", user: str = "") -> None:
        """Bring the database to a revision, up or down; at ``head`` open its tables to the role ``user``.

        Another process that does the same is waited for, and then finds nothing to do.
        """
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        move = command.upgrade if revision == "head" else command.downgrade
        if not self._postgres:
            with self._engine.begin() as connection:
                config.attributes["connection"] = connection
                move(config, revision)
            return
        admin = self._admin_engine()
        try:
            with admin.connect() as connection, connection.begin():
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock_key('migration')})")
                config.attributes["connection"] = connection
                move(config, revision)
                if revision == "head":
                    _grant(connection, [MAINTENANCE_ROLE, user])
        except sa.exc.SQLAlchemyError as error:
            found = failure(error)
            if found.transient:
                raise as_error(found) from None
            raise TabootError(
                "E_CATALOG",
                f"The catalog cannot be migrated: {found.words}.",
                reason=found.words,
                remedy=(
                    "The role of TABOOT_CATALOG_ADMIN_URL (default that of TABOOT_CATALOG_URL) has to own the"
                    " tables and may create some."
                ),
            ) from None
        finally:
            admin.dispose()

    def _prepare(self, found: Found) -> None:
        if not self._postgres:
            with self._leases.exclusive("catalog"):
                self.migrate()
            return
        if self._admin_url is None and found.revision is not None and not found.owner and not found.bypasses:
            raise TabootError(
                "E_CATALOG",
                f"The catalog waits to be migrated from revision {found.revision} to {HEAD}, or to be opened"
                f" to the role {found.role}, which does not own it.",
                remedy="Set TABOOT_CATALOG_ADMIN_URL to the URL of the role that owns its tables.",
            )
        self.migrate(user=found.role)

    def _admin_engine(self) -> Engine:
        """The owner's, without the application's time limits: a migration takes as long as it takes."""
        url = server_url(self._admin_url, "TABOOT_CATALOG_ADMIN_URL") if self._admin_url else self._engine.url
        return sa.create_engine(
            url,
            use_native_hstore=False,
            hide_parameters=True,
            poolclass=sa.pool.NullPool,
            connect_args=connect_arguments(url),
        )


def _to_read(found: Found) -> Found:
    """What was found, if it can be read as it is. Raises ``E_CATALOG``."""
    if found.revision != HEAD:
        raise TabootError(
            "E_CATALOG",
            f"The catalog is at revision {found.revision or 'none'} and this version reads {HEAD}; who only"
            " reads does not migrate it.",
            remedy="The next run migrates it, as does `taboot status` without TABOOT_READ_ONLY.",
        )
    if not found.readable:
        raise TabootError(
            "E_CATALOG",
            f"The role {found.role} may not read the catalog's tables.",
            remedy=f"Run deploy/postgres/roles.sql: it lets {READER_ROLE} read those that are there.",
        )
    return found


def _revision(connection: Connection) -> str | None:
    found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return found


def _grant(connection: Connection, roles: list[str]) -> None:
    """Let those of the roles that exist use the tables, and the reader read them; the owner may already."""
    quote = connection.dialect.identifier_preparer.quote
    us = connection.exec_driver_sql("SELECT current_user").scalar_one()
    known = set(
        connection.execute(
            sa.text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles)"),
            {"roles": [*roles, READER_ROLE]},
        ).scalars()
    )
    tables = ", ".join(quote(name) for name in schema.metadata.tables)
    sequences = connection.execute(
        sa.text(
            "SELECT string_agg(quote_ident(relname), ', ') FROM pg_class WHERE relkind = 'S' AND"
            " relnamespace = current_schema()::regnamespace AND relname = ANY(:names)"
        ),
        {"names": [f"{name}_id_seq" for name in schema.metadata.tables]},
    ).scalar_one()
    if READER_ROLE in known:
        connection.exec_driver_sql(f"GRANT SELECT ON {tables}, alembic_version TO {READER_ROLE}")
    for role in roles:
        if role in known and role not in (us, READER_ROLE):
            name = quote(role)
            connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {name}")
            connection.exec_driver_sql(f"GRANT USAGE, SELECT ON SEQUENCE {sequences} TO {name}")
            # No namespace stands in it, and nobody but the owner changes it.
            connection.exec_driver_sql(f"GRANT SELECT ON alembic_version TO {name}")
