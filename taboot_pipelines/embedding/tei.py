"""The embedder behind a Text Embeddings Inference server (huggingface/text-embeddings-inference, ``/embed``).

Batches are as large as the server says it takes, and several are in flight at once. What is refused as too
large is halved (:mod:`taboot_pipelines.inference.tei`), and every vector is checked before it is returned.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taboot_pipelines.embedding.protocol import Space, Vectors, too_long, unit_vectors
from taboot_pipelines.embedding.remembered import measured_dimension
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.server import Peer
from taboot_pipelines.inference.tei import TeiServer
from taboot_pipelines.model.health import Health
from taboot_pipelines.settings import SPECIAL_TOKENS, TeiSettings
from taboot_pipelines.stores.state.circuit import Circuit

_PEER = Peer("The embedding server", "TABOOT_TEI", "E_EMBEDDER", "E_EMBEDDER", max_answer=256 * 1024 * 1024)


class TeiEmbedder:
    """Embeds by HTTP. Made without a request: the space is asked for when it is first needed. Threads may
    share it.

    ``backoff_seconds`` is the longest first wait between attempts; it doubles with each. ``memory`` is a file
    that keeps the dimension of each model met. Raises ``E_CONFIG`` for a URL or key that no request could
    carry.
    """

    def __init__(
        self,
        settings: TeiSettings,
        *,
        backoff_seconds: float = 0.5,
        memory: Path | None = None,
        circuit: Circuit | None = None,
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._server = TeiServer(_PEER, settings, backoff_seconds=backoff_seconds, circuit=circuit)
        self._lock = threading.Lock()
        self._space: Space | None = None

    def close(self) -> None:
        self._server.http.close()

    def __enter__(self) -> TeiEmbedder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def health(self) -> Health:
        """Whether the server answers and serves an embedding model; no retries, nothing is embedded."""
        return self._server.health("embedder", "embedding")

    @property
    def space(self) -> Space:
        """The space of the model that is served now. A changed model is ``E_EMBEDDER``: its vectors would mix
        with those of the first (rule ``spaces-never-mix``)."""
        info = self._server.info()
        with self._lock:
            if self._space is None:
                if info.max_input_length <= SPECIAL_TOKENS:
                    raise TabootError(
                        "E_EMBEDDER",
                        "The embedding server's model reads no text at all.",
                        limit=info.max_input_length,
                    )
                dimension = measured_dimension(
                    f"{info.model}@{info.revision}",
                    self._memory,
                    lambda: self._batch(["dimension"], 0, None, threading.Event()).shape[1],
                )
                self._space = Space(
                    info.model, info.revision, dimension, info.max_input_length - SPECIAL_TOKENS
                )
            elif (info.model, info.revision) != (self._space.model, self._space.revision):
                raise TabootError(
                    "E_EMBEDDER",
                    "The embedding server serves another model than before.",
                    remedy="Open the knowledge base again; a new model needs a new ingest.",
                    was=self._space.model,
                    now=info.model,
                )
            return self._space

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_EMBEDDER``, ``E_VECTOR``,
        ``E_TOKEN_LIMIT`` (with the index of the text), ``E_ENCODING`` for text that has no UTF-8,
        ``E_CIRCUIT_OPEN``."""
        dimension = self.space.dimension
        out = np.empty((len(texts), dimension), np.float32)

        def work(start: int, end: int, stop: threading.Event) -> None:
            out[start:end] = self._batch(texts[start:end], start, dimension, stop)

        self._server.batches(texts, work)
        return out

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), with ``TABOOT_TEI__PREFIX_QUERY`` before the text."""
        vector: Vectors = self.embed([self._settings.prefix_query + text])[0]
        return vector

    def _batch(
        self, texts: Sequence[str], first: int, dimension: int | None, stop: threading.Event
    ) -> Vectors:
        """The vectors of one request. ``first``, for messages, is the index of ``texts[0]`` in the caller's
        list.
        """

        def read(answer: Any, some: Sequence[str], start: int) -> Vectors:
            return unit_vectors(answer, len(some), dimension, first=start)

        request = {"inputs": list(texts), "normalize": True, "truncate": False}
        return np.concatenate(self._server.ask("/embed", request, "inputs", first, stop, read, too_long))
