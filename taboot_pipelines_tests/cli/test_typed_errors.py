"""Whatever is typed after ``taboot``, over a public house too, it ends well or by a typed error."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from taboot_pipelines.cli.group import cli
from taboot_pipelines.errors import TabootError
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import DATA, World

HOUSES = DATA / "house-questions"
#: What no argument of any command means; the last is how a byte that is no UTF-8 arrives.
ODD = ["", " ", "`*`", "a" * 5000, "(", "%", "'", "{}", "[]", "null", "🦊", "-1", "--", "0", "1e999", "..",
       "/", "2026-13-45", "http://[", "a=b", "=", "\udcff"]  # fmt: skip
#: They serve until they are ended, or reach beyond this machine.
LEFT_OUT = {"browse", "serve", "ui", "discover", "capture"}
LASTING = {"--listen"}
#: They write wherever they are told to.
WRITING = {"backup", "metrics"}
#: Each takes a pass over the whole house.
HEAVY = {"ingest", "audit", "reinterpret", "plan", "status", "init"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HOUSES.is_dir(), reason="needs the public houses of the test data"),
]


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        if name in LEFT_OUT:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


COMMANDS = dict(commands(cli))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, list[str]]]:
    root = tmp_path_factory.mktemp("house")
    shutil.unpack_archive(HOUSES / "houses" / "astronomy.tar.xz", root)
    with FakeTei(dimension=16) as embedder:
        made = World(root / "world", embedder.url)
        made.source("stacks", "compose", path=str(root / "astronomy"), host="nas.lan", proxy="traefik")
        made.ingest()
        kb = made.kb()
        lines = (HOUSES / "questions.jsonl").read_text().splitlines()
        asked = [q["question"] for q in map(json.loads, lines) if q["house"] == "astronomy"]
        known = [
            *asked[:20],
            *kb.nodes().column("name").to_pylist()[:20],
            *kb.edges().column("edge_id").to_pylist()[:5],
            *kb.documents().column("doc_id").to_pylist()[:5],
            *("stacks", "Service", "image", "default", "A"),
        ]
        yield Shell(made), known
        made.workspace.close()


def typed(command: click.Command, known: list[str], chance: random.Random) -> list[str]:
    """Arguments and options of a command, half of them such as a person may give."""

    def one(kind: click.ParamType) -> str:
        if isinstance(kind, click.Choice) and chance.random() < 0.7:
            return str(chance.choice(list(kind.choices)))
        if isinstance(kind, click.types.IntParamType) and chance.random() < 0.7:
            return chance.choice(["1", "0", "3", "-1", str(2**70)])
        return chance.choice(ODD if chance.random() < 0.5 else known)

    options: list[str] = []
    arguments: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            count = chance.choice([0, 1, 2]) if parameter.nargs == -1 else parameter.nargs
            arguments += [one(parameter.type) for _ in range(count)]
        elif isinstance(parameter, click.Option) and (parameter.required or chance.random() < 0.25):
            if parameter.opts[-1] in LASTING:
                continue
            options.append(parameter.opts[-1])
            options += [] if parameter.is_flag else [one(parameter.type) for _ in range(parameter.nargs)]
    return [*options, *arguments]


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_command_ends_well_or_by_a_typed_error(
    house: tuple[Shell, list[str]], names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, known = house
    chance = random.Random(" ".join(names))
    monkeypatch.chdir(tmp_path)
    for _ in range(2 if HEAVY & set(names) else 8):
        given = [*names, *typed(COMMANDS[names], known, chance)]
        if names[0] in WRITING:
            given = ["here" if text in {"/", ".."} else text for text in given]
        environment = {**{k: None for k in os.environ if k not in shell.environment}, **shell.environment}
        result = CliRunner().invoke(cli, given, env=environment, standalone_mode=False)
        expected = (TabootError, click.ClickException, click.Abort, SystemExit)
        assert result.exception is None or isinstance(result.exception, expected), (given, result.exception)
        if isinstance(result.exception, TabootError):
            assert result.exception.code != "E_INTERNAL", (given, result.exception)
