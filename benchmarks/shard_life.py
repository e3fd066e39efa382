"""The life of shards: a thousand random edits, then processes that write, collect and read at the same time.

    python benchmarks/shard_life.py [--documents 400] [--edits 1000] [--seconds 60]

*Edits*: documents appear, change, go and come back; after each edit the knowledge base is published and
collected. At every tenth it is published from scratch beside, which is the peer: searches must be equal, and
at the end the ratio of the bytes on disk is printed.

*At the same time*: four processes ingest a source each, a fifth collects what no manifest names without any
grace, eight read. A history checker (Herlihy, Wing 1990, "Linearizability") looks at what was read: each
reader sees versions in order, all who saw a version saw the same in it, it holds what its writer published
as that version, and whatever was acknowledged before a read began is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kb_fixture import NAMESPACE, Given, Text, shard_input

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import ShardSettings, load_settings
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import prune, publish
from taboot_pipelines_tests.fakes.tei import FakeTei

SPACE = Space("synthetic", "0", 64, 256)
WORDS = [
    f"{a}{b}" for a in ("net", "proxy", "disk", "cert", "queue", "mount") for b in ("set", "line", "gate")
]
#: So small that a few hundred documents lie in a good many shards.
SMALL = ShardSettings(max_chunks=256)
WRITERS, READERS = 4, 8


# --- Random edits


def text(number: int, rng: random.Random) -> Text:
    parts = [
        f"Document {number} says " + " ".join(rng.choices(WORDS, k=rng.randint(5, 60)))
        for _ in range(rng.randint(1, 12))
    ]
    spans, at = [], 0
    for part in parts:
        spans.append((at, at + len(part)))
        at += len(part) + 2
    vectors = np.random.default_rng(rng.getrandbits(32)).standard_normal((len(parts), SPACE.dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    source = ("docs", "notes")[number % 2]
    return Text(source, f"{number}.md", "\n\n".join(parts), spans, vectors.astype(np.float32))


def searches(home: Path, queries: list[tuple[str, np.ndarray]]) -> list[Any]:
    """The hits of each query, with their scores, in all modes, with a filter and without."""
    embedder = Given(SPACE)
    kb = KnowledgeBase.open(settings=load_settings(home=home), embedder=embedder)
    found = []
    for query, vector in queries:
        embedder.next = vector
        for mode in ("hybrid", "vector", "keyword"):
            for source in (None, "notes"):
                hits = kb.search(query, 10, mode=mode, source=source, cache=False).hits
                found.append([(hit.chunk_id, hit.score, hit.text, hit.also_in) for hit in hits])
    return found


def size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def edits(documents: int, count: int) -> None:
    rng = random.Random(7)
    held = {n: text(n, rng) for n in range(documents)}
    gone: dict[int, Text] = {}
    sources = {s: {"type": "files", "tags": [s]} for s in ("docs", "notes")}
    rewritten, seconds, compared, differing = [], [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        edited = Path(folder, "edited")
        store = open_shards(load_settings(home=edited))
        for step in range(count + 1):
            kind = "first" if step == 0 else rng.choice(("new", "change", "change", "delete", "back"))
            if kind == "new":
                number = max(held) + step
                held[number] = text(number, rng)
            elif kind == "change":
                number = rng.choice(list(held))
                held[number] = text(number, rng)
            elif kind == "delete" and len(held) > 1:
                number = rng.choice(list(held))
                gone[number] = held.pop(number)
            elif kind == "back" and gone:
                number = rng.choice(list(gone))
                held[number] = gone.pop(number)
            given = shard_input(list(held.values()), SPACE, sources)
            begun = time.perf_counter()
            report = publish(store, given, SMALL)
            prune(store, NAMESPACE)
            if step:
                seconds.append(time.perf_counter() - begun)
                rewritten.append(report.shards_new)
            if step % 10 == 0:
                fresh = Path(folder, f"fresh{step}")
                publish(open_shards(load_settings(home=fresh)), given, SMALL)
                asked = rng.sample(list(held.values()), 5)
                queries = [(" ".join(rng.choices(WORDS, k=4)) + f" {t.path}", t.vectors[0]) for t in asked]
                compared += 1
                differing += searches(edited, queries) != searches(fresh, queries)
                if step + 10 > count:
                    ratio = size(edited) / size(fresh)
                    told = f"{size(edited) / 1e6:.1f} MB, {ratio:.2f}× of a fresh build's"
                subprocess.run(["rm", "-rf", str(fresh)], check=True)
    print(f"{count} edits of {documents} documents in {report.shards_new + report.shards_reused} shards")
    print(f"  shards rewritten by an edit: {dict(sorted(Counter(rewritten).items()))}")
    print(f"  an edit, published and collected: p50 {1000 * np.median(seconds):.0f} ms")
    print(f"  searches compared at {compared} publications, differing at {differing}")
    print(f"  at the end, search files included: {told}")
    if differing:
        raise SystemExit("A search differed from that of a fresh build.")


# --- Writing, collecting and reading at the same time

COMMON = """
import json, re, sys, time
from pathlib import Path
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import load_settings
name, seconds, log = sys.argv[1], float(sys.argv[2]), open(sys.argv[3], "w")
def tell(**said):
    print(json.dumps(said), file=log, flush=True)
