"""The catalog's connection: transactions of one namespace, what is tried again, and its migrations.

**Isolation (PostgreSQL).** Every table has row-level security, forced on the owner too. A transaction of
:meth:`Database.begin` or :meth:`Database.read` carries one namespace in the setting ``taboot.namespace``,
local to it, so that a pooled connection takes nothing along to its next user; rows of others are neither seen
nor written, whatever the statement says. The few operations that span namespaces become the role
``taboot_maintenance`` for one transaction. Its policy names the role in its expression (``current_user``): so
it needs no superuser, as BYPASSRLS would, covers these tables and no others, does not depend on the order in
which roles and tables were made, and is not passed on by inheritance. The boundary guards against wrong
statements; who may run any statement with the application's password may also become ``taboot_maintenance``.

**Outages.** A transaction that did not begin is waited for, and one that failed before its commit was sent is
run again by the method it belongs to (:func:`retried`), for ``OUTAGE_SECONDS``. A commit whose answer was
lost is not repeated, since it may have happened: it raises ``E_CATALOG``.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.stores.catalog import schema
from taboot_pipelines.stores.leases import LeaseStore
from taboot_pipelines.stores.leases.postgres import lock_key
from taboot_pipelines.stores.postgres import (
    OUTAGE_SECONDS,
    STATEMENT_MILLISECONDS,
    Failure,
    Patience,
    connect_arguments,
    failure,
    is_postgres,
    server_url,
)

#: Every Alembic revision, oldest first; a test compares them with the scripts.
REVISIONS = ("0001", "0002")
HEAD = REVISIONS[-1]

MAINTENANCE_ROLE = "taboot_maintenance"

_LOOK = """
SELECT to_regclass('alembic_version') IS NOT NULL AS migrated,
       COALESCE(has_table_privilege(to_regclass('alembic_version'), 'SELECT'), false) AS readable,
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

P = ParamSpec("P")
T = TypeVar("T")


class _TryAgain(TabootError):
    """``E_CATALOG`` of a transaction that was surely not committed and may succeed when run again."""


