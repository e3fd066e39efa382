"""``/api``: what a knowledge base is asked by programs, as JSON, read-only.

One table says what there is: it drives the routes and, in :mod:`taboot_pipelines.browse.openapi`, their
description. An endpoint takes the fields of a model, from the path and the query or, of a POST, from its
body, and answers with a result of ``KnowledgeBase``, which is the JSON that ``taboot … --json`` prints. What
goes wrong is a problem object (RFC 9457) with the code and remedy of its ``TabootError``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from taboot_pipelines import logs, telemetry
from taboot_pipelines.browse.problems import PREFIX, problem
from taboot_pipelines.browse.requests import kb_of
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.retrieval.request import FILTERS, Mode
from taboot_pipelines.retrieval.results.alerts import AlertGuide, AlertGuides
from taboot_pipelines.retrieval.results.answers import Answer
from taboot_pipelines.retrieval.results.base import Result
from taboot_pipelines.retrieval.results.changes import DocumentChanges
from taboot_pipelines.retrieval.results.documents import (
    CollectionView,
    DocumentInfo,
    DocumentPage,
    DocumentText,
    ListedDocument,
)
from taboot_pipelines.retrieval.results.drift import DriftReport
from taboot_pipelines.retrieval.results.explanations import Explanation
from taboot_pipelines.retrieval.results.graph import DocumentLinks, GraphPath, Subgraph
from taboot_pipelines.retrieval.results.hits import SearchResult
from taboot_pipelines.retrieval.results.queries import QueryList, QueryResult
from taboot_pipelines.retrieval.states import SourceStates

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval import KnowledgeBase

EVENTS = "text/event-stream"
#: Bytes of a body, seconds of a question, and of an answer that a model writes.
MAX_BODY, SECONDS, STREAM_SECONDS = 1 << 20, 60, 300
#: Code points of a document's text, and alerts of one notification.
MAX_TEXT, MAX_ALERTS = 100_000, 20


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(_Given):
    """An endpoint without parameters."""


class AsOf(_Given):
    as_of: str | None = Field(
        None, max_length=40, description="As it was published on this day, or at this moment (ISO 8601)."
    )


Name = Annotated[str, Field(min_length=1, max_length=1000)]
Names = list[Annotated[str, Field(max_length=1000)]]

_Filters = create_model(
    "_Filters",
    __base__=AsOf,
    **{
        name: (str | None, Field(None, max_length=40, description="A day or a moment, in ISO 8601."))
        if name.startswith("date_")
        else (
            Names,
            Field([], max_length=100, description=f"Only of one of these: {name.replace('_', ' ')}."),
        )
        for name in FILTERS
    },  # type: ignore[call-overload]
)


class SearchQuery(_Filters):
    q: str = Field(max_length=10_000, description="What is searched for.")
    limit: int = Field(10, ge=1, le=100)
    mode: Mode = "hybrid"
    cursor: str | None = Field(None, max_length=10_000, description="`next_cursor` of the page before.")


class AskQuery(_Filters):
    q: str = Field(max_length=10_000, description="The question.")
    limit: int = Field(5, ge=1, le=20, description="Sentences at most.")
    mode: Mode = "hybrid"
    model: bool | None = Field(None, description="Let the chat model answer; null: where one is configured.")


class TypedQuery(AsOf):
    """``parameters`` of the typed query stand in the query string under their own names."""

    model_config = ConfigDict(extra="allow")

    name: Name
    limit: int = Field(1000, ge=1, le=10_000)


class NodeQuery(AsOf):
    name: Name = Field(description="A name or a key.")
    label: str | None = Field(None, max_length=100)
    hops: int = Field(1, ge=1, le=2)
    type: Names = Field([], max_length=100, description="Only these relations.")
    limit: int = Field(100, ge=1, le=1000)


class PathQuery(AsOf):
    start: Name
    end: Name
    max_hops: int = Field(8, ge=1, le=20)


class DocumentsQuery(_Filters):
    limit: int = Field(100, ge=1, le=1000)
    cursor: str | None = Field(
        None, pattern="^[0-9a-f-]{36}$", description="`next_cursor` of the page before."
    )


class DocumentQuery(AsOf):
    document: Name = Field(description="A doc_id or the beginning of one.")


class TextQuery(DocumentQuery):
    start: int = Field(0, ge=0, description="The first code point.")
    length: int = Field(MAX_TEXT, ge=1, le=MAX_TEXT, description="Code points at most.")


class LinksQuery(DocumentQuery):
    limit: int = Field(100, ge=1, le=1000)


class ExplainQuery(_Given):
    id: Name = Field(description="An edge_id or chunk_id.")


class DriftQuery(AsOf):
    kind: Names = Field([], max_length=100)
    limit: int = Field(100, ge=1, le=1000)


class ChangesQuery(_Given):
    since: str = Field("7d", max_length=100, description="24h, 7d, 2w; a date or a time; or a run's id.")
    source: str | None = Field(None, max_length=100)
    limit: int = Field(100, ge=1, le=1000)


class AlertBody(BaseModel):
    """An alert as Alertmanager tells it; what else it says is passed over."""

    status: Literal["firing", "resolved"] = "firing"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class AlertmanagerBody(BaseModel):
    """The body of Alertmanager's webhook, version 4."""

    version: str = "4"
    alerts: list[AlertBody] = Field(min_length=1, max_length=10_000)