def begin():
    tell(kind="ready")
    sys.stdin.readline()
    return time.monotonic() + seconds
"""
WRITER = """
from taboot_pipelines.shards.protocol import load_manifest
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace
workspace, number = Workspace(load_settings()), 0
end = begin()
while time.monotonic() < end:
    number += 1
    Path(name, "state.md").write_text(f"# State of {name}\\n\\nmarker {name}is{number}\\n")
    Path(name, f"{number % 5}.md").write_text(f"# Note\\n\\nfiller {name} {number}\\n" * (1 + number % 7))
    begun = time.monotonic()
    try:
        reports = run_chain(workspace, name)
        tell(kind="wrote", value=number, begun=begun, ended=time.monotonic())
    except TabootError as error:
        tell(kind="failed", value=number, error=f"{error.code}: {error.message}")
"""
COLLECTOR = """
from taboot_pipelines.shards import open_shards
from taboot_pipelines.shards.publish import prune
from taboot_pipelines.stages.workspace import Workspace
workspace = Workspace(load_settings())
end = begin()
while time.monotonic() < end:
    try:
        with workspace.leases.namespace("default", wait=0):
            tell(kind="collected", count=len(prune(workspace.shards, "default")))
    except TabootError as error:
        if error.code != "E_BUSY":
            tell(kind="failed", error=f"{error.code}: {error.message}")
    time.sleep(0.2)
"""
READER = """
from taboot_pipelines.retrieval import KnowledgeBase
kb = KnowledgeBase.open()
kb.search("marker", 20, mode="keyword")
end = begin()
while time.monotonic() < end:
    begun = time.monotonic()
    try:
        found = kb.search("marker", 20, mode="keyword", cache=False)
        values = dict(re.findall(r"marker (w\\d)is(\\d+)", " ".join(h.text for h in found.hits)))
        tell(kind="read", version=found.manifest_version, begun=begun, ended=time.monotonic(),
             values={k: int(v) for k, v in sorted(values.items())})
    except Exception as error:
        tell(kind="failed", error=repr(error))
    time.sleep(0.02)
