"""The page of a search: what answers the question, the hits, and how they can be narrowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from taboot_pipelines.browse.digest import Digest
from taboot_pipelines.browse.rendering import entitled, render, to
from taboot_pipelines.browse.requests import digests_of, kb_of, search_options
from taboot_pipelines.browse.texts import Piece, cited, excerpt
from taboot_pipelines.retrieval.rendering import short_url, with_line
from taboot_pipelines.retrieval.request import FILTERS, Mode

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval.results.answers import Answer
    from taboot_pipelines.retrieval.results.hits import Hit
    from taboot_pipelines.shards.manifest import Manifest

PAGE = 10
_SENTENCES = 5
_KINDS = ("prose", "code", "table", "list")
_QUESTION = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|does|do|did|has|have|can|could|should"
    r"|may|must|list|name)\b.*\s\S",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class ShownHit:
    """A hit as the page has it: ``heading``: its section without what the title says already."""

    hit: Hit
    title: str
    url: str
    place: str
    heading: str
    pieces: tuple[Piece, ...]
    also_in: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ShownCitation:
    number: int
    text: str
    title: str
    url: str
    place: str


@dataclass(frozen=True)
class ShownAnswer:
    answer: Answer
    pieces: tuple[Piece, ...]
    citations: tuple[ShownCitation, ...]


class Choice(NamedTuple):
    """A value of a filter."""

    value: str
    chosen: bool


def search(request: Request) -> Response:
    """``/search?q=…``: every parameter of the engine's filters, ``mode``, ``cursor``; ``ask=1`` answers what
    does not look like a question, ``after`` is the question that this one may lean on, ``scores=1``
    shows what each arm made of the hits.
    """
    given = request.query_params
    # A form sends its empty fields too; an address that is kept should not have them.
    full = [(name, value) for name, value in given.multi_items() if value]
    if len(full) < len(given.multi_items()):
        return RedirectResponse(f"/search?{urlencode(full, quote_via=quote)}", 303)
    query = given.get("q", "").strip()
    if not query:
        return RedirectResponse("/", 303)
    kb = kb_of(request)
    options = search_options(given)
    cursor = given.get("cursor")
    manifest = kb.manifest
    before = given.get("after", "").strip()
    asked = given.get("ask") == "1" or bool(before) or looks_like_question(query)
    answer = None
    if asked and before and not cursor:
        talk = kb.conversation(_SENTENCES, **options)
        talk.ask(before)
        answer = talk.ask(query)
    elif asked and not cursor:
        answer = kb.answer(query, _SENTENCES, **options)
    # What leans on the question before it finds little by its own words.
    found = kb.search(answer.question if answer and before else query, PAGE, cursor=cursor, **options)
    digest = digests_of(request).recent()
    page = {
        name: given.getlist(name) for name in (*FILTERS, "mode", "ask", "scores", "after") if name in given
    }
    return HTMLResponse(
        render(
            "search.html",
            kb=kb,
            q=query,
            page=page,
            found=found,
            hits=[_shown(hit, manifest, digest) for hit in found.hits],
            answer=None if answer is None else _answer(answer, manifest, digest),
            named=() if cursor else digest.named_in(query),
            scores=given.get("scores") == "1",
            cursor=cursor,
            choices=_choices(manifest, options),
            modes=[Choice(m, options.get("mode", "hybrid") == m) for m in get_args(Mode)],
            dates={name: options.get(name, "") for name in ("date_from", "date_to")},
            active=_active(query, page),
            others={n: v for n, v in page.items() if n in ("language", "domain", "path_prefix")},
        )
    )


def looks_like_question(query: str) -> bool:
    """Whether somebody wants to be told something, rather than to find the passages with some words."""
    return query.endswith(("?", "？")) or _QUESTION.match(query) is not None


def _shown(hit: Hit, manifest: Manifest, digest: Digest) -> ShownHit:
    at = {"at": f"{hit.start}-{hit.end}"}
    parts = [p for p in hit.section.split(" > ") if p]
    # Where the first heading is the title, and where a heading is repeated, once is enough.
    shown = [p for n, p in enumerate(parts) if p not in ((hit.title, *parts[:n]) if n else (hit.title,))]
    place = short_url(hit.url, manifest.sources, hit.source)
    return ShownHit(
        hit=hit,
        title=entitled(hit.title, _path(place), hit.title in digest.shared_titles),
        url=to(f"/document/{hit.doc_id}", "mark", **at),
        place=with_line(place, hit.line),
        heading=" › ".join(shown),
        pieces=excerpt(hit.text, hit.highlights, prose=hit.content_type in ("prose", "list")),
        also_in=tuple((chunk_id, chunk_id.rpartition(":")[0]) for chunk_id in hit.also_in),
    )


def _path(place: str) -> str:
    """The path of a place that is shown, without its source."""
    return place.partition(": ")[2] or place


def _answer(answer: Answer, manifest: Manifest, digest: Digest) -> ShownAnswer:
    # As a hit of the same document is called, though the folder of another source may lie deeper.
    told = [*answer.citations, *answer.closest]
    places = [short_url(c.url, manifest.sources, digest.sources.get(c.doc_id)) for c in told]
    citations = tuple(
        ShownCitation(
            number=c.number,
            text=c.text,
            title=entitled(c.title, _path(place), c.title in digest.shared_titles),
            url=to(f"/document/{c.doc_id}", "mark", at=f"{c.start}-{c.end}"),
            place=with_line(place, c.line) + (f" ({c.section})" if c.section and not c.line else ""),
        )
        for c, place in zip(told, places, strict=True)
    )
    return ShownAnswer(answer, cited(answer.text), citations)


def _choices(manifest: Manifest, options: dict[str, Any]) -> dict[str, list[Choice]]:
    """The filters with a box for each value. What was asked for is among them, known or not."""
    known = {
        "collection": set(manifest.collections),
        "source": set(manifest.sources),
        "type": {s.type for s in manifest.sources.values()},
        "tag": manifest.all_tags(),
        "content_type": set(_KINDS),
    }
    chosen = {name: {*values, *options.get(name, ())} for name, values in known.items()}
    return {
        name: [Choice(v, v in options.get(name, ())) for v in sorted(values)]
        for name, values in chosen.items()
        if values
    }


def _active(query: str, page: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    """The filters in force: name, value, and the address without it."""
    found = []
    for name in (*FILTERS, "mode"):
        for value in page.get(name, ()):
            rest: dict[str, Any] = {n: [v for v in vs if (n, v) != (name, value)] for n, vs in page.items()}
            found.append((name.replace("_", " "), value, to("/search", q=query, **rest)))
    return found
