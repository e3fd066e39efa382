"""How long an assistant waits for each tool of ``taboot mcp`` that reads, over 100k chunks.

    python benchmarks/mcp_100k.py [--chunks 100000] [--projects 250] [--calls 60] [--keep FOLDER]

The house is made here and taken in: projects of four services with a proxy conf each (those of ``rules.py``),
and documents of ten passages of Zipf words, each of which names a service. The embedding server is the fake
of the tests, so that what a model takes is not counted. The SDK's own client asks in the same process, after
each tool was asked once; no two calls of a tool are alike. With ``--keep`` the home is made in FOLDER, or
found there by a later run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rules
from mcp.client.client import Client

from taboot_pipelines.mcp.server import READING, make_server
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.session import sparing_collections
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

BAR_MS = 150
SECTIONS, WORDS, VOCABULARY = 10, 50, 50_000
Made = Callable[[int], dict[str, Any]]


def make(folder: Path, tei: str, chunks: int, projects: int) -> None:
    world = World(folder, tei)
    notes = world.source("notes")
    rng = np.random.default_rng(7)
    words = np.array([f"w{i}" for i in range(VOCABULARY)])
    weights = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(words, size=(chunks // SECTIONS, SECTIONS, WORDS), p=weights / weights.sum())
    for n, sections in enumerate(drawn):
        text = "".join(f"## Part {i}\n\n{' '.join(section)}.\n\n" for i, section in enumerate(sections))
        (notes / f"{n}.md").write_text(f"# Note {n}\n\nAbout api{n % projects}.\n\n{text}")
    rules.make(world, projects)
    world.workspace.close()


def arguments(kb: KnowledgeBase, projects: int, calls: int) -> dict[str, Made]:
    """What each tool is asked with, by the number of the call."""
    asked = (
        "Which database does api{n} use?",
        "Which port does web{n} publish?",
        "What depends on db{n}?",
        "Which image does cache{n} run?",
        "Which networks is web{n} on?",
        "What is the log level of api{n}?",
        "Why is w{n} w{m} w{k}?",
        "How do I restore w{m}?",
    )
    queries = (
        ("dependents", {"service": "db{n}"}),
        ("routes", {"hostname": "web{n}.example.org"}),
        ("published_ports", {"service": "web{n}"}),
        ("environment", {"service": "api{n}"}),
        ("services_without", {"key": "healthcheck", "project": "p{n}"}),
        ("networks", {"service": "web{n}"}),
        ("images", {"service": "cache{n}"}),
        ("unreached_services", {"project": "p{n}"}),
    )
    edges = kb.edges().column("edge_id").to_pylist()
    documents = kb.documents().column("doc_id").to_pylist()

    def of(values: tuple[Any, ...], n: int) -> Any:
        return values[n % len(values)]

    def said(text: str, n: int) -> str:
        return text.format(n=n % projects, m=97 * n % VOCABULARY, k=31 * n % 1000)

    return {
        "ask": lambda n: {"question": said(of(asked, n), n)},
        "search": lambda n: {"query": said("w{n} w{m} w{k} restore api{n}", n)},
        "query": lambda n: {
            "name": of(queries, n)[0],
            "parameters": {k: said(v, n) for k, v in of(queries, n)[1].items()},
        },
        "impact": lambda n: {"service": said(of(("db{n}", "api{n}", "web{n}"), n), n)},
        "neighbors": lambda n: {"node": said(of(("web{n}", "api{n}"), n), n)},
        "path": lambda n: {"start": said("web{n}.example.org", n), "end": said("db{n}", n)},
        "explain": lambda n: {"id": edges[len(edges) // calls * n % len(edges)]},
        "document": lambda n: {"document": documents[len(documents) // calls * n % len(documents)]},
        "changes": lambda n: {"since": f"{1 + n}d"},
        "drift": lambda n: {"cursor": str(n)},
        "sources": lambda n: {},
        "status": lambda n: {},
    }


async def measure(kb: KnowledgeBase, made: dict[str, Made], calls: int) -> bool:
    held = kb.manifest
    print(f"{held.chunks:,} chunks, {held.documents:,} documents, {held.entities:,} things")
    kept = True
    async with Client(make_server(kb)) as client:
        for tool in READING:
            times, errors = [], set()
            for n in range(calls + 1):
                begun = time.perf_counter()
                told: Any = await client.call_tool(tool, made[tool](n))
                times.append(1000 * (time.perf_counter() - begun))
                if told.is_error:
                    errors.add(told.content[0].text)
            p50, p95 = np.percentile(times[1:], [50, 95])
            print(f"{tool:12} first {times[0]:7.0f} ms   p50 {p50:7.1f} ms   p95 {p95:7.1f} ms", *errors)
            kept &= p95 <= BAR_MS and not errors
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--projects", type=int, default=250)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeTei(dimension=64) as tei:
        place = chosen.keep or Path(folder)
        if not (place / "home").exists():
            place.mkdir(exist_ok=True)
            make(place, tei.url, chosen.chunks, chosen.projects)
        settings = load_settings(home=place / "home", tei={"url": tei.url})
        kb = KnowledgeBase.open(settings=settings, read_only=True)
        made = arguments(kb, chosen.projects, chosen.calls)
        with sparing_collections():
            return 0 if anyio.run(measure, kb, made, chosen.calls) else 1


if __name__ == "__main__":
    sys.exit(main())
