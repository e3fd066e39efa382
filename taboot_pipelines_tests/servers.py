"""Start real servers for tests: the run's shared ones, when first asked for, and own ones that a test may
stop.

All workers of a run (``pytest -n``) use the same shared servers. The process that started the run makes their
folder, tells the workers where it is, and ends the servers when the workers have ended. Each worker has
databases of PostgreSQL and a number of Redis of its own; buckets are told apart by random prefixes; the tests
of Neo4j, which has one database, all run in one worker (``conftest.py`` sees to that).

A server that the environment names (``TABOOT_TEST_POSTGRES_URL``, ``…_REDIS_URL``, ``…_NEO4J_URL``,
``…_S3_URL``) is used instead of starting one; ``…_S3_URL`` reads ``http://KEY:SECRET@HOST:PORT``. What cannot
be started here is skipped (``needs.py``); S3, whose server has to be compiled, also where that fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import obstore
import psutil
import psycopg
import pytest
from obstore.store import S3Store
from psycopg import sql
from sqlalchemy.engine import make_url

from taboot_pipelines_tests.needs import SERVICES as SERVICES
from taboot_pipelines_tests.needs import demand

FOR_TESTS = ("--no-fsync", "--neo4j-quick-start", "--json")
#: The file of a run's folder that names the process which the run belongs to.
OWNER = "owner"
#: The worker that these tests run in: ``gw0``, ``gw1`` …, or ``main`` where there are no workers.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
#: Fixtures of a real server: a test that uses one has the mark ``server``.
FIXTURES = frozenset({"postgres", "redis_url", "neo4j_url", "s3"})
#: Redis has 16 databases; ``defs/test_celery.py`` takes the eleventh and the twelfth.
MAX_REDIS_WORKERS = 10


@dataclass(frozen=True)
class PostgresServer:
    """``url`` is the superuser's, as SQLAlchemy reads it, on the database ``postgres``."""

    url: str

    def database(self, name: str) -> str:
        """The superuser's URL of a fresh, empty database of this worker; one of that name from before is
        dropped.

        It sorts text by a language's rules, as most installations do: a query that relies on SQLite's order
        by bytes fails here.
        """
        name = f"{name}_{WORKER}"
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
        made = httpx.put(obstore.sign(store, "PUT", "", timedelta(minutes=1)), verify=False)
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


class Run:
    """What the servers of one run share: their folder, and the test that asks for one now.

    ``told``: the folder that another process made for this one; without it the first use makes one.
    """

    def __init__(self, told: str | None = None) -> None:
        self._folder = Path(told) if told else None
        self._owned = told is None
        #: The test that runs at this moment.
        self.item: pytest.Item | None = None
        self._own = 0

    @property
    def folder(self) -> Path:
        if self._folder is None:
            remove_what_killed_runs_left()
            self._folder = Path(tempfile.mkdtemp(prefix="taboot-servers-"))
            # The account that runs PostgreSQL passes through.
            self._folder.chmod(0o711)
            (self._folder / OWNER).write_text(f"{os.getpid()} {psutil.Process().create_time()}")
        return self._folder

    def shared(self, name: str) -> str:
        """The URL of a shared server. The first worker that asks starts it while the others wait."""
        self.demand_mark()
        place = self.folder / name
        url = self.folder / f"{name}.url"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not url.exists():
                told = json.loads(services("up", str(place), "--only", name, *FOR_TESTS))
                url.write_text(told["services"][name]["url"])
            return url.read_text()

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder that the first worker which asks makes; the others wait, and nobody writes to it."""
        place, made = self.folder / name, self.folder / f"{name}.made"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                make(place)
                made.touch()
        return place

    def note(self, folder: Path) -> Path:
        """Take down a folder of own servers, so that they end with the run even if it is killed."""
        self.demand_mark()
        self._own += 1
        link = self.folder / f"own-{WORKER}-{self._own}"
        link.symlink_to(folder)
        return link

    def demand_mark(self) -> None:
        """Fail a test that starts a server without saying so: ``make check`` leaves out by the mark."""
        if self.item is not None and self.item.get_closest_marker("server") is None:
            pytest.fail(
                f"{self.item.nodeid} starts a server: give it the mark pytest.mark.server", pytrace=False
            )

    def close(self) -> None:
        """End all servers and remove the folder, if it is this process's."""
        if self._owned and self._folder is not None:
            _remove(self._folder)


#: The run that this process is part of; ``pytest_configure`` tells a worker's where the folder is.
RUN = Run()


def remove_what_killed_runs_left() -> None:
    """End the servers of runs whose process is gone, and remove their folders."""
    for left in Path(tempfile.gettempdir()).glob("taboot-servers-*"):
        # Another run may be making or removing it at this moment.
        with suppress(FileNotFoundError):
            if left.stat().st_uid == os.getuid() and not _runs(left / OWNER):
                _remove(left)


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return PostgresServer(os.environ.get("TABOOT_TEST_POSTGRES_URL") or RUN.shared("postgres"))


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of this worker's database, by its number."""
    number = 0 if WORKER == "main" else int(WORKER.removeprefix("gw"))
    assert number < MAX_REDIS_WORKERS, f"Redis has databases for {MAX_REDIS_WORKERS} workers"
    url = os.environ.get("TABOOT_TEST_REDIS_URL") or RUN.shared("redis")
    return urlsplit(url)._replace(path=f"/{number}").geturl()


@pytest.fixture(scope="session")
def neo4j_url() -> str:
    return os.environ.get("TABOOT_TEST_NEO4J_URL") or RUN.shared("neo4j")


@pytest.fixture(scope="session")
def s3() -> S3Server:
    named = os.environ.get("TABOOT_TEST_S3_URL")
    if named:
        parts = urlsplit(named)
        return S3Server(
            f"{parts.scheme}://{parts.hostname}:{parts.port}", parts.username or "", parts.password or ""
        )
    _s3_or_skip()
    return s3_at(RUN.shared("s3"))


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
    for record in folder.glob("*/services.json"):
        services("down", str(record.parent), "--delete")
    shutil.rmtree(folder, ignore_errors=True)


def _s3_or_skip() -> None:
    done = subprocess.run(
        [sys.executable, str(SERVICES), "fetch", "--only", "s3"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"tests against an S3 server: versitygw cannot be had ({done.stderr.strip()})")


@contextmanager
def _own(name: str, folder: Path, *options: str) -> Iterator[OwnServer]:
    demand(name)
    place = folder / f"own-{name}"
    noted = RUN.note(place)
    server = OwnServer(name, place, *options)
    try:
        server.start()
        yield server
    finally:
        server.remove()
        noted.unlink()
