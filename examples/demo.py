"""What `make demo` runs: the commands a newcomer would type, on the bundled homelab, one after the other."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
COMMANDS = [
    ["ingest"],
    ["search", "restore a database from backup", "--limit", "3"],
    ["neighbors", "grafana"],
    ["ask", "Which port does Grafana listen on?"],
    ["status"],
]


def main() -> int:
    home = os.environ.get("TABOOT_HOME", ".taboot-demo")
    environment = {
        **os.environ,
        "TABOOT_HOME": home,
        "TABOOT_SOURCES": os.environ.get("TABOOT_SOURCES", str(HERE / "homelab" / "sources.yaml")),
    }
    taboot = Path(sys.executable).with_name("taboot")
    for command in COMMANDS:
        print(f"\n$ taboot {shlex.join(command)}", flush=True)
        start = time.perf_counter()
        code = subprocess.run([taboot, *command], env=environment, check=False).returncode
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)
        if code:
            return code
    print(
        f"\nThe data lies in {home}. Next:\n"
        "  make dev                      the Dagster UI over it, on http://127.0.0.1:3000\n"
        "  examples/homelab.ipynb        the same from a notebook\n"
        f"  TABOOT_HOME={home} .venv/bin/taboot ask 'What depends on Redis?'"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
