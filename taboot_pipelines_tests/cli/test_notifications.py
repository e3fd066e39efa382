"""``taboot notifications`` and the sensor: told, listed, tried again, tested."""

from __future__ import annotations

import yaml

from taboot_pipelines.defs import operations
from taboot_pipelines_tests.cli.test_cli import Shell
from taboot_pipelines_tests.defs.conftest import Project, project  # noqa: F401
from taboot_pipelines_tests.defs.test_operations import skipped, tick
from taboot_pipelines_tests.stages.test_notifications import receiver


def declare(lab: Shell, **endpoints: object) -> None:
    file = lab.world.directory / "sources.yaml"
    declared = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**declared, "notifications": endpoints}))


def test_told_listed_and_tried_again(lab: Shell) -> None:
    assert "Nobody is to be told" in lab("notifications", "send")
    status = [503]
    with receiver(lambda: status[0]) as server:
        told = {"url": server.url, "allow_private": True, "events": ["completed"]}
        declare(lab, ops=told)
        assert lab.json("notifications", "send")["new"] == 0
        (lab.world.directory / "runbooks" / "new.md").write_text("# New\n\nA new runbook of the night.\n")
        lab("ingest", "runbooks")
        assert lab.json("notifications", "send", code=1) == {
            "new": 1,
            "delivered": 0,
            "again": 1,
            "failed": 0,
        }
        (listed,) = lab.json("notifications", "list")["deliveries"]
        assert (listed["state"], listed["code"], listed["attempts"]) == ("pending", "503", 1)
        assert listed["next_at"] and "runbooks was read" in lab("notifications", "list", "--state", "pending")
        status[0] = 200
        lab("notifications", "replay", listed["id"][:8])
        assert lab.json("notifications", "send")["delivered"] == 1 and len(server.taken) == 1
        assert "ops answered 200" in lab("notifications", "test", "ops") and len(server.taken) == 2
    assert "did not take it: E_NETWORK" in lab("notifications", "test", "ops", code=1)
    lab("notifications", "test", "nobody", code=1)
    assert "E_NOT_FOUND" in lab.err and "it has ops" in lab.err
    lab("notifications", "replay", "zz", code=1)
    assert "E_NOT_FOUND" in lab.err


def test_the_sensor_tells(project: Project) -> None:  # noqa: F811
    project.sync()
    assert skipped(tick(project, operations.notifications)) == "Nobody is to be told."
    with receiver() as server:
        file = project.world.directory / "sources.yaml"
        declared = yaml.safe_load(file.read_text())
        ops = {"url": server.url, "allow_private": True, "events": ["completed"]}
        file.write_text(yaml.safe_dump({**declared, "notifications": {"ops": ops}}))
        project.sync()
        assert skipped(tick(project, operations.notifications)) == "There is nothing to tell."
        assert project.run_only("guides").success
        assert "1 delivered" in skipped(tick(project, operations.notifications))
        assert server.told()[0]["source"] == "guides"
        assert skipped(tick(project, operations.notifications)) == "There is nothing to tell."
