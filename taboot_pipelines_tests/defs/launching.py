"""Runs as the daemon launches them, and the end of a daemon.

Each run is a process of its own that loads the code location and its executor by name.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from taboot_pipelines_tests.forking import python
from taboot_pipelines_tests.world import World

#: `dagster api execute_run` without a code server: the job by its module, the source as its partition.
RUN = """
import sys
import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.partitions import TAG, apply_change, partition_change
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.workspace import Workspace

try:
    # The executor looks once a second whether a step has ended; most of a test's time.
    import dagster_celery.core_execution_loop as loop
    loop.TICK_SECONDS = 0.1
except ImportError:
    pass

if __name__ == "__main__":
    settings = load_settings()
    workspace = Workspace(settings)
    workspace.sync_sources()
    repository = ReconstructableRepository.for_module("taboot_pipelines.definitions", "defs")
    job = repository.get_reconstructable_job("ingest_source")
    with open_instance(settings) as instance:
        apply_change(instance, partition_change(instance, workspace))
        for source in sys.argv[1:]:
            with dg.execute_job(job, instance, tags={TAG: source}, raise_on_error=False) as result:
                print("run", result.run_id, flush=True)
"""


def environment(world: World) -> dict[str, str]:
    """Return the variables of every process of a deployment: of the code location and of its steps."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TABOOT_", "DAGSTER_"))},
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
    }


def launch(world: World, variables: Mapping[str, str], *sources: str) -> list[str]:
    """Run each source and wait for it; return the ids of the runs."""
    done = subprocess.run(
        [*python(), "-c", RUN, *sources],
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    run_ids = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("run ")]
    assert done.returncode == 0 and len(run_ids) == len(sources), done.stdout + done.stderr
    return run_ids


def end_session(server: subprocess.Popen[bytes]) -> None:
    """End ``dagster dev`` with all of its session: daemon, webserver and code server."""
    os.killpg(server.pid, signal.SIGINT)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    server.wait()
