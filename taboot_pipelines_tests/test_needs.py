"""What a machine lacks is left out by name, or refused where nothing may be left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from taboot_pipelines_tests.needs import SERVICES

ROOT = Path(__file__).parents[1]
#: A file all of whose tests read the real data but one.
SITEMAPS = "taboot_pipelines_tests/crawl/test_sitemaps.py"


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def run_without_data(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    nowhere = str(tmp_path / "nowhere")
    command = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", SITEMAPS]
    return run(command, TABOOT_TEST_DATA=nowhere, **environment)


def test_without_the_data_what_needs_them_is_left_out_by_name(tmp_path: Path) -> None:
    done = run_without_data(tmp_path, TABOOT_TEST_COMPLETE="")
    assert done.returncode == 0, done.stdout
    told = done.stdout.partition(" left out ")[2]
    assert f"needs the real data in {tmp_path}/nowhere (TABOOT_TEST_DATA)" in told and SITEMAPS in told
    assert " passed" in done.stdout and " skipped" in done.stdout


def test_nothing_is_left_out_of_a_complete_run(tmp_path: Path) -> None:
    done = run_without_data(tmp_path, TABOOT_TEST_COMPLETE="1")
    assert done.returncode == 1 and "passed" not in done.stdout
    assert f"the real data in {tmp_path}/nowhere" in done.stdout + done.stderr


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--complete"], 1)])
def test_where_the_system_may_not_be_changed_it_is_said_what_is_missing(
    tmp_path: Path, options: list[str], code: int
) -> None:
    """Without apt-get in the path nothing is installed."""
    nothing = {"PATH": str(tmp_path), "HOME": str(tmp_path), "TABOOT_TEST_BROWSER": str(tmp_path / "none")}
    done = run([str(SERVICES), "install", *options], **nothing)
    assert done.returncode == code, done.stderr
    told = done.stdout + done.stderr
    assert "apt-get install chromium" in told and "apt-get install redis-server" in told
    assert {"chromium", "redis"} <= json.loads(run([str(SERVICES), "missing"], **nothing).stdout).keys()
