"""``deploy/local/services.py`` from outside: what it starts, finds again, ends and refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import redis

from taboot_pipelines_tests.servers import SERVICES, ended

pytestmark = [pytest.mark.server, pytest.mark.needs("postgres", "redis")]


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(SERVICES), *arguments]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "servers"
    yield path
    run("down", str(path), "--delete")


def up(folder: Path, only: str = "redis") -> dict[str, Any]:
    done = run("up", str(folder), "--only", only, "--no-fsync", "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def states(folder: Path) -> tuple[int, dict[str, str]]:
    done = run("status", str(folder), "--json")
    return done.returncode, {name: told["state"] for name, told in json.loads(done.stdout).items()}


def test_up_finds_what_it_started_and_starts_again_what_died(folder: Path) -> None:
    first = up(folder)["services"]["redis"]
    assert first["state"] == "started"
    again = up(folder)["services"]["redis"]
    assert again == {**first, "state": "running"}
    assert states(folder) == (0, {"redis": "running"})

    victim = psutil.Process(first["pid"])
    victim.kill()
    assert ended(victim)
    assert states(folder) == (1, {"redis": "stopped"})
    revived = up(folder)["services"]["redis"]
    assert (revived["state"], revived["port"]) == ("started", first["port"])
    assert revived["pid"] != first["pid"]
    with redis.Redis.from_url(revived["url"]) as client:
        assert client.ping()


def test_down_ends_the_servers_and_leaves_their_port_and_data(folder: Path) -> None:
    told = up(folder, "redis,postgres")["services"]
    processes = [psutil.Process(server["pid"]) for server in told.values()]
    done = run("down", str(folder))
    assert (done.returncode, done.stdout) == (0, "ended postgres, redis\n")
    assert all(ended(process) for process in processes)
    assert states(folder) == (1, {"postgres": "stopped", "redis": "stopped"})
    assert run("down", str(folder)).stdout == "nothing was running\n"
    back = up(folder, "redis,postgres")["services"]
    assert {name: server["port"] for name, server in back.items()} == {
        name: server["port"] for name, server in told.items()
    }


def test_a_hanging_server_is_told_from_a_stopped_one(folder: Path) -> None:
    pid = up(folder)["services"]["redis"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert states(folder) == (1, {"redis": "silent"})
    finally:
        os.kill(pid, signal.SIGCONT)
    assert states(folder) == (0, {"redis": "running"})


def test_a_recycled_pid_is_not_ours(folder: Path) -> None:
    told = up(folder)["services"]["redis"]
    run("down", str(folder))
    # The system gave the server's pid to somebody else meanwhile.
    with subprocess.Popen(["sleep", "3600"]) as stranger:
        record = json.loads((folder / "services.json").read_text())
        record["redis"] |= {"pid": stranger.pid, "born": "another boot:12345"}
        (folder / "services.json").write_text(json.dumps(record))
        assert states(folder) == (1, {"redis": "stopped"})
        assert run("down", str(folder)).stdout == "nothing was running\n"
        assert stranger.poll() is None
        assert up(folder)["services"]["redis"]["port"] == told["port"]
        assert stranger.poll() is None
        stranger.kill()


def test_a_taken_port_is_refused_and_not_taken_for_the_server(folder: Path) -> None:
    told = up(folder)["services"]["redis"]
    run("down", str(folder))
    with closing(socket.socket()) as squatter:
        squatter.bind(("127.0.0.1", told["port"]))
        squatter.listen()
        done = run("up", str(folder), "--only", "redis")
    assert done.returncode == 1
    assert f"port {told['port']}" in done.stderr
    assert "taken by another process" in done.stderr


def test_two_at_once_start_one_server(folder: Path) -> None:
    both = [
        subprocess.Popen(command("up", str(folder), "--only", "redis", "--json"), stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    told = [json.loads(process.communicate(timeout=300)[0])["services"]["redis"] for process in both]
    assert sorted(server["state"] for server in told) == ["running", "started"]
    assert told[0]["pid"] == told[1]["pid"]


def test_the_servers_listen_on_the_loopback_only(folder: Path) -> None:
    for server in up(folder, "redis,postgres")["services"].values():
        process = psutil.Process(server["pid"])
        listening = {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}


def test_postgres_has_databases_and_roles_and_runs_as_nobodys_root(folder: Path) -> None:
    told = up(folder, "postgres")
    server = told["services"]["postgres"]
    assert psutil.Process(server["pid"]).uids().effective != 0
    with psycopg.connect(told["settings"]["TABOOT_CATALOG_URL"].replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT current_user, current_database()").fetchone() == (
            "taboot_app",
            "taboot",
        )
        assert connection.execute(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone() == (False,)
    settings = told["settings"]
    address = {
        "host": settings["DAGSTER_PG_HOST"],
        "port": settings["DAGSTER_PG_PORT"],
        "user": settings["DAGSTER_PG_USER"],
    }
    psycopg.connect(dbname=settings["DAGSTER_PG_DB"], **address).close()
    # Root's temporary folders are closed to the account that runs it: then its data are elsewhere, and go
    # with the rest.
    assert Path(server["data"]).is_dir()
    run("down", str(folder), "--delete")
    assert not Path(server["data"]).exists()


def test_what_is_missing_is_named_with_its_remedy_and_nothing_is_started(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = run(
        "up",
        str(tmp_path / "servers"),
        "--only",
        "redis,neo4j,s3",
        PATH=str(empty),
        TABOOT_CACHE=str(tmp_path / "cache"),
    )
    assert done.returncode == 1
    for remedy in ("apt-get install redis-server", "apt-get install maven", "Go 1.24 or newer"):
        assert remedy in done.stderr
    assert not (tmp_path / "servers" / "services.json").exists()
    checked = run("check", "--only", "redis", PATH=str(empty))
    assert (checked.returncode, "apt-get install redis-server" in checked.stderr) == (1, True)
    assert run("check", "--only", "redis").returncode == 0


def test_an_unknown_server_is_refused_by_name(tmp_path: Path) -> None:
    done = run("up", str(tmp_path), "--only", "redis,mongo")
    assert (done.returncode, done.stderr) == (
        1,
        "services.py: unknown: mongo; there are neo4j, postgres, redis, s3\n",
    )


@pytest.fixture
def maven(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """An environment whose Maven is a script with this end, after it has noted its call and brought the first
    jar.
    """
    programs = tmp_path / "bin"
    programs.mkdir()

    def make(end: str) -> dict[str, str]:
        script = programs / "mvn"
        script.write_text(
            f"#!/bin/sh\necho called >>{tmp_path}/calls\nmkdir -p lib\ntouch lib/first.jar\n{end}\n"
        )
        script.chmod(0o755)
        return {"PATH": f"{programs}:{os.environ['PATH']}", "TABOOT_CACHE": str(tmp_path / "cache")}

    return make


WHOLE = "touch lib/neo4j-server-5.26.30.jar"


def test_a_killed_fetch_leaves_no_half_cache(tmp_path: Path, maven: Callable[[str], dict[str, str]]) -> None:
    process = subprocess.Popen(
        command("fetch", "--only", "neo4j"),
        env={**os.environ, **maven("exec sleep 3600")},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not (brought := list((tmp_path / "cache").glob("*/lib/first.jar"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert brought
    children = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    for child in children:
        child.kill()
    assert not (tmp_path / "cache" / "neo4j-5.26.30").exists()

    assert run("fetch", "--only", "neo4j", **maven(WHOLE)).returncode == 0
    assert [p.name for p in (tmp_path / "cache").iterdir() if p.is_dir()] == ["neo4j-5.26.30"]
    # What is there is not fetched again.
    assert run("fetch", "--only", "neo4j", **maven("exit 1")).returncode == 0


def test_two_fetches_at_once_fetch_once(tmp_path: Path, maven: Callable[[str], dict[str, str]]) -> None:
    environment = {**os.environ, **maven(f"sleep 0.5\n{WHOLE}")}
    both = [
        subprocess.Popen(command("fetch", "--only", "neo4j"), env=environment, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.wait(300) for process in both] == [0, 0]
    assert (tmp_path / "calls").read_text() == "called\n"


def test_a_failed_fetch_says_what_the_program_said(
    tmp_path: Path, maven: Callable[[str], dict[str, str]]
) -> None:
    done = run("fetch", "--only", "neo4j", **maven("echo no route to the registry\nexit 1"))
    assert done.returncode == 1
    assert "no route to the registry" in done.stderr
    assert not list((tmp_path / "cache").glob("*neo4j-5.26.30*/"))
