"""How long a handbook takes: of two strangers' houses in one home, 292 files, against the bar of 5 s.

    python benchmarks/handbook.py [HOME]

HOME: a home of the houses ``swarm`` and ``astronomy`` of ``house-questions``; made anew without it. Each time
is that of ``kb.handbook`` in a process that has just opened the home, so with all that it reads first. The
time of the processor is printed beside it, since another's work on the machine makes the first one longer.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA

from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.world import take_in

BAR, TIMES = 5.0, 3
HOUSES = ("astronomy", "swarm")
ONCE = """
import sys, time
from taboot_pipelines import KnowledgeBase
kb = KnowledgeBase.open(sys.argv[1], read_only=True)
begun, worked = time.perf_counter(), time.process_time()
made = kb.handbook(sys.argv[2])
print(time.perf_counter() - begun, time.process_time() - worked, made.pages, kb.manifest.documents)
"""


def home(folder: Path) -> Path:
    """A home of both houses, each with its Compose files as one source and its texts as another."""
    entries = []
    for house in HOUSES:
        shutil.unpack_archive(DATA / "house-questions" / "houses" / f"{house}.tar.xz", folder)
        compose = ["**/docker-compose.yml", "**/compose.yaml", ".env", "**/.env"]
        entries += [
            {"id": house, "type": "compose", "path": house, "host": f"{house}.lan", "proxy": "traefik"},
            {"id": f"{house}-files", "type": "files", "path": house, "interpret": True, "exclude": compose},
        ]
    (folder / "sources.yaml").write_text(json.dumps({"sources": entries}), encoding="utf-8")
    workspace = Workspace(load_settings(home=folder / "home", sources=folder / "sources.yaml"))
    workspace.sync_sources()
    take_in(workspace)
    workspace.close()
    return folder / "home"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        of = Path(sys.argv[1]) if len(sys.argv) > 1 else home(Path(folder))
        seconds, worked = [], []
        for n in range(TIMES):
            command = [sys.executable, "-c", ONCE, str(of), str(Path(folder, f"book{n}"))]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            seconds.append(float(said[0]))
            worked.append(float(said[1]))
        told = ", ".join(f"{s:.2f}" for s in sorted(seconds))
        print(
            f"{said[3]} documents, {said[2]} pages: {told} s (bar: {BAR} s); processor: {min(worked):.2f} s"
        )


if __name__ == "__main__":
    main()
