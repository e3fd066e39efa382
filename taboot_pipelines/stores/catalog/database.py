"""The catalog's connection: transactions of one namespace, and what is tried again.

**Isolation (PostgreSQL).** Every table has row-level security, forced on the owner too. A transaction of
:meth:`Database.begin` or :meth:`Database.read` carries one namespace in the setting ``taboot.namespace``,
local to it, so that a pooled connection takes nothing along to its next user; rows of others are neither seen
nor written, whatever the statement says. The few operations that span namespaces become the role
``taboot_maintenance`` for one transaction. Its policy names the role in its expression (``current_user``): so
it needs no superuser, as BYPASSRLS would, covers these tables and no others, does not depend on the order in
which roles and tables were made, and is not passed on by inheritance. The boundary guards against wrong
statements: whoever can run any statement with the application's password may also become the maintenance
role.

**Outages.** A transaction that did not begin is waited for, and one that failed before its commit was sent is
run again by the method it belongs to (:func:`retried`), for ``OUTAGE_SECONDS``. A commit whose answer was
lost is not repeated, since it may have happened: it raises ``E_CATALOG``.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.ids import check_namespace
from taboot_pipelines.stores.catalog.migrator import MAINTENANCE_ROLE, Found, Migrator
from taboot_pipelines.stores.catalog.outages import TryAgain, as_error, of_sqlite
from taboot_pipelines.stores.catalog.reading import connect, unchanged, written
from taboot_pipelines.stores.disk import on_disk, private_file, private_folder
from taboot_pipelines.stores.leases.protocol import LeaseStore
from taboot_pipelines.stores.postgres import (
    OUTAGE_SECONDS,
    STATEMENT_MILLISECONDS,
    Patience,
    connect_arguments,
    failure,
    is_postgres,
    server_url,
)


class Database:
    """A SQLite file, migrated when opened; or PostgreSQL, reached and migrated when first used.

    ``read_only``: nothing is migrated, and a transaction that could write raises ``E_READ_ONLY``.
    """

    def __init__(
        self,
        engine: Engine,
        leases: LeaseStore,
        admin_url: str | None = None,
        before_new: Callable[[], None] = lambda: None,
        *,
        read_only: bool = False,
    ) -> None:
        self.engine = engine
        self.migrator = Migrator(engine, leases, admin_url, before_new, read_only=read_only)
        #: How long a transaction waits for a server that went away.
        self.outage_seconds = OUTAGE_SECONDS
        self._leases = leases
        self._read_only = read_only
        # Made once: to give an engine options costs more than a small read.
        self._sqlite = {read: engine.execution_options(taboot_read=read) for read in (False, True)}
        self._postgres = engine.dialect.name == "postgresql"

    def close(self) -> None:
        self.engine.dispose()

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
        """A transaction like :meth:`begin` that fails unless this thread still holds its leases (see
        ``stores.leases.postgres``).
        """
        with self._transaction(namespace, read=False) as connection:
            self._leases.confirm()
            yield connection

    @contextlib.contextmanager
    def _transaction(self, namespace: str | None, *, read: bool) -> Iterator[Connection]:
        if namespace is not None:
            check_namespace(namespace)
        if self._read_only and not read:
            raise TabootError("E_READ_ONLY", "The catalog is open for reading only.")
        if not self._postgres:
            try:
                with (
                    self._sqlite[read].begin() as connection,
                    unchanged(connection) if self._read_only else contextlib.nullcontext(),
                ):
                    yield connection
            except sa.exc.SQLAlchemyError as error:
                raise of_sqlite("A catalog statement failed", error, self.engine.url.database) from error
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
            raise as_error(failure(error), committing=committing and not read) from None

    def _begun(self, namespace: str | None, read: bool) -> Connection:
        """A connection on which a transaction has begun; waits for a server that is away."""
        patience = Patience(self.outage_seconds)
        while True:
            try:
                return self._begin_once(namespace, read)
            except TryAgain as error:
                if not patience.wait():
                    raise TabootError("E_CATALOG", error.message, **error.details) from None

    def _begin_once(self, namespace: str | None, read: bool) -> Connection:
        found = self.migrator.ready()
        opening = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if read else "BEGIN"
        if namespace is not None:
            # Inlined, so that it travels with BEGIN; its pattern has no quote.
            scope = f"SET LOCAL taboot.namespace = '{namespace}'"
        else:
            scope = _scope_of_all(found)
        # Pooled connections may have died with the last server: each is then tried and dropped, until a new
        # one is made.
        try:
            connection = self.engine.connect()
            try:
                connection.exec_driver_sql(f"{opening}; {scope}")
            except BaseException:
                connection.close()
                raise
        except sa.exc.SQLAlchemyError as error:
            raise as_error(failure(error)) from None
        return connection

    # --- the database as a whole ----------------------------------------------------------------------------

    def compact(self) -> bool:
        """Rewrite the file of SQLite, so that deleted rows leave no bytes behind; PostgreSQL vacuums itself.

        Returns False if a reader in another process kept the old pages in use: try again later.
        """
        if self._postgres:
            return True
        raw = self.engine.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute("PRAGMA busy_timeout=5000")
            cursor.execute("VACUUM")
            return not cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError:
            return False
        finally:
            raw.close()

    def health(self) -> Health:
        """Version, latency of one look, and what is wrong in words: a pending migration, for example, or a
        role that no policy binds.
        """
        return probe("catalog", self.engine.dialect.name, self._ask)

    def _ask(self) -> tuple[str | None, str]:
        try:
            found = self.migrator.look()
        except TryAgain:
            # Perhaps only a pooled connection from before a restart failed.
            found = self.migrator.look()
        return found.version, self.migrator.warnings(found)


class HasDatabase(Protocol):
    """What :func:`retried` needs of the class whose method it runs again."""

    database: Database


S = TypeVar("S", bound=HasDatabase)
P = ParamSpec("P")
T = TypeVar("T")


def retried(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method of the catalog again while its transaction fails for a reason that passes, each time from
    its first line.
    """

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except TryAgain as first:
            patience, error = Patience(self.database.outage_seconds), first
        while patience.wait():
            try:
                return method(self, *args, **kwargs)
            except TryAgain as again:
                error = again
        raise TabootError("E_CATALOG", error.message, **error.details) from None

    return call


