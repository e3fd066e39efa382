"""What goes on, as spans: for a process that counts what it is asked (:func:`listen`), and by OpenTelemetry
where the environment names a collector.

Tracing is on where ``OTEL_TRACES_EXPORTER`` is ``otlp``, or is not set and an endpoint is
(``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``), unless ``OTEL_SDK_DISABLED`` is
``true``; all other ``OTEL_…`` variables are read by OpenTelemetry itself. Spans go over HTTP in batches, and
no work waits for them. Attributes are ids, names of ours, counts and codes: no text of a document, no query,
no URL, no message of an error.
Source: opentelemetry.io, "Environment Variable Specification"; semantic conventions for HTTP and GenAI.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from opentelemetry.trace import Span as Traced
    from opentelemetry.trace import SpanKind, Tracer

_log = logging.getLogger(__name__)
_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

Value = str | int | float | bool
T = TypeVar("T")


class Span:
    """Something that goes on. ``kind``: what it is counted as; ``outcome``: ``ok`` or a code ``E_…``."""

    __slots__ = ("attributes", "kind", "outcome", "seconds")

    def __init__(self, kind: str, attributes: dict[str, Value], outcome: str = "ok") -> None:
        self.kind, self.attributes, self.outcome, self.seconds = kind, attributes, outcome, 0.0

    def set(self, **attributes: Value) -> None:
        """Add attributes of ours, which get the prefix ``taboot.``."""
        self.attributes |= {f"taboot.{name}": value for name, value in attributes.items()}

    def set_standard(self, attributes: dict[str, Value]) -> None:
        """Add attributes that OpenTelemetry's semantic conventions name."""
        self.attributes |= attributes


_listeners: list[Callable[[Span], None]] = []


def listen(listener: Callable[[Span], None]) -> None:
    """Call ``listener`` with every span of this process that ends from now on, and every event."""
    _listeners.append(listener)


def event(kind: str, outcome: str = "ok", **attributes: Value) -> None:
    """Tell the listeners of something that takes no time."""
    if _listeners:
        happened = Span(kind, {}, outcome)
        happened.set(**attributes)
        _tell(happened)


@contextlib.contextmanager
def span(kind: str, name: str = "", *, client: bool = False, **attributes: Value) -> Iterator[Span]:
    """A span while the block runs, beneath the one that this thread is in. ``name``: by default ``kind``;
    ``client``: it waits for another server; ``attributes``: as of :meth:`Span.set`."""
    going = Span(kind, {})
    going.set(**attributes)
    tracer = _tracing.tracer()
    began = time.perf_counter()
    with contextlib.nullcontext() if tracer is None else _traced(tracer, going, name or kind, client):
        try:
            yield going
        except GeneratorExit:
            raise
        except BaseException as error:
            going.outcome = error.code if isinstance(error, TabootError) else "E_INTERNAL"
            raise
        finally:
            going.seconds = time.perf_counter() - began
            _tell(going)


def past(ended: Span, name: str, *, client: bool = False) -> None:
    """A span that ends now and took its ``seconds``, for what does not go on within one block; ``name`` and
    ``client`` as of :func:`span`."""
    _tell(ended)
    tracer = _tracing.tracer()
    if tracer is not None:
        end = time.time_ns()
        traced = tracer.start_span(
            name, kind=_kind(client), start_time=end - int(ended.seconds * 1e9), attributes=ended.attributes
        )
        _mark(traced, ended.outcome)
        traced.end(end)


def streamed(
    pieces: Iterator[T], kind: str, name: str = "", *, client: bool = False, **attributes: Value
) -> Generator[T, None, Any]:
    """Give the pieces, and return what they do; tell and trace how long it took until the last; arguments as
    of :func:`span`."""
    going, began = Span(kind, {}), time.perf_counter()
    going.set(**attributes)
    try:
        return (yield from pieces)
    except TabootError as error:
        going.outcome = error.code
        raise
    finally:
        going.seconds = time.perf_counter() - began
        past(going, name or kind, client=client)


def _tell(span: Span) -> None:
    for listener in _listeners:
        listener(span)


@contextlib.contextmanager
def _traced(tracer: Tracer, going: Span, name: str, client: bool) -> Iterator[None]:
    # An exception's message may quote a document.
    with tracer.start_as_current_span(
        name, kind=_kind(client), record_exception=False, set_status_on_exception=False
    ) as traced:
        try:
            yield
        finally:
            traced.set_attributes(going.attributes)
            _mark(traced, going.outcome)


def _kind(client: bool) -> SpanKind:
    from opentelemetry.trace import SpanKind

    return SpanKind.CLIENT if client else SpanKind.INTERNAL


def _mark(traced: Traced, outcome: str) -> None:
    from opentelemetry.trace import StatusCode

    if outcome != "ok":
        traced.set_attribute("error.type", outcome)
        traced.set_status(StatusCode.ERROR)


class _Tracing:
    """The tracer of this process, made when it is first needed; None where nothing is traced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = False
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._tracer = _open() if _is_on() else None
                    self._made = True
        return self._tracer


_tracing = _Tracing()


def _is_on() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    wanted = os.environ.get(_EXPORTER, "").strip().lower()
    if wanted in ("", "otlp"):
        return wanted == "otlp" or any(os.environ.get(name) for name in _ENDPOINTS)
    if wanted != "none":
        _log.warning("Nothing is traced: of the values of %s only otlp and none are known here.", _EXPORTER)
    return False


def _open() -> Tracer | None:
    from multiprocessing.util import Finalize

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("Nothing is traced: that needs the extra otel (pip install 'taboot-pipelines[otel]').")
        return None
    release = version("taboot-pipelines")
    resource = Resource.create({"service.version": release})
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "taboot-pipelines"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # Also at the end of a process of multiprocessing, which runs no function of `atexit`.
    Finalize(None, provider.shutdown, exitpriority=0)
    return provider.get_tracer("taboot_pipelines", release)
