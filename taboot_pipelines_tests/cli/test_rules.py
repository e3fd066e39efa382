"""``taboot rules``: what it shows, and the exit code for who builds on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

COMPOSE = """
services:
  web:
    image: nginx:1.27
    privileged: true  # taboot: allow privileged because it reads the disks
    network_mode: host
"""


@pytest.fixture
def shell(tmp_path: Path, tei: FakeTei) -> Iterator[Shell]:
    world = World(tmp_path, tei.url)
    (world.source("stack", "compose", host="box.lan") / "compose.yaml").write_text(COMPOSE)
    world.ingest()
    yield Shell(world)
    world.workspace.close()


def test_findings_are_shown_with_their_place_and_end_with_an_exit_code(shell: Shell) -> None:
    shown = shell("rules")
    assert "warning no-restart-policy: stack/web" in shown and "info    host-network: stack/web" in shown
    assert "compose.yaml:6" in shown and "privileged" not in shown
    assert "2 found by" in shown and "1 silenced." in shown
    assert "it reads the disks" in shell("rules", "--silenced")
    shell("rules", "--fail-on", "error")
    shell("rules", "--fail-on", "warning", code=1)
    shell("rules", "--rule", "host-network", "--fail-on", "warning")
    shell("rules", "--rule", "host-network", "--fail-on", "info", code=1)
    found = shell.json("rules", "--project", "stack", "--fail-on", "warning", code=1)
    assert [f["rule"] for f in found["findings"]] == ["no-restart-policy", "host-network"]
    assert found["findings"][1]["citations"][0]["text"] == "network_mode: host"


def test_the_rules_are_listed_with_what_they_find(shell: Shell) -> None:
    shown = shell("rules", "--list")
    assert "privileged (warning): 0 found, 1 silenced" in shown and "host-network (info): 1 found" in shown
    assert "E_QUERY" in (shell("rules", "--rule", "host-networks", code=1) or shell.err)
