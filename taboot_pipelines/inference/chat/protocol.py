"""What every chat model offers: the protocol, its requests and its results."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call while it writes. ``parameters``: a JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model makes. ``arguments``: empty where the model wrote none, or no JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """``calls``: those of an assistant's message; ``answers``: the id of the call that a tool's message
    answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: Sequence[ToolCall] = ()
    answers: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One prompt. ``schema``: a JSON Schema (2020-12) that the answer must satisfy, which the model is also
    held to while it writes; None asks for text. ``max_output_tokens``: default that of the settings.
    ``tools``: what the model may call, of a request that is streamed.
    ``attempt``: it is asked just once, as this attempt (from 0), whose seed and warmth it gets, for those who
    ask again later; None asks again at once where the answer is not usable, as often as the settings say."""

    messages: Sequence[Message]
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None
    seed: int = 0
    attempt: int | None = None
    tools: Sequence[Tool] = ()

    def attempts(self, max_retries: int) -> range:
        """The attempts that may be made of it."""
        if self.attempt is not None:
            return range(self.attempt, self.attempt + 1)
        return range(max_retries + 1)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the model's server counts them, summed over all attempts; 0 where it tells none."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens
        )


@dataclass(frozen=True, slots=True)
class ChatResult:
    """An answer, or ``error``: ``E_LLM``, ``E_LLM_TIMEOUT``, ``E_LLM_MALFORMED``, ``E_SCHEMA_INVALID``,
    ``E_TOKEN_LIMIT``, ``E_ENCODING``, ``E_CIRCUIT_OPEN``, ``E_GPU_OOM``. ``value`` is the parsed and
    validated JSON where a schema was asked for. ``finish_reason`` is ``stop`` or ``length``; a text cut off
    by ``length`` is still an answer, JSON is not.
    """

    text: str = ""
    value: Any = None
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    finish_reason: str = ""
    model: str = ""
    attempts: int = 0
    error: TabootError | None = None

    def answer(self) -> ChatResult:
        """Itself; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True)
class Totals:
    """``attempts`` counts answers that were paid for, usable or not; ``requests`` and ``failed`` count
    results.
    """

    requests: int = 0
    failed: int = 0
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)


class Accounts:
    """Totals by model, kept by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, Totals] = {}

    def add(self, result: ChatResult) -> None:
        with self._lock:
            before = self._totals.get(result.model, Totals())
            self._totals[result.model] = Totals(
                requests=before.requests + 1,
                failed=before.failed + (result.error is not None),
                attempts=before.attempts + result.attempts,
                usage=before.usage + result.usage,
            )

    def totals(self) -> dict[str, Totals]:
        with self._lock:
            return dict(self._totals)


class ChatModel(Protocol):
    @property
    def model(self) -> str:
        """The model's name, part of every cache key. Raises ``E_LLM`` if a server has to be asked and does
        not answer.
        """
        ...

    def complete(self, requests: Sequence[ChatRequest]) -> list[ChatResult]:
        """One result a request, in their order. A bad window never fails its batch: what went wrong is in its
        result.
        """
        ...

    def stream(self, request: ChatRequest) -> Iterator[str | ToolCall]:
        """The text of one answer in pieces, as the model writes them, and then what it calls; asked once,
        without a schema. A model or server without tools calls none. Raises what the result of
        :meth:`complete` would hold, at the latest when it is asked for a piece.
        """
        ...

    def totals(self) -> dict[str, Totals]:
        """What was used since this client was made, by model."""
        ...

    def health(self) -> Health: ...

    def close(self) -> None: ...
