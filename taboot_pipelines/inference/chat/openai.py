"""The chat model behind a server with OpenAI's ``/v1/chat/completions`` and ``/v1/models``, such as vLLM's.

A schema goes as ``response_format`` (``json_schema``), which vLLM, llama.cpp and OpenAI hold the model to;
the answer is judged here all the same. Temperature and seed are fixed, so that the same question gets the
same answer as far as the server can. An answer that is not usable is asked for again with the next seed and a
little warmth.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from taboot_pipelines import telemetry
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.server import Peer, ServerClient
from taboot_pipelines.inference.batching import gather, is_unicode
from taboot_pipelines.inference.chat.judging import WORTH_ASKING_AGAIN, judge, temperature
from taboot_pipelines.inference.chat.protocol import (
    Accounts,
    ChatRequest,
    ChatResult,
    Message,
    ToolCall,
    Totals,
    Usage,
)
from taboot_pipelines.inference.openai import is_too_long, model_names, not_openai, prefix_of
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import LlmSettings
from taboot_pipelines.stores.state.circuit import Circuit

_PEER = Peer("The model's server", "TABOOT_LLM", "E_LLM", "E_LLM_TIMEOUT", max_answer=16 * 1024 * 1024)
#: Calls of one message that are heard.
_MAX_CALLS = 8


class OpenAiChat:
    """Completes by HTTP, ``max_concurrency`` prompts at once. Made without a request; threads may share
    it.
    """

    def __init__(
        self, settings: LlmSettings, *, backoff_seconds: float = 0.5, circuit: Circuit | None = None
    ) -> None:
        self._settings = settings
        self._http = ServerClient(_PEER, settings, backoff_seconds=backoff_seconds, circuit=circuit)
        self._prefix = prefix_of(self._http)
        self._accounts = Accounts()
        self._lock = threading.Lock()
        self._model = settings.model

    @property
    def model(self) -> str:
        with self._lock:
            if self._model is None:
                deadline = time.monotonic() + self._settings.timeout_seconds
                names = model_names(
                    self._http, self._http.call("GET", f"{self._prefix}/models", deadline=deadline)
                )
                if not names:
                    raise TabootError(
                        "E_LLM", "The model's server lists no model.", remedy="Set TABOOT_LLM__MODEL."
                    )
                self._model = names[0]
            return self._model

    def complete(self, requests: Sequence[ChatRequest]) -> list[ChatResult]:
        """As :meth:`ChatModel.complete`. Each request has ``TABOOT_LLM__TIMEOUT_SECONDS`` from when it is
        first sent, its retries included."""
        results = [ChatResult()] * len(requests)
        if not requests:
            return results
        try:
            model = self.model
        except TabootError as error:
            return [ChatResult(error=error)] * len(requests)

        def work(start: int, _end: int, stop: threading.Event) -> None:
            with (
                self._http.slots,
                telemetry.span("model", f"chat {model}", client=True, call="chat") as span,
            ):
                result = results[start] = self._one(requests[start], model, stop)
                span.set_standard(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.request.model": model,
                        "gen_ai.usage.input_tokens": result.usage.prompt_tokens,
                        "gen_ai.usage.output_tokens": result.usage.completion_tokens,
                    }
                )
                if result.error is not None:
                    span.outcome = result.error.code
            self._accounts.add(results[start])

        gather(len(requests), 1, self._settings.max_concurrency, work)
        return results

    def stream(self, request: ChatRequest) -> Iterator[str | ToolCall]:
        """As :meth:`ChatModel.stream`, by server-sent events. What it used is not counted: servers tell it
        at the end of a stream only if they like.
        """
        deadline = time.monotonic() + self._settings.timeout_seconds
        model = self.model
        pieces = self._stream(request, model, deadline)
        yield from telemetry.streamed(pieces, "model", f"chat {model}", client=True, call="chat")

    def _stream(self, request: ChatRequest, model: str, deadline: float) -> Iterator[str | ToolCall]:
        body = _body(request, model, 0, self._settings, stream=True)
        calls = _Calls()
        with self._http.slots:
            for line in self._http.lines("POST", f"{self._prefix}/chat/completions", body, deadline=deadline):
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    if data == b"[DONE]":
                        break
                    delta = _delta(data)
                    calls.add(delta.get("tool_calls"))
                    yield str(delta.get("content") or "")
        yield from calls.whole()

    def totals(self) -> dict[str, Totals]:
        return self._accounts.totals()

    def health(self) -> Health:
        """Whether ``/models`` lists the model: one attempt, nothing is completed. vLLM tells its version,
        other servers do not.
        """

        def ask() -> tuple[str | None, str]:
            names = model_names(self._http, self._http.once("GET", f"{self._prefix}/models"))
            wanted = self._settings.model or (names[0] if names else "")
            version = f"{self._version()} {wanted}".strip()
            if wanted in names:
                return version, ""
            return (
                version,
                (
                    "The server at TABOOT_LLM__URL does not list the model; load it there or correct"
                    " TABOOT_LLM__MODEL."
                ),
            )

        return probe("llm", "openai", ask)

    def close(self) -> None:
        self._http.close()

    # --- one request ----------------------------------------------------------------------------------------

    def _one(self, request: ChatRequest, model: str, stop: threading.Event) -> ChatResult:
        begin = time.monotonic()
        deadline = begin + self._settings.timeout_seconds
        usage = Usage()
        attempts = 0
        text = finish = ""
        error: TabootError | None = None
        value: Any = None
        for attempt in request.attempts(self._settings.max_retries):
            try:
                body = _body(request, model, attempt, self._settings)
                reply = self._http.call(
                    "POST", f"{self._prefix}/chat/completions", body, stop=stop, deadline=deadline
                )
                text, finish, used = _read(self._accepted(reply))
                attempts, usage = attempts + 1, usage + used
                value, error = judge(request, text, finish), None
            except TabootError as failure:
                # What ended a second asking tells less than what was wrong with the first answer.
                error = error if error is not None and failure.code == "E_LLM_TIMEOUT" else failure
                if failure.code in WORTH_ASKING_AGAIN and time.monotonic() < deadline and not stop.is_set():
                    continue
            break
        if error is not None and attempts > 1:
            error = TabootError(
                error.code, error.message, remedy=error.remedy, **{**error.details, "attempts": attempts}
            )
        return ChatResult(
            text=text if error is None else "",
            value=value,
            usage=usage,
            seconds=time.monotonic() - begin,
            finish_reason=finish,
            model=model,
            attempts=attempts,
            error=error,
        )

    def _accepted(self, reply: Answer) -> Mapping[str, Any]:
        """The body of a 200 as a mapping; raises for any other status."""
        if is_too_long(reply):
            raise TabootError(
                "E_TOKEN_LIMIT",
                "The prompt is longer than the model reads.",
                remedy="Send smaller windows, or use a model with a longer context.",
                status=reply.status,
            )
        if reply.status != 200:
            remedy = "Check TABOOT_LLM__URL and TABOOT_LLM__MODEL." if reply.status == 404 else None
            raise self._http.refusal(reply.status, "/chat/completions", remedy)
        try:
            answer = orjson.loads(reply.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise not_openai(_PEER, "/chat/completions")
        return answer

    def _version(self) -> str:
        """vLLM's own route beside ``/v1``; "" where the server has none."""
        root = re.sub(r"/v[0-9]+$", "", self._http.path)
        try:
            reply = self._http.once("GET", f"{root}/version", root=True)
            version = orjson.loads(reply.body)["version"] if reply.status == 200 else ""
        except (TabootError, ValueError, TypeError, KeyError):
            return ""
        return version if isinstance(version, str) and re.fullmatch(r"[0-9A-Za-z.+_-]{1,40}", version) else ""


