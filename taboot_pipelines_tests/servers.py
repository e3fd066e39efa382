"""Real servers for tests: the session's shared ones, started when first asked for, and own ones that a test
may stop.

A server that the environment names (``TABOOT_TEST_POSTGRES_URL``, ``…_REDIS_URL``, ``…_NEO4J_URL``,
``…_S3_URL``) is used instead of starting one; ``…_S3_URL`` reads ``http://KEY:SECRET@HOST:PORT``. Without
PostgreSQL, Redis or Neo4j a test fails and says what to install. S3 alone may be skipped, by name, since its
server has to be compiled.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import obstore
import psutil
import psycopg
import pytest
from obstore.store import S3Store
from psycopg import sql
from sqlalchemy.engine import make_url

FOR_TESTS = ("--no-fsync", "--neo4j-quick-start", "--json")
#: Names the session that a folder of servers belongs to.
OWNER = "owner"
SERVICES = Path(__file__).parents[1] / "deploy" / "local" / "services.py"


@dataclass(frozen=True)
class PostgresServer:
    """``url`` is the superuser's, as SQLAlchemy reads it, on the database ``postgres``."""

    url: str

    def database(self, name: str) -> str:
        """The superuser's URL of a fresh, empty database; one of that name from before is dropped.

        It sorts text by a language's rules, as most installations do: a query that relies on SQLite's order
        by bytes fails here.
        """
        url = make_url(self.url)
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as connection:
            quoted = sql.Identifier(name)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(quoted))
            connection.execute(
                sql.SQL(
                    "CREATE DATABASE {} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
                ).format(quoted)
            )
        return url.set(database=name).render_as_string(hide_password=False)


@dataclass(frozen=True)
class S3Server:
    """An S3-compatible server whose conditional writes hold."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"

    def bucket(self, name: str) -> str:
        """Make a bucket, unless it is there; its name, which S3 wants to have three letters or more."""
        store = S3Store(
            name,
            endpoint=self.endpoint,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=self.region,
            client_options={"allow_http": True},
        )
        made = httpx.put(obstore.sign(store, "PUT", "", timedelta(minutes=1)))
        assert made.status_code in (
            200,
            409,
        ), f"the bucket {name} cannot be made: HTTP {made.status_code} {made.text}"
        return name


class OwnServer:
    """A server of one test, which may kill it and start it again on the same port and data."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        self._name, self._folder, self._options = name, folder, options
        self.url = ""

    def start(self) -> None:
        """Start it, or nothing if it runs; returns when it answers."""
        told = services("up", str(self._folder), "--only", self._name, *FOR_TESTS, *self._options)
        self.url = json.loads(told)["services"][self._name]["url"]

    def stop(self) -> None:
        """Kill it and wait until it is gone; clients see a reset connection, then a refused one."""
        pid = json.loads((self._folder / "services.json").read_text())[self._name]["pid"]
        process = psutil.Process(pid)
        # PostgreSQL's children are told by SIGQUIT to leave at once; a SIGKILL would let them linger.
        process.send_signal(signal.SIGQUIT if self._name == "postgres" else signal.SIGKILL)
        assert ended(process), f"{self._name} does not end"

    def remove(self) -> None:
        """End it and remove its data."""
        services("down", str(self._folder), "--delete")


def ended(process: psutil.Process, seconds: float = 30) -> bool:
    """Whether a process is gone in time; so is one that nobody has taken note of yet (a zombie)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@contextmanager
def own_redis(folder: Path, *, keeps_data: bool = False) -> Iterator[OwnServer]:
    """A Redis that forgets everything when it is stopped, unless it ``keeps_data``."""
    with _own("redis", folder, *(["--redis-aof"] if keeps_data else [])) as server:
        yield server


@contextmanager
def own_postgres(folder: Path) -> Iterator[OwnServer]:
    """A PostgreSQL; ``url`` as that of ``PostgresServer``."""
    with _own("postgres", folder) as server:
        yield server


@contextmanager
def own_neo4j(folder: Path) -> Iterator[OwnServer]:
    """A Neo4j; it takes ten seconds to start, and as long to start again."""
    with _own("neo4j", folder) as server:
        yield server


@contextmanager
def own_s3(folder: Path) -> Iterator[OwnServer]:
    """An S3 server; ``s3_at(url)`` tells how to log in. The test is skipped where it cannot be had."""
    _s3_or_skip()
    with _own("s3", folder) as server:
        yield server


def s3_at(url: str) -> S3Server:
    """The S3 server that ``services.py`` started at this URL."""
    return S3Server(url, "local-access-key", "taboot-local-secret")


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Where the session's servers live; they end with it and leave nothing. Those of a session that was
    killed end here too.
    """
    for left in Path(tempfile.gettempdir()).glob("taboot-servers-*"):
        # Another session may be removing it at this moment.
        with suppress(FileNotFoundError):
            if left.stat().st_uid == os.getuid() and not _runs(left / OWNER):
                _remove(left)
    folder = Path(tempfile.mkdtemp(prefix="taboot-servers-"))
    # The account that runs PostgreSQL passes through.
    folder.chmod(0o711)
    (folder / OWNER).write_text(f"{os.getpid()} {psutil.Process().create_time()}")
    try:
        yield folder
    finally:
        _remove(folder)


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    return PostgresServer(os.environ.get("TABOOT_TEST_POSTGRES_URL") or _shared(request, "postgres"))


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    return os.environ.get("TABOOT_TEST_REDIS_URL") or _shared(request, "redis")


@pytest.fixture(scope="session")
def neo4j_url(request: pytest.FixtureRequest) -> str:
    return os.environ.get("TABOOT_TEST_NEO4J_URL") or _shared(request, "neo4j")


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest) -> S3Server:
    named = os.environ.get("TABOOT_TEST_S3_URL")
    if named:
        parts = urlsplit(named)
        return S3Server(
            f"{parts.scheme}://{parts.hostname}:{parts.port}", parts.username or "", parts.password or ""
        )
    _s3_or_skip()
    return s3_at(_shared(request, "s3"))


def services(*arguments: str) -> str:
    """Run ``services.py``; its standard output. What it says when it refuses fails the test."""
    done = subprocess.run(
        [sys.executable, str(SERVICES), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(done.stderr.strip(), pytrace=False)
    return done.stdout


def _runs(owner: Path) -> bool:
    pid, created = owner.read_text().split()
    try:
        return bool(psutil.Process(int(pid)).create_time() == float(created))
    except psutil.NoSuchProcess:
        return False


def _remove(folder: Path) -> None:
    services("down", str(folder), "--delete")
    shutil.rmtree(folder, ignore_errors=True)


def _shared(request: pytest.FixtureRequest, name: str) -> str:
    folder = request.getfixturevalue("servers_folder")
    told: dict[str, Any] = json.loads(services("up", str(folder), "--only", name, *FOR_TESTS))
    return str(told["services"][name]["url"])


def _s3_or_skip() -> None:
    done = subprocess.run(
        [sys.executable, str(SERVICES), "fetch", "--only", "s3"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"tests against an S3 server: versitygw cannot be had ({done.stderr.strip()})")


@contextmanager
def _own(name: str, folder: Path, *options: str) -> Iterator[OwnServer]:
    server = OwnServer(name, folder / f"own-{name}", *options)
    try:
        server.start()
        yield server
    finally:
        server.remove()
