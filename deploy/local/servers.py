"""The four servers: what each needs, its command line, its configuration, and how to tell that it answers."""

from __future__ import annotations

import http.client
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import fetching
from processes import Refused

LOOPBACK = "127.0.0.1"
#: A server that takes longer to answer is asked again by ``up``, and called silent by ``status``.
ANSWER_SECONDS = 3.0
ROLES = Path(__file__).resolve().parents[1] / "postgres" / "roles.sql"
#: Keys of the throwaway S3 server. It listens on the loopback only and they open nothing else.
S3_KEY, S3_SECRET = "local-access-key", "taboot-local-secret"
BUCKET = "taboot"


@dataclass(frozen=True)
class Options:
    """How a new folder's servers weigh their data against time. What was chosen first stays."""

    fsync: bool = True
    redis_aof: bool = False
    neo4j_quick_start: bool = False


class Server:
    """One server in its folder, on its port."""

    name: ClassVar[str]
    #: The signal that asks it to end, and how many seconds that may take.
    goodbye: ClassVar[tuple[signal.Signals, float]] = (signal.SIGTERM, 30.0)
    #: The account that it runs as, if this process is root and the server refuses to be.
    user: str | None = None

    def __init__(self, folder: Path, port: int, options: Options) -> None:
        self.folder, self.port, self.options = folder, port, options

    @property
    def data(self) -> Path:
        """Where it keeps its data."""
        return self.folder / self.name

    def missing(self) -> list[str]:
        """What must be installed, each with how; empty if all is there."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Bring in what is fetched once."""

    def settle(self) -> None:
        """Decide where its data are; elsewhere than in the folder if the account that runs it may not enter
        there.
        """

    def prepare(self) -> None:
        """Make its folder and configuration. Killed half-way, it starts over."""
        self.data.mkdir(mode=0o700, exist_ok=True)

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def answers(self) -> bool:
        """Whether it speaks its protocol. Raises ``OSError`` where nothing listens."""
        raise NotImplementedError

    def furnish(self) -> None:
        """Make what a fresh server lacks; again and again without harm."""

    def url(self) -> str:
        raise NotImplementedError

    def settings(self) -> dict[str, str]:
        """The environment variables that point taboot_pipelines at it."""
        raise NotImplementedError