def retried(method: Callable[P, T]) -> Callable[P, T]:
    """Run a method of the catalog again while its transaction fails for a reason that passes, each time from
    its first line.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except _TryAgain as first:
            database: Any = args[0]
            patience, error = Patience(database.outage_seconds), first
        while patience.wait():
            try:
                return method(*args, **kwargs)
            except _TryAgain as again:
                error = again
        raise TabootError("E_CATALOG", error.message, **error.details) from None

    return call


@dataclass(frozen=True, slots=True)
class _Found:
    """The database and our role in it, as it was when looked at."""

    revision: str | None
    version: str
    role: str = ""
    owner: bool = False
    bypasses: bool = False
    maintainer: bool = False
    writable: bool = True


class Database:
    """A SQLite file, migrated when opened; or PostgreSQL, reached and migrated when first used."""

    def __init__(self, engine: Engine, leases: LeaseStore, admin_url: str | None = None) -> None:
        self._engine = engine
        self._leases = leases
        self._admin_url = admin_url
        self._postgres = engine.dialect.name == "postgresql"
        self._found: _Found | None = None
        self._opening = threading.Lock()
        #: How long a transaction waits for a server that went away.
        self.outage_seconds = OUTAGE_SECONDS

    @staticmethod
    def engine(home: Path, url: str | None) -> Engine:
        if url is not None and is_postgres(url):
            parsed = server_url(url)
            # Transactions begin with a statement of ours, which also carries the namespace; it is the pool's
            # ping, too.
            return sa.create_engine(
                parsed,
                isolation_level="AUTOCOMMIT",
                use_native_hstore=False,
                hide_parameters=True,
                pool_recycle=1800,
                pool_use_lifo=True,
                connect_args=connect_arguments(
                    parsed,
                    statement_timeout=STATEMENT_MILLISECONDS,
                    lock_timeout=STATEMENT_MILLISECONDS // 2,
                    idle_in_transaction_session_timeout=10 * STATEMENT_MILLISECONDS,
                ),
            )
        if url is None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            url = f"sqlite:///{home / 'catalog.db'}"
        elif not url.startswith("sqlite:"):
            server_url(url)
        engine = sa.create_engine(url, connect_args={"timeout": 60}, hide_parameters=True)
        sa.event.listen(engine, "connect", _sqlite_pragmas)
        sa.event.listen(engine, "begin", _sqlite_begin)
        return engine

    def close(self) -> None:
        self._engine.dispose()

    # --- transactions ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def begin(self, namespace: str | None) -> Iterator[Connection]:
        """A transaction that sees and writes rows of one namespace (None: of all, as ``taboot_maintenance``).

        Raises ``E_CATALOG``; on PostgreSQL it first waits up to ``outage_seconds`` for a server that is away.
        """
        with self._transaction(namespace, read=False) as connection:
            yield connection

    @contextlib.contextmanager
    def read(self, namespace: str | None) -> Iterator[Connection]:
        """A read-only transaction on one state of the database, which waits for no writer; ``namespace`` as
        in :meth:`begin`.
        """
        with self._transaction(namespace, read=True) as connection:
            yield connection

    @contextlib.contextmanager
    def publishing(self, namespace: str) -> Iterator[Connection]:
        """A transaction that holds only if this thread still holds its leases (see
        ``stores.leases.postgres``).
        """
        with self._transaction(namespace, read=False) as connection:
            self._leases.confirm()
            yield connection

    @contextlib.contextmanager
    def _transaction(self, namespace: str | None, *, read: bool) -> Iterator[Connection]:
        if namespace is not None:
            check_namespace(namespace)
        if not self._postgres:
            try:
                with self._engine.execution_options(taboot_read=read).begin() as connection:
                    yield connection
            except sa.exc.SQLAlchemyError as error:
                raise TabootError(
                    "E_CATALOG", "A catalog statement failed.", reason=type(error).__name__
                ) from error
            return
        import psycopg

        connection = self._begun(namespace, read)
        committing = False
        try:
            with connection:
                yield connection
                committing = True
                connection.commit()
        except (sa.exc.SQLAlchemyError, psycopg.Error) as error:
            raise _typed(failure(error), committed=committing and not read) from None

    def _begun(self, namespace: str | None, read: bool) -> Connection:
        """A connection on which a transaction has begun; waits for a server that is away."""
        patience = Patience(self.outage_seconds)
        while True:
            try:
                return self._begin_once(namespace, read)
            except _TryAgain as error:
                if not patience.wait():
                    raise TabootError("E_CATALOG", error.message, **error.details) from None

    def _begin_once(self, namespace: str | None, read: bool) -> Connection:
        found = self._found or self._opened()
        opening = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if read else "BEGIN"
        if namespace is not None:
            # Inlined, so that it travels with BEGIN; its pattern has no quote.
            scope = f"SET LOCAL taboot.namespace = '{namespace}'"
        else:
            scope = _scope_of_all(found)
        # A pooled connection may have died with the last server: then each of them is tried and dropped, and
        # a new one made.
        try:
            connection = self._engine.connect()
            try:
                connection.exec_driver_sql(f"{opening}; {scope}")
            except BaseException:
                connection.close()
                raise
        except sa.exc.SQLAlchemyError as error:
            raise _typed(failure(error)) from None
        return connection

    # --- opening and migrations -----------------------------------------------------------------------------

    def _opened(self) -> _Found:
        """Look once at the database behind the URL, and migrate it if it needs that."""
        with self._opening:
            if self._found is None:
                found = self._look()
                if found.revision != HEAD or not found.writable:
                    self._prepare(found)
                    found = self._look()
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

    def _look(self) -> _Found:
        if not self._postgres:
            try:
                with self._engine.execution_options(taboot_read=True).connect() as connection:
                    known = sa.inspect(connection).has_table("alembic_version")
                    revision = (
                        connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
                        if known
                        else None
                    )
            except sa.exc.DatabaseError as error:
                raise TabootError(
                    "E_CATALOG", "The catalog is not a readable database.", reason=type(error).__name__
                ) from error
            found = _Found(revision, sqlite3.sqlite_version)
        else:
            try:
                with self._engine.connect() as connection:
                    row = connection.exec_driver_sql(_LOOK).one()
                    if row.migrated and not row.readable:
                        revision = HEAD
                    else:
                        revision = (
                            connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
                            if row.migrated
                            else None
                        )
            except sa.exc.SQLAlchemyError as error:
                raise _typed(failure(error)) from None
            found = _Found(
                revision,
                row.version.split(" ")[0],
                row.role,
                row.owner,
                row.bypasses,
                row.maintainer,
                row.readable and row.writable,
            )
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

    def _prepare(self, found: _Found) -> None:
        if not self._postgres:
            with self._leases.exclusive("catalog"):
                self._migrate()
            return
        if self._admin_url is None and found.revision is not None and not found.owner and not found.bypasses:
            raise TabootError(
                "E_CATALOG",
                f"The catalog waits to be migrated from revision {found.revision} to {HEAD}, or to be opened"
                f" to the role {found.role}, which does not own it.",
                remedy="Set TABOOT_CATALOG_ADMIN_URL to the URL of the role that owns its tables.",
            )
        self._migrate(user=found.role)

    def _migrate(self, revision: str = "head", user: str = "") -> None:
        """To a revision, open to the role ``user``; of several processes one does it, the others find it
        done.
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
                    self._grant(connection, [MAINTENANCE_ROLE, user])
        except sa.exc.SQLAlchemyError as error:
            found = failure(error)
            if found.transient:
                raise _typed(found) from None
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

    def _admin_engine(self) -> Engine:
        """The owner's; a migration may take as long as it takes."""
        url = server_url(self._admin_url, "TABOOT_CATALOG_ADMIN_URL") if self._admin_url else self._engine.url
        return sa.create_engine(
            url,
            use_native_hstore=False,
            hide_parameters=True,
            poolclass=sa.pool.NullPool,
            connect_args=connect_arguments(url),
        )

    @staticmethod
    def _grant(connection: Connection, roles: list[str]) -> None:
        """Let roles that are there use the tables; the owner may already."""
        quote = connection.dialect.identifier_preparer.quote
        us = connection.exec_driver_sql("SELECT current_user").scalar_one()
        known = set(
            connection.execute(
                sa.text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles)"), {"roles": roles}
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
        for role in roles:
            if role in known and role != us:
                name = quote(role)
                connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {name}")
                connection.exec_driver_sql(f"GRANT USAGE, SELECT ON SEQUENCE {sequences} TO {name}")
                # No namespace stands in it, and nobody but the owner changes it.
                connection.exec_driver_sql(f"GRANT SELECT ON alembic_version TO {name}")

    # --- health ---------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Version, latency of one look, and what is wrong in words: a pending migration, a role that no
        policy binds.
        """
        return probe("catalog", self._engine.dialect.name, self._ask)

    def _ask(self) -> tuple[str | None, str]:
        try:
            found = self._look()
        except _TryAgain:
            # Perhaps only a pooled connection of before a restart.
            found = self._look()
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
        elif self._postgres and not found.writable and found.revision == HEAD:
            warnings.append(
                f"The role {found.role} may not use the catalog's tables: set TABOOT_CATALOG_ADMIN_URL once."
            )
        elif self._postgres and not (found.maintainer or found.owner) and found.revision == HEAD:
            warnings.append(
                f"The role {found.role} may not become {MAINTENANCE_ROLE}, which is needed where namespaces"
                " are spanned: run deploy/postgres/roles.sql."
            )
        return found.version, " ".join(warnings)


def _scope_of_all(found: _Found) -> str:
    if found.bypasses:
        return "SELECT 1"
    if found.maintainer:
        return f"SET LOCAL ROLE {MAINTENANCE_ROLE}"
    if found.owner:
        return "SET LOCAL taboot.maintenance = 'on'"
    raise TabootError(
        "E_CATALOG",
        f"The role {found.role} may not become {MAINTENANCE_ROLE}, which is needed where namespaces are"
        " spanned.",
        remedy="Run deploy/postgres/roles.sql.",
    )


def _typed(found: Failure, *, committed: bool = False) -> TabootError:
    """``committed``: the failure met the commit itself, so that it may have happened, unless the server says
    that it did not.
    """
    rolled_back = found.words in ("serialization failure", "deadlock")
    kind = _TryAgain if found.transient and (not committed or rolled_back) else TabootError
    return kind("E_CATALOG", f"The catalog failed: {found.words}.", reason=found.words)


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    # Transactions are opened by the "begin" event: the driver's own would not take the write lock in time.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    # A writer takes the lock at once: a read that later turns into a write could not be retried.
    connection.exec_driver_sql(
        "BEGIN" if connection.get_execution_options().get("taboot_read") else "BEGIN IMMEDIATE"
    )


def now_micros() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000
