"""What `make demo` runs: the commands a newcomer would type, on the bundled homelab, one after the other, and
then a crawl of a small site that it serves itself.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shlex
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
    """Run ``taboot`` with each of ``commands``; the exit code of the first that fails, else 0."""
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
    print(
        f"\nThe data lies in {home}. Next:\n"
        f"  TABOOT_HOME={home} .venv/bin/taboot browse    search, read and walk the graph in a browser\n"
        "  make dev    the Dagster UI over it, http://127.0.0.1:3000 (examples/homelab.ipynb: a notebook)\n"
        "  .venv/bin/taboot init ~/stacks    begin with what is yours; then taboot ingest"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