class Status(Result):
    """How large and how fresh the knowledge base is."""

    namespace: str
    publication: int
    documents: int
    chunks: int
    entities: int
    sources: SourceStates


class Collections(Result):
    collections: tuple[CollectionView, ...]


@dataclass(frozen=True)
class Endpoint:
    """``path``: below :data:`PREFIX`, as in OpenAPI; ``given``: what it takes; ``call``: what it does."""

    path: str
    summary: str
    given: type[BaseModel]
    result: type[BaseModel]
    call: Callable[[KnowledgeBase, Any], BaseModel]
    method: Literal["GET", "POST"] = "GET"

    @property
    def operation(self) -> str:
        """What it is called in the description, and in the metrics."""
        return f"{PREFIX}{self.path}"


def _filters(given: Any) -> dict[str, Any]:
    return {name: value for name in FILTERS if (value := getattr(given, name))}


def _ask(kb: KnowledgeBase, p: Any) -> BaseModel:
    return kb.answer(p.q, p.limit, model=p.model, mode=p.mode, **_filters(p))


def _query(kb: KnowledgeBase, p: Any) -> BaseModel:
    return kb.query(p.name, p.limit, **(p.model_extra or {}))


def _documents(kb: KnowledgeBase, p: Any) -> BaseModel:
    rows = kb.documents(after=p.cursor, limit=p.limit + 1, **_filters(p)).to_pylist()
    shown = tuple(ListedDocument(**row) for row in rows[: p.limit])
    return DocumentPage(documents=shown, next_cursor=shown[-1].doc_id if len(rows) > p.limit else None)


def _document(kb: KnowledgeBase, p: Any) -> BaseModel:
    return DocumentInfo(**{n: getattr(kb.document(p.document), n) for n in DocumentInfo.model_fields})


def _text(kb: KnowledgeBase, p: Any) -> BaseModel:
    found = kb.document(p.document)
    text = found.text[p.start : p.start + p.length]
    return DocumentText(
        doc_id=found.doc_id, start=p.start, end=p.start + len(text), length=len(found.text), text=text
    )


def _status(kb: KnowledgeBase, _: Any) -> BaseModel:
    m = kb.manifest
    sizes = {"documents": m.documents, "chunks": m.chunks, "entities": m.entities}
    return Status(namespace=m.namespace, publication=m.version, **sizes, sources=kb.sources())


def _alert(kb: KnowledgeBase, p: Any) -> BaseModel:
    firing = [a for a in p.alerts if a.status == "firing"]
    guides: list[AlertGuide] = [kb.for_alert(a.labels, a.annotations) for a in firing[:MAX_ALERTS]]
    return AlertGuides(alerts=tuple(guides), truncated=len(firing) > MAX_ALERTS)


#: All that there is.
ENDPOINTS = (
    Endpoint(
        "/search", "Find the passages that fit best", SearchQuery, SearchResult,
        lambda kb, p: kb.search(p.q, p.limit, mode=p.mode, cursor=p.cursor, **_filters(p)),
    ),
    Endpoint("/ask", "Answer a question, with citations", AskQuery, Answer, _ask),
    Endpoint("/queries", "List the typed queries", Nothing, QueryList, lambda kb, _: kb.queries()),
    Endpoint("/queries/{name}", "Ask a typed query", TypedQuery, QueryResult, _query),
    Endpoint(
        "/graph/neighbors", "What surrounds a thing", NodeQuery, Subgraph,
        lambda kb, p: kb.neighbors(p.name, p.hops, p.type or None, p.limit, label=p.label),
    ),
    Endpoint(
        "/graph/path", "The shortest way between two things", PathQuery, GraphPath,
        lambda kb, p: kb.path(p.start, p.end, p.max_hops),
    ),
    Endpoint(
        "/explain", "The proof of a fact or passage", ExplainQuery, Explanation,
        lambda kb, p: kb.explain(p.id),
    ),
    Endpoint("/documents", "List the documents, by id", DocumentsQuery, DocumentPage, _documents),
    Endpoint("/documents/{document}", "What is known of a document", DocumentQuery, DocumentInfo, _document),
    Endpoint("/documents/{document}/text", "A part of a document's text", TextQuery, DocumentText, _text),
    Endpoint(
        "/documents/{document}/links", "What a document links to, and what to it", LinksQuery, DocumentLinks,
        lambda kb, p: kb.links(kb.document(p.document).doc_id, p.limit),
    ),
    Endpoint(
        "/collections", "List the saved filters", Nothing, Collections,
        lambda kb, _: Collections(collections=kb.collections()),
    ),
    Endpoint(
        "/drift", "Statements that cannot both be so", DriftQuery, DriftReport,
        lambda kb, p: kb.drift(p.kind or None, p.limit),
    ),
    Endpoint(
        "/changes", "What documents and the graph say otherwise than before", ChangesQuery, DocumentChanges,
        lambda kb, p: kb.changes(p.since, source=p.source, limit=p.limit),
    ),
    Endpoint("/status", "How large and how fresh it is, and its sources", Nothing, Status, _status),
    Endpoint(
        "/alert", "Which document to read first, of Alertmanager's webhook", AlertmanagerBody, AlertGuides,
        _alert, "POST",
    ),
)  # fmt: skip


