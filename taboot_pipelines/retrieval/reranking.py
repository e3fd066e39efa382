"""The best hits of the fused ranking, ordered anew by a cross-encoder where one is configured."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.fusion import DIGITS, Scores
from taboot_pipelines.retrieval.results.hits import Hit

if TYPE_CHECKING:
    from taboot_pipelines.inference.rerank.protocol import Reranker

_log = logging.getLogger(__name__)
#: Seconds for which searches do without after a failure: none is to wait for a server that is down.
_REST_SECONDS = 30.0


class Reranked(NamedTuple):
    """``failure``: why the hits are not ordered anew, in a sentence; empty if they are."""

    hits: tuple[Hit, ...]
    failure: str


class Reranking:
    """``candidates``: how many of the best hits are ordered anew. Safe to use from several threads."""

    def __init__(self, reranker: Reranker, candidates: int) -> None:
        self._reranker = reranker
        self.candidates = candidates
        self._lock = threading.Lock()
        self._rests_until = float("-inf")

    def order(self, query: str, hits: Sequence[Hit], *, insist: bool) -> Reranked:
        """``hits`` by the reranker's score (kept in ``scores["rerank"]``, rounded to 1e-6; ties by doc_id and
        chunk index).

        If the reranker fails the hits stay as they are, ``failure`` says why, and a warning is logged;
        ``insist`` raises its error instead.
        """
        if not hits:
            return Reranked((), "")
        if not insist and time.monotonic() < self._rests_until:
            return Reranked(tuple(hits), "The reranker failed a moment ago and is given a rest.")
        try:
            scores = _sound(self._reranker.rank(query, [hit.text for hit in hits]), len(hits))
        except TabootError as error:
            if insist:
                raise
            self._rest(error)
            return Reranked(tuple(hits), f"The reranker failed ({error.code}: {error.message})")
        scored = [
            hit.model_copy(update={"scores": {**hit.scores, "rerank": score}})
            for hit, score in zip(hits, scores, strict=True)
        ]
        placed = enumerate(sorted(scored, key=_place), 1)
        return Reranked(
            tuple(hit.model_copy(update={"ranks": {**hit.ranks, "rerank": n}}) for n, hit in placed), ""
        )

    def _rest(self, error: TabootError) -> None:
        with self._lock:
            # Threads that failed together warn once.
            if time.monotonic() >= self._rests_until:
                _log.warning(
                    "Hits keep their fused order for %.0f s: %s: %s", _REST_SECONDS, error.code, error.message
                )
                self._rests_until = time.monotonic() + _REST_SECONDS


def _sound(scores: Scores, count: int) -> list[float]:
    """One rounded score for each text. Raises ``E_RERANKER`` if they are not that."""
    made = np.asarray(scores, dtype=np.float64)
    if made.shape != (count,) or not np.isfinite(made).all():
        raise TabootError(
            "E_RERANKER", f"The reranker did not give one finite score for each of {count} texts."
        )
    return [round(score, DIGITS) for score in made.tolist()]


def _place(hit: Hit) -> tuple[float, str, int]:
    doc_id, _, index = hit.chunk_id.rpartition(":")
    return -hit.scores["rerank"], doc_id, int(index)
