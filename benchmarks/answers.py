"""How many labelled questions are answered rightly, with a citation that leads there, and how many are left
unanswered when nothing answers them; beside a reader that shows the best BM25 passage of the same files.

    python benchmarks/answers.py [FOLDER] [--keep FOLDER] [--show KIND] [--require]

Without FOLDER the corpus is the house of ``answer_labels.house`` and the questions are those of
benchmarks/answers, whose README says what counts as right. FOLDER holds ``sources.yaml`` and
``questions.jsonl`` of the same form. ``--keep``: the knowledge base is made there, and only brought up to
date by the next call. ``--show``: the questions of a kind that went wrong, of the open half only.
``--require``: exit with 1 if a target is missed. The latency is that of an answer beyond the embedding of its
query.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from answer_labels import (
    KINDS,
    QUESTIONS,
    Cited,
    Corpus,
    Question,
    Reply,
    Verdict,
    house,
    judge,
    read_questions,
)

from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.settings import load_settings

#: What each kind must reach: the share that is right, and the most or least that may abstain.
RIGHT = {"config": 0.85, "graph": 0.85, "prose": 0.65, "none": 0.9}
MAX_ABSTAINED = 0.1
MIN_FIRST = 0.9

WARM_UP = ("Which services are there?", "where do the logs go", "restart everything", "port of the proxy?")


class Timed:
    """An embedder that adds up the seconds that queries take it."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Any:
        begun = time.perf_counter()
        try:
            return self._embedder.embed_query(text)
        finally:
            self.seconds += time.perf_counter() - begun


