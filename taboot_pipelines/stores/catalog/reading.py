"""A SQLite catalog that is read, and nothing written to its folder, whether or not that could be written.

SQLite finds what is in the log (``-wal``) by an index that all processes share (``-shm``), and makes both
where they are missing. While a log holds something, both are there and are read as they are
(``readonly_shm``; the locks hold as ever). Without one the file holds everything, and is read as if nobody
could change it (``immutable``). But a writer may come and copy a log of its own into the file meanwhile. So
the file is looked at before and after each transaction, and one that met a change is run again, as is one
during which a writer made or removed the index.

Tried in a folder without the right to write, by SQLite 3.40: without a log ``mode=ro`` alone fails
(SQLITE_READONLY_DIRECTORY), as it does beside an empty log (SQLITE_CANTOPEN); in a folder that can be written
it makes both files, and leaves them there.
Source: sqlite.org/wal.html, "Read-Only Databases"; sqlite.org/uri.html; os_unix.c (``readonly_shm``).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taboot_pipelines.stores.catalog.outages import TryAgain

#: A writer that ends takes the index away before the log: what is seen in between is looked at again for so
#: long.
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_PASSING = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})


#: Files that this process opened for writing. SQLite shares an index among the connections of a process, and
#: one that was opened as read-only serves no writer: these are read by the index that writers have.
_written: set[Path] = set()


def written(path: Path) -> None:
    """Note that this process is about to open a file for writing."""
    _written.add(path.absolute())


class ReadConnection(sqlite3.Connection):
    """``file``: the file that is read as one that does not change, and what it was before."""

    file: tuple[Path, tuple[int, ...]] | None = None

    def check(self) -> None:
        """Raise :class:`TryAgain` if the file changed since it was opened, though it was not to."""
        if self.file is not None and _state(self.file[0]) != self.file[1]:
            raise TryAgain("E_CATALOG", "The catalog was written to while it was read.")


def connect(path: Path) -> ReadConnection:
    """Open the file for one transaction. Raises ``sqlite3.OperationalError``."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        # The state is taken first: a log that is copied into the file from here on changes it.
        state, logged = _state(path), _logged(path)
        how = "immutable=1" if not logged else f"readonly_shm={int(path.absolute() not in _written)}"
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&{how}",
            uri=True,
            timeout=60,
            isolation_level=None,
            check_same_thread=False,
            factory=ReadConnection,
        )
        connection.file = None if logged else (path, state)
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if time.monotonic() >= until:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return connection


@contextlib.contextmanager
def unchanged(connection: Connection) -> Iterator[None]:
    """Raise :class:`TryAgain`, whatever else was raised, if what is read within was changed meanwhile."""
    raw: Any = connection.connection.driver_connection
    try:
        yield
    except sa.exc.DBAPIError as error:
        raw.check()
        # It could be read a moment ago (``connect``).
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _PASSING:
            raise TryAgain("E_CATALOG", "The catalog was opened by a writer while it was read.") from None
        raise
    raw.check()


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise sqlite3.OperationalError(f"{path} cannot be looked at") from error
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _logged(path: Path) -> bool:
    """Whether a log holds something; a writer leaves an empty one behind once it is copied into the file."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False
