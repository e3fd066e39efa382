"""A fake Text Embeddings Inference server: real HTTP, deterministic vectors, faults on demand.

The vector of a text is a signed hashed bag of its words, so texts that share words are near each other; a
reranker's score is the share of the query's words that a text holds. It is a fake: it knows nothing of
meaning. In a test::

    with FakeTei() as tei:
        tei.fail(429, times=2, retry_after="0")
        ... TeiSettings(url=tei.url) ...
        assert tei.texts == 10

or beside one: ``python -m taboot_pipelines_tests.fakes.tei --port 0`` prints the port it listens on; ``GET
/stats`` gives the counters as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

_WORD = re.compile(r"\w+")
_SLOTS = 4

#: What a corrupted answer looks like: see :meth:`FakeTei.corrupt`.
Corruption = Literal[
    "nan",
    "inf",
    "zero",
    "tiny",
    "short",
    "count",
    "ragged",
    "json",
    "shape",
    "text",
    "drop",
    "twice",
    "drip",
    "huge",
]


class BagOfWords:
    """Unit vectors of hashed words: each word adds ±1 at four places that its hash names."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._ids: dict[str, int] = {}
        self._places = np.zeros((1024, _SLOTS), np.int32)
        self._signs = np.zeros((1024, _SLOTS))
        self._lock = threading.Lock()

    def _learn(self, word: str) -> int:
        with self._lock:
            known = self._ids.get(word)
            if known is not None:
                return known
            number = len(self._ids)
            if number == len(self._places):
                self._places = np.concatenate([self._places, np.zeros_like(self._places)])
                self._signs = np.concatenate([self._signs, np.zeros_like(self._signs)])
            digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=3 * _SLOTS).digest()
            for k in range(_SLOTS):
                self._places[number, k] = int.from_bytes(digest[3 * k : 3 * k + 2], "big") % self.dimension
                self._signs[number, k] = 1.0 if digest[3 * k + 2] & 1 else -1.0
            self._ids[word] = number
            return number

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Shape ``(len(texts), dimension)``. The counts are integers, so no other text of the batch changes a
        bit.
        """
        words = [_WORD.findall(text.lower()) or [""] for text in texts]
        known = self._ids
        ids = [known[word] if word in known else self._learn(word) for row in words for word in row]
        rows = np.repeat(np.arange(len(texts)) * self.dimension, [len(row) for row in words])
        places = (self._places[ids] + rows[:, None]).ravel()
        counts = np.bincount(places, weights=self._signs[ids].ravel(), minlength=len(texts) * self.dimension)
        matrix = counts.reshape(len(texts), self.dimension)
        squares = np.einsum("ij,ij->i", matrix, matrix)
        # Opposite signs may cancel a short text out: it gets a fixed direction.
        matrix[squares == 0, 0] = 1.0
        squares[squares == 0] = 1.0
        unit: npt.NDArray[np.float32] = (matrix / np.sqrt(squares)[:, None]).astype(np.float32)
        return unit


class FakeTei:
    """The server. ``requests`` and ``texts`` count what ``/embed`` or ``/rerank`` was asked and what it
    answered.

    ``kind``: the model is of one kind, and the other's route answers 424, as in TEI.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        dimension: int = 384,
        max_client_batch_size: int = 32,
        max_input_length: int = 512,
        model_id: str = "fake/bag-of-words",
        model_sha: str | None = "0123456789abcdef0123456789abcdef01234567",
        api_key: str | None = None,
        delay: float = 0.0,
        fail_every: int = 0,
        kind: Literal["embedding", "reranker"] = "embedding",
    ) -> None:
        self.model = BagOfWords(dimension)
        self.max_client_batch_size = max_client_batch_size
        self.max_input_length = max_input_length
        self.model_id = model_id
        self.model_sha = model_sha
        self.api_key = api_key
        self.kind = kind
        #: Whether /health says so.
        self.healthy = True
        #: Seconds that each request takes; ``fail_every`` N: every Nth answers 503.
        self.delay = delay
        self.fail_every = fail_every
        #: A payload with more bytes gets 413, as TEI's payload_limit does.
        self.payload_limit = 2_000_000
        self.requests = 0
        self.texts = 0
        self.max_in_flight = 0
        self.batches: list[int] = []
        self._in_flight = 0
        self._faults: deque[tuple[int, str | None, str | None]] = deque()
        self._lock = threading.Lock()
        self._httpd = _Server(("127.0.0.1", port), _Handler)
        self._httpd.fake = self
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return int(self._httpd.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(self, status: int, times: int = 1, retry_after: str | None = None) -> None:
        """The next ``times`` calls answer ``status``."""
        self._faults.extend([(status, retry_after, None)] * times)

    def corrupt(self, how: Corruption, times: int = 1) -> None:
        """The next ``times`` calls answer 200 with rubbish; ``drop`` closes the connection, ``drip`` sends a
        byte at a time.
        """
        self._faults.extend([(200, None, how)] * times)

    def stats(self) -> dict[str, int]:
        return {"requests": self.requests, "texts": self.texts, "max_in_flight": self.max_in_flight}

    def start(self) -> FakeTei:
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._thread is not None:
            self._httpd.shutdown()
            self._thread.join()
        self._httpd.server_close()

    def serve_forever(self) -> None:
        self._httpd.serve_forever()

    def __enter__(self) -> FakeTei:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # --- what the handler calls -----------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        return {
            "model_id": self.model_id,
            "model_sha": self.model_sha,
            "model_dtype": "float32",
            "model_type": (
                {"embedding": {"pooling": "mean"}}
                if self.kind == "embedding"
                else {"reranker": {"id2label": {"0": "LABEL_0"}}}
            ),
            "max_concurrent_requests": 512,
            "max_input_length": self.max_input_length,
            "max_batch_tokens": 16384,
            "max_batch_requests": None,
            "max_client_batch_size": self.max_client_batch_size,
            "auto_truncate": False,
            "version": "1.8.0",
        }

    def answer(self, path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        """(status, body, further headers) of one POST /embed or /rerank; status 0 closes the connection, 1
        drips.
        """
        with self._lock:
            self.requests += 1
            number = self.requests
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
            fault = self._faults.popleft() if self._faults else None
        try:
            return self._answer(path, body, number, fault)
        finally:
            with self._lock:
                self._in_flight -= 1

    def _answer(
        self, path: str, body: bytes, number: int, fault: tuple[int, str | None, str | None] | None
    ) -> tuple[int, bytes, dict[str, str]]:
        if self.delay:
            time.sleep(self.delay)
        status, retry_after, corruption = fault or (200, None, None)
        if self.fail_every and number % self.fail_every == 0:
            status = 503
        if status != 200:
            return (
                status,
                _error("injected", "Overloaded"),
                {"Retry-After": retry_after} if retry_after else {},
            )
        if corruption in ("drop", "drip"):
            return int(corruption == "drip"), b"", {}
        if corruption == "huge":
            return 200, b"[" + b" " * (20 * 1024 * 1024) + b"]", {}
        if path != {"embedding": "/embed", "reranker": "/rerank"}[self.kind]:
            return 424, _error("model is not of the kind", "Backend"), {}
        if len(body) > self.payload_limit:
            return 413, _error("payload too large", "Validation"), {}
        try:
            asked = orjson.loads(body)
            texts = asked["inputs" if path == "/embed" else "texts"]
        except (ValueError, TypeError, KeyError):
            return 422, _error("not a request", "Tokenizer"), {}
        texts = [texts] if isinstance(texts, str) else texts
        if not texts:
            return 400, _error("the batch cannot be empty", "Empty"), {}
        if len(texts) > self.max_client_batch_size:
            message = f"batch size {len(texts)} > maximum allowed batch size {self.max_client_batch_size}"
            return 413, _error(message, "Validation"), {}
        # Words stand for tokens here; the two special tokens count, as they do in TEI.
        if not asked.get("truncate") and any(len(text.split()) + 2 > self.max_input_length for text in texts):
            return (
                413,
                _error(f"`inputs` must have less than {self.max_input_length} tokens", "Validation"),
                {},
            )
        with self._lock:
            self.texts += len(texts)
            self.batches.append(len(texts))
        if path == "/rerank":
            scores = [overlap(asked["query"], text) for text in texts]
            # TEI answers the best first: the place in the list says nothing of the text.
            rows = [
                {"index": i, "score": scores[i]} for i in sorted(range(len(texts)), key=lambda i: -scores[i])
            ]
            return 200, orjson.dumps(rows) if corruption is None else _corrupted_ranks(rows, corruption), {}
        vectors = self.model.embed(texts)
        if corruption is not None:
            return 200, _corrupted(vectors, corruption), {}
        return 200, orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), {}


