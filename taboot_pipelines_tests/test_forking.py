"""A forked program is what a started one is to whoever calls it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from taboot_pipelines_tests.forked import read_at_start
from taboot_pipelines_tests.forking import python

FORKED, STARTED = "forked", "started"


def environment() -> dict[str, str]:
    """That of this process, but for what the process that forks was started with."""
    kept = ast.literal_eval(Path(f"{python()[-1]}.environment").read_text())
    return {k: v for k, v in os.environ.items() if k not in read_at_start(os.environ)} | kept


def called(how: str, program: str, *arguments: str, **options: Any) -> tuple[int, str, str]:
    start: Sequence[str] = python() if how == FORKED else (sys.executable,)
    done = subprocess.run(
        [*start, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )
    return done.returncode, done.stdout, done.stderr.rpartition("\n  File")[2]


@pytest.mark.parametrize(
    "program",
    [
        "import sys; print(sys.argv, __name__); print('é', file=sys.stderr)",
        "import os; print(os.getcwd(), os.environ.get('TABOOT_X'), 'HOME' in os.environ, input())",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('why')",
        "1 / 0",
        "raise KeyboardInterrupt",
        "import atexit; atexit.register(print, 'at the end')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "import os; os.kill(os.getpid(), 15)",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_it_does_what_an_interpreter_does(program: str, tmp_path: Path) -> None:
    options = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "TABOOT_X": "1"}, "input": "asked\n"}
    options["env"] |= {k: v for k, v in os.environ.items() if k.startswith(("PYTHON", "LC_", "LANG"))}
    assert called(FORKED, program, "a", **options) == called(STARTED, program, "a", **options)


def test_what_an_interpreter_reads_as_it_starts_starts_one() -> None:
    program = "import sys; print('taboot_pipelines' in sys.modules, sys.flags.hash_randomization)"
    env = environment()
    assert called(FORKED, program, env=env)[1] == "True 1\n"
    assert called(FORKED, program, env={**env, "PYTHONHASHSEED": "0"})[1] == "False 0\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_by_the_signals_that_it_is_sent(number: signal.Signals) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"this run was started so that {number.name} is ignored")
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(90)"
    with subprocess.Popen(
        [*python(), "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(60) == -number
    assert pid != process.pid
    end = time.monotonic() + 60
    while psutil.pid_exists(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("_again", [False, True])
def test_a_test_finds_the_environment_that_the_one_before_it_found(_again: bool) -> None:
    """As a command called in this process leaves it, after which forks would be interpreters that start."""
    assert "OPENBLAS_LEFT" not in os.environ
    os.environ["OPENBLAS_LEFT"] = "by a test"
