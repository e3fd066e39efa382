"""Tier C beside what it is built on: tokens asked for tokens of text, calls for what is unchanged, and speed.

    python benchmarks/tier_c.py [DATA] [DOCUMENTS]

*Tokens*: all questions about the pages of ``linuxserver-docs-md``, with prompt, names and what a chat
template adds, over the tokens of the pages (goal: at most 1.3) and of the running text in the windows.
*Calls*: what a run asks at first, when nothing changed (goal: 0), and after an edit of one page. *Speed*: a
fake server takes 100 ms for each answer, eight at once; the peer sends the same bodies with eight threads and
does nothing else. Nothing here needs a model.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import orjson

from taboot_pipelines.extraction import tier_c
from taboot_pipelines.knowledge.window_requests import question_tokens
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.tier_c_triples import STAGE, asking_of
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.fakes.reading_model import reads
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

AT_ONCE = 8
SECONDS = 0.1


def tokens(pages: list[str]) -> None:
    asking = asking_of(load_settings(llm={"url": "http://127.0.0.1:9/v1"}), "any")
    count = asking.counter.count
    began = time.perf_counter()
    windows = [w for page in pages for w in tier_c.windows(page, asking.counter)]
    seconds = time.perf_counter() - began
    asked = sum(question_tokens(asking, w) for w in windows)
    source = sum(map(count, pages))
    running = sum(w.tokens for w in windows)
    keys = {tier_c.key(asking.ontology, w, "any") for w in windows}
    print(f"{len(pages)} pages, {source:,} tokens; {len(windows)} windows, {len(keys)} of them distinct")
    largest = max(w.tokens for w in windows)
    print(f"  cut at {len(pages) / seconds:,.0f} pages/s; the largest window has {largest} tokens")
    print(f"  asked {asked:,} tokens: {asked / source:.2f} of the pages' (goal: at most 1.30)")
    print(f"  and {asked / running:.2f} of the {running:,} in the windows, the rest being code and tables")


def calls_and_speed(pages: dict[str, str]) -> None:
    with FakeTei() as tei, FakeOpenAi(context=10**6) as llm, tempfile.TemporaryDirectory() as directory:
        llm.react = reads
        model = {"url": llm.url, "model": "fake/llm", "max_concurrency": AT_ONCE}
        world = World(Path(directory), tei.url, llm=model)
        folder = world.source("pages")
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8")
        llm.delay = SECONDS
        first = run(world)
        bodies = list(llm.bodies)
        unchanged = run(world)
        calls = len(llm.bodies) - len(bodies)
        edited = sorted(pages)[len(pages) // 2]
        (folder / edited).write_text(f"{pages[edited]}\n\nOne more paragraph is written here.\n", "utf-8")
        run(world)
        edit = len(llm.bodies) - len(bodies) - calls
        alone = peer(llm, bodies)
        world.workspace.close()
    print(f"{len(pages)} pages: {len(bodies)} calls at first")
    print(f"  {calls} calls for unchanged pages (goal: 0), {edit} for one more paragraph")
    print(f"  the server alone, {AT_ONCE} at once: {len(bodies) / alone:6.1f} answers/s")
    share = alone / first.seconds
    print(
        f"  the stage with all it does:    {len(bodies) / first.seconds:6.1f} answers/s, {share:.2f} of that"
    )
    print(f"  unchanged: {unchanged.seconds * 1000:.0f} ms")


def run(world: World) -> StageReport:
    return next(report for report in world.ingest() if report.stage == STAGE)


def peer(llm: FakeOpenAi, bodies: list[dict[str, object]]) -> float:
    """Seconds of eight threads that send the same questions and read the answers."""
    with httpx.Client(limits=httpx.Limits(max_connections=AT_ONCE)) as client:

        def ask(body: dict[str, object]) -> object:
            return orjson.loads(
                client.post(f"{llm.url}/chat/completions", content=orjson.dumps(body)).content
            )

        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(ask, bodies))
        return time.perf_counter() - began


def main(data: str = os.environ.get("TABOOT_TEST_DATA", "../shared/data"), documents: str = "40") -> None:
    files = sorted(Path(data, "linuxserver-docs-md").rglob("*.md"))
    tokens([file.read_text("utf-8") for file in files])
    calls_and_speed({file.name: file.read_text("utf-8") for file in files[: int(documents)]})


if __name__ == "__main__":
    main(*sys.argv[1:])
