"""Completion in a shell, and a port that somebody has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess

import pytest

from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.world import World


@pytest.fixture
def shell(world: World) -> Shell:
    world.source("guides")
    world.source("gates", "compose")
    return Shell(world)


def completed(shell: Shell, words: str) -> list[str]:
    """What bash is told for a line whose last word is being typed."""
    environment = {
        "_TABOOT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    kept = shell.environment
    shell.environment = {**kept, **environment}
    try:
        told = shell.process().splitlines()
        return [line.partition(",")[2] for line in told if line]
    finally:
        shell.environment = kept


def test_source_ids_and_relations_are_completed(shell: Shell) -> None:
    assert completed(shell, "taboot ingest g") == ["guides", "gates"]
    assert completed(shell, "taboot search x --source ga") == ["gates"]
    assert completed(shell, "taboot neighbors x --type DEP") == ["DEPENDS_ON"]
    assert "neighbors" in completed(shell, "taboot ne")
    (shell.world.directory / "sources.yaml").write_text("sources: [wrong\n")
    assert completed(shell, "taboot ingest g") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_script(shell: Shell, name: str) -> None:
    script = shell("completion", name)
    assert "_TABOOT_COMPLETE" in script and "taboot" in script
    if shutil.which(name):
        done = subprocess.run([name, "-n"], input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_port_that_somebody_has_is_told_before_anything_starts(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = shell("ui", "--port", port, code=1)
    assert refused == "" and f"Port {port} of 127.0.0.1 is in use" in shell.err and "--port" in shell.err
    assert not os.path.exists(shell.world.home / "dagster")
