"""What every model is asked with: slices of its input, several at a time, in texts that have UTF-8; and a
list of texts that a server refuses as too large, in halves.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from taboot_pipelines import telemetry
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.http.answers import Answer
    from taboot_pipelines.http.server import ServerClient

T = TypeVar("T")


def gather(count: int, size: int, workers: int, work: Callable[[int, int, threading.Event], None]) -> None:
    """Call ``work(start, end, stop)`` for each slice of at most ``size`` of ``count`` things, ``workers`` at
    a time.

    The first failure is raised; the others are told by ``stop`` and waited for no longer than their request
    takes.
    """
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    stop = threading.Event()
    slices = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(slices) <= 1 or workers == 1:
        for start, end in slices:
            work(start, end, stop)
        return
    pool = ThreadPoolExecutor(min(workers, len(slices)), "inference")
    try:
        # In the context of the caller, whose spans theirs lie beneath.
        futures = [
            pool.submit(contextvars.copy_context().run, work, start, end, stop) for start, end in slices
        ]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future in done:
                future.result()
    finally:
        # After a failure the others stop at their next wait; after success there is nothing left to stop.
        stop.set()
        pool.shutdown(cancel_futures=True)


def is_unicode(text: str) -> bool:
    """Whether ``text`` has UTF-8: a lone surrogate has none, and no request can carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Question:
    """A request of which the member ``field`` lists the texts. ``operation`` and ``model``: what a trace
    calls it. ``accepted``: makes the answer of a reply that does not say that it was too large, or raises;
    ``too_long``: makes the error of one text that is, by its number."""

    path: str
    request: Mapping[str, Any]
    field: str
    operation: str
    model: str
    accepted: Callable[[Answer], Any]
    too_long: Callable[[str, int], TabootError]
    too_large: Callable[[Answer], bool] = lambda reply: reply.status == 413


def ask(
    http: ServerClient,
    question: Question,
    start: int,
    stop: threading.Event,
    read: Callable[[Any, Sequence[str], int], T],
) -> list[T]:
    """POST a request and ``read`` the answer; one result per request that was sent.

    The first text is the caller's number ``start``. What is refused as too large is halved, down to one text.
    """
    texts: Sequence[str] = question.request[question.field]
    try:
        body = orjson.dumps(question.request)
    except TypeError:
        index = next((i for i, text in enumerate(texts) if not is_unicode(text)), None)
        what = "The query" if index is None else f"Text {start + index}"
        raise TabootError(
            "E_ENCODING",
            f"{what} holds a lone surrogate and has no UTF-8.",
            index=None if index is None else start + index,
        ) from None
    name = f"{question.operation} {question.model}"
    with http.slots, telemetry.span("model", name, client=True, call=question.operation) as span:
        span.set_standard(
            {"gen_ai.operation.name": question.operation, "gen_ai.request.model": question.model}
        )
        span.set(texts=len(texts))
        reply = http.call("POST", question.path, body, stop=stop)
        too_large = question.too_large(reply)
        if reply.status != 200 and not too_large:
            span.outcome = http.peer.code
    if not too_large:
        return [read(question.accepted(reply), texts, start)]
    if len(texts) == 1:
        raise question.too_long(texts[0], start)
    half = len(texts) // 2
    found: list[T] = []
    for some, at in ((texts[:half], start), (texts[half:], start + half)):
        part = replace(question, request={**question.request, question.field: some})
        found += ask(http, part, at, stop, read)
    return found
