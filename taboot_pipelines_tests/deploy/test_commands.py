"""What the files set and call exists: our settings, the options of the programs, the queues of the
workers.
"""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel, SecretStr

from taboot_pipelines.defs.executors import DEFAULT_QUEUE, GPU_QUEUE
from taboot_pipelines.settings import Settings, load_settings
from taboot_pipelines_tests.deploy.files import COMPOSE, DEPLOY, LOCATION, MANIFESTS, UNITS


def environments() -> dict[str, dict[str, str]]:
    """The ``TABOOT_`` variables that each deployment sets, as it sets them."""
    filled = {
        k: re.sub(r"\$\{(\w+)[^}]*\}", "given", v)
        for k, v in COMPOSE["services"]["code"]["environment"].items()
    }
    unit = [
        line.split("=", 1)
        for line in (DEPLOY / "celery" / "taboot.env.example").read_text().splitlines()
        if line[:1] not in ("#", "")
    ]
    mapped = [
        m.get("data", {}) | m.get("stringData", {})
        for m in MANIFESTS
        if m["kind"] in ("ConfigMap", "Secret") and m["metadata"]["name"] == "taboot"
    ]
    kubernetes = {v["name"]: v["value"] for v in LOCATION["env"]} | mapped[0] | mapped[1]
    found = {"compose": filled, "celery": dict(unit), "kubernetes": kubernetes}
    return {
        name: {k: v for k, v in variables.items() if k.startswith("TABOOT_")}
        for name, variables in found.items()
    }


def leaves(model: type[BaseModel], prefix: str = "TABOOT_") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", field.annotation


@pytest.mark.parametrize("deployment", ["compose", "celery", "kubernetes"])
def test_a_deployment_sets_settings_that_exist_to_values_that_are_taken(
    deployment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = dict(leaves(Settings))
    variables = environments()[deployment]
    assert len(variables) > 8
    assert set(variables) <= set(known)
    for name, value in variables.items():
        if known[name] == SecretStr | None:
            assert not value or "given" in value, f"{name} is a secret and stands in a file"
        if value:
            monkeypatch.setenv(name, value)
    load_settings()


def programs() -> dict[str, list[str]]:
    """The command lines of our own programs, as the files give them."""
    found = {f"compose {n}": list(COMPOSE["services"][n]["command"]) for n in ("code", "webserver", "daemon")}
    found["compose daemon health"] = COMPOSE["services"]["daemon"]["healthcheck"]["test"][1:]
    found["compose code health"] = COMPOSE["services"]["code"]["healthcheck"]["test"][1:]
    image = (DEPLOY / "compose" / "Dockerfile").read_text().splitlines()[-1]
    found["image"] = json.loads(image.removeprefix("CMD "))
    found["kubernetes"] = ["dagster", "api", "grpc", *LOCATION["dagsterApiGrpcArgs"]]
    for path in UNITS:
        unit = configparser.RawConfigParser(strict=False)
        unit.read(path)
        found[path.name] = shlex.split(unit["Service"]["ExecStart"])
    return found


@pytest.mark.parametrize(("name", "command"), programs().items(), ids=programs())
def test_a_command_line_has_only_options_that_its_program_knows(name: str, command: list[str]) -> None:
    from celery.bin.celery import celery
    from dagster._cli import create_dagster_cli
    from dagster._daemon.cli import create_dagster_daemon_cli
    from dagster_webserver.cli import create_dagster_webserver_cli

    roots: dict[str, click.Command] = {
        "dagster": create_dagster_cli(),
        "dagster-daemon": create_dagster_daemon_cli(),
        "dagster-webserver": create_dagster_webserver_cli(),
        "celery": celery,
    }
    program = roots[Path(command[0]).name]
    options = {option for parameter in program.params for option in parameter.opts}
    for word in command[1:]:
        if isinstance(program, click.Group) and word in program.commands:
            program = program.commands[word]
            options |= {option for parameter in program.params for option in parameter.opts}
    assert not isinstance(program, click.Group), f"{name} names no command"
    assert {word for word in command if word.startswith("--")} <= options
    for module in (word for word in command if word.startswith("taboot_pipelines.")):
        assert importlib.util.find_spec(module), module


def test_workers_exist_for_the_queues_that_steps_are_sent_to() -> None:
    (worker,) = [path for path in UNITS if path.name == "taboot-worker@.service"]
    assert "--queues %i " in worker.read_text()
    readme = (DEPLOY / "README.md").read_text()
    for queue in (DEFAULT_QUEUE, GPU_QUEUE):
        assert f"taboot-worker@{queue}" in readme


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd's reading of the units: systemd-analyze is not installed")
    for path in UNITS:
        # It looks for the programs too.
        (tmp_path / path.name).write_text(
            path.read_text().replace("/opt/taboot/bin", str(Path(sys.executable).parent))
        )
    done = subprocess.run(
        [verify, "verify", *map(str, sorted(tmp_path.iterdir()))], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
