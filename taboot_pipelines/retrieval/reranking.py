"""The best hits of the fused ranking, ordered anew by a cross-encoder where one is configured."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.fusion import DIGITS
from taboot_pipelines.retrieval.results import Hit

if TYPE_CHECKING:
    from taboot_pipelines.inference.rerank import Reranker

_log = logging.getLogger(__name__)
#: Seconds for which searches do without after a failure: none is to wait for a server that is down.
_REST_SECONDS = 30.0


class Reranking:
    """``candidates``: how many of the best hits are ordered anew. Safe to use from several threads."""

    def __init__(self, reranker: Reranker, candidates: int) -> None:
        self._reranker = reranker
        self.candidates = candidates
        self._lock = threading.Lock()
        self._rests_until = float("-inf")

    def order(self, query: str, hits: Sequence[Hit], *, insist: bool) -> tuple[Hit, ...]:
        """The first ``candidates`` hits by the reranker's score (kept in ``scores["rerank"]``, rounded to
        1e-6; ties by doc_id and chunk index), then the rest as they were.

        If the reranker fails the hits stay as they are and a warning is logged; ``insist`` raises its error
        instead.
        """
        best, rest = hits[: self.candidates], hits[self.candidates :]
        if not best or (not insist and time.monotonic() < self._rests_until):
            return tuple(hits)
        try:
            scores = self._reranker.rank(query, [hit.text for hit in best])
        except TabootError as error:
            if insist:
                raise
            self._rest(error)
            return tuple(hits)
        scored = [
            hit.model_copy(update={"scores": {**hit.scores, "rerank": round(float(score), DIGITS)}})
            for hit, score in zip(best, scores, strict=True)
        ]
        return (*sorted(scored, key=_place), *rest)

    def _rest(self, error: TabootError) -> None:
        with self._lock:
            # Threads that failed together warn once.
            if time.monotonic() >= self._rests_until:
                _log.warning(
                    "Hits keep their fused order for %.0f s: %s: %s", _REST_SECONDS, error.code, error.message
                )
                self._rests_until = time.monotonic() + _REST_SECONDS


def _place(hit: Hit) -> tuple[float, str, int]:
    doc_id, _, index = hit.chunk_id.rpartition(":")
    return -hit.scores["rerank"], doc_id, int(index)