def routes() -> list[Route]:
    """The routes of the table."""
    return [Route(f"{PREFIX}{e.path}", _view(e), methods=[e.method]) for e in ENDPOINTS]


def _view(endpoint: Endpoint) -> Callable[[Request], Any]:
    async def view(request: Request) -> Response:
        kb = kb_of(request)
        try:
            given = await _given(endpoint, request)
            work: Callable[[], Response] = lambda: _answered(endpoint, kb, given, request)  # noqa: E731
            with anyio.fail_after(SECONDS):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            told = TabootError(
                "E_TIMEOUT", f"It took more than {SECONDS} seconds.", remedy="Ask for less, or ask again."
            )
            return problem(told)
        except Exception as error:  # noqa: BLE001
            return problem(_typed(kb, error))

    return view


def _typed(kb: KnowledgeBase, error: Exception) -> TabootError:
    if isinstance(error, TabootError):
        return logs.redacted(error, kb.settings)
    # A defect's message may quote a document; its type and place do not.
    return TabootError("E_INTERNAL", f"It failed with {type(error).__name__} at {raised_at(error)}.")


async def _given(endpoint: Endpoint, request: Request) -> Any:
    """What is asked for. Raises ``E_QUERY`` naming what is wrong, ``E_TOO_LARGE`` for a large body."""
    try:
        if endpoint.method == "POST":
            body = bytearray()
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    raise TabootError(
                        "E_TOO_LARGE",
                        f"The body has more than {MAX_BODY:,} bytes.",
                        remedy="Send less at once.",
                    )
            return endpoint.given.model_validate_json(bytes(body))
        several = {n for n, f in endpoint.given.model_fields.items() if get_origin(f.annotation) is list}
        query = request.query_params
        given: dict[str, Any] = {n: query.getlist(n) if n in several else query[n] for n in query}
        twice = [n for n in query if n not in several and len(query.getlist(n)) > 1]
        clash = twice or sorted(request.path_params.keys() & given.keys())
        if clash:
            raise TabootError("E_QUERY", f"{clash[0][:80]}: it may be given once.")
        return endpoint.given.model_validate({**given, **request.path_params})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise TabootError("E_QUERY", f"{where[:200]}: {first['msg']}.") from None


def _answered(endpoint: Endpoint, kb: KnowledgeBase, given: Any, request: Request) -> Response:
    with telemetry.span("page", f"{endpoint.method} {endpoint.operation}", page=endpoint.operation):
        at = getattr(given, "as_of", None)
        kb = kb if at is None else kb.as_of(at)
        if endpoint.call is _ask and EVENTS in request.headers.get("accept", ""):
            # What is wrong with the question is told before the stream begins.
            pieces = kb.answer_stream(
                given.q, given.limit, model=given.model, mode=given.mode, **_filters(given)
            )
            events = _events(kb, pieces, next(pieces))
            return StreamingResponse(iterate_in_threadpool(events), media_type=EVENTS)
        found = endpoint.call(kb, given)
        return Response(found.model_dump_json(), media_type="application/json")


def _events(kb: KnowledgeBase, pieces: Iterator[str], first: str) -> Iterator[str]:
    """Server-sent events: ``text`` for each piece, last ``answer`` with the whole, or ``error``."""
    ends = time.monotonic() + STREAM_SECONDS
    try:
        piece = first
        while True:
            yield _event("text", json.dumps({"text": piece}))
            if time.monotonic() > ends:
                raise TabootError("E_TIMEOUT", f"It took more than {STREAM_SECONDS} seconds.")
            try:
                piece = next(pieces)
            except StopIteration as end:
                yield _event("answer", end.value.model_dump_json())
                return
    except Exception as error:  # noqa: BLE001
        yield _event("error", bytes(problem(_typed(kb, error)).body).decode())


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