class Connections:
    """Counts connections of this process, since a model elsewhere is reached by one."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: Any) -> None:
        self.count += event == "socket.connect"


@dataclass(frozen=True)
class Asked:
    question: Question
    reply: Reply
    verdict: Verdict
    seconds: float


def ingest(home: Path, sources: Path) -> None:
    """Make the knowledge base with the product's own command, or bring it up to date."""
    done = subprocess.run(
        [Path(sys.executable).with_name("taboot"), "ingest"],
        env={**os.environ, "TABOOT_HOME": str(home), "TABOOT_SOURCES": str(sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"taboot ingest failed:\n{(done.stdout + done.stderr)[-3000:]}")


def product(home: Path) -> tuple[Callable[[str], Reply], Timed]:
    settings = load_settings(home=home)
    embedder = Timed(open_embedder(settings))
    kb = KnowledgeBase.open(settings=settings, embedder=embedder)

    def ask(question: str) -> Reply:
        answer = kb.answer(question)
        cited = tuple(Cited(c.url, c.line, c.text) for c in answer.citations)
        return Reply(answer.found, answer.text if answer.found else "", cited)

    return ask, embedder


def peer(corpus: Corpus) -> Callable[[str], Reply]:
    """The best passage by BM25 (k1 1.2, b 0.75) over lower-cased words, whole, as the answer."""
    passages = corpus.passages()
    counts = [Counter(_words(f"{Path(path).stem} {text}")) for path, _, text in passages]
    lengths = np.array([c.total() for c in counts], dtype=float)
    norm = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
    held: dict[str, list[tuple[int, int]]] = {}
    for i, count in enumerate(counts):
        for word, n in count.items():
            held.setdefault(word, []).append((i, n))

    def ask(question: str) -> Reply:
        scores = np.zeros(len(passages))
        for word in set(_words(question)):
            at = held.get(word, [])
            idf = math.log(1 + (len(passages) - len(at) + 0.5) / (len(at) + 0.5))
            for i, n in at:
                scores[i] += idf * n * 2.2 / (n + norm[i])
        best = int(np.argmax(scores))
        if not scores[best]:
            return Reply(False, "")
        path, line, text = passages[best]
        return Reply(True, text, (Cited(path, line, text),))

    return ask


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def ask_all(
    questions: Sequence[Question], ask: Callable[[str], Reply], corpus: Corpus, embedder: Timed | None = None
) -> list[Asked]:
    for question in WARM_UP:
        ask(question)
    found = []
    for question in questions:
        embedding = embedder.seconds if embedder else 0.0
        begun = time.perf_counter()
        reply = ask(question.question)
        seconds = time.perf_counter() - begun - ((embedder.seconds if embedder else 0.0) - embedding)
        found.append(Asked(question, reply, judge(question, reply, corpus), seconds))
    return found


def share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def table(title: str, asked: Sequence[Asked]) -> None:
    print(f"\n{title}")
    print(f"{'kind':8}{'asked':>6}{'right':>12}{'first':>12}{'abstained':>14}{'wrong':>7}{'words':>7}")
    for kind in KINDS:
        rows = [a for a in asked if a.question.kind == kind]
        if not rows:
            continue
        right = sum(a.verdict.right for a in rows)
        first = sum(a.verdict.first for a in rows)
        abstained = sum(a.verdict.abstained for a in rows)
        wrong = sum(not a.verdict.right and not a.verdict.abstained for a in rows)
        words = [a.reply.words for a in rows if a.reply.found]
        # First sentences are a share of the right answers, and there is none where nothing is said.
        firsts = f"{first:4d} ({share(first, right):.2f})" if kind != "none" else "–"
        print(
            f"{kind:8}{len(rows):6d}{right:5d} ({share(right, len(rows)):.2f}){firsts:>12}"
            f"{abstained:7d} ({share(abstained, len(rows)):.2f}){wrong:7d}"
            f"{np.mean(words) if words else 0:7.0f}"
        )


def show(asked: Sequence[Asked], kind: str) -> None:
    for a in asked:
        if a.question.locked or a.question.kind != kind or a.verdict.right:
            continue
        print(f"\n{a.question.id}  {a.question.question}")
        print(f"  needs  {a.question.needs}" + f"  forbids {a.question.forbids}" * bool(a.question.forbids))
        print(f"  says   {a.reply.text[:400]!r}" if a.reply.found else "  abstains")
        for c in a.reply.cited:
            print(f"  cites  {c.url}:{c.line}")
        for p in a.question.evidence:
            print(f"  wants  {p.path}:{p.first}-{p.last}")


def missed(asked: Sequence[Asked]) -> list[str]:
    """The targets that were not reached, in words."""
    found = []
    for kind in KINDS:
        rows = [a for a in asked if a.question.kind == kind]
        if not rows:
            continue
        right = [a for a in rows if a.verdict.right]
        if share(len(right), len(rows)) < RIGHT[kind]:
            found.append(f"{kind}: {share(len(right), len(rows)):.2f} are right, not {RIGHT[kind]}")
        if kind == "none":
            continue
        abstained = share(sum(a.verdict.abstained for a in rows), len(rows))
        if abstained > MAX_ABSTAINED:
            found.append(f"{kind}: {abstained:.2f} are left unanswered, more than {MAX_ABSTAINED}")
        first = share(sum(a.verdict.first for a in right), len(right))
        if right and first < MIN_FIRST:
            found.append(f"{kind}: {first:.2f} of the right ones begin with the answer, not {MIN_FIRST}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--show", choices=KINDS)
    parser.add_argument("--require", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = (args.keep or Path(directory)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        if args.folder:
            questions = read_questions(args.folder / "questions.jsonl")
            sources = (args.folder / "sources.yaml").resolve()
        else:
            questions, sources = read_questions(QUESTIONS), work / "sources.yaml"
            sources.write_text(yaml.safe_dump({"sources": house()}, sort_keys=False), encoding="utf-8")
        entries = yaml.safe_load(sources.read_text(encoding="utf-8"))["sources"]
        corpus = Corpus([e for e in entries if "path" in e], sources.parent)
        begun = time.perf_counter()
        ingest(work / "home", sources)
        seconds = time.perf_counter() - begun
        print(f"{len(corpus.lines)} files, ready in {seconds:.0f} s; {len(questions)} questions")
        ask, embedder = product(work / "home")
        connections = Connections()
        asked = ask_all(questions, ask, corpus, embedder)
        if args.show:
            show(asked, args.show)
            return 0
        beside = ask_all(questions, peer(corpus), corpus)
        if any(q.locked for q in questions):
            for name, half in (("open half", False), ("locked half", True)):
                table(f"{name}, taboot", [a for a in asked if a.question.locked is half])
        table("all, taboot", asked)
        table("all, beside it: the best BM25 passage", beside)
        for name, rows in (("taboot", asked), ("BM25 passage", beside)):
            p50, p95 = np.percentile([a.seconds * 1000 for a in rows], (50, 95))
            print(
                f"\n{name}: {p50:.0f} ms an answer beyond the query's embedding, {p95:.0f} ms at p95", end=""
            )
        print(f"\nmodel calls: {connections.count}")
        found = missed(asked)
        if found:
            print("\ntargets missed:", *found, sep="\n  ")
        return int(bool(args.require and found))


if __name__ == "__main__":
    sys.exit(main())
