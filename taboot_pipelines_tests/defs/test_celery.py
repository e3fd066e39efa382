"""A run spread over two real Celery workers by a real broker: who did what, with the same result."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import dagster as dg
import pytest

from taboot_pipelines.defs import executors
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines_tests.defs.conftest import COMPOSE
from taboot_pipelines_tests.defs.launching import environment, launch
from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World, differences, graph, holding, logical

#: They share the broker's databases.
pytestmark = pytest.mark.alone_with("celery")

#: Databases of the shared broker that no other test uses.
BROKER, BACKEND = 11, 12
#: Of a chat model by vLLM, which nothing here asks anything.
GPU_STEPS = {"tier_c_triples"}
PLANTED = "planted-broker-4711"


@pytest.fixture
def broker(redis_url: str) -> Iterator[dict[str, str]]:
    """Settings of the Celery executor.

    Redis' default user takes any password, so one is planted to be looked for.
    """
    import redis

    host = urlsplit(redis_url).netloc
    databases = [redis.Redis.from_url(f"redis://{host}/{n}") for n in (BROKER, BACKEND)]
    for database in databases:
        database.flushdb()
    yield {
        "TABOOT_CELERY__BROKER": f"redis://default:{PLANTED}@{host}/{BROKER}",
        "TABOOT_CELERY__BACKEND": f"redis://default:{PLANTED}@{host}/{BACKEND}",
    }
    for database in databases:
        database.flushdb()
        database.close()


class Workers:
    """Celery workers by queue, each a process of its own, which are ended by their process ids."""

    def __init__(self, directory: Path, variables: dict[str, str]) -> None:
        self._directory, self._variables = directory, variables
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, queue: str) -> None:
        with (self._directory / f"{queue}.log").open("wb") as log:
            self.processes[queue] = subprocess.Popen(
                [
                    *python(),
                    "-m",
                    "celery",
                    "-A",
                    "taboot_pipelines.defs.celery_app",
                    "worker",
                    "-Q",
                    queue,
                    "-n",
                    f"{queue}@test",
                    "--pool=solo",
                    "--concurrency=1",
                    "--prefetch-multiplier=1",
                    "--without-gossip",
                    "--without-mingle",
                    "-l",
                    "INFO",
                ],
                env=self._variables,
                cwd=self._directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self, queue: str) -> str:
        return (self._directory / f"{queue}.log").read_text(errors="replace")

    def wait(self) -> None:
        deadline = time.monotonic() + 300
        while not all("ready." in self.log(queue) for queue in self.processes):
            for queue, process in self.processes.items():
                assert process.poll() is None and time.monotonic() < deadline, self.log(queue)
            time.sleep(0.1)

    def end(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_gpu_steps_run_on_the_gpu_worker_and_no_other(
    world: World, broker: dict[str, str], tmp_path: Path
) -> None:
    (world.source("stack", "compose", host="box.lan") / "compose.yaml").write_text(COMPOSE)
    variables = {**environment(world), **broker, "TABOOT_EXECUTOR": "celery", "TABOOT_LOG__FORMAT": "json"}
    variables["TABOOT_LLM__VLLM_MODEL"] = "/models/chat"
    workers = Workers(tmp_path, variables)
    try:
        for queue in (executors.DEFAULT_QUEUE, executors.GPU_QUEUE):
            workers.start(queue)
        (run_id,) = launch(world, variables, "stack")
        workers.wait()
    finally:
        workers.end()
    with open_instance(world.workspace.settings) as instance:
        run = instance.get_run_by_id(run_id)
        assert run is not None and run.status == dg.DagsterRunStatus.SUCCESS, workers.log(
            "default"
        ) + workers.log("gpu")
        done_by = {
            e.dagster_event.step_key: e.dagster_event.engine_event_data.metadata["Celery worker"].value
            for e in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
            if e.dagster_event is not None and "Celery worker" in e.dagster_event.engine_event_data.metadata
        }
        assert set(done_by) >= set(CHAIN.names)
        assert {step for step, worker in done_by.items() if worker == "gpu@test"} == GPU_STEPS
        assert {worker for step, worker in done_by.items() if step not in GPU_STEPS} == {"default@test"}
    # What the steps themselves wrote says the same.
    for stage, at, not_at in (("tier_c_triples", "gpu", "default"), ("embeddings", "default", "gpu")):
        said = f'"stage": "{stage}"'
        assert said in workers.log(at) and said not in workers.log(not_at)
    assert holding(world.home, PLANTED) == [] and PLANTED not in workers.log("gpu") + workers.log("default")

    # A replay of the same inputs in this process gives the same rows.
    scratch = world.replay()
    workspace = world.open(scratch)
    assert differences(logical(workspace), logical(world.workspace)) == {}
    assert differences(graph(world.kb(home=scratch)), graph(world.kb())) == {}
    workspace.close()
