"""The fit of how probable it is that a statement answers, and how well it holds in houses that were left out.

    python benchmarks/answer_reading.py [OURS STRANGERS]

OURS is a folder with the homes ``house``, ``quay`` and ``station`` of ``benchmarks/answers.py --keep``;
STRANGERS the ``--work`` folder of ``house-questions/score.py``, a home for each house that other people
described and asked about. Without them all homes are made first, in a temporary folder, and ``score.py``
prints how many questions about each house of others are answered rightly, of each kind. Every question is
searched; of each statement that text could answer with, it is judged whether the answer that begins with it
would be right. A logistic regression over the signs (``answering.reading.Signs``) ranks the statements, a
second one over its result says how probable the answer is that the best ones make; multiplied out they are
``reading._WEIGHTS``. A house of ours counts a quarter of another: the rules that read questions were written
with it.

Printed are, for each house left out in turn, how many questions are answered rightly and wrongly by text at
several thresholds, and left alone where nothing answers; the expected calibration error, and how many that
are called sure are right; and the weights of all houses together.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from answer_labels import DATA, QUESTIONS, Cited, Corpus, Reply, house, judge, read_questions
from answers import ingest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.answering.documents import Excerpt
from taboot_pipelines.retrieval.answering.reading import _MOST_PARTS, NEARLY, Signs, _block
from taboot_pipelines.retrieval.request import PASSAGES, read_request
from taboot_pipelines.retrieval.results.answers import SURE
from taboot_pipelines.settings import load_settings

ANSWERS = QUESTIONS.parent
OUR_HOUSES = ("house", "quay", "station")
OUR_WEIGHT, PENALTY = 0.25, 3.0
THRESHOLDS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
BINS = tuple(np.arange(0.0, 1.01, 0.1))


class Seen(NamedTuple):
    """A question: the signs of its candidates, one row each, and whether each begins a right answer."""

    house: str
    ours: bool
    answerable: bool
    signs: np.ndarray
    right: np.ndarray


class Asked(NamedTuple):
    """``right``: judges the answer that an excerpt makes."""

    question: str
    answerable: bool
    right: Callable[[Excerpt], bool]


def our_questions(name: str, home: Path) -> Iterator[Asked]:
    import yaml

    folder = ANSWERS / name
    if name == "house":
        entries, root, file = house(DATA), home, QUESTIONS
    else:
        entries = yaml.safe_load((folder / "sources.yaml").read_text())["sources"]
        root, file = folder, folder / "questions.jsonl"
    corpus = Corpus([e for e in entries if "path" in e], root)
    for q in read_questions(file):

        def right(excerpt: Excerpt, q=q) -> bool:  # type: ignore[no-untyped-def]
            first, last = excerpt.span
            line = excerpt.document.place(first)[1]
            said = " ".join(excerpt.document.text[first:last].split())
            cited = Cited(excerpt.document.url, line, said)
            return bool(judge(q, Reply(True, excerpt.text, (cited,)), corpus).right)

        # Questions about edges are not text's to answer.
        if q.kind != "graph":
            yield Asked(q.question, q.kind != "none", right)


def their_questions(name: str) -> Iterator[Asked]:
    for line in (DATA / "house-questions" / "questions.jsonl").read_text().splitlines():
        q = json.loads(line)

        def right(excerpt: Excerpt, q=q) -> bool:  # type: ignore[no-untyped-def]
            url = unquote(excerpt.document.url)
            said = all(re.search(p, excerpt.text, re.IGNORECASE) for p in q["must"])
            return said and any(url == e or url.endswith(f"/{e}") for e in q["evidence"])

        if q["house"] == name and q["kind"] != "graph":
            yield Asked(q["question"], q["kind"] != "none", right)


def observe(name: str, ours: bool, home: Path, questions: Iterator[Asked]) -> Iterator[Seen]:
    kb = KnowledgeBase.open(settings=load_settings(home=home))
    for question, answerable, right in questions:
        request = read_request(question, PASSAGES, defaults=kb.settings.retrieval)
        asked, reads = kb._answers().candidates(request)
        signs = np.array([r.signs for r in reads], dtype=float).reshape(len(reads), len(Signs._fields))
        good = [answerable and right(_block(asked, r)) for r in reads]
        yield Seen(name, ours, answerable, signs, np.array(good, dtype=float))


def fit(x: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """Weights and constant of a logistic regression by Newton's method; the columns are scaled for the
    penalty on squares."""
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    design = np.column_stack([np.ones(len(x)), (x - mean) / scale])
    ridge = np.diag([1e-6, *[penalty] * x.shape[1]])
    b = np.zeros(design.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-design @ b))
        hessian = (design * (w * p * (1 - p))[:, None]).T @ design + ridge
        b -= np.linalg.solve(hessian, design.T @ (w * (p - y)) + ridge @ b)
    weights = b[1:] / scale
    return weights, float(b[0] - mean @ weights)


def answer(seen: Seen, weights: np.ndarray, nearly: float) -> tuple[float, bool]:
    """What the best statement is ranked by, and whether the answer that it and the next make is right."""
    score = seen.signs @ weights
    order = np.argsort(-score, kind="stable")
    parts = [i for i in order if score[i] >= score[order[0]] - nearly][:_MOST_PARTS]
    return float(score[order[0]]), bool(seen.right[parts].any())


def learn(seen: list[Seen]) -> tuple[np.ndarray, float]:
    """The weights and the constant that the product has."""
    of = {name: [s for s in seen if s.house == name] for name in {s.house for s in seen}}
    each = {n: (OUR_WEIGHT if found[0].ours else 1.0) * 40 / len(found) for n, found in of.items()}
    some = [s for s in seen if len(s.signs)]
    ranker, _ = fit(
        np.concatenate([s.signs for s in some]),
        np.concatenate([s.right for s in some]),
        np.concatenate([np.full(len(s.signs), 8 * each[s.house] / len(s.signs)) for s in some]),
        PENALTY,
    )
    told = [answer(s, ranker, 1.0) for s in some]
    slope, constant = fit(
        np.array([[score] for score, _ in told]),
        np.array([float(right) for _, right in told]),
        np.array([each[s.house] for s in some]),
        0.1,
    )
    return ranker * slope[0], constant


def make_homes(ours: Path, strangers: Path) -> None:
    """Take in our houses, and those of others, whose questions ``score.py`` asks too."""
    import yaml

    for name in OUR_HOUSES:
        sources = ANSWERS / name / "sources.yaml"
        (ours / name).mkdir(parents=True)
        if name == "house":
            sources = ours / name / "sources.yaml"
            sources.write_text(yaml.safe_dump({"sources": house()}, sort_keys=False), encoding="utf-8")
        ingest(ours / name / "home", sources)
    folder = DATA / "house-questions"
    for packed in sorted((folder / "houses").glob("*.tar.xz")):
        with tarfile.open(packed) as archive:
            archive.extractall(strangers / "corpus", filter="data")
    program = [sys.executable, folder / "score.py", strangers / "corpus", folder / "questions.jsonl"]
    subprocess.run([*program, "--work", strangers], check=True)


def main() -> int:
    if sys.argv[1:]:
        measure(*map(Path, sys.argv[1:3]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ours, strangers = Path(folder, "ours"), Path(folder, "strangers")
        make_homes(ours, strangers)
        measure(ours, strangers)
    return 0


def measure(ours: Path, strangers: Path) -> None:
    seen = []
    for name in OUR_HOUSES:
        home = ours / name / "home"
        seen += observe(name, True, home, our_questions(name, ours / name))
    for home in sorted(p for p in strangers.iterdir() if (p / "kb").is_dir()):
        seen += observe(home.name, False, home, their_questions(home.name))
    told: dict[int, tuple[float, bool]] = {}
    for name in dict.fromkeys(s.house for s in seen):
        weights, constant = learn([s for s in seen if s.house != name])
        for at, s in enumerate(seen):
            if s.house == name:
                score, right = answer(s, weights, NEARLY) if len(s.signs) else (-99.0, False)
                told[at] = 1 / (1 + np.exp(-(score + constant))), right
    print(f"{'left out':12}{'threshold':>10}{'right':>7}{'wrong':>7}{'of':>5}{'alone':>7}{'of':>5}")
    groups = [*dict.fromkeys(s.house for s in seen), "strangers", "ours"]
    for group in groups:
        inside = [at for at, s in enumerate(seen) if group in (s.house, "ours" if s.ours else "strangers")]
        for threshold in THRESHOLDS:
            said = [at for at in inside if told[at][0] >= threshold]
            right = sum(told[at][1] for at in said)
            wrong = len(said) - right
            none = [at for at in inside if not seen[at].answerable]
            alone = sum(told[at][0] < threshold for at in none)
            answered = f"{right:7d}{wrong:7d}{len(inside) - len(none):5d}"
            print(f"{group:12}{threshold:10.2f}{answered}{alone:7d}{len(none):5d}")
    for group in ("strangers", "ours"):
        p = np.array([told[at][0] for at, s in enumerate(seen) if s.ours is (group == "ours")])
        y = np.array([told[at][1] for at, s in enumerate(seen) if s.ours is (group == "ours")], dtype=float)
        bins = [(p >= low) & ((p < high) | (high >= 1)) for low, high in pairwise(BINS)]
        error = sum(abs(y[b].mean() - p[b].mean()) * b.mean() for b in bins if b.any())
        sure = p >= SURE
        told_sure = f"{sure.sum()} sure, {y[sure].sum():.0f} of them right"
        print(f"expected calibration error, {group}: {error:.3f}; {told_sure}")
    weights, constant = learn(seen)
    print("weights", Signs(*(round(float(w), 2) for w in weights)), "constant", round(constant, 2))


if __name__ == "__main__":
    sys.exit(main())
