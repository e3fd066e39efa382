"""The pages of the graph: a node with a picture of what is around it, the proof of an edge, lists of nodes.

In the picture the node is in the middle, what points at it to the left, what it points at to the right, one
row for each relation with each neighbour. A row's words stand over the straight part of its line, beside the
neighbour, and have it to themselves, so that no text lies over another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from starlette.responses import HTMLResponse, RedirectResponse, Response

from taboot_pipelines.browse.digest import Named
from taboot_pipelines.browse.rendering import entitled, render, to
from taboot_pipelines.browse.requests import digests_of, kb_of, whole
from taboot_pipelines.browse.texts import Line, window
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES, NODES
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval import verbalization
from taboot_pipelines.retrieval.rendering import short_url, with_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.retrieval.results.explanations import Quote
    from taboot_pipelines.retrieval.results.graph import Edge, Subgraph


from taboot_pipelines.retrieval.pictures.layout import cut

#: In the units of the SVG. The page shows one as one pixel where there is room for it.
WIDTH = 1100
_ROW = 48
_BOX_WIDTH, _BOX_HEIGHT = 216, 38
_STRAIGHT = 184
_CENTRE_WIDTH = 196
#: Rows of each side; the list below has the others.
MAX_ROWS = 14
#: Pixels of an em: names stand in bold, kinds in regular type, words and types in type of one width.
_NAME, _KIND = 13 * 1.06, 11.0
_WORDS, _TYPE = 11 * 0.61, 10.5 * 0.61


@dataclass(frozen=True)
class Relation:
    """A relation with a neighbour, whichever documents state it. ``outgoing``: it leads to the neighbour;
    ``says``: its properties in words; ``edge_ids``: of its statements, the surest first.
    """

    type: str
    outgoing: bool
    label: str
    key: str
    name: str
    scope: str | None
    says: str
    edge_ids: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A relation as it is drawn. ``x``, ``y``: of the neighbour's box; ``path``: of the line, from its tail
    to its head; ``words_x``: the middle of its words; the texts are cut to their room.
    """

    relation: Relation
    x: float
    y: float
    path: str
    words_x: float
    name: str
    kind: str
    type: str
    says: str


@dataclass(frozen=True)
class Picture:
    """``left``, ``width``: what is seen, which has no side where nothing stands; ``x``, ``y``: of the box in
    the middle; ``left_out``: relations for which there was no room."""

    left: int
    width: int
    height: int
    box_width: int
    box_height: int
    centre_width: int
    x: float
    y: float
    name: str
    kind: str
    rows: tuple[Row, ...]
    left_out: int


def draw(label: str, name: str, scope: str | None, relations: Sequence[Relation]) -> Picture:
    """The picture of a node and its relations."""
    sides = [[r for r in relations if r.outgoing is outgoing] for outgoing in (False, True)]
    most = max(1, *(min(len(side), MAX_ROWS) for side in sides))
    height = max(most * _ROW, _BOX_HEIGHT + 24) + 16
    middle = height / 2
    rows = []
    for side, outgoing in zip(sides, (False, True), strict=True):
        shown = _of_each(side)
        top = (height - len(shown) * _ROW) / 2
        rows += [_row(r, top + (n + 0.5) * _ROW, middle, outgoing) for n, r in enumerate(shown)]
    inner = (WIDTH - _CENTRE_WIDTH) // 2
    left, right = 0 if sides[0] else inner - 4, WIDTH if sides[1] else WIDTH - inner + 4
    return Picture(
        left=left,
        width=right - left,
        height=int(height),
        box_width=_BOX_WIDTH,
        box_height=_BOX_HEIGHT,
        centre_width=_CENTRE_WIDTH,
        x=inner,
        y=middle,
        name=cut(name, _CENTRE_WIDTH - 20, _NAME * 1.12),
        kind=cut(f"{label} · {scope}" if scope else label, _CENTRE_WIDTH - 20, _KIND),
        rows=tuple(rows),
        left_out=len(relations) - len(rows),
    )


