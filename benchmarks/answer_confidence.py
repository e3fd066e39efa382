"""The fit of the confidence of answers out of text, and how well it holds: a reliability table.

    python benchmarks/answer_confidence.py HOME

HOME is that of ``benchmarks/answers.py --keep FOLDER`` (FOLDER/home). For each question the best statement is
judged right or wrong as in ``benchmarks/answers.py``; for those that nothing answers it is always wrong. The
logistic function of ``answering.confidence`` is fitted on the open half, with no weight below 0 and a small
penalty on the squares, by projected gradient descent. Printed are the constants, the log loss and the Brier
score in 5-fold cross-validation and on the locked half with the constants in force, and of both halves the
share that is right by confidence. Of the locked half nothing but totals is shown.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from answer_labels import DATA, QUESTIONS, Cited, Corpus, Question, Reply, house, judge, read_questions

from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.answering.answer_selection import choose, read_out
from taboot_pipelines.retrieval.answering.passages import THRESHOLD, Features, confidence
from taboot_pipelines.retrieval.request import PASSAGES, read_request
from taboot_pipelines.settings import load_settings

PENALTY = 0.01
#: The weight of ``Features.names``, which is given (see ``answering.confidence``).
NAMES = 2.0
FOLDS = 5
BINS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def observe(kb: KnowledgeBase, question: Question, corpus: Corpus) -> tuple[Features, bool] | None:
    """The features of the best statement, and whether what text would answer is right."""
    request = read_request(question.question, PASSAGES, defaults=kb.settings.retrieval)
    asked, ranked = kb._answers().candidates(request)
    if not ranked:
        return None
    chosen = choose(asked, ranked, 5)
    cited = []
    for s in chosen:
        _, line = s.place.document.place(s.statement)
        statement = s.statement
        said = s.place.document.text[statement.start : statement.end]
        cited.append(Cited(s.place.document.url, line, said))
    reply = Reply(True, " ".join(read_out(asked, s) for s in chosen), tuple(cited))
    right = question.kind != "none" and judge(question, reply, corpus).right
    return ranked[0].features, right


def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Constant and weights; no weight is below 0, and that of the names is given."""
    design = np.column_stack([np.ones(len(x)), x])
    names = 1 + Features._fields.index("names")
    w = np.zeros(design.shape[1])
    for step in range(40_000):
        w[names] = NAMES
        p = 1 / (1 + np.exp(-design @ w))
        gradient = design.T @ (p - y) / len(y) + PENALTY * np.append(0.0, w[1:]) / 10
        w -= 2.0 * gradient / (1 + step / 20_000)
        w[1:] = np.maximum(w[1:], 0.0)
    w[names] = NAMES
    return w


def predict(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(np.column_stack([np.ones(len(x)), x]) @ w)))


def losses(p: np.ndarray, y: np.ndarray) -> str:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    log = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return f"log loss {log:.3f}, Brier score {np.mean((p - y) ** 2):.3f}"


def reliability(p: np.ndarray, y: np.ndarray) -> None:
    print(f"{'confidence':14}{'answers':>8}{'mean':>7}{'right':>7}")
    for low, high in pairwise(BINS):
        inside = (p >= low) & ((p < high) | (high == 1.0))
        if inside.any():
            print(f"{low:.2f} to {high:.2f}  {inside.sum():8d}{p[inside].mean():7.2f}{y[inside].mean():7.2f}")


def main() -> int:
    home = Path(sys.argv[1])
    kb = KnowledgeBase.open(settings=load_settings(home=home))
    corpus = Corpus([e for e in house(DATA) if "path" in e], home)
    halves: dict[bool, list[tuple[Features, bool]]] = {False: [], True: []}
    for question in read_questions(QUESTIONS):
        # Questions about edges are not text's to answer.
        if question.kind == "graph":
            continue
        seen = observe(kb, question, corpus)
        if seen is not None:
            halves[question.locked].append(seen)
    data = {
        locked: (np.array([f for f, _ in rows]), np.array([r for _, r in rows], dtype=float))
        for locked, rows in halves.items()
    }
    x, y = data[False]
    w = fit(x, y)
    print("constant", round(w[0], 2), " ", Features(*(round(float(v), 2) for v in w[1:])))
    folds = np.random.default_rng(0).permutation(len(y)) % FOLDS
    held_out = np.empty(len(y))
    for fold in range(FOLDS):
        held_out[folds == fold] = predict(fit(x[folds != fold], y[folds != fold]), x[folds == fold])
    print(f"open half, {FOLDS}-fold: {losses(held_out, y)}")
    for threshold in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6):
        print(
            f"  threshold {threshold}: says {np.mean(predict(w, x[y == 1]) >= threshold):.2f} of the right"
            f" and {np.mean(predict(w, x[y == 0]) >= threshold):.2f} of the wrong"
        )
    for name, locked in (("open", False), ("locked", True)):
        x, y = data[locked]
        p = np.array([confidence(Features(*row)) for row in x.tolist()])
        print(f"\n{name} half, constants in force (threshold {THRESHOLD}): {losses(p, y)}")
        reliability(p, y)
    return 0


if __name__ == "__main__":
    sys.exit(main())
