"""Leases as session-level advisory locks of PostgreSQL: for processes of many machines that share a catalog.

**What a lost connection means.** The server frees a session's locks when the session ends: when its process
dies, when its machine stops answering keepalives (a minute), when somebody terminates it, and for all
sessions at once when the server restarts. The holder notices at its next :meth:`PostgresLeases.confirm` or
when it lets go, not at once. In between, another may hold the same lease, and:

- *The catalog* stays right. Every catalog transaction that publishes confirms the lease on the lease's own
  connection, inside the transaction, before its first write. A session that answers still holds its locks;
  one that does not makes the transaction roll back. What remains is a session that dies between that answer
  and the commit, a millisecond later; the new holder reads the pointer only after it got the lease, and what
  it publishes comes last.
- *Tables*: a commit to a Delta table that was on its way when the lease was lost may land after the new
  holder looked. It carries no pointer, so no reader sees it, and the next holder rolls the table back to the
  published version before it writes. Only a commit that lands between that roll-back and the new holder's own
  commit, and touches none of its buckets (else Delta refuses the later one), would be published with it. A
  new holder has first to reconnect and plan its work, while the old one is in the middle of writing; a writer
  of tables that calls ``confirm`` right before each commit, or before it removes files, shortens the window
  to that one operation.

So a run whose lease was lost fails with ``E_CATALOG``, and a retry begins from what was published.

A pooler in front of the server (PgBouncer) has to pool by session: advisory locks belong to sessions.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.waiting import waiting_for
from taboot_pipelines.stores.leases.protocol import LeaseStore
from taboot_pipelines.stores.postgres import OUTAGE_SECONDS, Patience, failure, libpq_arguments, server_url

if TYPE_CHECKING:
    import psycopg

#: Idle sessions kept for the next lease, so that not every stage connects anew.
_MAX_IDLE = 2

_HOLDER = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid = %s AND l.objid = %s
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass
class _Session:
    connection: psycopg.Connection[Any]
    pid: int = field(default_factory=os.getpid)
    #: Names for people of the leases that it holds, in the order taken.
    holds: list[str] = field(default_factory=list)


class _Mine(threading.local):
    """The calling thread's session; None while it holds no lease."""

    def __init__(self) -> None:
        self.session: _Session | None = None


def lock_key(name: str) -> int:
    """Return a lease's key among the database's advisory locks: 64 signed bits of the name's SHA-256."""
    return int.from_bytes(hashlib.sha256(f"taboot:{name}".encode()).digest()[:8], "big", signed=True)


