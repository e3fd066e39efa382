"""A killed run must not block its pool: real processes, a real instance on disk, no daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import psutil
import pytest

from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.sweeper import sweep_dead_runs
from taboot_pipelines.settings import Settings
from taboot_pipelines_tests.defs.conftest import GUIDE
from taboot_pipelines_tests.defs.launching import RUN
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World

TABOOT = "from taboot_pipelines.cli import main; main()"
#: A run of Dagster's, stopped for ever inside the embeddings step, which holds the only slot of its pool.
STUCK_RUN = f"""
import sys, time
from pathlib import Path
from taboot_pipelines.stages import running
real = running.run_stage
marker = sys.argv.pop()
def run_stage(workspace, stage, *args, **options):
    if stage == "embeddings":
        Path(marker).touch()
        time.sleep(3600)
    return real(workspace, stage, *args, **options)
running.run_stage = run_stage
{RUN}
"""
#: The command, stopped for ever inside the stage of the embeddings.
STUCK = """
import sys, time
from pathlib import Path
from taboot_pipelines import ingesting
real = ingesting.run_entries
def run_entries(workspace, stage, *args, **options):
    if stage.name == "embeddings":
        Path(sys.argv.pop()).touch()
        time.sleep(3600)
    return real(workspace, stage, *args, **options)
ingesting.run_entries = run_entries
from taboot_pipelines.cli import main
main(["ingest", "a", "b"])
"""


def environment(world: World) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
    }


def until(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_killed_in_a_pooled_step_lets_others_on_and_its_source_is_finished_later(
    world: World, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (world.source(name) / "guide.md").write_text(GUIDE + name)
    marker = tmp_path / "inside"
    stuck = subprocess.Popen(
        [sys.executable, "-c", STUCK_RUN, "a", str(marker)],
        env=environment(world),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(marker.exists)
        settings = settings_of(world)
        # A second run, of another source, comes to the pool and has to wait …
        waiting = subprocess.Popen(
            [*python(), "-c", RUN, "b"],
            env=environment(world),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with open_instance(settings) as instance:
                until(
                    lambda: instance.event_log_storage.get_concurrency_info("embed").pending_step_count == 1
                )
                assert waiting.poll() is None
                # … until the first is killed: nobody but the one that waits is there to see it.
                stuck.send_signal(signal.SIGKILL)
                stuck.wait()
                out, err = waiting.communicate(timeout=300)
                assert waiting.returncode == 0, out + err
                killed = next(r for r in instance.get_runs() if r.tags["dagster/partition"] == "a")
                assert killed.status == dg.DagsterRunStatus.FAILURE
                assert instance.event_log_storage.get_concurrency_info("embed").active_slot_count == 0
        finally:
            waiting.kill()
            waiting.wait()
    finally:
        stuck.kill()
        stuck.wait()
    again = subprocess.run(
        [*python(), "-c", TABOOT, "ingest", "a"],
        env=environment(world),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert set(world.kb().documents().column("source").to_pylist()) == {"a", "b"}
    assert {j["state"] for j in world.workspace.catalog.jobs.find("default")} == {"succeeded"}


@pytest.mark.slow
def test_ctrl_c_ends_the_command_and_leaves_nothing_held(world: World, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (world.source(name) / "guide.md").write_text(GUIDE + name)
    marker = tmp_path / "inside"
    process = subprocess.Popen(
        [*python(), "-c", STUCK, str(marker)],
        env=environment(world),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(marker.exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, "") and "run the same command again" in err
    again = subprocess.run(
        [*python(), "-c", TABOOT, "ingest"],
        env=environment(world),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert set(world.kb().documents().column("source").to_pylist()) == {"a", "b"}
    assert {j["state"] for j in world.workspace.catalog.jobs.find("default")} == {"succeeded"}


def settings_of(world: World) -> Settings:
    return world.workspace.settings


@pytest.fixture
def instance(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with open_instance(settings_of(world)) as opened:
        yield opened


def start(
    instance: dg.DagsterInstance,
    pid: int,
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED,
) -> str:
    """Make a run as the process ``pid`` has left it, which its first event names; return its id."""

    @dg.job
    def nothing() -> None: ...

    run = instance.create_run_for_job(nothing, status=status)
    instance.report_engine_event(
        "Started process for run.", run, dg._core.events.EngineEventData.in_process(pid)
    )
    return run.run_id


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_only_what_is_certainly_dead_is_failed(instance: dg.DagsterInstance) -> None:
    alive = {start(instance, os.getpid())}
    # Of a run of its own, and of one that was created and killed before it could do anything.
    dead = {start(instance, dead_pid()), start(instance, dead_pid(), dg.DagsterRunStatus.NOT_STARTED)}
    canceling = start(instance, dead_pid(), status=dg.DagsterRunStatus.CANCELING)
    unknown = instance.create_run_for_job(
        dg.JobDefinition(name="n", graph_def=dg.GraphDefinition(name="n")),
        status=dg.DagsterRunStatus.STARTING,
    ).run_id
    assert set(sweep_dead_runs(instance)) == dead | {canceling}
    status = {r.run_id: r.status for r in instance.get_runs()}
    assert {status[r] for r in dead} == {dg.DagsterRunStatus.FAILURE}
    assert status[canceling] == dg.DagsterRunStatus.CANCELED
    assert {status[r] for r in alive} == {dg.DagsterRunStatus.STARTED} and status[
        unknown
    ] == dg.DagsterRunStatus.STARTING
    assert sweep_dead_runs(instance) == []


def test_a_pid_that_another_process_has_now_is_no_sign_of_life(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start(instance, os.getpid())
    born = psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: born + 10_000)
    assert sweep_dead_runs(instance) == [run_id]


def test_a_run_whose_step_goes_on_without_it_keeps_its_slot_until_the_step_ends(
    instance: dg.DagsterInstance,
) -> None:
    run_id = start(instance, dead_pid())
    storage = instance.event_log_storage
    storage.initialize_concurrency_limit_to_default("embed")
    assert storage.claim_concurrency_slot("embed", run_id, "embeddings").is_claimed
    step = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        run = instance.get_run_by_id(run_id)
        assert run is not None
        instance.report_dagster_event(
            dg.DagsterEvent(
                event_type_value=dg.DagsterEventType.STEP_WORKER_STARTED.value,
                job_name=run.job_name,
                step_key="embeddings",
                event_specific_data=dg._core.events.EngineEventData(
                    {"pid": dg.MetadataValue.text(str(step.pid))}
                ),
            ),
            run_id,
        )
        assert sweep_dead_runs(instance) == [] and storage.get_concurrency_run_ids() == {run_id}
    finally:
        step.kill()
        step.wait()
    assert sweep_dead_runs(instance) == [run_id] and storage.get_concurrency_run_ids() == set()


def test_slots_of_ended_runs_are_freed(instance: dg.DagsterInstance) -> None:
    run_id = start(instance, dead_pid())
    storage = instance.event_log_storage
    storage.initialize_concurrency_limit_to_default("embed")
    assert storage.claim_concurrency_slot("embed", run_id, "step").is_claimed
    living = start(instance, os.getpid())
    assert not storage.claim_concurrency_slot("embed", living, "step").is_claimed
    sweep_dead_runs(instance)
    assert storage.claim_concurrency_slot("embed", living, "step").is_claimed


def test_a_zombie_is_dead(instance: dg.DagsterInstance) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        run_id = start(instance, child.pid)
        assert sweep_dead_runs(instance) == []
        child.kill()
        until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        assert sweep_dead_runs(instance) == [run_id]
    finally:
        child.kill()
        child.wait()
