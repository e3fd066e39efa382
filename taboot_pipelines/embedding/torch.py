"""The embedder in this process by PyTorch: any encoder in sentence-transformers' layout.

``modules.json`` and ``1_Pooling/config.json`` say how token vectors become one (mean, first or last token;
Reimers and Gurevych 2019); without them it is the mean. Vectors have length 1 whether or not the model's
files ask for it, since spaces are compared by cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taboot_pipelines.embedding.protocol import Space, Vectors, unit_vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.torch_model import Encoded, TorchModel
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import TorchSettings

_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_SETTING = "TABOOT_EMBEDDING__TORCH"


class TorchEmbedder:
    """Half precision on a GPU, single on the CPU. Made without loading anything; the space is read off the
    model's files without PyTorch, so that an unchanged ingest does not import it."""

    def __init__(self, settings: TorchSettings) -> None:
        self._prefix_query = settings.prefix_query
        self._model = TorchModel(settings, _SETTING, "AutoModel")

    @property
    def space(self) -> Space:
        """The revision is the hub's commit, or the SHA-256 of a local model's files."""
        model = self._model
        self._pooling()
        return Space(model.name, model.revision, model.hidden_size, model.max_tokens - model.special_tokens)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_TOKEN_LIMIT`` with the index of a text
        that the model would cut off, ``E_ENCODING``, ``E_MODEL``, ``E_VECTOR``, ``E_GPU_OOM``, ``E_EXTRA``,
        ``E_CONFIG``."""
        space = self.space
        if not texts:
            return np.empty((0, space.dimension), np.float32)
        lower = self._model.json("sentence_bert_config.json").get("do_lower_case") is True
        inputs = [
            self._encode(text.lower() if lower else text, index, space) for index, text in enumerate(texts)
        ]
        pooling = self._pooling()
        return unit_vectors(
            self._model.rows(inputs, space.dimension, lambda output, mask: _pool(output, mask, pooling)),
            len(texts),
            space.dimension,
        )

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), with ``TABOOT_EMBEDDING__TORCH__PREFIX_QUERY`` before the
        text.
        """
        try:
            vector: Vectors = self.embed([self._prefix_query + text])[0]
        except TabootError as error:
            if error.code == "E_TOKEN_LIMIT":
                raise TabootError(
                    error.code, "The query is longer than the model reads.", remedy="Ask in fewer words."
                ) from None
            raise
        return vector

    def health(self) -> Health:
        """Loads the model and embeds one word."""

        def ask() -> tuple[str | None, str]:
            self.embed(["health"])
            return self._model.versions(), ""

        return probe("embedder", "torch", ask)

    def close(self) -> None:
        self._model.close()

    def _encode(self, text: str, index: int, space: Space) -> Encoded:
        try:
            encoding = self._model.tokenizer.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise TabootError(
                "E_ENCODING", f"Text {index} holds a lone surrogate and has no UTF-8.", index=index
            ) from None
        limit = space.max_tokens + self._model.special_tokens
        if len(encoding.ids) > limit:
            raise TabootError(
                "E_TOKEN_LIMIT",
                f"Text {index} has {len(encoding.ids)} tokens; the model reads {limit}.",
                index=index,
                length=len(encoding.ids),
                limit=limit,
            )
        return Encoded(encoding.ids, encoding.type_ids)

    def _pooling(self) -> str:
        """mean, cls or lasttoken. Raises ``E_CONFIG`` for a model that does more than pool and normalize."""
        modules = self._model.json("modules.json") or []
        entries = [m if isinstance(m, dict) else {} for m in modules] if isinstance(modules, list) else [{}]
        kinds = [str(m.get("type", "")).rsplit(".", 1)[-1] for m in entries]
        if any(kind not in ("Transformer", "Pooling", "Normalize") for kind in kinds):
            raise self._unsupported("has a layer after its pooling")
        folder = next(
            (str(m.get("path") or "") for m, kind in zip(entries, kinds, strict=True) if kind == "Pooling"),
            None,
        )
        if folder is None:
            return "mean"
        if not folder.replace("_", "").isalnum():
            raise self._unsupported("names a folder of pooling that is none")
        config = self._model.json(f"{folder}/config.json", required=True)
        known = config if isinstance(config, dict) else {}
        chosen = [
            name
            for name, key in _POOLINGS.items()
            if known.get(key) is True or known.get("pooling_mode") in (name, [name])
        ]
        others = [
            key
            for key, value in known.items()
            if key.startswith("pooling_mode_") and value is True and key not in _POOLINGS.values()
        ]
        if len(chosen) != 1 or others:
            raise self._unsupported("pools in another way than by mean, first or last token")
        return chosen[0]

    def _unsupported(self, what: str) -> TabootError:
        return TabootError(
            "E_CONFIG",
            f"{_SETTING}__MODEL: {self._model.name} {what}.",
            settings=[f"{_SETTING}__MODEL"],
            remedy="Serve it by Text Embeddings Inference (TABOOT_TEI__URL), or use another model.",
        )


def _pool(output: Any, mask: Any, pooling: str) -> Any:
    """One float32 vector a row: inputs are padded on the right, so the last token is the mask's."""
    hidden = output.last_hidden_state.float()
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "lasttoken":
        last = mask.sum(dim=1) - 1
        return hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1]))[:, 0]
    weights = mask[:, :, None].to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
