"""What an ingest costs: the first run, an unchanged one, one edited document, and memory against the number
of documents.

The embedding server is the tests' fake (deterministic vectors over HTTP), so the chain itself is what is
measured. The peer is the first run in the same minute: the ratio says how much of its work a later run
repeats. Each run is a process of its own; start-up (importing, opening the stores, one empty source) is
measured the same way and taken off.

    python benchmarks/ingest.py [--documents 1000] [--large 5000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from taboot_pipelines_tests.fakes.tei import FakeTei

WORDS = [
    f"{a}{b}"
    for a in ("net", "proxy", "disk", "cert", "cache", "queue", "token", "route", "mount", "probe")
    for b in ("work", "set", "line", "point", "store", "gate", "ring", "path")
]
CHILD = """
import json, resource, sys, time
start = time.perf_counter()
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace
workspace = Workspace(load_settings())
workspace.sync_sources()
run_chain(workspace, "empty", confirm_deletes=True)
begun = time.perf_counter()
reports = run_chain(workspace, "docs")
print(json.dumps({
    "start_up": begun - start, "seconds": time.perf_counter() - begun,
    "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "stages": {r.stage: round(r.seconds, 3) for r in reports}, "counts": {r.stage: r.counts for r in reports},
}))
"""


def document(number: int, seed: int = 0) -> str:
    rng = random.Random(f"{number}:{seed}")
    parts = [f"# Service {number}\n"]
    for section in range(3):
        parts.append(f"\n## Part {section}\n")
        for _ in range(3):
            parts.append(
                "\n"
                + " ".join(rng.choice(WORDS) for _ in range(60))
                + f". It listens on http://host{number}.example.com:8{section}80/api.\n"
            )
        parts.append(f"\n```yaml\nimage: registry.example.com/team/app{number}:{section}\n```\n")
    return "".join(parts)


def run(home: Path, tei: str) -> dict[str, object]:
    environment = {
        **os.environ,
        "TABOOT_HOME": str(home / "home"),
        "TABOOT_SOURCES": str(home / "sources.yaml"),
        "TABOOT_TEI__URL": tei,
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def lay_out(home: Path, documents: int) -> Path:
    folder = home / "docs"
    folder.mkdir(parents=True)
    (home / "empty").mkdir()
    (home / "sources.yaml").write_text(
        "sources:\n- {id: docs, type: files, path: docs}\n- {id: empty, type: files, path: empty}\n"
    )
    for i in range(documents):
        (folder / f"{i}.md").write_text(document(i))
    return folder


def show(name: str, result: dict[str, Any], first: dict[str, Any] | None = None) -> None:
    seconds = result["seconds"]
    ratio = "" if first is None else f"  = {seconds / first['seconds']:7.2%} of the first run"
    start_up, megabytes = result["start_up"], result["rss_mb"]
    print(f"{name:28s} {seconds:7.2f} s  (start-up {start_up:4.1f} s)  {megabytes:6.0f} MB{ratio}")
    print("  " + ", ".join(f"{k} {v}" for k, v in result["stages"].items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--large", type=int, default=5000)
    args = parser.parse_args()
    with FakeTei() as tei, tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "small"
        folder = lay_out(home, args.documents)
        first = run(home, tei.url)
        texts = tei.stats()["texts"]
        show(f"first run, {args.documents} documents", first)
        again = run(home, tei.url)
        show("unchanged", again, first)
        counts: dict[str, dict[str, int]] = again["counts"]
        print(
            f"  embeddings {tei.stats()['texts'] - texts}, new blobs"
            f" {counts['raw_blobs'].get('new_blobs', 0)}, new shards {counts['kb_shards']['shards_new']}"
        )
        (folder / "7.md").write_text(document(7, seed=1))
        edited = run(home, tei.url)
        show("one document edited", edited, first)
        counts = edited["counts"]
        print(
            f"  embeddings {tei.stats()['texts'] - texts}, new blobs {counts['raw_blobs']['new_blobs']},"
            f" documents {counts['documents']['new']}, units {counts['tier_a_triples']['interpreted']},"
            f" snapshot {counts['entity_snapshots']['changed']}, new shards"
            f" {counts['kb_shards']['shards_new']}"
        )
        large = Path(directory) / "large"
        lay_out(large, args.large)
        big = run(large, tei.url)
        show(f"first run, {args.large} documents", big)
        growth = float(big["rss_mb"]) - float(first["rss_mb"])
        print(
            f"memory: {growth:+.0f} MB for {args.large - args.documents} more documents"
            f" ({growth * 1024 / max(1, args.large - args.documents):.1f} KB each)"
        )


if __name__ == "__main__":
    main()
