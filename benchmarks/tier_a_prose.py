"""Speed of what reads every text: mentions that it shows by itself, declared names, regions and the token
index.

    python benchmarks/tier_a_prose.py [FOLDER]

Peers in the same process: one regular expression that only finds candidates of the same kinds, without
verifying any (for ``find_mentions``), and an alternation of the names with word boundaries (for
``NameMatcher``).
"""

from __future__ import annotations

import collections
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from taboot_pipelines.extraction.tier_a.prose.finding import find_mentions
from taboot_pipelines.knowledge.mentions import NameMatcher, regions, tokens

DEFAULT = Path(os.environ.get("TABOOT_TEST_DATA", "../shared/data")) / "linuxserver-docs-md"
CANDIDATE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^\s<>\"`]+|\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?\b|\b[\w.-]+:\d{2,5}\b"
    r"|\b[\w.-]+/[\w./-]+:[\w.-]+"
)


def rate(texts: list[str], work: Callable[[str], object], rounds: int = 3) -> float:
    """MB (of UTF-8) a second, the best of ``rounds``."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for text in texts:
            work(text)
        times.append(time.perf_counter() - start)
    return sum(len(t.encode()) for t in texts) / 1e6 / min(times)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".md", ".txt", ".rst"))
    texts = [p.read_text("utf-8", "replace") for p in paths]
    if not texts:
        print(f"no texts under {folder}")
        return 1
    kinds = collections.Counter(m.kind for t in texts for m in find_mentions(t))
    print(f"{len(texts)} texts: " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    ours, peer = rate(texts, find_mentions), rate(texts, lambda t: CANDIDATE.findall(t))
    print(
        f"find_mentions {ours:.1f} MB/s; one regex without verification {peer:.1f} MB/s; ratio"
        f" {ours / peer:.2f}"
    )

    # Names that occur, and many that do not.
    names = {p.stem.removeprefix("docker-") for p in paths} | {f"service-{i}" for i in range(2000)}
    matcher = NameMatcher(names)
    pattern = re.compile(
        r"(?<![\w-])(?:" + "|".join(sorted(map(re.escape, names), key=len, reverse=True)) + r")(?![\w-])",
        re.IGNORECASE,
    )
    marked = {t: regions(t) for t in texts}
    found = sum(len(matcher.find(t, marked[t])) for t in texts)
    ours, peer = (
        rate(texts, lambda t: matcher.find(t, marked[t])),
        rate(texts[:10], lambda t: pattern.findall(t), 1),
    )
    print(
        f"NameMatcher of {len(names)} names: {found} mentions, {ours:.1f} MB/s; alternation {peer:.2f} MB/s;"
        f" ratio {ours / peer:.1f}"
    )
    print(f"regions {rate(texts, regions):.1f} MB/s; tokens {rate(texts, tokens):.1f} MB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
