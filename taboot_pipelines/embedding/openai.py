"""The embedder behind a server with OpenAI's ``/v1/embeddings``: OpenAI's own, Ollama, vLLM, LiteLLM.

The API tells neither the model's version nor how much it reads, so the settings do. What is refused as too
long or too large is halved, and every vector is checked before it is returned.
Source: platform.openai.com, "Create embeddings".
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from taboot_pipelines.embedding.protocol import Space, Vectors, too_long, unit_vectors
from taboot_pipelines.embedding.remembered import measured_dimension
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.server import Peer, ServerClient
from taboot_pipelines.inference.batching import Question, ask, gather
from taboot_pipelines.inference.openai import is_too_long, not_openai, prefix_of
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.model.ids import digest
from taboot_pipelines.settings import SPECIAL_TOKENS, OpenAiEmbeddingSettings
from taboot_pipelines.stores.state.circuit import Circuit

_PEER = Peer(
    "The embedding server",
    "TABOOT_EMBEDDING__OPENAI",
    "E_EMBEDDER",
    "E_EMBEDDER",
    max_answer=256 * 1024 * 1024,
)


class OpenAiEmbedder:
    """Embeds by HTTP. Made without a request; threads may share it.

    ``backoff_seconds``, ``memory``: as of :class:`~taboot_pipelines.embedding.tei.TeiEmbedder`. Raises
    ``E_CONFIG`` for a URL or key that no request could carry, and where no model is named.
    """

    def __init__(
        self,
        settings: OpenAiEmbeddingSettings,
        *,
        backoff_seconds: float = 0.5,
        memory: Path | None = None,
        circuit: Circuit | None = None,
    ) -> None:
        if not settings.model:
            raise TabootError(
                "E_CONFIG",
                "TABOOT_EMBEDDING__OPENAI__URL is set, and no model.",
                remedy="Set TABOOT_EMBEDDING__OPENAI__MODEL to the name that the server has for it.",
                settings=["TABOOT_EMBEDDING__OPENAI__MODEL"],
            )
        self._model = settings.model
        self._settings = settings
        self._memory = memory
        self._http = ServerClient(_PEER, settings, backoff_seconds=backoff_seconds, circuit=circuit)
        self._path = f"{prefix_of(self._http)}/embeddings"
        self._lock = threading.Lock()
        self._space: Space | None = None

    def close(self) -> None:
        self._http.close()

    def health(self) -> Health:
        """Whether the server embeds a word: one attempt."""

        def embed() -> tuple[str | None, str]:
            body = orjson.dumps(self._request(["health"]))
            unit_vectors(self._rows(self._accepted(self._http.once("POST", self._path, body))), 1)
            return self._model, ""

        return probe("embedder", "openai", embed)

    @property
    def space(self) -> Space:
        with self._lock:
            if self._space is None:
                _, *told = self._settings.space_key
                revision = digest(*told) if any(told[1:]) else "unversioned"
                dimension = measured_dimension(
                    f"{self._model}@{revision}",
                    self._memory,
                    lambda: self._batch(["dimension"], 0, None, threading.Event()).shape[1],
                )
                reads = self._settings.max_tokens - SPECIAL_TOKENS
                self._space = Space(self._model, revision, dimension, reads)
            return self._space

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension), with ``TABOOT_EMBEDDING__OPENAI__PREFIX_PASSAGE``
        before each text. Raises ``E_EMBEDDER``, ``E_VECTOR``, ``E_TOKEN_LIMIT`` (with the index of the text),
        ``E_ENCODING`` for text that has no UTF-8, ``E_CIRCUIT_OPEN``."""
        return self._embed([self._settings.prefix_passage + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), with ``TABOOT_EMBEDDING__OPENAI__PREFIX_QUERY`` before the
        text."""
        vector: Vectors = self._embed([self._settings.prefix_query + text])[0]
        return vector

    def _embed(self, texts: Sequence[str]) -> Vectors:
        dimension = self.space.dimension
        out = np.empty((len(texts), dimension), np.float32)

        def work(start: int, end: int, stop: threading.Event) -> None:
            out[start:end] = self._batch(texts[start:end], start, dimension, stop)

        gather(len(texts), self._settings.batch_size, self._settings.max_concurrency, work)
        return out

    def _batch(
        self, texts: Sequence[str], first: int, dimension: int | None, stop: threading.Event
    ) -> Vectors:
        """The vectors of one request. ``first``, for messages, is the index of ``texts[0]`` in the caller's
        list."""

        def read(answer: Any, some: Sequence[str], start: int) -> Vectors:
            return unit_vectors(self._rows(answer), len(some), dimension, first=start)

        question = Question(
            self._path,
            self._request(texts),
            "input",
            "embeddings",
            self._model,
            self._accepted,
            too_long,
            lambda reply: reply.status == 413 or is_too_long(reply),
        )
        return np.concatenate(ask(self._http, question, first, stop, read))

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        shorter = self._settings.dimensions
        request = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return request if shorter is None else {**request, "dimensions": shorter}

    def _accepted(self, reply: Answer) -> Any:
        if reply.status != 200:
            remedy = (
                "Check TABOOT_EMBEDDING__OPENAI__URL and TABOOT_EMBEDDING__OPENAI__MODEL."
                if reply.status in (400, 404)
                else None
            )
            raise self._http.refusal(reply.status, "/embeddings", remedy)
        try:
            return orjson.loads(reply.body)
        except ValueError:
            raise not_openai(_PEER, "/embeddings") from None

    def _rows(self, answer: Any) -> list[Any]:
        """The vectors of an answer in the order of the texts, which their ``index`` tells."""
        try:
            rows = {entry["index"]: entry["embedding"] for entry in answer["data"]}
            return [rows[number] for number in range(len(rows))]
        except (TypeError, KeyError):
            raise not_openai(_PEER, "/embeddings") from None
