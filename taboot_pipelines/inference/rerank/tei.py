"""The reranker behind a Text Embeddings Inference server (``/rerank``)."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.server import Peer
from taboot_pipelines.inference.rerank.protocol import Scores
from taboot_pipelines.inference.tei import TeiServer
from taboot_pipelines.model.health import Health
from taboot_pipelines.settings import RerankerSettings
from taboot_pipelines.stores.state.circuit import Circuit

_PEER = Peer("The reranker", "TABOOT_RERANKER", "E_RERANKER", "E_RERANKER", max_answer=16 * 1024 * 1024)


class TeiReranker:
    """Ranks by HTTP (``/rerank``, sigmoid scores). Made without a request; safe to share by threads."""

    def __init__(
        self, settings: RerankerSettings, *, backoff_seconds: float = 0.5, circuit: Circuit | None = None
    ) -> None:
        self._server = TeiServer(_PEER, settings, backoff_seconds=backoff_seconds, circuit=circuit)

    def rank(self, query: str, texts: Sequence[str]) -> Scores:
        out = np.empty(len(texts))

        def work(start: int, end: int, stop: threading.Event) -> None:
            request = {"query": query, "texts": list(texts[start:end]), "raw_scores": False, "truncate": True}
            out[start:end] = np.concatenate(
                self._server.ask("/rerank", request, "texts", start, stop, _scores, _too_large)
            )

        self._server.batches(texts, work)
        return out

    def health(self) -> Health:
        """Whether the server answers and serves a reranker; no retries, nothing is ranked."""
        return self._server.health("reranker", "reranker")

    def close(self) -> None:
        self._server.http.close()


def _scores(answer: Any, texts: Sequence[str], first: int) -> Scores:
    """``[{index, score}]`` in any order, as one score a text; each index exactly once, each score finite."""
    out = np.full(len(texts), np.nan)
    if not isinstance(answer, list) or len(answer) != len(texts):
        raise TabootError(
            "E_RERANKER",
            f"The reranker did not answer one score for each of {len(texts)} texts.",
            expected=len(texts),
        )
    for row in answer:
        index, score = (row.get("index"), row.get("score")) if isinstance(row, dict) else (None, None)
        if type(index) is not int or not 0 <= index < len(texts) or not math.isnan(out[index]):
            raise TabootError(
                "E_RERANKER",
                "The reranker's answer names a text that was not asked, or one twice.",
                first=first,
            )
        if not isinstance(score, int | float) or isinstance(score, bool) or not math.isfinite(score):
            raise TabootError(
                "E_RERANKER",
                f"The reranker's score of text {first + index} is not a finite number.",
                index=first + index,
            )
        out[index] = score
    return out


def _too_large(text: str, index: int) -> TabootError:
    return TabootError(
        "E_RERANKER",
        f"Text {index} is larger than the reranker takes in one request.",
        index=index,
        characters=len(text),
    )