def _of_each(side: Sequence[Relation]) -> list[Relation]:
    """As many as there is room for, of each type some, in their order."""
    turns: dict[str, int] = {}
    ranked = []
    for at, relation in enumerate(side):
        turn = turns[relation.type] = turns.get(relation.type, 0) + 1
        ranked.append((turn, at))
    return [side[at] for at in sorted(at for _, at in sorted(ranked)[:MAX_ROWS])]


def _row(relation: Relation, y: float, middle: float, outgoing: bool) -> Row:
    inner = (WIDTH + _CENTRE_WIDTH) / 2 if outgoing else (WIDTH - _CENTRE_WIDTH) / 2
    outer = WIDTH - _BOX_WIDTH if outgoing else _BOX_WIDTH
    sign = 1 if outgoing else -1
    bend = outer - sign * _STRAIGHT
    half = (inner + bend) / 2
    curve = f"C{half:.1f} {middle:.1f} {half:.1f} {y:.1f} {bend:.1f} {y:.1f}"
    back = f"C{half:.1f} {y:.1f} {half:.1f} {middle:.1f} {inner - 5:.1f} {middle:.1f}"
    path = (
        f"M{inner:.1f} {middle:.1f}{curve}L{outer - 6:.1f} {y:.1f}"
        if outgoing
        else f"M{outer:.1f} {y:.1f}L{bend:.1f} {y:.1f}{back}"
    )
    kind = f"{relation.label} · {relation.scope}" if relation.scope else relation.label
    return Row(
        relation=relation,
        x=WIDTH - _BOX_WIDTH if outgoing else 0,
        y=y,
        path=path,
        words_x=outer - sign * _STRAIGHT / 2,
        name=cut(relation.name, _BOX_WIDTH - 22, _NAME),
        kind=cut(kind, _BOX_WIDTH - 22, _KIND),
        type=cut(relation.type, _STRAIGHT - 14, _TYPE, fixed=True),
        says=cut(relation.says, _STRAIGHT - 14, _WORDS, fixed=True),
    )


#: Edges of a neighbourhood that a page knows of, and nodes of a list.
_MAX_EDGES = 2000
_PAGE = 100
#: Lines that are shown before and after a quote.
_AROUND = 4


@dataclass(frozen=True)
class Listed:
    """A relation of the list with where it stands."""

    relation: Relation
    place: str
    document: str
    confidence: float


@dataclass(frozen=True)
class Mention:
    """A document that names the node, and the lines on which it does."""

    doc_id: str
    place: str
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ShownQuote:
    """A quote with the lines around it, where its file is a document; ``document``: its page there."""

    quote: Quote
    place: str
    document: str
    lines: tuple[Line, ...]


def node(request: Request) -> Response:
    """``/node?label=…&key=…``, or ``/node?name=…``, which lists the nodes called so where there are several;
    ``type`` limits the relations.
    """
    kb = kb_of(request)
    given = request.query_params
    label, key, name = given.get("label"), given.get("key"), given.get("name")
    if name and not key:
        starts = kb.neighbors(name, limit=1).start
        if len(starts) == 1:
            return RedirectResponse(to("/node", label=starts[0].label, key=starts[0].key), 303)
        nodes = [Named(n.label, n.key, n.name, n.scope) for n in starts]
        return HTMLResponse(
            render("nodes.html", kb=kb, q="", title=f"Called “{name}”", nodes=nodes, labels=(), after=None)
        )
    if not label or not key:
        raise TabootError("E_QUERY", "A node is asked for by its label and key, or by its name.")
    if label not in NODES:
        raise TabootError("E_NOT_FOUND", f"There are no nodes with the label {label[:80]!r}.")
    types = given.getlist("type") or None
    # The key is one string already, whatever it is made of.
    around = kb.neighbors(NodeRef(label, (key,), key), types=types, limit=_MAX_EDGES)
    start = next((n for n in around.start if n.key == key), None)
    if start is None:
        raise TabootError("E_NOT_FOUND", f"There is no {label} with the key {key[:200]!r}.")
    sources = kb.manifest.sources
    scopes = {(n.label, n.key): n.scope for n in around.nodes}
    listed = _listed(around, (label, key), scopes, sources)
    shown = Named(start.label, start.key, start.name, start.scope)
    same = digests_of(request).recent().names.get(start.name.casefold(), ())
    return HTMLResponse(
        render(
            "node.html",
            kb=kb,
            q="",
            node=start,
            picture=draw(start.label, start.name, start.scope, [x.relation for x in listed]),
            listed=[
                (type_, outgoing, list(group))
                for (type_, outgoing), group in groupby(
                    listed, lambda x: (x.relation.type, x.relation.outgoing)
                )
            ],
            relations=len(listed),
            mentions=_mentions(around, (label, key), sources),
            truncated=around.truncated,
            properties={k: v for k, v in sorted(start.properties.items()) if k != "schemaVersion"},
            others=[n for n in same if n[:2] != shown[:2]],
            types=types or [],
            all_types=sorted(EDGES),
            max_edges=_MAX_EDGES,
        )
    )


