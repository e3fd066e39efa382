"""The fit of which statement answers a question and how probable that is, and how well it holds in houses
that were left out.

    python benchmarks/answer_reading.py [--write] [OURS STRANGERS]

OURS is a folder with the homes ``house``, ``quay`` and ``station`` of ``benchmarks/answers.py --keep``;
STRANGERS the ``--work`` folder of ``house-questions/score.py``, a home for each house that other people
described and asked about (with those of ``answers/strangers``, whose repositories one checks out, fifteen;
else four). Without them all homes are made first, in a temporary folder, and ``score.py``
prints how many questions about each house of others are answered rightly, of each kind. Every question is
searched; of each statement that text could answer with, it is judged whether the answer that begins with it
would be right. A conditional logit (McFadden 1974) over the signs (``answering.reading.Signs``) ranks the
statements of one question, a logistic regression says how probable it is that the best one is right.
A house of ours counts a third of another: the rules that read questions were written with it.

Printed are, for each house left out in turn, how many questions of each kind the product answers rightly and
wrongly; how many text alone does at several thresholds, and leaves alone where nothing answers; the expected
calibration error, and how many that are called sure are right. ``--write``: fit on all houses, and write
``answering/reading.json``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from answer_labels import DATA, QUESTIONS, Cited, Corpus, Reply, house, judge, read_questions
from answers import ingest

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.answering import reading
from taboot_pipelines.retrieval.answering.documents import Excerpt
from taboot_pipelines.retrieval.answering.reading import BEFORE, RANKING, TELLING, Signs, Weights
from taboot_pipelines.retrieval.request import PASSAGES, read_request
from taboot_pipelines.retrieval.results.answers import SURE
from taboot_pipelines.retrieval.results.evaluations import Judged
from taboot_pipelines.settings import load_settings

ANSWERS = QUESTIONS.parent
OUR_HOUSES = ("house", "quay", "station")
#: What a house of ours counts, and the penalties on squares of the weights of both models.
OUR_WEIGHT, OF_RANKING, OF_SURE = 0.3, 1.0, 1.0
#: Statements of a question that are looked at: more than the product compares.
LOOKED_AT = 40
STEPS, RATE = 300, 0.05
THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
BINS = tuple(np.arange(0.0, 1.01, 0.1))
WEIGHTS = Path(reading.__file__).with_name("reading.json")


class Seen(NamedTuple):
    """A question: the signs of its candidates, one row each, their documents, and whether each begins a right
    answer."""

    house: str
    ours: bool
    answerable: bool
    signs: np.ndarray
    documents: list[str]
    right: np.ndarray


class Asked(NamedTuple):
    """``right``: judges the answer that excerpts make."""

    question: str
    answerable: bool
    right: Callable[[list[Excerpt]], bool]


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

        def right(parts: list[Excerpt], q=q) -> bool:
            cited = []
            for part in parts:
                first, last = part.span
                said = " ".join(part.document.text[first:last].split())
                cited.append(Cited(part.document.url, part.document.place(first)[1], said))
            reply = Reply(True, " ".join(p.text for p in parts), tuple(cited))
            return bool(judge(q, reply, corpus).right)

        # Questions about edges are not text's to answer.
        if q.kind != "graph":
            yield Asked(q.question, q.kind != "none", right)


def asked_of(name: str) -> list[dict[str, Any]]:
    """The questions of other people about a house of others, as they are written."""
    files = (DATA / "house-questions" / "questions.jsonl", ANSWERS / "strangers" / "questions.jsonl")
    rows = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["house"] == name]


def their_questions(name: str) -> Iterator[Asked]:
    for q in asked_of(name):

        def right(parts: list[Excerpt], q=q) -> bool:
            url, text = unquote(parts[0].document.url), " ".join(p.text for p in parts)
            said = all(re.search(p, text, re.IGNORECASE) for p in q["must"])
            # Within a house its name in front says nothing.
            return said and any(url.endswith(f"/{e.partition('/')[2]}") for e in q["evidence"])

        yield Asked(q["question"], q["kind"] != "none", right)


def observe(name: str, ours: bool, home: Path, questions: Iterator[Asked]) -> Iterator[Seen]:
    kb = KnowledgeBase.open(settings=load_settings(home=home))
    for question, answerable, right in questions:
        request = read_request(question, PASSAGES, defaults=kb.settings.retrieval)
        _, reads = kb._answers().candidates(request)
        signs = np.array([r.signs for r in reads], dtype=float).reshape(len(reads), len(Signs._fields))
        good = [answerable and right(reading.parts(r)) for r in reads]
        documents = [r.document.doc_id for r in reads]
        yield Seen(name, ours, answerable, signs, documents, np.array(good, dtype=bool))


def told(seen: Seen, fit: Weights) -> tuple[int, np.ndarray]:
    """The statement that the product ranks first, and what its probability is told by."""
    kept = np.argsort(-(reading.named(seen.signs, BEFORE) @ fit.before), kind="stable")[: reading._COMPARED]
    order, scores = reading.rank(seen.signs[kept], fit)
    first = kept[order]
    return int(first[0]), reading.best_signs(seen.signs[first], [seen.documents[i] for i in first], scores)


def rank(tables: list[np.ndarray], right: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
    """The weights of a conditional logit: of each question the statements that are right are chosen among
    all. By Adam (Kingma and Ba 2015), over columns scaled for the penalty on squares."""
    every = np.vstack(tables)
    scale = every.std(axis=0) + 1e-6
    scaled = [table / scale for table in tables]
    weight = weight / weight.sum()
    w, mean, square = (np.zeros(every.shape[1]) for _ in range(3))
    for step in range(1, STEPS + 1):
        slope = OF_RANKING * w / len(tables)
        for table, good, share in zip(scaled, right, weight, strict=True):
            score = table @ w
            p = np.exp(score - score.max())
            p /= p.sum()
            chosen = p * good / (p * good).sum()
            slope += share * (table.T @ (p - chosen))
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
        w -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-6)
    return w / scale


def regress(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The weights of a logistic regression by Newton's method; the last column is the constant, the others
    are scaled for the penalty on squares."""
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-6
    mean[-1], scale[-1] = 0.0, 1.0
    design = (x - mean) / scale
    ridge = np.diag([*[OF_SURE] * (x.shape[1] - 1), 1e-6])
    b = np.zeros(design.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(design @ b, -30, 30)))
        hessian = (design * (w * p * (1 - p))[:, None]).T @ design + ridge
        b -= np.linalg.solve(hessian, design.T @ (w * (p - y)) + ridge @ b)
    found = b / scale
    found[-1] -= mean @ found
    return np.asarray(found)


