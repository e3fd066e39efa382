"""Failures of the database as errors of ours: which of them pass, so that a transaction may be run again."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from taboot_pipelines.errors import TabootError
from taboot_pipelines.stores.disk import storage_error
from taboot_pipelines.stores.postgres import Failure

_LOCKED = (
    "Another session holds a lock on the catalog. Look at pg_locks and pg_stat_activity (application_name is"
    " host:pid of a process of ours), let it end, and run again."
)


class TryAgain(TabootError):
    """``E_CATALOG`` of a transaction that was surely not committed and may succeed when run again."""


def as_error(found: Failure, *, committing: bool = False) -> TabootError:
    """The error to raise for a failure: :class:`TryAgain` if it passes, else a plain ``E_CATALOG``.

    ``committing``: it met the commit itself, which may have happened unless the server says that it did not.
    """
    rolled_back = found.words in ("serialization failure", "deadlock")
    kind = TryAgain if found.transient and (not committing or rolled_back) else TabootError
    remedy = _LOCKED if found.locked else None
    return kind("E_CATALOG", f"The catalog failed: {found.words}.", remedy=remedy, reason=found.words)


#: Primary result codes of SQLite -> the errno with the same meaning.
_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    # Of these two the disk says more.
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}


def of_sqlite(what: str, error: BaseException, file: str | None) -> TabootError:
    """The error to raise for one of SQLite, bare or wrapped by SQLAlchemy: ``E_STORAGE`` if the disk refused,
    ``E_CATALOG`` that says so if another process holds the file's lock, else ``E_CATALOG`` with ``what``."""
    inner = getattr(error, "orig", None) or error
    code = getattr(inner, "sqlite_errorcode", 0) & 0xFF
    path = Path(file or "")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return TabootError(
            "E_CATALOG",
            f"The catalog {path} is locked: another process writes to it and did not end in time.",
            remedy=f"See which process has it open (`fuser -v {path}`), let it end, and run again.",
            reason="locked",
            path=str(path),
        )
    if code in _ERRNO and path.parent.is_dir() and not _misread(path):
        return storage_error(what, _state(path.parent) or _ERRNO[code], path, reason=type(error).__name__)
    damaged = (
        code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, *_ERRNO)
        or isinstance(error, UnicodeDecodeError)
    ) and path.exists()
    remedy = f"The file is damaged: copy {path} back from a backup." if damaged else None
    return TabootError("E_CATALOG", f"{what}.", remedy=remedy, reason=type(error).__name__)


def _misread(path: Path) -> bool:
    """Whether the file's header names a version of the format that SQLite does not write: it then takes the
    file for one that may only be read, or not be opened at all, whatever the disk allows.
    """
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return False
    # Of writing and of reading (database file format, 1.3.3): 1 with a rollback journal, 2 with a log.
    return len(header) == 20 and not {header[18], header[19]} <= {1, 2}


def _state(folder: Path) -> int | None:
    """The errno that a write into ``folder`` would meet now, if its file system is read-only or full."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if found.f_flag & os.ST_RDONLY:
        return errno.EROFS
    return None if found.f_bavail else errno.ENOSPC
