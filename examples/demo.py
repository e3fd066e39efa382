"""What `make demo` runs: the commands a newcomer would type, on the bundled homelab, one after the other; a
crawl of a small site that it serves itself; and the house seen whole: what hangs on a thing, what a change
would do, and the map.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
COMMANDS = [
    ["ingest"],
    ["search", "restore a database from backup", "--limit", "3"],
    ["neighbors", "grafana"],
    ["ask", "Which port does Grafana listen on?"],
    ["drift"],
    ["status"],
]
#: On a home of its own, since a home belongs to one sources file.
CRAWL_COMMANDS = [
    ["ingest"],
    ["crawls"],
    ["crawls", "show", "manual"],
]
#: A line of the example, and what it is changed to in a copy: a port that another service has.
CHANGED, BEFORE, AFTER = "stacks/monitoring/compose.yaml", '"3010:3000"', '"8096:3000"'
#: A repository of the copy as it is.
GIT = (
    "-c init.defaultBranch=main init",
    "add --all",
    "-c user.name=demo -c user.email=demo@example.org -c commit.gpgSign=false commit --message demo",
)
#: As in examples/crawl/sources.yaml.
CRAWL_PORT = 8377


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: what is asked for is what the crawl shows."""


@contextlib.contextmanager
def served(folder: Path, port: int) -> Iterator[None]:
    """Serve ``folder`` on loopback. Raises ``OSError`` where the port is taken."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def run(commands: list[list[str]], home: str, sources: str) -> int:
    """Run ``taboot`` with each of ``commands``; the first exit code that is not 0, else 0."""
    environment = {**os.environ, "TABOOT_HOME": home, "TABOOT_SOURCES": sources}
    taboot = Path(sys.executable).with_name("taboot")
    for command in commands:
        print(f"\n$ taboot {shlex.join(command)}", flush=True)
        start = time.perf_counter()
        code = subprocess.run([taboot, *command], env=environment, check=False).returncode
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)
        if code:
            return code
    return 0


def whole(home: str, sources: str) -> int:
    """Show what hangs on one service, what a change would do to the house, and the map of all of it; the exit
    code of the first command that does not end as it should, else 0."""
    code = run([["impact", "forge/db", "--limit", "3"]], home, sources)
    if not code and shutil.which("git"):
        changed = Path(home, "changed").absolute()
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(HERE / "homelab", changed)
        for command in GIT:
            subprocess.run(["git", *command.split()], cwd=changed, check=True, stdout=subprocess.DEVNULL)
        file = changed / CHANGED
        file.write_text(file.read_text("utf-8").replace(BEFORE, AFTER), "utf-8")
        print(f"\nA change in a copy of it, not ingested: {CHANGED} has {AFTER} in place of {BEFORE}.")
        code = run([["check", str(changed)]], f"{home}/none", str(changed / "sources.yaml"))
        # 1 says that the change causes a problem, which is what is shown here.
        code = 0 if code == 1 else code or 1
    elif not code:
        print("\ngit is not installed, so the check of a change is left out.")
    return code or run([["handbook", str(Path(home, "handbook"))]], home, sources)


def main() -> int:
    home = os.environ.get("TABOOT_HOME", ".taboot-demo")
    sources = os.environ.get("TABOOT_SOURCES", str(HERE / "homelab" / "sources.yaml"))
    code = run(COMMANDS, home, sources)
    if code:
        return code
    print("\nA crawl of examples/crawl/site, served on loopback, into a home of its own:", flush=True)
    try:
        with served(HERE / "crawl" / "site", CRAWL_PORT):
            code = run(CRAWL_COMMANDS, f"{home}/crawl", str(HERE / "crawl" / "sources.yaml"))
    except OSError as error:
        print(f"Port {CRAWL_PORT} on 127.0.0.1 cannot be used ({error.strerror}), so the crawl is left out.")
    if code:
        return code
    code = whole(home, sources)
    if code:
        return code
    print(
        f"\nThe map of the house: {Path(home, 'handbook', 'index.html').resolve().as_uri()}#map\n"
        f"The data lies in {home}. Next:\n"
        f"  TABOOT_HOME={home} .venv/bin/taboot browse    search, read and walk the graph; Map: all of it\n"
        "  make dev    the Dagster UI over it, http://127.0.0.1:3000 (examples/homelab.ipynb: a notebook)\n"
        "  .venv/bin/taboot init ~/stacks    begin with what is yours; then taboot ingest"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
