"""How near texts are in meaning to a question, by the embedder of a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from taboot_pipelines.retrieval.query_vectors import QueryVectors
from taboot_pipelines.retrieval.session import View

#: How near each of several texts is to a question: cosines, shape (texts,).
Near = Callable[[str, Sequence[str]], npt.NDArray[np.float32]]

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