def _listed(
    around: Subgraph,
    centre: tuple[str, str],
    scopes: Mapping[tuple[str, str], str | None],
    sources: Mapping[str, Any],
) -> list[Listed]:
    """The relations of the node but mentions, equal ones of several documents once: by type, direction and
    neighbour."""
    groups: dict[tuple[Any, ...], list[Edge]] = {}
    for edge in around.edges:
        if edge.type == "MENTIONS":
            continue
        outgoing = (edge.start_label, edge.start_key) == centre
        other = (
            (edge.end_label, edge.end_key, edge.end_name)
            if outgoing
            else (edge.start_label, edge.start_key, edge.start_name)
        )
        said = verbalization.said(edge.type, edge.properties)
        groups.setdefault((edge.type, outgoing, other[0], other[2], other[1], said), []).append(edge)
    # A text that only says that there is such a relation supports one that says more.
    for group in [g for g in groups if not g[-1]]:
        fuller = min((g for g in groups if g[:-1] == group[:-1] and g[-1]), default=None)
        if fuller is not None:
            groups[fuller] += groups.pop(group)
    return [
        Listed(
            relation=Relation(
                type=type_,
                outgoing=outgoing,
                label=label,
                key=key,
                name=name,
                scope=scopes.get((label, key)),
                says=said,
                edge_ids=tuple(e.edge_id for e in edges),
            ),
            place=with_line(short_url(edges[0].url, sources), edges[0].line),
            document=edges[0].doc_id,
            confidence=max(e.confidence for e in edges),
        )
        for (type_, outgoing, label, name, key, said), edges in sorted(groups.items(), key=lambda x: x[0])
    ]


def _mentions(around: Subgraph, centre: tuple[str, str], sources: Mapping[str, Any]) -> list[Mention]:
    """The documents that name the node; or, of a document, none: its own page has what it names."""
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for edge in around.edges:
        if edge.type == "MENTIONS" and (edge.end_label, edge.end_key) == centre:
            lines.setdefault((edge.url, edge.doc_id), {}).setdefault(edge.line, edge.edge_id)
    return [
        Mention(doc_id, short_url(url, sources), tuple(sorted(found.items())))
        for (url, doc_id), found in sorted(lines.items())
    ]


def nodes(request: Request) -> Response:
    """``/nodes?label=…``: all nodes of a label by name, a hundred a page (``page``)."""
    kb = kb_of(request)
    label = request.query_params.get("label") or ""
    page = whole(request.query_params, "page", 1) or 1
    labels = digests_of(request).current().labels
    if label and label not in NODES:
        raise TabootError("E_QUERY", f"label must be one of {', '.join(NODES)}.")
    found: Sequence[Named] = ()
    if label:
        table = kb.nodes()
        rows = table.filter(pc.equal(table.column("label"), label)).sort_by(
            [("name", "ascending"), ("key", "ascending")]
        )
        # Most documents of configuration are called alike.
        paths = dict(rows_of(kb.documents(), "doc_id", "path")) if label == "Document" else {}
        found = [
            Named(r["label"], r["key"], entitled(r["name"], paths.get(r["key"], r["name"])), r["scope"])
            for r in rows.slice((page - 1) * _PAGE, _PAGE + 1).to_pylist()
        ]
    return HTMLResponse(
        render(
            "nodes.html",
            kb=kb,
            q="",
            title=label or "The graph",
            nodes=found[:_PAGE],
            labels=labels,
            after=to("/nodes", label=label, page=page + 1) if len(found) > _PAGE else None,
        )
    )


