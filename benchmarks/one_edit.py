"""What one edit and an unchanged run cost against the number of documents held, in CPU seconds by stage.

The peer is the smallest knowledge base in the same minute: the ratio says how much the cost grows with what
is held. Loading libraries is left out: an edit before it in the same process has loaded them. The embedding
server is the fake of the tests (deterministic vectors over HTTP) in this process: its work is not counted.

    python benchmarks/one_edit.py [--documents 1000 5000 20000] [--keep FOLDER]

With ``--keep`` the knowledge bases are made there, and found again by the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from ingest import lay_out

from taboot_pipelines_tests.fakes.tei import FakeTei

CHILD = """
import json, sys, time
from pathlib import Path
from ingest import document
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.running import run_stage
from taboot_pipelines.stages.workspace import Workspace

folder, seed = Path(sys.argv[1]), int(sys.argv[2])

def run():
    workspace = Workspace(load_settings())
    workspace.sync_sources()
    spent = {}
    for stage in CHAIN.names:
        begun = time.process_time()
        run_stage(workspace, stage, "docs")
        spent[stage] = time.process_time() - begun
    workspace.close()
    return spent

def edit(number):
    (folder / f"{number}.md").write_text(document(number, seed=seed))

edit(1); run()
# Files that were written this moment are read again: let their times settle.
time.sleep(2.2); run()
edits = []
for number in (3, 5, 7):
    edit(number); edits.append(run())
time.sleep(2.2); run()
print(json.dumps({"edit": min(edits, key=lambda spent: sum(spent.values())), "unchanged": run()}))
"""


def measure(home: Path, tei: str, seed: int) -> dict[str, dict[str, float]]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent), *sys.path]),
        "TABOOT_HOME": str(home / "home"),
        "TABOOT_SOURCES": str(home / "sources.yaml"),
        "TABOOT_TEI__URL": tei,
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(home / "docs"), str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    first: dict[str, float] = {}
    with FakeTei() as tei, tempfile.TemporaryDirectory() as directory:
        for documents in args.documents:
            home = (args.keep or Path(directory)) / str(documents)
            if not home.exists():
                lay_out(home, documents)
            seed = int.from_bytes(os.urandom(4), "big")
            for kind, stages in measure(home, tei.url, seed).items():
                total = sum(stages.values())
                ratio = total / first.setdefault(kind, total)
                shown = ", ".join(f"{stage} {spent:.2f}" for stage, spent in stages.items() if spent >= 0.005)
                print(f"{documents:6d} documents, {kind:9s} {total:6.2f} CPU s  = {ratio:4.2f}×  ({shown})")


if __name__ == "__main__":
    main()
