"""How near texts are to a question: in meaning, by the embedder of a view, and token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.answering import words
from taboot_pipelines.retrieval.answering.text_query import Term
from taboot_pipelines.retrieval.fusion import Scores
from taboot_pipelines.retrieval.late_interaction import LateInteraction
from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.session import View

#: How near each of several texts is to a question: cosines, shape (texts,).
Near = Callable[[str, Sequence[str]], npt.NDArray[np.float32]]


class Tokens(Protocol):
    """A question by its tokens. ``weights``: what each counts, with a sum of 1."""

    weights: Scores

    def matches(self, texts: Sequence[str]) -> Scores:
        """How well each text has each token, from 0 to 1: shape (len(texts), tokens)."""
        ...


class ExactWords:
    """The words of a question as its tokens, which a text has or has not; ``terms``: at least one."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = terms
        weights = np.array([t.weight for t in terms])
        self.weights: Scores = weights / weights.sum()

    def matches(self, texts: Sequence[str]) -> Scores:
        held = [words.forms(text) for text in texts]
        return np.array([[t.stands(forms) for t in self._terms] for forms in held]).reshape(
            len(texts), len(self._terms)
        )


#: Texts whose vectors are kept.
_MAX_VECTORS = 20_000


class Nearness:
    """``query_vectors``: what embeds; None: nothing is compared. Safe to use from several threads."""

    def __init__(self, query_vectors: QueryVectors | None) -> None:
        self._query_vectors = query_vectors
        self._vectors: dict[tuple[str, str], npt.NDArray[np.float32]] = {}

    def of(self, view: View) -> Near | None:
        """How near texts are to a question, by the embedder of the view; None without one."""
        vectors = self._query_vectors
        if vectors is None or vectors.foreign(view):
            return None

        def near(question: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            space = view.manifest.space.space().id
            held = self._vectors if len(self._vectors) < _MAX_VECTORS else {}
            new = [t for t in dict.fromkeys(texts) if (space, t) not in held]
            if new:
                made = zip(new, vectors.passages(view, new), strict=True)
                held = self._vectors = {**held, **{(space, t): v for t, v in made}}
            asked = vectors.vector(view, question)
            return np.array([held[space, t] @ asked for t in texts], dtype=np.float32)

        return near

    def tokens(self, view: View, question: str) -> LateInteraction | None:
        """The question by its tokens; None where another model than the bundled one is used."""
        vectors = self._query_vectors
        return None if vectors is None or vectors.foreign(view) else vectors.tokens(view, question)
