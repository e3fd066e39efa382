"""The fit of what type of question is asked, and how often it is right.

    python benchmarks/question_types.py [--write]

Fits ``answering.question_types.Model`` on the wordings of the package, and prints how often the first type
and one of the first three is right in ten-fold cross validation, in which wordings that are nearly alike
stay in one fold; beside it a baseline, the nearest exemplar by the encoder's vector. ``--write`` puts the
fit into the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from taboot_pipelines.embedding.minilm import MiniLmEmbedder
from taboot_pipelines.retrieval.answering import question_types
from taboot_pipelines.retrieval.answering.question_types import Model, exemplars, features, softmax
from taboot_pipelines.settings import EmbeddingSettings

FOLDS, ALIKE = 10, 0.9
#: Penalty on squares and steps, of the vectors and of the words.
BY_VECTOR, BY_WORDS = (1e-5, 1500), (1e-5, 600)


def fit(x: np.ndarray, y: np.ndarray, types: int, penalty: float, steps: int) -> np.ndarray:
    """Weights of a multinomial logistic regression, the constants as last row, by Nesterov's method."""
    design = np.column_stack([x, np.ones(len(x), dtype=x.dtype)])
    wanted = np.eye(types, dtype=x.dtype)[y]
    start = np.random.default_rng(0).standard_normal(design.shape[1]).astype(x.dtype)
    for _ in range(30):
        start = design.T @ (design @ start)
        norm = np.linalg.norm(start)
        start /= norm
    step = 1 / (0.5 * norm / len(x) * 1.05 + penalty)
    weights = ahead = np.zeros((design.shape[1], types), dtype=x.dtype)
    momentum = 1.0
    for _ in range(steps):
        gradient = design.T @ (softmax(design @ ahead) - wanted) / len(x) + penalty * ahead
        moved = ahead - step * gradient
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / faster * (moved - weights)
        weights, momentum = moved, faster
    return weights


def learn(vectors: np.ndarray, texts: list[str], y: np.ndarray, types: tuple[str, ...]) -> Model:
    return Model(
        types,
        question_types.digest(),
        fit(vectors, y, len(types), *BY_VECTOR),
        fit(features(texts), y, len(types), *BY_WORDS),
    )


def clusters(vectors: np.ndarray) -> np.ndarray:
    """A number for each text, the same for those that are nearly alike, directly or by others."""
    near = vectors @ vectors.T >= ALIKE
    number = np.arange(len(vectors))
    while True:
        least = np.where(near, number[None, :], len(number)).min(axis=1)
        if (least == number).all():
            return number
        number = least


def share(told: np.ndarray, y: np.ndarray, first: int) -> float:
    best = np.argsort(-told, axis=1)[:, :first]
    return float(np.mean([of in row for of, row in zip(y, best, strict=True)]))


def main() -> int:
    given = list(exemplars())
    texts = [e.text for e in given]
    types = tuple(sorted({e.type for e in given}))
    y = np.array([types.index(e.type) for e in given])
    vectors = MiniLmEmbedder(EmbeddingSettings()).embed(texts)
    if "--write" in sys.argv:
        known = learn(vectors, texts, y, types)
        path = Path(question_types.__file__).with_name("question_types.npz")
        np.savez_compressed(
            path,
            types=np.array(" ".join(types)),
            fitted_on=np.array(known.fitted_on),
            by_vector=known.by_vector.astype(np.float16),
            by_words=known.by_words.astype(np.float16),
        )
        print(f"{path.name}: {path.stat().st_size:,} bytes")
        return 0
    group = clusters(vectors)
    fold = np.random.default_rng(0).permutation(len(y))[group] % FOLDS
    told = np.zeros((len(y), len(types)))
    nearest = np.zeros_like(told)
    for left_out in range(FOLDS):
        here, rest = fold == left_out, fold != left_out
        known = learn(vectors[rest], [t for t, r in zip(texts, rest, strict=True) if r], y[rest], types)
        told[here] = known.probabilities(vectors[here], [t for t, h in zip(texts, here, strict=True) if h])
        cosines = vectors[here] @ vectors[rest].T
        for of in range(len(types)):
            nearest[here, of] = cosines[:, y[rest] == of].max(axis=1)
    print(f"{len(texts)} wordings, {len(types)} types, {FOLDS} folds\n{'':22}{'first':>8}{'three':>8}")
    for name, p in (("the model", told), ("the nearest exemplar", nearest)):
        print(f"{name:22}{share(p, y, 1):8.3f}{share(p, y, 3):8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
