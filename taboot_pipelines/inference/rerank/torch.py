"""The reranker in this process: a cross-encoder by PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.rerank.protocol import Scores
from taboot_pipelines.inference.torch_model import Encoded, TorchModel
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import TorchSettings


class TorchReranker:
    """Ranks pairs of query and text by the sigmoid of the model's one logit, as TEI's ``/rerank`` does.
    Nothing is loaded before the first call."""

    def __init__(self, settings: TorchSettings) -> None:
        self._model = TorchModel(settings, "TABOOT_RERANKER__TORCH", "AutoModelForSequenceClassification")

    def rank(self, query: str, texts: Sequence[str]) -> Scores:
        if not texts:
            return np.empty(0)
        limit = self._model.max_tokens
        logits = self._model.rows(
            [self._encode(query, text, index, limit) for index, text in enumerate(texts)], 1, self._logits
        )[:, 0]
        bad = ~np.isfinite(logits)
        if bad.any():
            index = int(bad.argmax())
            raise TabootError(
                "E_RERANKER", f"The reranker's score of text {index} is not a finite number.", index=index
            )
        scores: Scores = 1.0 / (1.0 + np.exp(-np.clip(logits.astype(np.float64), -700, 700)))
        return scores

    def health(self) -> Health:
        """Loads the model and ranks one pair."""

        def ask() -> tuple[str | None, str]:
            self.rank("health", ["health"])
            return self._model.versions(), ""

        return probe("reranker", "torch", ask)

    def close(self) -> None:
        self._model.close()

    def _encode(self, query: str, text: str, index: int, limit: int) -> Encoded:
        tokenizer = self._model.tokenizer
        try:
            encoding = tokenizer.encode(query, text)
        except (TypeError, UnicodeEncodeError):
            raise TabootError(
                "E_ENCODING",
                f"Text {index} or the query holds a lone surrogate and has no UTF-8.",
                index=index,
            ) from None
        if len(encoding.ids) > limit:
            # The longer of the two gives way first, as in the models' training; the special tokens stay.
            tokenizer.enable_truncation(limit, strategy="longest_first")
            try:
                encoding = tokenizer.encode(query, text)
            finally:
                tokenizer.no_truncation()
        return Encoded(encoding.ids, encoding.type_ids)

    def _logits(self, output: Any, _mask: Any) -> Any:
        if output.logits.shape[-1] != 1:
            raise TabootError(
                "E_MODEL",
                f"{self._model.name} is a classifier of {output.logits.shape[-1]} labels; a reranker has"
                " one.",
                settings=["TABOOT_RERANKER__TORCH__MODEL"],
            )
        return output.logits
