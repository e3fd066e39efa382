"""What the catalog and the leases share of PostgreSQL: its URL, how to connect, and what a failure means.

Nothing here connects by itself, and ``psycopg`` is imported only where PostgreSQL is used.
"""

from __future__ import annotations

import os
import random
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.waiting import waiting_for

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

#: How long work waits for a server that is away (a restart takes seconds) before ``E_CATALOG``.
OUTAGE_SECONDS = 30.0
#: No statement of ours takes minutes; one that does is waiting for something that will not come.
STATEMENT_MILLISECONDS = 120_000

#: SQLSTATE, or its class of two characters -> words. From Appendix A of PostgreSQL's manual.
_WORDS = {
    "08": "the connection failed",
    "22": "a value that the database cannot hold",
    "23": "a constraint was violated",
    "25006": "the server is read-only",
    "28": "authentication failed",
    "3D000": "there is no such database",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "42501": "insufficient privilege",
    "42P01": "a table is missing",
    "53100": "the server's disk is full",
    "53300": "too many connections",
    "53": "the server is out of resources",
    "55P03": "timed out waiting for a lock",
    "57014": "the statement timed out",
    "57P": "the server is shutting down or starting up",
    "58": "the server's storage failed",
    "XX": "the server reports an internal error",
}
#: Either rolled back by the server, so that retrying the transaction is safe, or refused before it began.
_TRANSIENT = ("40001", "40P01", "53300", "57P01", "57P02", "57P03", "08")
#: libpq gives no SQLSTATE when a connection is refused; failures that no waiting mends have these words.
_LASTING = (
    ("authentication failed", "authentication failed"),
    ("no password supplied", "authentication failed"),
    ("no pg_hba.conf entry", "authentication failed"),
    ("does not exist", "there is no such database or role"),
    ("not permitted to log in", "authentication failed"),
    ("invalid connection option", "an option of the URL is unknown"),
    ("certificate", "no secured connection could be made"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The class of a failure in words.

    ``transient``: what was not committed may be retried.
    """

    words: str
    transient: bool
    #: Somebody else held a lock for longer than one waits for it.
    locked: bool = False


def failure(error: BaseException) -> Failure:
    """Return the class of a ``psycopg`` error, bare or wrapped by SQLAlchemy.

    The server's own words are not used, since they may quote rows.
    """
    import psycopg

    inner = getattr(error, "orig", None) or error
    if not isinstance(inner, psycopg.Error):
        # The pool had no free connection within its time-out: other work of this process holds them all.
        return Failure(
            "no connection became free" if type(error).__name__ == "TimeoutError" else type(error).__name__,
            False,
        )
    if inner.sqlstate is not None:
        state = inner.sqlstate
        words = next(
            (_WORDS[key] for key in (state, state[:3], state[:2]) if key in _WORDS), type(inner).__name__
        )
        return Failure(words, state.startswith(_TRANSIENT), locked=state == "55P03")
    if isinstance(inner, (psycopg.OperationalError, psycopg.InterfaceError)):
        text = str(inner)
        lasting = next((words for sign, words in _LASTING if sign in text), None)
        return Failure(lasting or "the server cannot be reached", lasting is None)
    return Failure(_WORDS["22"] if isinstance(inner, psycopg.DataError) else type(inner).__name__, False)


def server_url(url: str, setting: str = "TABOOT_CATALOG_URL") -> URL:
    """Return the URL with the driver psycopg 3.

    It may begin with ``postgres://``, ``postgresql://`` or ``postgresql+psycopg://``. Raises ``E_CONFIG``,
    which names the setting and never the URL.
    """
    import sqlalchemy as sa

    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise TabootError("E_CONFIG", f"{setting} is not a database URL.") from None
    if parsed.drivername not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise TabootError(
            "E_CONFIG",
            f"{setting} must name SQLite or PostgreSQL (postgresql://…); it names {parsed.drivername}.",
        )
    return parsed.set(drivername="postgresql+psycopg")


def is_postgres(url: str | None) -> bool:
    return url is not None and url.partition(":")[0].partition("+")[0] in ("postgres", "postgresql")


def connect_arguments(url: URL, **server_settings: str | int) -> dict[str, Any]:
    """Return arguments of ``psycopg.connect`` besides the URL's own, which take precedence.

    ``server_settings`` hold for the whole session. Keepalives are on at both sides: a peer that vanished
    silently is noticed within a minute.
    """
    settings: dict[str, str | int] = {
        "tcp_keepalives_idle": 20,
        "tcp_keepalives_interval": 10,
        "tcp_keepalives_count": 3,
        "client_encoding": "UTF8",
        **server_settings,
    }
    arguments = {
        "connect_timeout": 10,
        "application_name": application_name(),
        "keepalives": 1,
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def libpq_arguments(url: URL, **server_settings: str | int) -> dict[str, Any]:
    """Return everything that ``psycopg.connect`` needs for this URL.

    libpq itself refuses some URLs that SQLAlchemy accepts.
    """
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    return {
        **connect_arguments(url, **server_settings),
        **url.translate_connect_args(username="user", database="dbname"),
        **query,
    }


def application_name() -> str:
    """Return ``host:pid``, as ``pg_stat_activity`` shows it; PostgreSQL keeps 63 bytes."""
    return f"{socket.gethostname()[:50]}:{os.getpid()}"


class Patience:
    """The waits between retries: backoff with jitter, until ``seconds`` have passed."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._delay = 0.05

    def wait(self) -> bool:
        """Sleep before the next retry; return False if there is none."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        with waiting_for("the database server", left):
            time.sleep(min(left, self._delay * random.uniform(0.5, 1)))
        self._delay = min(self._delay * 2, 2.0)
        return True
