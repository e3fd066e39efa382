"""Multi-hop questions: for how many are all the documents that they need among the first hits? The peer in
the same run is plain BM25 over whole documents; no model is called but the bundled embedder.

    python benchmarks/multihop.py [DATA] [SET …] [--keep FOLDER]

DATA holds folders in the BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv). Each document becomes a file
with its title as heading, and the knowledge base is made by the whole chain: the links between documents are
what it finds of titles in texts. With ``--keep`` it is made there, and found again by the next run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from retrieval_quality import judge, peer, read, words

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.running import run_chain
from taboot_pipelines.stages.workspace import Workspace

DATA = Path(os.environ.get("TABOOT_TEST_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
SETS = ("multihop-hotpotqa-100", "multihop-musique-train-100")
MODES = ("keyword", "vector", "hybrid", "adaptive", "graph")
DEPTHS = (5, 8, 10)


def lay_out(folder: Path, corpus: list[dict]) -> None:
    docs = folder / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    for document in corpus:
        heading = f"# {document['title']}\n\n" if document["title"] else ""
        name = document["_id"].replace("/", "_")
        (docs / f"{name}.md").write_text(f"{heading}{document['text']}\n", encoding="utf-8")
    (folder / "sources.yaml").write_text("sources:\n  - {id: set, type: files, path: docs}\n")


def recall(ranks: list[list[str]], needed: list[set[str]], depth: int) -> float:
    """The mean share of what a question needs that is among the first."""
    return float(
        np.mean(
            [len(want & set(ranked[:depth])) / len(want) for ranked, want in zip(ranks, needed, strict=True)]
        )
    )


def share(ranks: list[list[str]], needed: list[set[str]], depth: int) -> float:
    """The share of the questions of which all needed documents are among the first."""
    return float(np.mean([want <= set(ranked[:depth]) for ranked, want in zip(ranks, needed, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    print(
        f"{'set':30} {'mode':12}"
        + "".join(f" all in {d:2}" for d in DEPTHS)
        + "      R@5  nDCG@10  ms p50  ms p95"
    )
    for name in args.sets:
        corpus, queries, judged = read(args.data / name)
        queries = [q for q in queries if judged.get(q["_id"])]
        needed = [set(judged[q["_id"]]) for q in queries]
        texts = [f"{d['title']}\n\n{d['text']}" for d in corpus]
        plain = peer(texts, [d["_id"] for d in corpus], queries, words)
        show(name, "plain BM25", plain, needed, judge(plain, queries, judged)[0], [])
        with tempfile.TemporaryDirectory() as directory:
            folder = (args.keep or Path(directory)) / name
            lay_out(folder, corpus)
            settings = load_settings(home=folder / "home", sources=folder / "sources.yaml")
            workspace = Workspace(settings)
            workspace.sync_sources()
            run_chain(workspace, "set")
            workspace.close()
            kb = KnowledgeBase.open(settings=settings)
            known = {d["_id"].replace("/", "_"): d["_id"] for d in corpus}
            best: dict[str, float] = {}
            for mode in MODES:
                ranks, spent = [], []
                for query in queries:
                    kb.search(
                        query["text"], 1, mode="vector", cache=False
                    )  # the query's vector is known then
                    begin = time.perf_counter()
                    hits = kb.search(query["text"], 40, mode=mode, cache=False).hits
                    spent.append((time.perf_counter() - begin) * 1000)
                    ranks.append(list(dict.fromkeys(known[Path(hit.url).stem] for hit in hits)))
                show(name, mode, ranks, needed, judge(ranks, queries, judged)[0], spent)
                best[mode] = share(ranks, needed, 10)
        print(f"{name:30} graph / plain BM25 {best['graph'] / share(plain, needed, 10):.2f}\n", flush=True)


def show(
    name: str, mode: str, ranks: list[list[str]], needed: list[set[str]], ndcg: float, spent: list[float]
) -> None:
    shares = "".join(f" {share(ranks, needed, depth):9.3f}" for depth in DEPTHS)
    times = f" {np.median(spent):7.1f} {np.percentile(spent, 95):7.1f}" if spent else ""
    found = recall(ranks, needed, 5)
    print(f"{name:30} {mode:12}{shares} {found:8.3f} {ndcg:8.3f}{times}", flush=True)


if __name__ == "__main__":
    main()
