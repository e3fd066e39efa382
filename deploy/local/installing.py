"""What the tests need of the system: what of it is missing, and how Debian brings it.

``install`` asks apt-get where this process is root or sudo asks for no password, and nowhere else. It lets no
package start a server: the tests start theirs on ports of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fetching
from processes import Refused
from servers import SERVERS, Options

CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: Of these Debian releases have one or the other; Neo4j 5 runs on both.
JRE = tuple(f"openjdk-{release}-jre-headless" for release in fetching.JAVA)

# The package's scripts ask policy-rc.d whether they may start what they brought; 101 says no.
_APT = """
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\\nexit 101\\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@"
"""


@dataclass(frozen=True)
class Need:
    """One thing that tests cannot do without; ``packages``: which of Debian's bring it."""

    name: str
    missing: Callable[[], list[str]]
    packages: Callable[[], list[str]]


def missing() -> dict[str, list[str]]:
    """By name what is needed and not there, each thing as a sentence that says how to install it."""
    return {need.name: lacking for need in NEEDS if (lacking := need.missing())}


def install() -> dict[str, list[str]]:
    """Install what is missing, if this process may; what is missing after that, as :func:`missing`."""
    lacking = missing()
    if not lacking or (prefix := _privilege()) is None:
        return lacking
    _run([*prefix, "apt-get", "update", "-qq"])
    wanted = [package for need in NEEDS if need.name in lacking for package in need.packages()]
    print(f"installing {' '.join(wanted)}", file=sys.stderr, flush=True)
    if not _run([*prefix, "sh", "-c", _APT, "sh", *wanted]):
        # One that cannot be had shall not keep the others from being installed.
        for package in wanted:
            _run([*prefix, "sh", "-c", _APT, "sh", package])
    return missing()


def _privilege() -> list[str] | None:
    """What a command that changes the system begins with; None where that is not to be done."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    allowed = shutil.which("sudo") and _run(["sudo", "-n", "true"], quiet=True)
    return ["sudo", "-n"] if allowed else None


def _run(command: list[str], quiet: bool = False) -> bool:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0 and not quiet:
        print("\n".join(done.stdout.splitlines()[-10:]), file=sys.stderr, flush=True)
    return done.returncode == 0


def _no_chromium() -> list[str]:
    named = os.environ.get("TABOOT_TEST_BROWSER")
    found = Path(named).exists() if named else any(shutil.which(name) for name in CHROMIUM)
    return [] if found else ["Chromium (Debian: apt-get install chromium)"]


def _no_venv() -> list[str]:
    found = _run([sys.executable, "-c", "import venv, ensurepip"], quiet=True)
    return [] if found else ["Python's venv (Debian: apt-get install python3-venv)"]


def _server(name: str) -> Callable[[], list[str]]:
    kind = next(server for server in SERVERS if server.name == name)
    return lambda: kind(Path(), 0, Options()).missing()


def _for_neo4j() -> list[str]:
    packages = []
    if fetching.java() is None:
        known = (name for name in JRE if _run(["apt-cache", "show", name], quiet=True))
        packages.append(next(known, JRE[0]))
    return packages + (["maven"] if fetching.missing_for_neo4j() else [])


NEEDS = (
    Need("venv", _no_venv, lambda: ["python3-venv"]),
    Need("chromium", _no_chromium, lambda: ["chromium"]),
    Need("postgres", _server("postgres"), lambda: ["postgresql"]),
    Need("redis", _server("redis"), lambda: ["redis-server"]),
    Need("neo4j", _server("neo4j"), _for_neo4j),
)


def provide(complete: bool) -> str:
    """Install what the tests need; what is left out then, in words. With ``complete`` that is refused, and
    without Python's venv nothing can be installed at all: both raise ``Refused``.
    """
    lacking = install()
    listed = "\n".join(f"  {what}" for sentences in lacking.values() for what in sentences)
    if lacking and (complete or "venv" in lacking):
        raise Refused(f"to be installed first:\n{listed}")
    return f"Without these, whose tests are left out:\n{listed}" if lacking else ""
