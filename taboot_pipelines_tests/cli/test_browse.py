"""``taboot browse`` in a terminal: its address, a port that is taken, a browser that is opened, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from taboot_pipelines_tests.cli.test_cli import PROGRAM, Shell
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.held_port import held_port
from taboot_pipelines_tests.unwritable import PYTHON, tree, unwritable
from taboot_pipelines_tests.world import World


@pytest.fixture
def shell(world: World) -> Shell:
    (world.source("guides") / "guide.md").write_text("# Lanterns\n\nThe lantern hangs in the hall.\n")
    world.ingest()
    return Shell(world)


@contextmanager
def started(
    shell: Shell, *arguments: str, start: Sequence[str] = (), command: str = "browse", **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address that it printed."""
    process = subprocess.Popen(
        [*(start or python()), "-c", PROGRAM, command, *arguments],
        env={**shell.environment, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        address = process.stdout.readline().strip()
        assert address, process.stderr.read()
        yield process, address
    finally:
        process.kill()
        process.wait(30)


def status(address: str) -> int:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        with opener.open(address, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_it_answers_where_it_says_and_ends_quietly(shell: Shell) -> None:
    interpreter, held = (sys.executable,), held_port()
    with (
        held as port,
        started(shell, "--no-open", "--port", str(port), start=interpreter) as (process, address),
    ):
        assert address.startswith(f"http://127.0.0.1:{port}/?token=")
        assert len(address.partition("=")[2]) >= 43
        assert status(address) == 200
        assert status(f"http://127.0.0.1:{port}/") == 403
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert out == "" and err == "Ctrl-C ends it.\n"


def test_two_of_them_are_apart(shell: Shell) -> None:
    with started(shell, "--no-open") as (_, one), started(shell, "--no-open") as (_, other):
        assert one.partition("?")[0] != other.partition("?")[0]
        assert one.partition("=")[2] != other.partition("=")[2]
        assert status(one) == status(other) == 200
        assert status(one.partition("=")[0] + "=" + other.partition("=")[2]) == 403


def test_a_port_that_is_taken_is_told_first(shell: Shell) -> None:
    with started(shell, "--no-open") as (_, address):
        port = address.partition("127.0.0.1:")[2].partition("/")[0]
        out = shell.process("browse", "--port", port, code=1)
        assert out == "" and "E_PORT" in shell.err and port in shell.err and "--port" in shell.err


def test_over_a_home_that_cannot_be_written(shell: Shell) -> None:
    home = shell.world.home
    shell.world.workspace.close()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with unwritable(home):
        before = tree(home)
        with started(shell, "--no-open", start=PYTHON) as (_, address):
            base = address.partition("/?")[0]
            told = {}
            for page in ("/", "/search?q=lantern", "/sources", "/source/guides", "/drift", "/dead-letters"):
                with opener.open(f"{base}{page}" if told else address, timeout=60) as answer:
                    told[page] = answer.read().decode()
        assert "succeeded" in told["/sources"]
        assert "hangs in the hall" in told["/search?q=lantern"]
        assert tree(home) == before
        # It could not be written: a process of the same rights that writes is refused.
        probe = [*PYTHON, "-c", f"open({str(home / 'probe')!r}, 'w')"]
        assert subprocess.run(probe, check=False, capture_output=True).returncode != 0


def test_programs_are_told_the_address_and_a_token_unless_they_have_one(shell: Shell) -> None:
    def asked(address: str, header: str) -> int:
        name, _, value = header.partition(": ")
        request = urllib.request.Request(f"{address}/status", headers={name: value})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with started(shell, command="serve") as (process, address):
        assert process.stdout is not None
        header = process.stdout.readline().strip()
        assert address.endswith("/api") and header.startswith("Authorization: Bearer ")
        assert asked(address, header) == 200 and asked(address, f"{header}x") == 401
    own = "a-token-that-programs-have"
    with started(shell, command="serve", TABOOT_SERVE__TOKEN=own) as (process, address):
        assert asked(address, f"Authorization: Bearer {own}") == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert out == "" and own not in err


def test_a_namespace_of_its_own(shell: Shell) -> None:
    with started(shell, "--no-open", "--namespace", "lab") as (_, address):
        # Nothing is published there: the page says so, rather than show another's.
        assert status(address) == 404
    shell("browse", "--namespace", "Not One", code=1)
    assert "E_CONFIG" in shell.err or "E_QUERY" in shell.err or "namespace" in shell.err.lower()


def test_before_the_first_ingest(tmp_path: Path, world: World) -> None:
    shell = Shell(world)
    shell.environment["TABOOT_HOME"] = str(tmp_path / "none")
    with started(shell, "--no-open") as (_, address):
        assert status(address) == 404
    assert not (tmp_path / "none").exists()


def test_the_browser_is_opened_where_asked(shell: Shell, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    with started(shell, "--open", BROWSER=f"{browser} %s") as (_, address):
        until = time.monotonic() + 60
        while not (opened.exists() and opened.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.05)
        once = opened.read_text().strip()
        assert once.partition("=")[0] == address.partition("=")[0] and once != address
        assert status(once) == 200 and status(once) == 403 and status(address) == 200
    opened.unlink()
    # Not without being asked where nobody would see it: this is no terminal.
    with started(shell, BROWSER=f"{browser} %s", DISPLAY=":0") as (_, address):
        assert status(address) == 200 and not opened.exists()


def test_the_help_loads_nothing(shell: Shell) -> None:
    program = (
        "import sys\nfrom taboot_pipelines.cli import main\n"
        "try: main(['browse', '--help'])\n"
        "finally: print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'starlette', 'uvicorn', 'jinja2', 'dagster', 'duckdb', 'pyarrow'}))\n"
    )
    out = shell.process(program=program)
    assert "127.0.0.1" in out and "--no-open" in out and out.rstrip().endswith("[]")


def test_pages_load_no_dagster(shell: Shell) -> None:
    program = (
        "import sys\nfrom taboot_pipelines.retrieval import KnowledgeBase\n"
        "from taboot_pipelines.browse.app import make_app\nfrom starlette.testclient import TestClient\n"
        "client = TestClient(make_app(KnowledgeBase.open(), 't', 'once', 80), base_url='http://localhost')\n"
        "assert client.get('/?token=t').status_code == 200\n"
        "assert client.get('/search?q=lantern').status_code == 200\n"
        "print('dagster' in sys.modules)\n"
    )
    assert shell.process(program=program).strip() == "False"
