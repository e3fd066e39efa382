"""The page of a document: the file as it is, the cited lines marked, and what was read from it."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import HTMLResponse, Response

from taboot_pipelines.browse.digest import Named
from taboot_pipelines.browse.rendering import render, to
from taboot_pipelines.browse.requests import kb_of, spans, whole
from taboot_pipelines.browse.texts import window
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval import verbalization
from taboot_pipelines.retrieval.rendering import short_url

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval.results.documents import DocumentChunk
    from taboot_pipelines.retrieval.results.explanations import Original

#: Of what was read from a document, of the things it names and of its links: what a page shows.
_MAX_FACTS, _MAX_NAMES, _MAX_LINKS = 60, 40, 30
_MAX_CHUNKS = 500
#: Of what was read at a marked place.
_MAX_THERE = 5
#: What people look for comes first: containers are called like their services.
_ORDER = {
    label: n for n, label in enumerate(("Service", "Host", "ReverseProxy", "Network", "TailscaleNode", "IP"))
}


@dataclass(frozen=True)
class Fact:
    """What one edge states that was read from the document."""

    start: str
    type: str
    end: str
    says: str
    line: int
    url: str


@dataclass(frozen=True)
class Cited:
    """A marked place: its text as the file has it, its bytes and its lines, and what was read there."""

    text: str
    bytes: str
    lines: str
    facts: tuple[Fact, ...]


def document(request: Request) -> Response:
    """``/document/ID``: ``at`` and ``bytes`` mark places (code points of the document, bytes of its blob),
    ``line`` says where a long one is to begin.
    """
    kb = kb_of(request)
    doc_id = request.path_params["doc_id"]
    given = request.query_params
    at, by_bytes = spans(given, "at"), spans(given, "bytes")
    first = whole(given, "line")
    original = kb.original(doc_id, at, by_bytes)
    marks = [(m.start, m.end) for m in original.marks]
    edges = kb.edges()
    own = edges.filter(pc.equal(edges.column("doc_id"), doc_id))
    manifest = kb.manifest
    links = kb.links(doc_id, _MAX_LINKS)
    facts = _facts(own)
    page = {"at": [f"{a}-{b}" for a, b in at], "bytes": [f"{a}-{b}" for a, b in by_bytes]}
    return HTMLResponse(
        render(
            "document.html",
            kb=kb,
            q="",
            document=original,
            place=short_url(original.url, manifest.sources, original.source),
            cited=_cited(original, facts),
            window=window(original.text, marks, first),
            read=window(original.read, [(a, b) for a, b in at if b <= len(original.read)])
            if original.read
            else None,
            facts=facts[:_MAX_FACTS],
            names=_names(own),
            more_facts=max(0, len(facts) - _MAX_FACTS),
            links=links,
            metadata=_metadata(original.metadata),
            page=page,
        )
    )


@dataclass(frozen=True)
class LivedChunk:
    """A chunk with how many facts begin in it."""

    chunk: DocumentChunk
    url: str
    facts: int


def life(request: Request) -> Response:
    """``/document/ID/life``: what became of the document on its way, from its bytes by its text, its chunks
    and the facts read from them to its points in the space of the vectors."""
    kb = kb_of(request)
    doc_id = request.path_params["doc_id"]
    found = kb.document(doc_id)
    edges = kb.edges()
    own = edges.filter(pc.equal(edges.column("doc_id"), found.doc_id))
    # Where each fact begins; one may rest on several places of the document.
    starts = sorted(
        min(spans)
        for (text,) in rows_of(own, "supports")
        if (spans := [s["span"][0] for s in json.loads(text) if s.get("span")])
    )
    methods = Counter(rows_of(own, "type", "extraction_method"))
    manifest = kb.manifest
    return HTMLResponse(
        render(
            "life.html",
            kb=kb,
            q="",
            document=found,
            place=short_url(found.url, manifest.sources, found.source),
            lines=len(found.text.removesuffix("\n").split("\n")),
            chunks=[
                LivedChunk(
                    c,
                    to(f"/document/{found.doc_id}", "mark", at=f"{c.start}-{c.end}"),
                    bisect_left(starts, c.end) - bisect_left(starts, c.start),
                )
                for c in found.chunks[:_MAX_CHUNKS]
            ],
            facts=own.num_rows,
            methods=sorted(methods.items(), key=lambda m: (-m[1], m[0])),
            space=manifest.space,
        )
    )


def _cited(original: Original, facts: Sequence[Fact]) -> list[Cited]:
    found = []
    for mark in original.marks:
        first = original.text.count("\n", 0, mark.start) + 1
        last = first + original.text.count("\n", mark.start, max(mark.start, mark.end - 1))
        lines = f"line {first}" if first == last else f"lines {first}–{last}"
        known = not original.rendered and not original.unread
        found.append(
            Cited(
                text=original.text[mark.start : mark.end][:600],
                bytes=f"bytes {mark.byte_start}–{mark.byte_end}",
                lines=lines if known else "",
                facts=tuple(f for f in facts if known and first <= f.line <= last)[:_MAX_THERE],
            )
        )
    return found


def _facts(edges: pa.Table) -> list[Fact]:
    """What the document states, in the order of its lines."""
    rows: Iterable[dict[str, Any]] = (
        edges.filter(pc.not_equal(edges.column("type"), "MENTIONS"))
        .select(["edge_id", "type", "start_name", "end_name", "properties", "line"])
        .sort_by([("line", "ascending"), ("type", "ascending"), ("edge_id", "ascending")])
        .to_pylist()
    )
    return [
        Fact(
            start=row["start_name"],
            type=row["type"],
            end=row["end_name"],
            says=verbalization.said(row["type"], json.loads(row["properties"])),
            line=row["line"],
            url=to(f"/edge/{row['edge_id']}"),
        )
        for row in rows
    ]


def _names(edges: pa.Table) -> list[Named]:
    """The things that the document names."""
    mentions = edges.filter(pc.equal(edges.column("type"), "MENTIONS"))
    found = {
        Named(label, key, name, None)
        for label, key, name in rows_of(mentions, "end_label", "end_key", "end_name")
    }
    things = (n for n in found if n.label != "Document")
    return sorted(things, key=lambda n: (_ORDER.get(n.label, len(_ORDER)), n))[:_MAX_NAMES]


def _metadata(text: str) -> dict[str, Any]:
    try:
        known = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return known if isinstance(known, dict) else {}
