"""How much a home grows by ingests that find nothing to do, and how long one takes.

The peer is the same source run by Dagster itself, by the job ``ingest_source``. Sizes are those of closed
files.

    python benchmarks/unchanged_runs.py [--documents 300] [--ingests 100] [--peer 20]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.ingest import document
from taboot_pipelines.defs import build_defs
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.partitions import TAG, apply_change, partition_change
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

MAX_GROWTH = 0.01


def size(home: Path) -> int:
    return sum(p.stat().st_size for p in home.rglob("*") if p.is_file())


def ingest(world: World, times: int) -> float:
    """Ingest so many times by the command line; return the seconds of one."""
    environment = {
        **os.environ,
        "TABOOT_HOME": str(world.home),
        "TABOOT_SOURCES": str(world.directory / "sources.yaml"),
        "TABOOT_TEI__URL": world.tei,
    }
    command = [sys.executable, "-c", "from taboot_pipelines.cli import main; main()", "ingest"]
    start = time.perf_counter()
    for _ in range(times):
        subprocess.run(command, env=environment, capture_output=True, check=True)
    return (time.perf_counter() - start) / times


def run(world: World, times: int) -> float:
    """Run the source so many times by Dagster; close everything and return the seconds of a run."""
    workspace = world.open(world.home)
    settings = workspace.settings
    with open_instance(settings) as instance:
        workspace.sync_sources()
        apply_change(instance, partition_change(instance, workspace))
        resource = WorkspaceResource(runtime=Runtime(settings, workspace=workspace))
        job = build_defs(settings, workspace=resource).resolve_job_def("ingest_source")
        start = time.perf_counter()
        for _ in range(times):
            result = job.execute_in_process(
                instance=instance,
                tags={TAG: "guides"},
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )
            assert result.success
        seconds = (time.perf_counter() - start) / times
    workspace.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--ingests", type=int, default=100)
    parser.add_argument("--peer", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeTei() as tei:
        world = World(Path(folder), tei.url)
        source = world.source("guides")
        for i in range(args.documents):
            (source / f"{i}.md").write_text(document(i))
        world.declare()
        world.workspace.close()
        ingest(world, 1)
        before, dagster = size(world.home), size(world.home / "dagster")
        seconds = ingest(world, args.ingests)
        after, dagster_after = size(world.home), size(world.home / "dagster")
        print(f"{args.documents} documents, a home of {before / 1e6:.1f} MB")
        print(
            f"ingested {args.ingests} times: {(after - before) / 1e3:.0f} KB in all, of Dagster's storage"
            f" {(dagster_after - dagster) / 1e3:.0f} KB, {seconds:.2f} s each"
        )
        run(world, 1)
        of_runs = size(world.home)
        seconds = run(world, args.peer)
        each = (size(world.home) - of_runs) / args.peer
        print(f"run {args.peer} times by Dagster: {each / 1e3:.0f} KB and {seconds:.2f} s each")
    growth = (after - before) / before
    if growth > MAX_GROWTH:
        raise SystemExit(f"The home grew by more than {MAX_GROWTH:.0%}.")


if __name__ == "__main__":
    main()
