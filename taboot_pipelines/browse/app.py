"""The routes, and what becomes of an error: every ``E_…`` is a page that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from taboot_pipelines import logs
from taboot_pipelines.browse import documents, graph, searching, states
from taboot_pipelines.browse.digest import Digests
from taboot_pipelines.browse.guard import Guard
from taboot_pipelines.browse.rendering import HERE, STATIC, environment, render
from taboot_pipelines.browse.requests import kb_of
from taboot_pipelines.errors import TabootError, raised_at

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval import KnowledgeBase

View = Callable[["Request"], Response]

_PAGES: dict[str, View] = {
    "/": states.overview,
    "/search": searching.search,
    "/document/{doc_id}": documents.document,
    "/node": graph.node,
    "/nodes": graph.nodes,
    "/edge/{edge_id}": graph.edge,
    "/sources": states.sources,
    "/source/{source}": states.source,
    "/drift": states.drift,
    "/dead-letters": states.dead_letters,
    "/keys": states.keys,
}
#: A file of ours has another address when its content is another.
_FOR_EVER = "private, max-age=31536000, immutable"


def make_app(kb: KnowledgeBase, token: str, once: str, port: int) -> Starlette:
    """The application over ``kb``. ``token``: what opens it; ``once``: what opens it one time; ``port``: that
    it is served on."""
    app = Starlette(
        routes=[
            *(Route(path, _told(view), methods=["GET"]) for path, view in _PAGES.items()),
            Route("/static/{name}", _told(_static), methods=["GET"]),
            Route("/favicon.ico", _told(_icon), methods=["GET"]),
        ],
        middleware=[Middleware(Guard, token=token, once=once, port=port)],
        exception_handlers={HTTPException: _not_here},
    )
    app.state.kb = kb
    app.state.digests = Digests(kb)
    app.state.warm = lambda: _warm(app)
    # Templates are read and compiled before the first page is asked for.
    for name in environment().list_templates():
        environment().get_template(name)
    return app


def _told(view: View) -> View:
    """The same page, or that of the error that it ended with."""

    def told(request: Request) -> Response:
        try:
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
    told = TabootError("E_NOT_FOUND", "There is no such page.", remedy="Begin at the overview.")
    page = render("error.html", kb=kb_of(request), q="", error=told)
    return HTMLResponse(page, status)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise TabootError("E_NOT_FOUND", "There is no such file.")
    headers = {"cache-control": _FOR_EVER}
    return Response((HERE / "static" / name).read_bytes(), media_type=STATIC[name], headers=headers)


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
