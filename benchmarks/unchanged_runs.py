"""How much a home grows by runs that find nothing to do, through a real Dagster instance.

The peer is Dagster as it comes: the same runs while nothing is forgotten. Sizes are those of closed files.

    python benchmarks/unchanged_runs.py [--documents 300] [--runs 1000] [--peer 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.ingest import document
from taboot_pipelines.defs import build_defs, resources
from taboot_pipelines.defs.instance import open_instance
from taboot_pipelines.defs.partitions import TAG, apply_change, partition_change
from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

MAX_GROWTH = 0.05


def size(home: Path) -> int:
    return sum(p.stat().st_size for p in home.rglob("*") if p.is_file())


def run(world: World, times: int) -> float:
    """Run the source so many times; close everything and return the seconds of a run."""
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


def grown(root: Path, tei: str, documents: int, runs: int) -> tuple[int, int, float]:
    world = World(root, tei)
    folder = world.source("guides")
    world.workspace.close()
    for i in range(documents):
        (folder / f"{i}.md").write_text(document(i))
    run(world, 1)
    before = size(world.home)
    seconds = run(world, runs)
    return before, size(world.home), seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--peer", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeTei() as tei:
        with mock.patch.object(resources, "forget_superseded"):
            before, after, seconds = grown(Path(folder, "peer"), tei.url, args.documents, args.peer)
        each = (after - before) / args.peer
        print(f"{args.documents} documents, a home of {before / 1e6:.1f} MB")
        print(f"nothing forgotten: {args.peer} runs, {each / 1e3:.0f} KB and {seconds:.2f} s each")
        before, after, seconds = grown(Path(folder, "home"), tei.url, args.documents, args.runs)
    growth = (after - before) / before
    print(
        f"forgotten: {args.runs} runs, {(after - before) / 1e3:.0f} KB in all ({growth:+.1%}),"
        f" {seconds:.2f} s each"
    )
    if growth > MAX_GROWTH:
        raise SystemExit(f"The home grew by more than {MAX_GROWTH:.0%}.")


if __name__ == "__main__":
    main()
