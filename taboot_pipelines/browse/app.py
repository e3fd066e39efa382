"""The web application of ``taboot browse``: its routes, its pages of errors, and the server of one person.

Every ``E_…`` is a page that says what to do. The server listens on a port of loopback, is opened by a token,
and ends by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import pkgutil
import secrets
import socket
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from taboot_pipelines import logs, telemetry
from taboot_pipelines.browse import api, documents, graph, openapi, overview, search
from taboot_pipelines.browse.digest import Digests
from taboot_pipelines.browse.guard import Guard, is_for_programs
from taboot_pipelines.browse.map import map_page
from taboot_pipelines.browse.problems import PREFIX, problem
from taboot_pipelines.browse.rendering import STATIC, environment, render, static_bytes
from taboot_pipelines.browse.requests import kb_of
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model.health import METRICS
from taboot_pipelines.retrieval.session import sparing_collections
from taboot_pipelines.stages import metrics

if TYPE_CHECKING:
    import uvicorn
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from taboot_pipelines.retrieval import KnowledgeBase

View = Callable[["Request"], Response]

_PAGES: dict[str, View] = {
    "/": overview.overview,
    "/search": search.search,
    "/document/{doc_id}": documents.document,
    "/document/{doc_id}/life": documents.life,
    "/node": graph.node,
    "/nodes": graph.nodes,
    "/edge/{edge_id}": graph.edge,
    "/map": map_page,
    "/sources": overview.sources,
    "/source/{source}": overview.source,
    "/drift": overview.drift,
    "/dead-letters": overview.dead_letters,
    "/keys": overview.keys,
}
#: A file of ours has another address when its content is another.
_FOR_EVER = "private, max-age=31536000, immutable"


def make_app(kb: KnowledgeBase, token: str, once: str, port: int) -> Starlette:
    """The application over ``kb``. ``token``: what opens it; ``once``: what opens it one time; ``port``: that
    it is served on."""
    app = Starlette(
        routes=[
            *(Route(path, _told(path, view), methods=["GET"]) for path, view in _PAGES.items()),
            Route("/static/{name}", _told("/static", _static), methods=["GET"]),
            Route("/favicon.ico", _told("/favicon.ico", _icon), methods=["GET"]),
            Route(METRICS, served_metrics, methods=["GET"]),
            Route(f"{PREFIX}/openapi.json", openapi.served, methods=["GET"]),
            *api.routes(),
        ],
        middleware=[Middleware(Guard, token=token, once=once, port=port)],
        exception_handlers={HTTPException: _not_here},
    )
    metrics.served()  # It counts from here on.
    app.state.kb = kb
    app.state.digests = Digests(kb)
    app.state.warm = lambda: _warm(app)
    # Templates are read and compiled before the first page is asked for.
    for name in environment().list_templates():
        environment().get_template(name)
    return app


def served_metrics(_request: Request) -> Response:
    """What this process counts, for Prometheus."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return Response(generate_latest(metrics.served()), headers={"content-type": CONTENT_TYPE_LATEST})


def _told(path: str, view: View) -> View:
    """The same page, or that of the error that it ended with."""

    def told(request: Request) -> Response:
        try:
            with telemetry.span("page", f"GET {path}", page=path):
                return view(request)
        except TabootError as error:
            return _error_page(request, error)
        # A defect's message may quote a document; its type and place do not.
        except Exception as error:  # noqa: BLE001
            return _error_page(
                request,
                TabootError(
                    "E_INTERNAL", f"The page failed with {type(error).__name__} at {raised_at(error)}."
                ),
            )

    return told


def _error_page(request: Request, error: TabootError) -> Response:
    kb = kb_of(request)
    query = request.query_params.get("q", "")
    page = render("error.html", kb=kb, q=query[:200], error=logs.redacted(error, kb.settings))
    return HTMLResponse(page, error.http_status)