def create_engine(home: Path, url: str | None, *, read_only: bool = False) -> Engine:
    """The engine for a URL of SQLite or PostgreSQL, by default ``home/catalog.db``; it connects to nothing.

    ``read_only``: a file is opened as ``reading`` says, for each transaction anew. Raises ``E_CONFIG`` for a
    URL of another kind.
    """
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
        if not read_only:
            with on_disk("The catalog cannot be opened", home):
                private_folder(home)
        url = f"sqlite:///{home / 'catalog.db'}"
    elif not url.startswith("sqlite:"):
        server_url(url)  # Refuses it.
    file = Path(sa.make_url(url).database or "")
    if read_only:
        engine = sa.create_engine(
            url, creator=lambda: connect(file), poolclass=sa.pool.NullPool, hide_parameters=True
        )
    else:
        written(file)
        engine = sa.create_engine(url, connect_args={"timeout": 60}, hide_parameters=True)
        sa.event.listen(engine, "connect", _sqlite_pragmas)
    sa.event.listen(engine, "begin", _sqlite_begin)
    return engine


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    # Transactions are opened by the "begin" event: the driver's own would not take the write lock in time.
    connection.isolation_level = None
    cursor = connection.cursor()
    # The files that SQLite writes beside it get its rights.
    if file := cursor.execute("PRAGMA database_list").fetchone()[2]:
        private_file(Path(file))
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    # A writer takes the lock at once: a read that later turns into a write could not be retried.
    read = connection.get_execution_options().get("taboot_read")
    # Said to the driver itself: what SQLAlchemy does around a statement takes longer than a small read.
    raw: Any = connection.connection.driver_connection
    statement = "BEGIN" if read else "BEGIN IMMEDIATE"
    try:
        raw.execute(statement)
    except sqlite3.Error as error:
        raise sa.exc.DBAPIError.instance(statement, None, error, sqlite3.Error, True) from error


def _scope_of_all(found: Found) -> str:
    """The statement after which a transaction of this role sees all namespaces."""
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
