"""Reading relations from text: documents a second of what structure states, sentences a second of Tier B.

    python benchmarks/prose.py [DATA]

CPU seconds of one process, each the best of three. The structured reader is measured on the documents of
``prose-documents`` and ``prose-relations`` that have a table, cut to 4,000 characters, and on short pages
made of tables alone; Tier B on all sentences of these documents. Goals: 500 documents, 200 sentences a
second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gold.relations import DOCUMENTS, UNITS, texts
from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.reading import SENTENCES
from taboot_pipelines.extraction.tier_a.prose.segments import segments

ROUNDS = 3
_TABLE = "# Services {n}\n\n| Service | Image | Port | Host |\n|---|---|---|---|\n" + "".join(
    f"| app-{k} | acme/app-{k}:1.{k} | {8000 + k} | node{k % 3} |\n" for k in range(6)
)


def main(data: str = os.environ.get("TABOOT_TEST_DATA", "../shared/data")) -> None:
    found = [text for name in (UNITS, DOCUMENTS) for text in texts(Path(data, name)).values()]
    tables = [text[:4000] for text in found if "|---" in text or "| ---" in text or "|:--" in text]
    made = [_TABLE.replace("{n}", str(n)) for n in range(500)]
    for name, pages in (("pages with tables", tables), ("pages of a table", made)):
        seconds = min(
            _cpu_seconds(lambda pages=pages: [relations(t, "a.md") for t in pages]) for _ in range(ROUNDS)
        )
        size = sum(map(len, pages)) / len(pages)
        print(f"{name:<18} {len(pages) / seconds:7.0f} documents/s of {size:.0f} characters (goal 500)")
    sentences = sum(1 for t in found for s in segments(t) if s.form in SENTENCES)
    seconds = min(
        _cpu_seconds(lambda: [relations(t, "a.md", SENTENCES) for t in found]) for _ in range(ROUNDS)
    )
    print(f"{'sentences':<18} {sentences / seconds:7.0f} sentences/s (goal 200)")


def _cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