async def _not_here(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    if is_for_programs(request.url.path):
        remedy = f"{PREFIX}/openapi.json lists what there is."
        if status == 404:
            return problem(TabootError("E_NOT_FOUND", "There is no such endpoint.", remedy=remedy))
        return problem(TabootError("E_QUERY", "It takes no such method.", remedy=remedy), status)
    told = TabootError("E_NOT_FOUND", "There is no such page.", remedy="Begin at the overview.")
    page = render("error.html", kb=kb_of(request), q="", error=told)
    return HTMLResponse(page, status)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise TabootError("E_NOT_FOUND", "There is no such file.")
    headers = {"cache-control": _FOR_EVER}
    return Response(static_bytes(name), media_type=STATIC[name], headers=headers)


def _icon(_request: Request) -> Response:
    return RedirectResponse("/static/icon.svg", 301)


def _warm(app: Starlette) -> None:
    """Ask one thing of every part, so that no person waits for what is loaded once."""
    kb: KnowledgeBase = app.state.kb
    for part in (
        lambda: kb.search("what is here", 1),
        app.state.digests.current,
        lambda: kb.answer("What is here?", 1),
        lambda: kb.drift(limit=1),
        lambda: kb.links(kb.documents().column("doc_id")[0].as_py(), 1),
    ):
        # What is the matter is said by the page that asks for it.
        try:
            part()
        except Exception:  # noqa: BLE001, S112
            continue


HOST = "127.0.0.1"

#: Requests at one time; a browser makes six. What comes beyond is told to come again.
_MOST_AT_ONCE = 64
#: Bytes of a request's line and headers. The longest query that is searched takes a tenth of it.
_MAX_HEAD = 1 << 17
_GRACE_SECONDS = 2
#: The packages whose modules pages reach.
_PARTS = ("connectors", "documents", "extraction", "knowledge", "retrieval", "shards", "sources", "stages")


def take_port(port: int) -> socket.socket:
    """A socket that listens on ``port`` of loopback, or on a free one for 0. Raises ``E_PORT`` if another
    process has it.
    """
    taken = socket.socket()
    # A port that was in use a moment ago can be had again; one that is in use cannot.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
        taken.listen(128)
    except OSError as error:
        taken.close()
        raise TabootError(
            "E_PORT", f"Port {port} of {HOST} cannot be used: {error.strerror}.", port=port
        ) from error
    return taken


def load_parts() -> None:
    """Import what pages import when they first need it, in this thread.

    Two threads that import modules of one package at the same moment may each wait for the other's; CPython
    then gives one of them a module half made, and its page fails with ImportError. Costs about a second.
    """
    for name in _PARTS:
        package = import_module(f"taboot_pipelines.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def make_loopback_server(app: ASGIApp, *, lifespan: Literal["on", "off"], **bounds: int) -> uvicorn.Server:
    """A server for one person's machine: no log of what is asked, no header that says what it is, and none of
    a proxy believed. ``bounds``: further ones of ``uvicorn.Config``."""
    import uvicorn

    given: dict[str, Any] = dict(bounds)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan=lifespan,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            **given,
        )
    )


def run_until_interrupted(server: uvicorn.Server, taken: socket.socket) -> None:
    """Serve on a socket that listens, until the process is interrupted; the socket is closed then."""
    with contextlib.closing(taken), contextlib.suppress(KeyboardInterrupt), sparing_collections():
        server.run(sockets=[taken])


def serve(
    kb: KnowledgeBase, taken: socket.socket, ready: Callable[[str, str], None], token: str | None = None
) -> None:
    """Serve ``kb`` on a socket that listens, until the process is interrupted. ``ready`` is called with the
    address that opens it, and with one that does so a single time: for a browser that is started with it,
    since others can see the arguments of a process. ``token``: what opens it; None: a new one.
    """
    token, once = token or secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    port = taken.getsockname()[1]
    app = make_app(kb, token, once, port)
    # h11 bounds what it keeps of a request's head.
    bounds = {"limit_concurrency": _MOST_AT_ONCE, "h11_max_incomplete_event_size": _MAX_HEAD}
    server = make_loopback_server(app, lifespan="off", **bounds)
    # The socket listens already: what is asked before the loop runs waits in its queue.
    ready(*(f"http://{HOST}:{port}/?token={value}" for value in (token, once)))
    load_parts()
    # The first question of a process loads the model and maps the shards; it need not be a person's.
    threading.Thread(target=app.state.warm, name="browse-warm", daemon=True).start()
    run_until_interrupted(server, taken)
