"""What tests need beside the installed package: the real data, Chromium, programs of servers.

``make test`` says so and leaves out what needs a thing that is not there: each such test is skipped with the
reason. ``TABOOT_TEST_COMPLETE=1`` (CI) leaves nothing out; the run then ends before its first test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: Fixtures, each with what a test needs that uses it.
OF_FIXTURES = {
    "postgres": "postgres",
    "redis_url": "redis",
    "neo4j_url": "neo4j",
    "data": "data",
    "chromium": "chromium",
}
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
BROWSER = os.environ.get("TABOOT_TEST_BROWSER") or next(
    filter(None, map(shutil.which, _CHROMIUM)), "chromium"
)
SERVICES = Path(__file__).parents[1] / "deploy" / "local" / "services.py"
#: The example house of the repository.
HOMELAB = Path(__file__).parents[1] / "examples" / "homelab"
_FOLDER = Path(os.environ.get("TABOOT_TEST_DATA") or Path(__file__).parents[1] / ".." / "shared" / "data")


class _NoData(type(Path())):
    """A path in the folder of the real data, which is not here: who looks at it skips its test or file."""

    def __repr__(self) -> str:
        return "<no data>"

    def __str__(self) -> str:
        if threading.current_thread() is not threading.main_thread():
            raise FileNotFoundError(_without_data())
        pytest.skip(_without_data(), allow_module_level=True)

    __fspath__ = __str__


def _without_data() -> str:
    return f"left out: needs the real data in {os.path.abspath(_FOLDER)} (TABOOT_TEST_DATA)"


#: The real data sets, read in place.
DATA: Path = _FOLDER.resolve() if _FOLDER.is_dir() else _NoData("data")


def files(folder: str, pattern: str) -> list[Path]:
    """Real files for a module to list as it is imported; none where they are not here, so that those of its
    tests that need none still run.
    """
    return sorted((DATA / folder).rglob(pattern)) if _FOLDER.is_dir() else []


@cache
def lacking() -> dict[str, str]:
    """By name what is not here, each with the reason that a skipped test gives."""
    told = subprocess.run(
        [sys.executable, str(SERVICES), "missing"], capture_output=True, text=True, check=True
    ).stdout
    named: dict[str, list[str]] = json.loads(told)
    reasons = {name: f"left out: needs {', '.join(what)}" for name, what in named.items()}
    for name in ("postgres", "redis", "neo4j"):
        if os.environ.get(f"TABOOT_TEST_{name.upper()}_URL"):
            reasons.pop(name, None)
    return reasons if _FOLDER.is_dir() else {**reasons, "data": _without_data()}


def leave_out(item: pytest.Item) -> None:
    """Skip a test that needs what is not here."""
    needed = [name for mark in item.iter_markers("needs") for name in mark.args]
    needed += [OF_FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in OF_FIXTURES]
    if item.get_closest_marker("ui"):
        needed.append("chromium")
    for name in needed:
        if name in lacking():
            item.add_marker(pytest.mark.skip(reason=lacking()[name]))
            return


def demand(name: str) -> None:
    """Skip the test that runs if this is not here."""
    if name in lacking():
        pytest.skip(lacking()[name])


def refuse_to_leave_out() -> None:
    """End the run if anything is missing and nothing may be left out."""
    if os.environ.get("TABOOT_TEST_COMPLETE") and lacking():
        listed = "\n".join(f"  {reason.removeprefix('left out: ')}" for reason in lacking().values())
        pytest.exit(f"TABOOT_TEST_COMPLETE is set, and tests would be left out:\n{listed}", returncode=1)


def summary(reporter: Any) -> None:
    """Say at the end which files' tests were left out, and why."""
    files: dict[str, dict[str, int]] = {}
    for report in reporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "left out: " in reason:
            counts = files.setdefault(reason.partition("left out: ")[2], {})
            name = report.nodeid.partition("::")[0]
            counts[name] = counts.get(name, 0) + 1
    if files:
        reporter.section("left out")
        for reason, counts in files.items():
            reporter.line(f"{sum(counts.values())}: {reason}")
            for name, count in sorted(counts.items()):
                reporter.line(f"  {count:4} of {name}")
