"""The ranking of one request over one view: every arm by itself, then their fusion.

An arm ranks the rows of the index in its own way: ``vectors`` by meaning, ``bm25`` by words. Where Qdrant is
configured it names the rows among which the nearest are, and the arm ranks those.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taboot_pipelines.embedding.protocol import Vectors
from taboot_pipelines.retrieval import vectors
from taboot_pipelines.retrieval.fusion import DIGITS, Arm, Ids, Ranking, Scores, fuse
from taboot_pipelines.retrieval.index import Index
from taboot_pipelines.retrieval.request import SearchRequest
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import RetrievalSettings

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.candidates import Candidates


# --- What the parts of a search take


class Clock:
    """Milliseconds by part, of one thread. Each :meth:`lap` gives a part what has passed since the last."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Add to ``part`` the time since the last lap, or since the beginning."""
        now = time.perf_counter()
        self._parts[part] = self._parts.get(part, 0.0) + (now - self._last) * 1000
        self._last = now

    @property
    def milliseconds(self) -> dict[str, float]:
        """What each part took so far, and ``total``, to the microsecond."""
        total = (time.perf_counter() - self._start) * 1000
        return {name: round(spent, 3) for name, spent in (*self._parts.items(), ("total", total))}


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A row of the index. ``score``: what it is ranked by; ``scores``: its own in every arm asked; ``ranks``:
    its place, from 1, in every arm that has it among its best.
    """

    row: int
    score: float
    scores: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True, slots=True)
class RankedRows:
    """A ranking, best first, whose :class:`RankedRow` are made when they are asked for. ``scores``: what each
    is ranked by; ``arms``: its score in every arm asked, NaN where that says nothing of it; ``places``: its
    place in each, from 0, and -1 where it is not among that arm's best.
    """

    ids: Ids
    scores: Scores
    arms: dict[str, Scores]
    places: dict[str, Ids]

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, i: int) -> RankedRow:
        row = int(self.ids[i])
        return RankedRow(
            row,
            float(self.scores[i]),
            {arm: round(float(own[i]), DIGITS) for arm, own in self.arms.items() if not np.isnan(own[i])},
            {arm: place + 1 for arm, at in self.places.items() if (place := int(at[i])) >= 0},
        )

    def scores_of(self, rows: Ids) -> Scores:
        """What each of ``rows`` is ranked by; 0 where it is not ranked."""
        at = _places(rows, self.ids)
        scores = np.zeros(len(rows))
        scores[at >= 0] = self.scores[at[at >= 0]]
        return scores

    def reordered(self, ids: Ids, scores: Scores) -> RankedRows:
        """The ranking ``ids`` by ``scores``, with all that is known here of those that are here, too."""
        at = _places(ids, self.ids)
        known = at >= 0
        arms = {arm: np.full(len(ids), np.nan) for arm in self.arms}
        places = {arm: np.full(len(ids), -1, dtype=np.int64) for arm in self.places}
        for arm, own in self.arms.items():
            arms[arm][known] = own[at[known]]
        for arm, of_arm in self.places.items():
            places[arm][known] = of_arm[at[known]]
        return RankedRows(ids, scores, arms, places)


def rank_rows(
    view: View,
    request: SearchRequest,
    vector: Vectors | None,
    rows: Ids | None,
    candidates: Candidates | None,
    settings: RetrievalSettings,
    clock: Clock,
) -> RankedRows:
    """The best ``request.limit`` of ``rows`` (ascending; None: all), best first.

    ``vector``: the query's, shape (dimension,); None leaves its arm out. ``candidates``: Qdrant, if it is
    configured; it changes no result of an exact request. ``clock`` is told what each part took.
    """
    index = view.index
    depth = arm_depth(request, settings)
    words: Scores | None = None

    def look_up_words() -> None:
        nonlocal words
        words = view.keywords.scores(request.query)
        clock.lap("keyword")

    arms: dict[str, Ranking] = {}
    if vector is None:
        look_up_words()
    else:
        near = (
            None
            if candidates is None
            else candidates.narrow(index, vector, depth, rows, request.filter, exact=request.exact)
        )
        arms["vector"] = vectors.search(
            index,
            vector,
            depth,
            rows if near is None else near,
            needed=request.limit,
            proven=request.exact,
            meanwhile=None if request.mode == "vector" else look_up_words,
        )
        clock.lap("vector")
    if words is not None:
        arms["keyword"] = view.keywords.search(words, depth, rows)
        clock.lap("keyword")
    if request.joins:
        count = len(index) if rows is None else len(rows)
        best = fuse(
            [
                Arm(arms["vector"], request.vector_weight, count),
                Arm(arms["keyword"], request.keyword_weight, count),
            ],
            request.limit,
            fusion=request.fusion,
            rrf_k=request.rrf_k,
            depth=settings.candidates,
        )
    else:
        best = arms[request.mode]
    places = {arm: _places(best.ids, own.ids) for arm, own in arms.items()}
    # An arm knows only its own best; what it says of the others' is computed here.
    scores: dict[str, Scores] = {}
    if vector is not None:
        scores["vector"] = _cosines(index, vector, best.ids, arms["vector"], places["vector"])
    if words is not None:
        scores["keyword"] = words[best.ids]
    clock.lap("fusion")
    return RankedRows(best.ids, best.scores, scores, places)


def arm_depth(request: SearchRequest, settings: RetrievalSettings) -> int:
    """How many of each arm's best rows are ranked: in a fusion at least ``request.depth``."""
    if not request.joins:
        return request.limit
    return request.depth or max(settings.candidates, request.limit)


def _places(rows: Ids, ranked: Ids) -> Ids:
    """The place of each of ``rows`` in ``ranked``, from 0; -1 where it is not there. Both in any order."""
    if not len(ranked):
        return np.full(len(rows), -1, dtype=np.int64)
    order = np.argsort(ranked)
    at = order[np.searchsorted(ranked, rows, sorter=order).clip(max=len(order) - 1)]
    return np.where(ranked[at] == rows, at, -1)


def _cosines(index: Index, vector: Vectors, rows: Ids, known: Ranking, places: Ids) -> Scores:
    """The cosine of every row of ``rows``, which come in any order; ``known`` has some, at ``places``."""
    cosines: Scores = known.scores[places]
    missing = np.flatnonzero(places < 0)
    if len(missing):
        missing = missing[np.argsort(rows[missing])]
        cosines[missing] = vectors.exact(index, vector.astype(np.float64), rows[missing])
    return cosines