"""


def started(root: Path, name: str, script: str, seconds: float, tei: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TABOOT_HOME": str(root / "home"),
        "TABOOT_SOURCES": str(root / "sources.yaml"),
        "TABOOT_TEI__URL": tei,
        "TABOOT_RETENTION__PUBLICATION_DAYS": "0",
    }
    arguments = [name, str(seconds), str(root / f"{name}.log")]
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + script, *arguments],
        env=environment,
        cwd=root,
        text=True,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def together(seconds: float) -> None:
    with FakeTei() as tei, tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        writers = [f"w{n}" for n in range(WRITERS)]
        for name in writers:
            Path(root, name).mkdir()
            Path(root, name, "state.md").write_text(f"# State of {name}\n\nmarker {name}is0\n")
        entries = ", ".join(f"{{id: {name}, type: files, path: {name}}}" for name in writers)
        (root / "sources.yaml").write_text(f"sources: [{entries}]\n")
        first = (
            "from taboot_pipelines.stages.workspace import Workspace\n"
            "from taboot_pipelines.stages.running import run_chain\n"
            "workspace = Workspace(load_settings()); workspace.sync_sources()\n"
            "[run_chain(workspace, name) for name in name.split(',')]\n"
        )
        prepared = started(root, ",".join(writers), first, 0, tei.url)
        _, errors = prepared.communicate()
        if prepared.returncode:
            raise SystemExit(errors[-2000:])
        scripts = {**dict.fromkeys(writers, WRITER), "collector": COLLECTOR}
        scripts |= {f"r{n}": READER for n in range(READERS)}
        running = {n: started(root, n, script, seconds, tei.url) for n, script in scripts.items()}
        while not all(Path(root, f"{n}.log").exists() and said(root, n) for n in running):
            if any(p.poll() for p in running.values()):
                raise SystemExit("A process ended before all had begun.")
            time.sleep(0.1)
        for process in running.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for name, process in running.items():
            _, errors = process.communicate()
            if process.returncode:
                raise SystemExit(f"{name}: {errors[-2000:]}")
        last = started(root, "last", READER, 0.1, tei.url)
        last.communicate("go\n")
        check(root, writers, [f"r{n}" for n in range(READERS)])


def said(root: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(root, f"{name}.log").read_text().splitlines()]


def check(root: Path, writers: list[str], readers: list[str]) -> None:
    """Print what was done, and end with an error if a history is none of a register that is written whole."""
    wrote = {n: [s for s in said(root, n) if s["kind"] == "wrote"] for n in writers}
    reads = {n: [s for s in said(root, n) if s["kind"] == "read"] for n in readers}
    failed = [
        f"{n}: {s['error']}" for n in (*writers, *readers, "collector") for s in said(root, n) if "error" in s
    ]
    collected = sum(s["count"] for s in said(root, "collector") if s["kind"] == "collected")
    wrong: list[str] = []
    by_version: dict[int, dict[str, int]] = {}
    for reader, own in reads.items():
        for one, next_ in pairwise(own):
            if next_["version"] < one["version"]:
                wrong.append(f"{reader} read version {next_['version']} after {one['version']}")
        for read in own:
            if by_version.setdefault(read["version"], read["values"]) != read["values"]:
                wrong.append(f"{reader} read something else in version {read['version']} than another")
            for writer in writers:
                done = [w["value"] for w in wrote[writer] if w["ended"] < read["begun"]]
                begun = [w["value"] for w in wrote[writer] if w["begun"] < read["ended"]]
                value = read["values"].get(writer, -1)
                if not max(done, default=0) <= value <= max(begun, default=0):
                    wrong.append(
                        f"{reader} read {value} of {writer}, which had written {max(done, default=0)}"
                    )
    ordered = [by_version[v] for v in sorted(by_version)]
    latest: dict[str, int] = defaultdict(int)
    for values in ordered:
        for writer, value in values.items():
            if value < latest[writer]:
                wrong.append(f"a version took {writer} from {latest[writer]} to {value}")
            latest[writer] = value
    end = said(root, "last")[-1]["values"]
    lost = [n for n in writers if end.get(n) != wrote[n][-1]["value"]]
    print(
        f"{len(writers)} writers, {len(readers)} readers: {sum(map(len, wrote.values()))} publications,"
        f" {sum(map(len, reads.values()))} reads of {len(by_version)} versions, {collected} shards collected"
    )
    print(f"  lost updates {len(lost)}, failed reads and writes {len(failed)}, histories broken {len(wrong)}")
    for line in [*lost, *failed, *wrong][:10]:
        print(f"  {line}")
    if lost or failed or wrong:
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    edits(args.documents, args.edits)
    together(args.seconds)


if __name__ == "__main__":
    main()
