"""The client of a Text Embeddings Inference server, shared by the embedder and the reranker.

Source: huggingface/text-embeddings-inference, ``/info`` and ``/health``.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import orjson

from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.server import Peer, ServerClient, ServerSettings
from taboot_pipelines.inference.batching import Question, ask, gather
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.stores.state.circuit import Circuit

#: A server may be redeployed with another model while it is in use: ask again after this many seconds.
INFO_TTL = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Info:
    """``/info``: the model, its limits in tokens (special tokens included) and in texts of one request."""

    model: str
    revision: str
    max_input_length: int
    max_batch: int
    version: str
    #: What the model is for: embedding, reranker or classifier; "" where the server does not tell.
    kind: str


class TeiServer:
    """One TEI server. Made without a request."""

    def __init__(
        self, peer: Peer, settings: ServerSettings, *, backoff_seconds: float, circuit: Circuit | None
    ) -> None:
        self.http = ServerClient(peer, settings, backoff_seconds=backoff_seconds, circuit=circuit)
        self._lock = threading.Lock()
        self._info: Info | None = None
        self._asked = 0.0

    def info(self) -> Info:
        """The server's limits, asked for again when they are old. Raises the peer's code where the server is
        not TEI.
        """
        with self._lock:
            if self._info is None or time.monotonic() - self._asked >= INFO_TTL:
                reply = self.http.call("GET", "/info")
                self._info, self._asked = self._read(reply), time.monotonic()
            return self._info

    def health(self, part: str, kind: str) -> Health:
        """Ask ``/health`` and ``/info``, one attempt each; a model that is not of ``kind`` is a warning in
        words.
        """

        def ask() -> tuple[str | None, str]:
            reply = self.http.once("GET", "/health")
            if reply.status != 200:
                raise self.http.refusal(reply.status, "/health")
            info = self._read(self.http.once("GET", "/info"))
            wrong = info.kind not in ("", kind)
            said = (
                f"The server at {self.http.peer.setting}__URL serves {_a(info.kind)} model, not {_a(kind)}"
                " model; set the URL of one that does."
            )
            return f"{info.version} {info.model}".strip(), said if wrong else ""

        return probe(part, "tei", ask)

    def batches(self, texts: Sequence[str], work: Callable[[int, int, threading.Event], None]) -> None:
        """Call ``work(start, end, stop)`` for batches as large as the server takes, several at once."""
        size = self.info().max_batch if texts else 1
        gather(len(texts), size, self.http.settings.max_concurrency, work)

    def ask(
        self,
        path: str,
        request: Mapping[str, Any],
        field: str,
        start: int,
        stop: threading.Event,
        read: Callable[[Any, Sequence[str], int], T],
        too_long: Callable[[str, int], TabootError],
    ) -> list[T]:
        """As :func:`~taboot_pipelines.inference.batching.ask`; what is too large is refused by a 413."""
        model = "" if self._info is None else self._info.model
        operation = "embeddings" if path == "/embed" else path.strip("/")

        def accepted(reply: Answer) -> Any:
            if reply.status != 200:
                # 424: the model there cannot do what this route asks.
                remedy = f"Serve a model there that answers {path}." if reply.status == 424 else None
                raise self.http.refusal(reply.status, path, remedy)
            try:
                return orjson.loads(reply.body)
            except ValueError:
                raise TabootError(
                    self.http.peer.code, f"{self.http.peer.name}'s answer is not JSON.", path=path
                ) from None

        question = Question(path, request, field, operation, model, accepted, too_long)
        return ask(self.http, question, start, stop, read)

    def _read(self, reply: Answer) -> Info:
        peer = self.http.peer
        if reply.status != 200:
            raise self.http.refusal(reply.status, "/info")
        try:
            answer = orjson.loads(reply.body)
            model, revision, version = answer["model_id"], answer.get("model_sha"), answer.get("version")
            length, batch = answer["max_input_length"], answer.get("max_client_batch_size", 32)
            kinds = answer.get("model_type")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise TabootError(peer.code, f"{peer.name}'s /info is not that of a TEI server.") from None
        usable = isinstance(model, str) and model.strip("/") and isinstance(revision, str | None)
        if not usable or not all(type(n) is int and n > 0 for n in (length, batch)):
            raise TabootError(peer.code, f"{peer.name}'s /info is not that of a TEI server.")
        kind = next(iter(kinds), "") if isinstance(kinds, dict) else kinds if isinstance(kinds, str) else ""
        known = kind.lower() if kind.lower() in ("embedding", "reranker", "classifier") else ""
        return Info(
            model=model.rstrip("/"),
            revision=_revision(revision),
            max_input_length=length,
            max_batch=batch,
            version=_plain(version),
            kind=known,
        )


def _a(kind: str) -> str:
    return f"{'an' if kind.startswith('e') else 'a'} {kind}"


def _plain(version: Any) -> str:
    """A version as servers write it; anything else is not repeated."""
    return version if isinstance(version, str) and re.fullmatch(r"[0-9A-Za-z.+_-]{1,40}", version) else ""


def _revision(revision: str | None) -> str:
    """A revision that can stand in a path: as a rule the commit's hash, otherwise a hash of what the server
    says.
    """
    if not revision:
        return "unversioned"
    return (
        revision
        if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", revision)
        else sha256(revision.encode("utf-8", "replace")).hexdigest()
    )
