"""What the namespace's stages cost when many sources are ingested at once: shards written, and CPU.

The peer is the same sources one after the other, each through the whole chain: every source then writes the
namespace's shards again. Embedding is done by the tests' fake server, outside the processes that are timed.

    python benchmarks/many_sources.py [--sources 12] [--documents 40]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.shards.counting import shards_new

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
]


def lay_out(folder: Path, sources: int, documents: int) -> None:
    entries = []
    for s in range(sources):
        name = f"s{s:02d}"
        (folder / name).mkdir(parents=True)
        entries.append(f"- {{id: {name}, type: files, path: {name}}}\n")
        for d in range(documents):
            text = " ".join(f"{WORDS[(s + d * 7 + k * 3) % len(WORDS)]}{k % 17}" for k in range(300))
            (folder / name / f"{d}.md").write_text(f"# Guide {s} {d}\n\n{text}\n")
    (folder / "sources.yaml").write_text("sources:\n" + "".join(entries))


def taboot(folder: Path, home: str, tei: str, *arguments: str) -> tuple[int, float]:
    """Run ``taboot ingest``; return the shards that it wrote and its CPU seconds."""
    environment = {
        **os.environ,
        "TABOOT_HOME": str(folder / home),
        "TABOOT_SOURCES": str(folder / "sources.yaml"),
        "TABOOT_TEI__URL": tei,
        "TABOOT_SHARDS__MAX_CHUNKS": "64",
    }
    program = "from taboot_pipelines.cli import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", program, "ingest", "--json", *arguments],
        env=environment,
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    told: dict[str, Any] = json.loads(done.stdout)
    return shards_new(told), cpu


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", type=int, default=12)
    parser.add_argument("--documents", type=int, default=40)
    args = parser.parse_args()
    with FakeTei() as tei, tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        lay_out(folder, args.sources, args.documents)
        # A process that finds everything done: what starting costs, in CPU.
        together, cpu = taboot(folder, "together", tei.url)
        unchanged, start = taboot(folder, "together", tei.url)
        print(f"{args.sources} sources of {args.documents} documents")
        print(f"all at once      {together:4d} shards  {cpu:6.1f} CPU s")
        print(f"again, unchanged {unchanged:4d} shards  {start:6.1f} CPU s")
        alone, spent = 0, 0.0
        for s in range(args.sources):
            shards, used = taboot(folder, "alone", tei.url, f"s{s:02d}")
            alone, spent = alone + shards, spent + used
        print(f"one by one       {alone:4d} shards  {spent:6.1f} CPU s, a process each")


if __name__ == "__main__":
    main()