def learn(seen: list[Seen]) -> Weights:
    some = [s for s in seen if len(s.signs)]
    telling = [s for s in some if s.right.any() and not s.right.all()]
    share = np.array([OUR_WEIGHT if s.ours else 1.0 for s in telling])
    right = [s.right for s in telling]
    before = rank([reading.named(s.signs, BEFORE) for s in telling], right, share)
    ranking = rank([reading.named(s.signs, RANKING) for s in telling], right, share)
    made = Weights(before, ranking, np.zeros(0))
    first = [told(s, made) for s in some]
    sure = regress(
        np.array([by for _, by in first]),
        np.array([float(s.right[at]) for s, (at, _) in zip(some, first, strict=True)]),
        np.array([OUR_WEIGHT if s.ours else 1.0 for s in some]),
    )
    return made._replace(sure=sure)


def answer(seen: Seen, fit: Weights) -> tuple[float, bool]:
    """How probable the best statement is, and whether it is right."""
    if not len(seen.signs):
        return 0.0, False
    at, by = told(seen, fit)
    return reading.sure(by, fit), bool(seen.right[at])


def ask(home: Path) -> tuple[Judged, ...]:
    """Every question about a house of others, judged as ``kb.evaluate`` does."""
    kb = KnowledgeBase.open(settings=load_settings(home=home))
    return kb.evaluate(asked_of(home.name)).rows


def table(answers: list[tuple[str, Judged]]) -> None:
    """Print by house and kind how many questions were answered rightly and wrongly."""
    print(f"{'house':16}{'kind':8}{'asked':>7}{'right':>7}{'wrong':>7}")
    kinds = list(dict.fromkeys(a.kind for _, a in answers))
    for name in (*dict.fromkeys(h for h, _ in answers), "all"):
        for kind in kinds:
            of = [a for h, a in answers if name in (h, "all") and a.kind == kind]
            right, wrong = sum(a.right for a in of), sum(a.verdict == "wrong" for a in of)
            print(f"{name:16}{kind:8}{len(of):7d}{right:7d}{wrong:7d}")
    said = [a for _, a in answers if a.found]
    wrong = sum(not a.right for a in said)
    print(f"of {len(said)} answers {wrong} are wrong ({wrong / max(1, len(said)):.2f})")


