"""What Dagster adds to the chain: a first run and unchanged runs of one source, with and without it.

    python benchmarks/dagster_overhead.py [documents] [runs]

The peer is the chain itself, called stage by stage in the same process; both use the fake embedding server,
so that a first run is as fast as it can be. Prints seconds and ratios; start-up (imports, opening stores) is
not counted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

WORDS = [
    "service",
    "network",
    "container",
    "volume",
    "backup",
    "restore",
    "proxy",
    "host",
    "port",
    "image",
    "disk",
    "certificate",
    "update",
    "alert",
    "metric",
]


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def world(root: Path, tei: str, documents: int) -> World:
    made = World(root, tei)
    directory = made.source("guides")
    for i in range(documents):
        text = " ".join(
            WORDS[(i * 7 + k * 3) % len(WORDS)] + (f"{i}" if k % 11 == 0 else "") for k in range(400)
        )
        (directory / f"{i}.md").write_text(f"# Guide {i}\n\n{text}\n")
    made.workspace.sync_sources()
    _ = made.workspace.embedder.space
    return made


def main(documents: int, runs: int) -> None:
    from taboot_pipelines.defs import build_defs
    from taboot_pipelines.defs.instance import open_instance
    from taboot_pipelines.defs.partitions import apply_change, partition_change
    from taboot_pipelines.defs.resources import Runtime, WorkspaceResource
    from taboot_pipelines.stages.running import run_chain

    with tempfile.TemporaryDirectory() as folder, FakeTei() as tei:
        bare = world(Path(folder, "bare"), tei.url, documents)
        plain_first = timed(lambda: run_chain(bare.workspace, "guides"))
        plain = statistics.median(timed(lambda: run_chain(bare.workspace, "guides")) for _ in range(runs))

        made = world(Path(folder, "dagster"), tei.url, documents)
        settings = made.workspace.settings
        with open_instance(settings) as instance:
            apply_change(instance, partition_change(instance, made.workspace))
            runtime = Runtime(settings, workspace=made.workspace)
            job = build_defs(settings, workspace=WorkspaceResource(runtime=runtime)).resolve_job_def(
                "ingest_source"
            )

            def run() -> None:
                result = job.execute_in_process(
                    instance=instance,
                    partition_key="guides",
                    run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                )
                assert result.success

            first = timed(run)
            unchanged = statistics.median(timed(run) for _ in range(runs))
    print(f"{documents} documents, {runs} unchanged runs (median)")
    print(f"{'':<12}{'first':>9}{'unchanged':>12}{'share':>8}")
    print(f"{'chain':<12}{plain_first:>8.2f}s{plain:>11.3f}s{plain / plain_first:>8.1%}")
    print(f"{'in Dagster':<12}{first:>8.2f}s{unchanged:>11.3f}s{unchanged / first:>8.1%}")
    print(
        f"Dagster adds {unchanged - plain:.2f} s to an unchanged run of 13 steps"
        f" ({(unchanged - plain) / 13 * 1000:.0f} ms a step)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