class PostgresLeases(LeaseStore):
    """Keeps one session per thread that holds leases, apart from the catalog's pool. Connects when the first
    lease is taken.
    """

    def __init__(self, url: str, wait_seconds: float) -> None:
        super().__init__(wait_seconds)
        self._url = server_url(url)
        self._mine = _Mine()
        self._idle: list[_Session] = []
        self._guard = threading.Lock()

    def confirm(self) -> None:
        session = self._session()
        if session is None:
            return
        import psycopg

        try:
            # A session that answers has not ended, and only its end or our own unlocking frees its locks.
            session.connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise _lost(session.holds, error) from None

    def close(self) -> None:
        """End the idle sessions; those of leases in force end with their leases."""
        with self._guard:
            idle, self._idle = self._idle, []
        for session in idle:
            _discard(session)

    @contextlib.contextmanager
    def _take(self, name: str, what: str, wait: float) -> Iterator[None]:
        key = lock_key(name)
        session = self._locked(key, what, wait)
        session.holds.append(what)
        try:
            yield
        except BaseException:
            with contextlib.suppress(TabootError):
                self._release(session, key, what)
            raise
        else:
            self._release(session, key, what)

    def _locked(self, key: int, what: str, wait: float) -> _Session:
        """This thread's session, holding the lock. While it holds nothing else it reconnects for as long as a
        restart may take.
        """
        import psycopg

        patience = Patience(min(wait, OUTAGE_SECONDS))
        while True:
            session = self._session()
            try:
                if session is None:
                    session = self._mine.session = self._borrow()
                if self._lock(session.connection, key, what, wait):
                    return session
                holder = self._holder(session.connection, key)
                self._give_back(session)
                raise TabootError(
                    "E_BUSY",
                    f"The lease of {what} is held by process {holder}; waited {wait:g} s.",
                    holder=holder,
                )
            except psycopg.errors.DeadlockDetected:
                assert session is not None
                self._give_back(session)
                raise TabootError(
                    "E_BUSY", f"The lease of {what} is held by one who waits for ours."
                ) from None
            except psycopg.Error as error:
                if session is not None and session.holds:
                    raise _lost(session.holds, error) from None
                if session is not None:
                    self._mine.session = None
                    _discard(session)
                found = failure(error)
                if not (found.transient and patience.wait()):
                    raise TabootError(
                        "E_CATALOG",
                        f"The lease of {what} cannot be taken: {found.words}.",
                        reason=found.words,
                    ) from None

    def _session(self) -> _Session | None:
        """This thread's; after a fork it is the parent's, whose socket is neither used nor closed here."""
        session = self._mine.session
        return session if session is not None and session.pid == os.getpid() else None

    def _lock(self, connection: psycopg.Connection[Any], key: int, what: str, wait: float) -> bool:
        import psycopg

        row = connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()
        if wait <= 0 or (row and row[0]):
            return bool(row and row[0])
        try:
            # The server queues the waiters; a timeout of 0 would mean none.
            with waiting_for(f"the lease of {what}", wait):
                connection.execute(
                    f"SET lock_timeout = {max(1, int(wait * 1000))}; SELECT pg_advisory_lock({key})"
                )
        except psycopg.errors.LockNotAvailable:
            return False
        return True

    def _holder(self, connection: psycopg.Connection[Any], key: int) -> str:
        unsigned = key % 2**64
        row = connection.execute(_HOLDER, [unsigned >> 32, unsigned % 2**32]).fetchone()
        return str(row[0]) if row and row[0] else "unknown"

    def _release(self, session: _Session, key: int, what: str) -> None:
        """Let go. Raises if the lease was not held any more, so that nobody believes that the block ran under
        it.
        """
        import psycopg

        session.holds.remove(what)
        try:
            row = session.connection.execute("SELECT pg_advisory_unlock(%s)", [key]).fetchone()
        except psycopg.Error as error:
            raise _lost([what], error) from None
        else:
            if not (row and row[0]):
                raise TabootError(
                    "E_CATALOG", f"The lease of {what} was not held any more when it was let go."
                )
        finally:
            self._give_back(session)

    def _borrow(self) -> _Session:
        with self._guard:
            while self._idle:
                session = self._idle.pop()
                if session.pid == os.getpid() and not session.connection.closed:
                    return session
        import psycopg

        # A limit that the operator has set for statements would end a wait for a lease, which has its own.
        return _Session(psycopg.connect(autocommit=True, **libpq_arguments(self._url, statement_timeout=0)))

    def _give_back(self, session: _Session) -> None:
        """Keep the session for the next lease, unless it still holds one or is broken."""
        if session.holds:
            return
        self._mine.session = None
        if not session.connection.broken and not session.connection.closed:
            with self._guard:
                if len(self._idle) < _MAX_IDLE:
                    self._idle.append(session)
                    return
        _discard(session)


def _discard(session: _Session) -> None:
    if session.pid == os.getpid():
        session.connection.close()


def _lost(holds: list[str], error: BaseException) -> TabootError:
    words = failure(error).words
    return TabootError(
        "E_CATALOG",
        f"The connection that held the lease of {' and '.join(holds)} was lost ({words}); nothing more is"
        " published.",
        reason=words,
        remedy="Run again: what was published before the loss is kept.",
    )
