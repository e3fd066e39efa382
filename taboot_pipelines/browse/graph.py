"""The pages of the graph: a node and a picture of what is around it, the proof of an edge, lists of nodes."""

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
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode, choose
from taboot_pipelines.retrieval.pictures.layout import lay_out
from taboot_pipelines.retrieval.pictures.svg import svg
from taboot_pipelines.retrieval.rendering import short_url, with_line

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.retrieval.results.explanations import Quote
    from taboot_pipelines.retrieval.results.graph import Edge, Subgraph

#: Relations that are drawn; the list below has the others.
_DRAWN = 28


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
    drawn, left_out = _picture(shown, [x.relation for x in listed])
    same = digests_of(request).recent().names.get(start.name.casefold(), ())
    return HTMLResponse(
        render(
            "node.html",
            kb=kb,
            q="",
            node=start,
            picture=drawn,
            left_out=left_out,
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


def _picture(node: Named, relations: Sequence[Relation]) -> tuple[str, int]:
    """The node and its relations as SVG, empty without any, each box leading to its page and the words of
    each relation to its proof; and how many had no room."""
    centre, nodes, edges = (node.label, node.key), {}, []
    for r in relations:
        at = (r.label, r.key)
        page = to(f"/document/{r.key}") if r.label == "Document" else to("/node", label=r.label, key=r.key)
        nodes[at] = DrawnNode(*at, r.name, False, r.scope, page=page)
        start, end = (centre, at) if r.outgoing else (at, centre)
        told = ((r.type, r.says),)
        edges.append(DrawnEdge(r.type, start, end, r.says, told, to(f"/edge/{r.edge_ids[0]}")))
    nodes[centre] = DrawnNode(*centre, node.name, True, node.scope)
    chosen = choose(list(nodes.values()), edges, _DRAWN)
    if not chosen.edges:
        return "", 0
    return svg(lay_out(chosen, legend=False), f"{node.name} and what it is related to"), chosen.left_out


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