def overlap(query: str, text: str) -> float:
    """The share of the query's words that the text holds, from 0 to 1."""
    words = set(_WORD.findall(query.lower()))
    return len(words & set(_WORD.findall(text.lower()))) / max(1, len(words))


def _corrupted_ranks(rows: list[dict[str, Any]], how: str) -> bytes:
    if how in ("nan", "inf"):
        rows[-1]["score"] = None
    elif how == "text":
        rows[-1]["score"] = "0.5"
    elif how == "twice":
        rows[-1]["index"] = rows[0]["index"]
    elif how == "count":
        rows.append({"index": len(rows), "score": 0.0})
    elif how == "short":
        rows.pop()
    elif how == "ragged":
        rows[-1] = {"index": -1, "score": 0.0}
    elif how == "shape":
        return orjson.dumps({"results": rows})
    elif how == "json":
        return b"[{"
    return orjson.dumps(rows)


def _error(message: str, kind: str) -> bytes:
    return orjson.dumps({"error": message, "error_type": kind})


def _corrupted(vectors: npt.NDArray[np.float32], how: str) -> bytes:
    rows: Any = vectors.tolist()
    last = len(rows) - 1
    if how in ("nan", "inf"):
        # JSON has neither: servers write null, or a number that overflows float32.
        rows[last][0] = None if how == "nan" else 1e300
    elif how == "zero":
        rows[last] = [0.0] * len(rows[last])
    elif how == "tiny":
        rows[last] = [v * 0.01 for v in rows[last]]
    elif how == "short":
        rows = [row[:-1] for row in rows]
    elif how == "ragged":
        rows[last] = rows[last][:-1]
    elif how == "count":
        rows = [*rows, rows[0]]
    elif how == "shape":
        rows = {"data": rows}
    elif how == "text":
        rows[last] = ["x"] * len(rows[last])
    elif how == "json":
        return b"[[0.1, 0.2"
    return orjson.dumps(rows)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    fake: FakeTei


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _drip(self) -> None:
        """A header that never ends: every byte comes in time, the answer never does."""
        self.close_connection = True
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            for _ in range(1200):
                self.wfile.write(b"a")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass  # the client had enough

    def _allowed(self) -> bool:
        key = self.server.fake.api_key
        return key is None or self.headers.get("Authorization") == f"Bearer {key}"

    def do_GET(self) -> None:
        fake = self.server.fake
        if self.path == "/health":
            self._answer(
                200 if fake.healthy else 503, b"" if fake.healthy else _error("unhealthy", "Unhealthy")
            )
        elif self.path == "/stats":
            self._answer(200, orjson.dumps(fake.stats()))
        elif not self._allowed():
            self._answer(401, _error("unauthorized", "Unauthorized"))
        elif self.path == "/info":
            self._answer(200, orjson.dumps(fake.info()))
        else:
            self._answer(404, _error("no such path", "NotFound"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._allowed():
            self._answer(401, _error("unauthorized", "Unauthorized"))
        elif self.path in ("/embed", "/rerank"):
            status, answer, headers = self.server.fake.answer(self.path, body)
            if status == 0:
                self.close_connection = True
            elif status == 1:
                self._drip()
            else:
                self._answer(status, answer, headers)
        else:
            self._answer(404, _error("this fake has no such route", "NotFound"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A fake TEI server: deterministic vectors of hashed words, or ranks by shared words."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port; the port is printed")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--max-client-batch-size", type=int, default=32)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds per request")
    parser.add_argument("--fail-every", type=int, default=0, help="every Nth request answers 503")
    parser.add_argument("--kind", choices=["embedding", "reranker"], default="embedding")
    given = parser.parse_args()
    fake = FakeTei(
        port=given.port,
        dimension=given.dimension,
        max_client_batch_size=given.max_client_batch_size,
        delay=given.delay,
        fail_every=given.fail_every,
        kind=given.kind,
    )
    print(fake.port, flush=True)
    try:
        fake.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
