"""Runs ``taboot`` again and again in processes of their own, and kills them at chosen points.

A server process imports everything once and forks a child per command, so that a kill costs a run and not a
start-up. The child is a real process with its own session, locks and connections; nothing is opened before
the fork.

A *point* is a moment at which something is about to be written, or has just been: a statement that writes to
the catalog or to Dagster's storage, a file that is made, opened for writing, renamed or removed, a commit of
a table, a blob. Points are counted by kind, so a kill at the n-th of a kind is found again. The middle of a
library's own write is reached by an alarm without a handler, which ends a process as suddenly as SIGKILL
does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from taboot_pipelines_tests.forking import import_all

#: A command that takes longer hangs: on a pool, a lease or a lock that a killed one kept.
SECONDS = 400
#: Texts of a slice and of a commit in the children: small, so that a run has many commits.
SLICE, COMMIT = 32, 64
KINDS = ("catalog", "dagster", "file", "table", "blob", "embed")

#: What the interpreter reports of changes to the file system, and which arguments are paths.
_CHANGES = {
    "os.rename": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "shutil.rmtree": 1,
}


@dataclass(frozen=True)
class Kill:
    """At the ``n``-th point of a ``kind``, or ``within`` so many seconds after it."""

    kind: str
    n: int
    within: float = 0.0


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, negative for a signal; the points it passed by kind; where it was
    killed.
    """

    code: int
    seconds: float
    output: str
    points: Mapping[str, int]
    where: str

    @property
    def killed(self) -> bool:
        return self.code < 0


class Taboot:
    """The server as its user sees it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))}
        self.environment = {**clean, **environment}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def __enter__(self) -> Taboot:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def __call__(
        self, *arguments: str, home: Path, kill: Kill | None = None, after: float | None = None
    ) -> Ended:
        """Run a command on a home. It kills itself at ``kill``, or is killed ``after`` so many seconds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        record, output = self._directory / "record.json", self._directory / "output.txt"
        record.unlink(missing_ok=True)
        order = {
            "arguments": arguments,
            "home": str(home),
            "kill": kill and asdict(kill),
            "record": str(record),
            "output": str(output),
        }
        start = time.monotonic()
        print(json.dumps(order), file=self._process.stdin, flush=True)
        pid = int(self._process.stdout.readline())
        limit = threading.Timer(SECONDS if after is None else after, _strike, (pid,))
        limit.start()
        code = int(self._process.stdout.readline())
        limit.cancel()
        seconds, text = time.monotonic() - start, output.read_text()
        assert seconds < SECONDS, f"taboot {' '.join(arguments)} hangs\n{text}"
        said = json.loads(record.read_text()) if record.exists() else {}
        return Ended(
            code,
            seconds,
            text,
            said.get("points", {}),
            said.get("where") or f"{seconds:.2f} s after its start",
        )


def _strike(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


# --- in the server and its children -------------------------------------------------------------------------


class Points:
    """Counts points, and ends the process at the one it is told."""

    def __init__(self, home: str, kill: Mapping[str, Any] | None, record: Path) -> None:
        self._home, self._kill, self._record = home, kill, record
        self.counts: Counter[str] = Counter()

    def reach(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        kill = self._kill
        if kill is None or kill["kind"] != kind or kill["n"] != self.counts[kind]:
            return
        self.save(
            f"{kind} {kill['n']}: {what}"
            + (f", {1000 * kill['within']:.1f} ms later" if kill["within"] else "")
        )
        if kill["within"]:
            signal.setitimer(signal.ITIMER_REAL, kill["within"])
        else:
            os.killpg(0, signal.SIGKILL)

    def save(self, where: str = "") -> None:
        self._record.write_text(json.dumps({"points": self.counts, "where": where}))

    def watch(self) -> None:
        """From here on every write is a point."""
        import sqlalchemy as sa

        from taboot_pipelines.embedding.tei import TeiEmbedder
        from taboot_pipelines.stores.blobs import BlobStore
        from taboot_pipelines.stores.tables import Tables

        sys.addaudithook(self._audit)
        sa.event.listen(sa.Engine, "before_cursor_execute", self._statement)
        sa.event.listen(sa.Engine, "commit", lambda connection: self.reach(_database(connection), "COMMIT"))
        for owner, kind, names in (
            (Tables, "table", ("replace", "append", "rollback", "vacuum", "drop_owner")),
            (BlobStore, "blob", ("put", "delete")),
            (TeiEmbedder, "embed", ("embed",)),
        ):
            for name in names:
                setattr(owner, name, self._around(kind, name, getattr(owner, name)))

    def _around(self, kind: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            self.reach(kind, f"before {name} {arguments[2:4] if kind == 'table' else ''}")
            result = function(*arguments, **options)
            self.reach(kind, f"after {name} {arguments[2:4] if kind == 'table' else ''}")
            return result

        return call

    def _statement(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            self.reach(_database(connection), " ".join(statement.split())[:60])

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            written = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            paths: tuple[Any, ...] = arguments[:1] if written else ()
        else:
            paths = arguments[: _CHANGES.get(event, 0)]
        if any(
            isinstance(p, (str, Path)) and str(p).startswith(self._home) and "/locks" not in str(p)
            for p in paths
        ):
            self.reach("file", f"{event} {str(paths[0])[len(self._home) :]}")


def _database(connection: Any) -> str:
    return "catalog" if str(connection.engine.url.database).endswith("catalog.db") else "dagster"


def _child(order: Mapping[str, Any]) -> None:
    """Never returns."""
    code = 1
    try:
        os.setsid()
        with Path(order["output"]).open("wb") as output, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.environ["TABOOT_HOME"] = order["home"]
        from taboot_pipelines.cli import main

        points = Points(order["home"], order["kill"], Path(order["record"]))
        points.watch()
        try:
            main(order["arguments"])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        points.save()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Answer each order on stdin with the child's pid, and with its exit code when it has ended."""
    from taboot_pipelines.stages import embeddings

    import_all()

    # The sizes of a slice and of a commit are constants; smaller ones make more points in less time.
    embeddings._SLICE_TEXTS, embeddings._COMMIT_TEXTS = SLICE, COMMIT
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
