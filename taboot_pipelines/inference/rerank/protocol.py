"""What every reranker offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from taboot_pipelines.model.health import Health

Scores = npt.NDArray[np.float64]


class Reranker(Protocol):
    def rank(self, query: str, texts: Sequence[str]) -> Scores:
        """How relevant each text is to the query, from 0 to 1: shape (len(texts),), in the order of
        ``texts``, every score finite.

        A text that is too long is read up to the model's limit. Raises ``E_RERANKER``, ``E_CIRCUIT_OPEN``,
        ``E_ENCODING``, ``E_MODEL``, ``E_GPU_OOM``.
        """
        ...

    def health(self) -> Health:
        """Whether it works now, in one attempt."""
        ...

    def close(self) -> None: ...