def make_homes(ours: Path, strangers: Path) -> None:
    """Take in our houses, and those of others."""
    import yaml

    for name in OUR_HOUSES:
        sources = ANSWERS / name / "sources.yaml"
        (ours / name).mkdir(parents=True)
        if name == "house":
            sources = ours / name / "sources.yaml"
            sources.write_text(yaml.safe_dump({"sources": house()}, sort_keys=False), encoding="utf-8")
        ingest(ours / name / "home", sources)
    make_strangers(strangers)


def make_strangers(strangers: Path) -> None:
    """Take in the houses of other people, by the program that comes with them, which asks their questions
    too."""
    folder = DATA / "house-questions"
    for packed in sorted((folder / "houses").glob("*.tar.xz")):
        shutil.unpack_archive(packed, strangers / "corpus")
    program = [sys.executable, folder / "score.py", strangers / "corpus", folder / "questions.jsonl"]
    subprocess.run([*program, "--work", strangers], check=True)


def with_strangers(measure: Callable[[Path], None]) -> int:
    """Measure over the homes of strangers' houses in the folder that is given, else over ones made anew."""
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_strangers(Path(folder))
        measure(Path(folder))
    return 0


def main() -> int:
    given = [a for a in sys.argv[1:] if a != "--write"]
    write = "--write" in sys.argv[1:]
    if given:
        measure(*map(Path, given[:2]), write)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ours, strangers = Path(folder, "ours"), Path(folder, "strangers")
        make_homes(ours, strangers)
        measure(ours, strangers, write)
    return 0


def measure(ours: Path, strangers: Path, write: bool) -> None:
    compared, weights = reading._COMPARED, reading.weights
    reading._COMPARED = LOOKED_AT
    # Only what is looked at hangs on what was fitted before; signs may have come or gone since.
    before = np.zeros(len(BEFORE))
    before[: len(weights().before)] = weights().before[: len(BEFORE)]
    unfitted = Weights(before, np.zeros(len(RANKING)), np.zeros(len(TELLING) + 3))
    reading.weights = lambda: unfitted
    seen = []
    for name in OUR_HOUSES:
        home = ours / name / "home"
        seen += observe(name, True, home, our_questions(name, ours / name))
    homes = sorted(p for p in strangers.iterdir() if (p / "kb").is_dir())
    for home in homes:
        seen += observe(home.name, False, home, their_questions(home.name))
    reading._COMPARED = compared
    answered: dict[int, tuple[float, bool]] = {}
    judged: list[tuple[str, Judged]] = []
    for name in dict.fromkeys(s.house for s in seen):
        fit = learn([s for s in seen if s.house != name])
        answered |= {at: answer(s, fit) for at, s in enumerate(seen) if s.house == name}
        reading.weights = lambda fit=fit: fit
        judged += [(h.name, one) for h in homes if h.name == name for one in ask(h)]
    reading.weights = weights
    print("all that the product answers, facts and text, by the weights of the other houses")
    table(judged)
    print("\ntext alone")
    print(f"{'left out':12}{'threshold':>10}{'right':>7}{'wrong':>7}{'of':>5}{'alone':>7}{'of':>5}")
    groups = [*dict.fromkeys(s.house for s in seen), "strangers", "ours"]
    for group in groups:
        inside = [at for at, s in enumerate(seen) if group in (s.house, "ours" if s.ours else "strangers")]
        for threshold in THRESHOLDS:
            said = [at for at in inside if answered[at][0] >= threshold]
            right = sum(answered[at][1] for at in said)
            wrong = len(said) - right
            none = [at for at in inside if not seen[at].answerable]
            alone = sum(answered[at][0] < threshold for at in none)
            counts = f"{right:7d}{wrong:7d}{len(inside) - len(none):5d}"
            print(f"{group:12}{threshold:10.2f}{counts}{alone:7d}{len(none):5d}")
    for group in ("strangers", "ours"):
        p = np.array([answered[at][0] for at, s in enumerate(seen) if s.ours is (group == "ours")])
        y = np.array(
            [answered[at][1] for at, s in enumerate(seen) if s.ours is (group == "ours")], dtype=float
        )
        bins = [(p >= low) & ((p < high) | (high >= 1)) for low, high in pairwise(BINS)]
        error = sum(abs(y[b].mean() - p[b].mean()) * b.mean() for b in bins if b.any())
        called = p >= SURE
        told_sure = f"{called.sum()} sure, {y[called].sum():.0f} of them right"
        print(f"expected calibration error, {group}: {error:.3f}; {told_sure}")
    fit = learn(seen)
    for name, weight in zip(RANKING, fit.ranking, strict=True):
        print(f"{name:16}{weight:8.2f}")
    if write:
        held = {name: [round(float(w), 4) for w in found] for name, found in fit._asdict().items()}
        WEIGHTS.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
