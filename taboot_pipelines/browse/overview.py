"""The pages of how things are: the overview, the sources, what drifted, and what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from starlette.responses import HTMLResponse, Response

from taboot_pipelines.browse.rendering import render, to
from taboot_pipelines.browse.requests import digests_of, kb_of, whole
from taboot_pipelines.errors import CODES, TabootError
from taboot_pipelines.retrieval.rendering import short_url, with_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval.states import DeadLetter

_PAGE = 100
_MAX_DRIFTS = 200
#: Of drift and dead letters, what the overview shows.
_FIRST = 3


def overview(request: Request) -> Response:
    """``/``: what there is, how it is, and where to begin."""
    kb = kb_of(request)
    digest = digests_of(request).current()
    states = kb.sources()
    failed = [letter for letter in states.dead_letters if letter.kind == "failed"]
    drift = kb.drift(limit=_MAX_DRIFTS)
    return HTMLResponse(
        render(
            "overview.html",
            kb=kb,
            q="",
            digest=digest,
            states=states,
            drift=drift.items[:_FIRST],
            drifts=len(drift.items),
            more_drift=drift.truncated,
            letters=failed[:_FIRST],
            failed=len(failed),
            sources=kb.manifest.sources,
            place=_place,
        )
    )


def sources(request: Request) -> Response:
    """``/sources``: all sources with their last job."""
    kb = kb_of(request)
    return HTMLResponse(render("sources.html", kb=kb, q="", states=kb.sources()))


def source(request: Request) -> Response:
    """``/source/ID``: one source, its dead letters and its documents, a hundred a page (``page``)."""
    kb = kb_of(request)
    wanted = request.path_params["source"]
    page = whole(request.query_params, "page", 1) or 1
    states = kb.sources()
    found = next((s for s in states.sources if s.id == wanted), None)
    if found is None:
        raise TabootError("E_NOT_FOUND", f"There is no source {wanted[:80]!r}.")
    table = kb.documents()
    own = table.filter(pc.equal(table.column("source"), wanted)).sort_by("path")
    rows: list[dict[str, Any]] = own.slice((page - 1) * _PAGE, _PAGE).to_pylist()
    return HTMLResponse(
        render(
            "source.html",
            kb=kb,
            q="",
            source=found,
            note=states.note,
            letters=[x for x in states.dead_letters if x.source == wanted],
            remedy=_remedy,
            documents=rows,
            total=own.num_rows,
            after=to(f"/source/{wanted}", page=page + 1) if own.num_rows > page * _PAGE else None,
        )
    )


def drift(request: Request) -> Response:
    """``/drift``: statements that cannot both be so; ``kind`` limits them."""
    kb = kb_of(request)
    kinds = request.query_params.getlist("kind") or None
    report = kb.drift(kinds, _MAX_DRIFTS)
    return HTMLResponse(
        render(
            "drift.html",
            kb=kb,
            q="",
            report=report,
            kinds=kinds or [],
            sources=kb.manifest.sources,
            place=_place,
        )
    )


def dead_letters(request: Request) -> Response:
    """``/dead-letters``: what failed or was passed by, with the reason and what to do."""
    kb = kb_of(request)
    states = kb.sources()
    failed: list[DeadLetter] = [x for x in states.dead_letters if x.kind == "failed"]
    skipped = [x for x in states.dead_letters if x.kind != "failed"]
    return HTMLResponse(
        render(
            "letters.html",
            kb=kb,
            q="",
            failed=failed[:1000],
            skipped=skipped[:1000],
            totals=(len(failed), len(skipped)),
            note=states.note,
            remedy=_remedy,
        )
    )


def keys(request: Request) -> Response:
    """``/keys``: what the keyboard does."""
    return HTMLResponse(render("keys.html", kb=kb_of(request), q=""))


def _remedy(code: str) -> str:
    return CODES[code][1] if code in CODES else ""


def _place(url: str, line: int | None, sources: Any) -> str:
    return with_line(short_url(url, sources), line)