def _delta(data: bytes) -> Mapping[str, Any]:
    """What an event of a stream adds to the message."""
    try:
        choices = orjson.loads(data)["choices"]
        delta = choices[0]["delta"] if choices else {}
        content = delta.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise not_openai(_PEER, "/chat/completions") from None
    if not isinstance(delta, dict) or (content is not None and not isinstance(content, str)):
        raise not_openai(_PEER, "/chat/completions")
    return delta


class _Calls:
    """The calls of a stream, put together of their pieces; at most :data:`_MAX_CALLS`."""

    def __init__(self) -> None:
        self._parts: dict[int, list[str]] = {}

    def add(self, given: Any) -> None:
        for piece in given if isinstance(given, list) else ():
            function = piece.get("function") if isinstance(piece, dict) else None
            index = piece.get("index", 0) if isinstance(piece, dict) else None
            if not isinstance(function, dict) or not isinstance(index, int):
                raise not_openai(_PEER, "/chat/completions")
            if index in self._parts or len(self._parts) < _MAX_CALLS:
                held = self._parts.setdefault(index, ["", "", ""])
                for at, text in enumerate((piece.get("id"), function.get("name"), function.get("arguments"))):
                    held[at] += text if isinstance(text, str) else ""

    def whole(self) -> Iterator[ToolCall]:
        for _, (id_, name, arguments) in sorted(self._parts.items()):
            try:
                value = orjson.loads(arguments)
            except ValueError:
                value = None
            yield ToolCall(id_, name, value if isinstance(value, dict) else {})


def _message(message: Message) -> dict[str, Any]:
    given: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        given["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": orjson.dumps(c.arguments).decode()},
            }
            for c in message.calls
        ]
    if message.answers:
        given["tool_call_id"] = message.answers
    return given


def _body(
    request: ChatRequest, model: str, attempt: int, settings: LlmSettings, *, stream: bool = False
) -> bytes:
    given: dict[str, Any] = {
        "model": model,
        "messages": [_message(m) for m in request.messages],
        "temperature": temperature(settings, attempt),
        "seed": request.seed + attempt,
        "max_tokens": request.max_output_tokens or settings.max_output_tokens,
        "stream": stream,
    }
    if request.tools:
        given["tools"] = [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
            }
            for t in request.tools
        ]
    if request.schema is not None:
        given["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(request.schema), "strict": True},
        }
    try:
        return orjson.dumps(given)
    except (TypeError, ValueError, RecursionError):
        index = next(
            (
                i
                for i, m in enumerate(request.messages)
                if not isinstance(m.content, str) or not is_unicode(m.content)
            ),
            None,
        )
        if index is None:
            raise TabootError("E_SCHEMA_INVALID", "The request's schema is not JSON.") from None
        raise TabootError(
            "E_ENCODING", f"Message {index} holds a lone surrogate and has no UTF-8.", index=index
        ) from None


def _read(answer: Mapping[str, Any]) -> tuple[str, str, Usage]:
    """Text, finish reason and tokens of the first choice."""
    try:
        choice = answer["choices"][0]
        message, finish = choice["message"], choice["finish_reason"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise not_openai(_PEER, "/chat/completions") from None
    if refusal or not isinstance(finish, str) or (content is not None and not isinstance(content, str)):
        finish = "content_filter" if refusal else "unknown"
    return content if isinstance(content, str) else "", finish, _usage(answer.get("usage"))


def _usage(given: Any) -> Usage:
    counts = [
        given.get(key) if isinstance(given, dict) else None for key in ("prompt_tokens", "completion_tokens")
    ]
    prompt, completion = (n if type(n) is int and n >= 0 else 0 for n in counts)
    return Usage(prompt, completion)
