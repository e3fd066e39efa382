"""A crawl that several processes share, calm and with one of them killed every few hundred pages.

The generated site of ``crawl.py`` is served by a process of its own. One process leads the crawl, the others
join it; all share the catalog of one home. Printed are pages per second, how much each process read, the peak
of its memory, and how often a page was asked for again; a page that is lost, or asked for twice where nothing
was killed, ends the benchmark with an error.

    python benchmarks/crawl_shared.py [--pages 10000] [--helpers 1] [--kill-pages 700]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.crawl import CONCURRENCY, peak_memory
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.workspace import Workspace

CRAWL = Path(__file__).with_name("crawl.py")


def work(role: str, home: str, sources: str) -> None:
    """Lead the crawl or join it in this process, and print what it took as JSON."""
    from taboot_pipelines.stages.running import run_stage
    from taboot_pipelines.stages.shared_crawls import join_crawl

    http = {"max_concurrency": CONCURRENCY, "per_host": CONCURRENCY, "rate_limit_rps": 0}
    workspace = Workspace(load_settings(home=Path(home), sources=Path(sources), http=http))
    workspace.sync_sources()
    cpu, begun = time.process_time(), time.perf_counter()
    if role == "lead":
        counts = run_stage(workspace, "raw_blobs", "site")[0].counts
        read = counts["fetched"] - counts.get("read_by_others", 0)
    else:
        try:
            read = join_crawl(workspace, "site", wait_seconds=10).counts["fetched"]
        except TabootError as error:
            assert error.code == "E_NOT_FOUND", error  # it began when the crawl had ended
            read = 0
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
    workspace.close()
    print(json.dumps({"role": role, "read": read, "cpu": cpu, "seconds": seconds, "peak": peak_memory()}))


def start(role: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--work", role, str(folder / "home"), str(folder / "sources.yaml")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TABOOT_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def asked(base: str) -> int:
    with urllib.request.urlopen(f"{base}/asked") as answer:
        return int(answer.read())


def crawl(base: str, pages: int, helpers: int, kill_pages: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="taboot-shared-"))
    entry = {
        **{"id": "site", "type": "web", "urls": [f"{base}/p/0.html"], "max_depth": 1000},
        **{"max_pages": 1_000_000, "include": [f"{base}/p/**"], "allow_cidrs": ["127.0.0.0/8"]},
    }
    (folder / "sources.yaml").write_text(json.dumps({"sources": [entry]}))
    running = [start("lead", folder), *(start("join", folder) for _ in range(helpers))]
    begun, kills, turn = time.perf_counter(), 0, 0
    while kill_pages and running[0].poll() is None:
        if asked(base) < (kills + 1) * kill_pages:
            time.sleep(0.01)
            continue
        turn = (turn + 1) % len(running)
        running[turn].kill()
        running[turn].communicate()
        kills += 1
        running[turn] = start("join" if turn else "lead", folder)
    said = [process.communicate()[0] for process in running]
    seconds = time.perf_counter() - begun
    assert all(process.returncode == 0 for process in running) or kills, "a process failed"
    with urllib.request.urlopen(f"{base}/hits") as answer:
        hits, distinct = json.load(answer)
    workspace = Workspace(load_settings(home=folder / "home", sources=folder / "sources.yaml"))
    held = workspace.catalog.locators.count("default", "site")
    workspace.close()
    shutil.rmtree(folder)
    print(
        f"{1 + helpers} processes, {kills} kills: {pages / seconds:6.0f} pages/s, {seconds:5.1f} s;"
        f" {pages - held} pages lost, {hits - distinct} asked for again"
        + (f" ({(hits - distinct) / kills:.0f} a kill)" if kills else "")
    )
    for found in (json.loads(text) for text in said if text):
        print(
            f"  {found['role']}: {found['read']} pages, {found['cpu']:.1f} CPU s, peak {found['peak']:.0f} MB"
        )
    assert held == distinct == pages, f"{pages - held} pages are lost"
    assert kills or hits == pages, f"{hits - pages} pages were asked for twice"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--helpers", type=int, default=1)
    parser.add_argument("--kill-pages", type=int, default=700)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        work(*args.work)
        return
    command = [sys.executable, str(CRAWL), "--serve", str(args.pages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        try:
            crawl(base, args.pages, 0, 0)
            crawl(base, args.pages, args.helpers, 0)
            crawl(base, args.pages, 0, args.kill_pages)
            crawl(base, args.pages, args.helpers, args.kill_pages)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