def edge(request: Request) -> Response:
    """``/edge/ID``: the statement, its bytes read again and verified, and why its ends are what they are."""
    kb = kb_of(request)
    edge_id = request.path_params["edge_id"]
    why = kb.explain(edge_id)
    if why.kind != "edge":
        return RedirectResponse(to(f"/document/{why.doc_id}"), 303)
    table = kb.edges()
    at = pc.index(table.column("edge_id"), why.id).as_py()
    if at < 0:
        # Another publication came between the two questions.
        raise TabootError("E_EDGE_UNKNOWN", f"There is no edge {edge_id[:64]!r} any more.")
    row: dict[str, Any] = table.slice(at, 1).to_pylist()[0]
    alike = pc.and_(
        pc.and_(
            pc.equal(table.column("start_key"), row["start_key"]),
            pc.equal(table.column("end_key"), row["end_key"]),
        ),
        pc.equal(table.column("type"), row["type"]),
    )
    others = [r for r in table.filter(alike).to_pylist() if r["edge_id"] != why.id]
    sources = kb.manifest.sources
    properties = json.loads(row["properties"])
    return HTMLResponse(
        render(
            "edge.html",
            kb=kb,
            q="",
            why=why,
            edge=row,
            says=verbalization.said(row["type"], properties),
            properties={
                k: v
                for k, v in sorted(properties.items())
                if k not in ("chunkHash", "chunkId", "chunkIndex", "span")
            },
            quotes=[_quote(kb, q, row, sources) for q in why.quotes],
            others=[
                (
                    to(f"/edge/{r['edge_id']}"),
                    with_line(short_url(r["url"], sources), r["line"]),
                    verbalization.said(r["type"], json.loads(r["properties"])),
                )
                for r in others[:50]
            ],
            place=short_url(why.url, sources),
        )
    )


def _quote(kb: KnowledgeBase, quote: Quote, row: Mapping[str, Any], sources: Mapping[str, Any]) -> ShownQuote:
    doc_id = row["doc_id"] if quote.blob_sha256 == row["blob_sha256"] else _holder(kb, quote.blob_sha256)
    span = (quote.byte_start, quote.byte_end)
    place = with_line(short_url(quote.url, sources), quote.line)
    if quote.section and not quote.line:
        place += f" ({quote.section})"
    if not doc_id:
        return ShownQuote(quote, place, "", ())
    here = to(f"/document/{doc_id}", "mark", bytes=f"{span[0]}-{span[1]}")
    if quote.line is None:
        return ShownQuote(quote, place, here, ())
    try:
        original = kb.original(doc_id, byte_spans=[span])
    except TabootError as error:
        # The document went with the publication before this one; the quote stays.
        if error.code != "E_NOT_FOUND":
            raise
        return ShownQuote(quote, place, "", ())
    if original.blob_sha256 != quote.blob_sha256:
        return ShownQuote(quote, place, here, ())
    last = quote.line_end or quote.line
    first = max(1, quote.line - _AROUND)
    shown = window(
        original.text, [(m.start, m.end) for m in original.marks], first, last + _AROUND - first + 1
    )
    return ShownQuote(quote, place, here, shown.lines)


def _holder(kb: KnowledgeBase, sha256: str) -> str:
    """The document whose bytes a blob is; empty where there is none, as for a file of environment."""
    table = kb.documents()
    at = pc.index(table.column("blob_sha256"), sha256).as_py()
    return str(table.column("doc_id")[at].as_py()) if at >= 0 else ""
