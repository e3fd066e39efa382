"""Reading relations from prose beside what it is built on: sentences a second, and the share of spaCy's own.

    python benchmarks/prose.py [DATA] [DOCUMENTS]

The peer is ``nlp.pipe`` with the same components over the same paragraphs as plain text, in the same process:
no names merged, no rules. CPU seconds of one process, each the best of three, in turns. The reader is to keep
0.85 of the peer's speed and to reach 200 sentences a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taboot_pipelines.extraction.tier_b.blocks import blocks
from taboot_pipelines.extraction.tier_b.extractor import Prose, read
from taboot_pipelines.extraction.tier_b.language import pipeline

ROUNDS = 3


def main(data: str = "../shared/data", documents: str = "60") -> None:
    paths = sorted(Path(data, "linuxserver-docs-md").rglob("*.md"))[: int(documents)]
    prose = [Prose(path.name, path.read_text("utf-8")) for path in paths]
    texts = [block.text for document in prose for block in blocks(document.text)]
    nlp = pipeline()
    counts: dict[str, int] = {}

    def raw() -> None:
        counts["sentences"] = sum(1 for doc in nlp.pipe(texts, batch_size=64) for _ in doc.sents)

    def reader() -> None:
        counts["triples"] = sum(len(said.edges) for said in read(prose))

    best = {"nlp.pipe": float("inf"), "reader": float("inf")}
    for _ in range(ROUNDS):
        for name, run in (("nlp.pipe", raw), ("reader", reader)):
            best[name] = min(best[name], _cpu_seconds(run))
    print(f"{len(prose)} documents, {len(texts)} paragraphs, {counts['sentences']} sentences")
    print(f"{counts['triples']} triples")
    for name, seconds in best.items():
        print(f"{name:<9} {seconds:7.2f} CPU s  {counts['sentences'] / seconds:7.0f} sentences/s")
    print(f"ratio     {best['nlp.pipe'] / best['reader']:7.2f} of nlp.pipe's speed (goal 0.85)")


def _cpu_seconds(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
