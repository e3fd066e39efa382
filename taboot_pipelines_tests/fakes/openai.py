"""A fake OpenAI-compatible server: real HTTP, deterministic answers, faults on demand.

It answers ``/v1/chat/completions`` with a value made of the request's own JSON Schema and prompt (or, without
one, with the last message), ``/v1/embeddings`` with hashed bags of words, counts tokens as words, and knows
nothing of language. In a test::

    with FakeOpenAi() as llm:
        llm.fail(429, times=2, retry_after="0")
        llm.say('{"half": ')
        ... LlmSettings(url=llm.url) ...
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from taboot_pipelines_tests.fakes.tei import BagOfWords

Answer = tuple[int, bytes, dict[str, str]]


def satisfy(schema: Any, prompt: str) -> Any:
    """A value that the simple schemas of tests accept; strings are the prompt."""
    kind = schema.get("type")
    if "enum" in schema:
        return schema["enum"][0]
    if kind == "object":
        return {name: satisfy(inner, prompt) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [satisfy(schema["items"], prompt)] * schema.get("minItems", 1)
    return {"string": prompt, "integer": 1, "number": 0.5, "boolean": True}.get(kind)


class FakeOpenAi:
    """The server. ``bodies`` are the requests of completions and embeddings, ``max_in_flight`` how many were
    in work at once.

    ``react(body)``, if set, gives the text of an answer, or None for the usual one; of a stream also the
    calls of tools that it makes, as (name, arguments).
    """

    def __init__(
        self,
        *,
        models: tuple[str, ...] = ("fake/llm",),
        api_key: str | None = None,
        version: str | None = "0.12.0",
        context: int = 2000,
        dimension: int = 64,
    ) -> None:
        self.vectors = BagOfWords(dimension)
        self.routes = {"/v1/chat/completions": self.complete, "/v1/embeddings": self.embed}
        self.models = models
        self.api_key = api_key
        self.version = version
        self.context = context
        self.delay = 0.0
        self.react: Callable[[dict[str, Any]], str | list[tuple[str, str]] | None] = lambda _body: None
        #: Whether it refuses requests with tools, as servers do that know none.
        self.refuses_tools = False
        self.bodies: list[dict[str, Any]] = []
        self.max_in_flight = 0
        self._in_flight = 0
        self._faults: deque[Callable[[], Answer | None]] = deque()
        self._lock = threading.Lock()
        self._httpd = _Server(("127.0.0.1", 0), _Handler)
        self._httpd.fake = self
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.05,), daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    @property
    def requests(self) -> int:
        return len(self.bodies)

    def __enter__(self) -> FakeOpenAi:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    # --- faults ---------------------------------------------------------------------------------------------

    def fail(
        self, status: int, times: int = 1, retry_after: str | None = None, message: str = "injected"
    ) -> None:
        """The next ``times`` completions answer ``status``."""
        headers = {"Retry-After": retry_after} if retry_after else {}
        self._faults.extend(
            [lambda: (status, orjson.dumps({"error": {"message": message, "type": "x"}}), headers)] * times
        )

    def say(self, text: str, finish: str = "stop", times: int = 1, refusal: str | None = None) -> None:
        """The next ``times`` completions say ``text``, whatever they were asked."""
        self._faults.extend([lambda: (200, self.envelope(text, finish, 3, refusal), {})] * times)

    def raw(self, body: bytes) -> None:
        """The next completion answers 200 with these bytes."""
        self._faults.append(lambda: (200, body, {}))

    def drop(self, times: int = 1) -> None:
        """The next ``times`` completions close the connection without an answer."""
        self._faults.extend([lambda: (0, b"", {})] * times)

    def forgive(self) -> None:
        """No completion fails any more."""
        self._faults.clear()

    def hang(self, seconds: float, times: int = 1) -> None:
        """The next ``times`` completions take so long, then answer as usual."""
        self._faults.extend([lambda: time.sleep(seconds)] * times)

    # --- what the handler calls -----------------------------------------------------------------------------

    def envelope(self, text: str, finish: str, prompt_tokens: int, refusal: str | None = None) -> bytes:
        message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(text.split()),
            "total_tokens": prompt_tokens + len(text.split()),
        }
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        return orjson.dumps(
            {"id": "chatcmpl-1", "object": "chat.completion", "choices": choices, "usage": usage}
        )

    def events(self, text: str) -> bytes:
        """A text as server-sent events, a few characters each."""
        pieces = [text[i : i + 7] for i in range(0, len(text), 7)]
        deltas = [{"role": "assistant", "content": ""}, *({"content": p} for p in pieces)]
        events = [
            b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": d, "finish_reason": None}]})
            for d in deltas
        ]
        return b"\n\n".join([*events, b": a comment", b"data: [DONE]", b""])

    def calls(self, made: list[tuple[str, str]]) -> bytes:
        """Calls of tools as server-sent events, their arguments a few characters each."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        for index, (name, arguments) in enumerate(made):
            begin = {"name": name, "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, "id": f"call{index}", "function": begin}]})
            pieces = [arguments[i : i + 7] for i in range(0, len(arguments), 7)]
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": p}}]} for p in pieces]
        events = [b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": d}]}) for d in deltas]
        return b"\n\n".join([*events, b"data: [DONE]", b""])

    def answer(self, data: bytes, usual: Callable[[dict[str, Any]], Answer]) -> Answer:
        body = orjson.loads(data)
        with self._lock:
            self.bodies.append(body)
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
            fault = self._faults.popleft() if self._faults else None
        try:
            if self.delay:
                time.sleep(self.delay)
            answer = fault() if fault is not None else None
            return answer if answer is not None else usual(body)
        finally:
            with self._lock:
                self._in_flight -= 1

    def _refused(self, model: str, words: int) -> Answer | None:
        if model not in self.models:
            return 404, orjson.dumps({"error": {"message": f"The model `{model}` does not exist."}}), {}
        if words > self.context:
            message = (
                f"This model's maximum context length is {self.context} tokens. However, you requested"
                f" {words}."
            )
            return 400, orjson.dumps({"error": {"message": message, "type": "BadRequestError"}}), {}
        return None

    def embed(self, body: dict[str, Any]) -> Answer:
        """The vectors of a request, in an order of its own: ``index`` tells whose each is."""
        texts = body["input"]
        refused = self._refused(body["model"], max(len(text.split()) for text in texts))
        if refused is not None:
            return refused
        vectors = BagOfWords(body["dimensions"]) if "dimensions" in body else self.vectors
        rows = vectors.embed(texts).tolist()
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
        return 200, orjson.dumps({"object": "list", "model": body["model"], "data": data[::-1]}), {}

    def complete(self, body: dict[str, Any]) -> Answer:
        """What is said in a completion."""
        words = sum(len((m["content"] or "").split()) for m in body["messages"])
        refused = self._refused(body["model"], words)
        if refused is not None:
            return refused
        last = body["messages"][-1]["content"]
        given = body.get("response_format")
        if self.refuses_tools and "tools" in body:
            return 400, orjson.dumps({"error": {"message": "tools are not supported", "type": "x"}}), {}
        text = self.react(body)
        if isinstance(text, list):
            return 200, self.calls(text), {"Content-Type": "text/event-stream"}
        if text is None:
            text = orjson.dumps(satisfy(given["json_schema"]["schema"], last)).decode() if given else last
        if body.get("stream"):
            return 200, self.events(text), {"Content-Type": "text/event-stream"}
        cut = text.split()[: body["max_tokens"]]
        short = len(text.split()) > len(cut)
        return 200, self.envelope(" ".join(cut) if short else text, "length" if short else "stop", words), {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    fake: FakeOpenAi


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        sent = {"Content-Type": "application/json", **(headers or {})}
        self.send_header("Content-Length", str(len(body)))
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
            self.wfile.flush()
        except OSError:
            self.close_connection = True  # the client had enough

    def _allowed(self) -> bool:
        key = self.server.fake.api_key
        return key is None or self.headers.get("Authorization") == f"Bearer {key}"

    def do_GET(self) -> None:
        fake = self.server.fake
        if self.path == "/version" and fake.version:
            self._send(200, orjson.dumps({"version": fake.version}))
        elif not self._allowed():
            self._send(401, b"{}")
        elif self.path == "/v1/models":
            self._send(
                200,
                orjson.dumps(
                    {"object": "list", "data": [{"id": name, "object": "model"} for name in fake.models]}
                ),
            )
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._allowed():
            self._send(401, b"{}")
        elif usual := self.server.fake.routes.get(self.path):
            status, body, headers = self.server.fake.answer(data, usual)
            if status == 0:
                self.close_connection = True
            else:
                self._send(status, body, headers)
        else:
            self._send(404, b"{}")