class Postgres(Server):
    """An own cluster. Whoever reaches the loopback is trusted: for development and tests, not for a shared
    machine.
    """

    name = "postgres"
    # Fast shutdown: sessions are ended, a checkpoint is written.
    goodbye = (signal.SIGINT, 60.0)
    superuser = "postgres"

    def __init__(self, folder: Path, port: int, options: Options, data: Path | None = None) -> None:
        super().__init__(folder, port, options)
        self.user = "postgres" if os.geteuid() == 0 else None
        self._data = data

    @property
    def data(self) -> Path:
        return self._data or super().data

    def settle(self) -> None:
        if self._data is not None and self._data.exists():
            return
        self._data = None
        if self.user is not None and not self._may_enter(self.user):
            self._data = Path(tempfile.mkdtemp(prefix="taboot-postgres-", dir="/var/tmp"))

    def _may_enter(self, user: str) -> bool:
        asked = subprocess.run(
            ["test", "-x", str(self.folder)],
            user=user,
            group=_group(user),
            extra_groups=[],
            cwd="/",
            check=False,
        )
        return asked.returncode == 0

    def missing(self) -> list[str]:
        lacks = []
        if _postgres_programs() is None:
            lacks.append("PostgreSQL 14 or newer (Debian: apt-get install postgresql)")
        elif self.user is not None and _group(self.user) is None:
            lacks.append(
                "the account postgres, since PostgreSQL refuses to run as root (useradd --system postgres)"
            )
        return lacks

    def prepare(self) -> None:
        base = self.data
        base.mkdir(mode=0o700, exist_ok=True)
        if self.user is not None:
            shutil.chown(base, self.user, _group(self.user))
        cluster = base / "cluster"
        if cluster.exists():
            return
        fresh = base / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        done = self._as_user(
            [
                self._program("initdb"),
                "-D",
                str(fresh),
                "-U",
                self.superuser,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            ]
        )
        if done.returncode != 0:
            raise Refused("initdb failed:\n" + done.stdout)
        with (fresh / "postgresql.conf").open("a") as conf:
            conf.write(
                "\n# services.py\nlisten_addresses = '127.0.0.1'\nunix_socket_directories ="
                " ''\nmax_connections = 200\n"
            )
            if not self.options.fsync:
                # Commits still reach the system's cache, so that they outlive the server, but not the
                # machine.
                conf.write("fsync = off\nfull_page_writes = off\n")
        fresh.rename(cluster)

    def command(self) -> list[str]:
        return [self._program("postgres"), "-D", str(self.data / "cluster"), "-p", str(self.port)]

    def answers(self) -> bool:
        return self._psql("-c", "SELECT 1").returncode == 0

    def furnish(self) -> None:
        told = self._psql("-c", "SELECT datname FROM pg_database")
        if told.returncode != 0:
            raise Refused("PostgreSQL does not list its databases:\n" + told.stdout)
        for database in ("taboot", "dagster"):
            if database not in told.stdout.split():
                made = self._psql("-c", f'CREATE DATABASE "{database}"')
                if made.returncode != 0:
                    raise Refused(f"the database {database} cannot be created:\n" + made.stdout)
        # The roles get no passwords: whoever is on this machine is trusted anyway.
        given = self._psql("-f", str(ROLES), database="taboot")
        if given.returncode != 0:
            raise Refused(f"the roles of {ROLES} cannot be created:\n" + given.stdout)

    def url(self) -> str:
        return f"postgresql+psycopg://{self.superuser}@{LOOPBACK}:{self.port}/postgres"

    def settings(self) -> dict[str, str]:
        at = f"{LOOPBACK}:{self.port}"
        return {
            "TABOOT_CATALOG_URL": f"postgresql+psycopg://taboot_app@{at}/taboot",
            "TABOOT_CATALOG_ADMIN_URL": f"postgresql+psycopg://taboot_owner@{at}/taboot",
            # What deploy/celery/dagster.yaml asks for. Dagster wants a password to be there; this server does
            # not look at it.
            "DAGSTER_PG_HOST": LOOPBACK,
            "DAGSTER_PG_PORT": str(self.port),
            "DAGSTER_PG_USER": self.superuser,
            "DAGSTER_PG_PASSWORD": "any",
            "DAGSTER_PG_DB": "dagster",
        }

    def _psql(self, *arguments: str, database: str = "postgres") -> subprocess.CompletedProcess[str]:
        command = [
            self._program("psql"),
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            LOOPBACK,
            "-p",
            str(self.port),
            "-U",
            self.superuser,
            "-d",
            database,
        ]
        environment = {"PATH": os.defpath, "PGCONNECT_TIMEOUT": "5"}
        return subprocess.run(
            [*command, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _as_user(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        group = _group(self.user) if self.user else None
        groups: list[int] | None = [] if self.user else None
        return subprocess.run(
            command,
            user=self.user,
            group=group,
            extra_groups=groups,
            cwd="/",
            env=_BARE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    @staticmethod
    def _program(name: str) -> str:
        folder = _postgres_programs()
        if folder is None:
            raise Refused("PostgreSQL is not installed")
        return str(folder / name)


class Redis(Server):
    """Loopback only. Without persistence unless it is asked for: what must not be lost is in the catalog."""

    name = "redis"

    def missing(self) -> list[str]:
        return (
            []
            if shutil.which("redis-server")
            else ["Redis 6 or newer (Debian: apt-get install redis-server)"]
        )

    def prepare(self) -> None:
        super().prepare()
        if not (conf := self.data / "redis.conf").exists():
            lines = [
                "bind 127.0.0.1",
                "protected-mode yes",
                'save ""',
                f"appendonly {'yes' if self.options.redis_aof else 'no'}",
                f'dir "{self.data}"',
                "daemonize no",
            ]
            write_whole(conf, "\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [
            shutil.which("redis-server") or "redis-server",
            str(self.data / "redis.conf"),
            "--port",
            str(self.port),
        ]

    def answers(self) -> bool:
        # While it reads its file it answers -LOADING.
        return _exchange(self.port, b"PING\r\n", 7) == b"+PONG\r\n"

    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def settings(self) -> dict[str, str]:
        return {"TABOOT_REDIS__URL": self.url(), "TABOOT_CELERY__BROKER": f"redis://{LOOPBACK}:{self.port}/1"}


class Neo4j(Server):
    """Neo4j community from its jars, Bolt only, no log-in asked."""

    name = "neo4j"
    goodbye = (signal.SIGTERM, 60.0)

    def missing(self) -> list[str]:
        lacks = (
            []
            if fetching.java()
            else ["Java 17, for Neo4j (Debian: apt-get install openjdk-17-jre-headless)"]
        )
        return lacks + fetching.missing_for_neo4j()

    def fetch(self) -> None:
        fetching.fetch_neo4j()

    def prepare(self) -> None:
        super().prepare()
        (self.data / "conf").mkdir(exist_ok=True)
        address = f"{LOOPBACK}:{self.port}"
        lines = [
            "dbms.security.auth_enabled=false",
            f"server.bolt.listen_address={address}",
            # Without it routing names the default port.
            f"server.bolt.advertised_address={address}",
            "server.http.enabled=false",
            "server.https.enabled=false",
            "server.memory.pagecache.size=128m",
            "dbms.usage_report.enabled=false",
        ]
        write_whole(self.data / "conf" / "neo4j.conf", "\n".join(lines) + "\n")

    def command(self) -> list[str]:
        opened = [
            f"--add-opens=java.base/{package}=ALL-UNNAMED"
            for package in ("java.nio", "java.io", "sun.nio.ch")
        ]
        # The simple compiler and collector: half the work until it answers, measured, and slower once it is
        # warm.
        quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if self.options.neo4j_quick_start else []
        if quick and (kept := fetching.neo4j_classes()).exists():
            # Another Java than the one that wrote it passes over it.
            quick.append(f"-XX:SharedArchiveFile={kept}")
        return [
            fetching.java() or "java",
            "-Xms256m",
            "-Xmx512m",
            *quick,
            *opened,
            "-Dlog4j2.disable.jmx=true",
            "-cp",
            f"{fetching.neo4j_jars()}/*",
            "org.neo4j.server.CommunityEntryPoint",
            f"--home-dir={self.data}",
            f"--config-dir={self.data / 'conf'}",
        ]

    def answers(self) -> bool:
        # The Bolt handshake: a magic number and four offers, of which the server picks one (5.4 to 5.0, 4.4);
        # zero is a refusal.
        offers = bytes([0, 4, 4, 5, 0, 0, 4, 4]) + bytes(8)
        return _exchange(self.port, b"\x60\x60\xb0\x17" + offers, 4) not in (b"", bytes(4))

    def url(self) -> str:
        return f"bolt://{LOOPBACK}:{self.port}"

    def settings(self) -> dict[str, str]:
        return {"TABOOT_NEO4J__URL": self.url()}


class S3(Server):
    """versitygw over a folder: an S3 server whose conditional writes hold."""

    name = "s3"

    def missing(self) -> list[str]:
        return fetching.missing_for_versitygw()

    def fetch(self) -> None:
        fetching.fetch_versitygw()

    def prepare(self) -> None:
        super().prepare()
        # A folder in it is a bucket.
        (self.data / BUCKET).mkdir(exist_ok=True)

    def command(self) -> list[str]:
        return [
            str(fetching.versitygw()),
            "--quiet",
            "--port",
            f"{LOOPBACK}:{self.port}",
            "posix",
            str(self.data),
        ]

    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": S3_SECRET}

    def answers(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 403  # S3's answer to someone without a key
        except http.client.HTTPException:
            return False
        finally:
            connection.close()

    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def settings(self) -> dict[str, str]:
        return {
            "TABOOT_STORAGE__ENDPOINT": self.url(),
            "TABOOT_STORAGE__REGION": "us-east-1",
            "TABOOT_STORAGE__ACCESS_KEY_ID": S3_KEY,
            "TABOOT_STORAGE__SECRET_ACCESS_KEY": S3_SECRET,
            "TABOOT_BLOB_URL": f"s3://{BUCKET}/blobs",
            "TABOOT_TABLE_URL": f"s3://{BUCKET}/tables",
            "TABOOT_SHARD_URL": f"s3://{BUCKET}/shards",
        }


#: In the order of starting: the slowest first.
SERVERS: tuple[type[Server], ...] = (Neo4j, Postgres, Redis, S3)

#: What a server that changes its account is given of our environment: nothing.
_BARE = {"PATH": os.defpath, "LC_ALL": "C"}


def write_whole(path: Path, text: str) -> None:
    """The whole text or the old one, never a part."""
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(text)
    aside.replace(path)


def _group(user: str | None) -> int | None:
    try:
        return pwd.getpwnam(user).pw_gid if user else None
    except KeyError:
        return None


def _postgres_programs() -> Path | None:
    """The folder with ``postgres`` and ``initdb``: on the ``PATH``, or the newest of where packages put
    it.
    """
    on_path = shutil.which("postgres")
    if on_path and (Path(on_path).resolve().parent / "initdb").exists():
        return Path(on_path).resolve().parent
    found = [
        p.parent
        for pattern in ("lib/postgresql/*/bin/initdb", "pgsql-*/bin/initdb")
        for p in Path("/usr").glob(pattern)
    ]
    return max(found, key=lambda p: int("".join(c for c in p.parent.name if c.isdigit()) or 0), default=None)


def _exchange(port: int, send: bytes, length: int) -> bytes:
    """Send, and read up to ``length`` bytes of the answer."""
    with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(send)
        answer = b""
        while len(answer) < length and (more := connection.recv(length - len(answer))):
            answer += more
        return answer
