"""The page of the whole graph: names and proxies to the left, services by project in the middle, hosts to the
right, drawn and moved by Cytoscape.js.

Everything has its place before the page is sent, so a browser only draws, and the same publication looks the
same each time. What is related comes first; what is only named stands outside of it and is shown on request.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from starlette.responses import HTMLResponse, Response

from taboot_pipelines.browse.rendering import render, static_bytes
from taboot_pipelines.browse.requests import kb_of
from taboot_pipelines.model.ids import container_id
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval import verbalization
from taboot_pipelines.retrieval.pictures.grouped import LEFT, ONLY_NAMED, RIGHT, placed

if TYPE_CHECKING:
    from starlette.requests import Request

    from taboot_pipelines.retrieval import KnowledgeBase

#: Characters of a name, and of what a relation says, that are sent.
_MAX_TEXT = 120
#: Things of a group that are found at a glance.
_CROWDED = 40

At = tuple[str, str]


def map_page(request: Request) -> Response:
    """``/map``: the whole graph; ``label`` and ``key`` pick the node that it begins with,
    ``named=1`` shows what is only named from the start."""
    kb = kb_of(request)
    static_bytes("cytoscape.js")  # Whether it is there is known before the page says that it is.
    given = request.query_params
    version = kb.manifest.version
    made: tuple[int, dict[str, Any], str] | None = getattr(request.app.state, "map", None)
    if made is None or made[0] != version:
        graph = whole_graph(kb)
        # One that two requests make at once is the same.
        made = request.app.state.map = (
            version,
            graph,
            json.dumps(graph, ensure_ascii=False, separators=(",", ":")),
        )
    _, graph, text = made
    counts = [sum(n["kind"] == at for n in graph["nodes"]) for at in range(len(graph["kinds"]))]
    named = sum(not n["linked"] for n in graph["nodes"])
    return HTMLResponse(
        render(
            "map.html",
            kb=kb,
            q="",
            graph=text,
            kinds=list(zip(graph["kinds"], counts, strict=True)),
            sources=graph["sources"],
            nodes=len(graph["nodes"]),
            relations=len(graph["edges"]),
            named=named,
            all=given.get("named") == "1" or named == len(graph["nodes"]),
            start=json.dumps([given.get("label"), given.get("key")]),
        )
    )


def whole_graph(kb: KnowledgeBase) -> dict[str, Any]:
    """All nodes but documents with their places, and their relations but mentions, equal ones once.

    ``nodes``: kind, group and sources by number (-1: of no group), ``at`` in pixels, ``linked`` for what has
    a relation or is of a project, ``documents`` that name or state it; ``edges``: ends by number, type, what
    it says, the id of the surest statement; ``groups``: name and box.
    """
    table, edge_table = kb.nodes(), kb.edges()
    things = table.filter(pc.not_equal(table.column("label"), "Document"))
    columns = things.select(["label", "key", "name", "scope", "doc_ids"]).to_pydict()
    rows = sorted(zip(*columns.values(), strict=True), key=lambda r: (r[0], r[2].casefold(), r[1]))
    number = {(label, key): n for n, (label, key, *_) in enumerate(rows)}
    documents = kb.documents()
    source_of = dict(rows_of(documents, "doc_id", "source"))
    sources = sorted(set(source_of.values()))
    relations = _relations(edge_table.filter(pc.not_equal(edge_table.column("type"), "MENTIONS")), number)
    near: list[list[int]] = [[] for _ in rows]
    for edge in relations:
        near[edge["start"]].append(edge["end"])
        near[edge["end"]].append(edge["start"])
    labels, names, scopes = ([r[at] for r in rows] for at in (0, 2, 3))
    # A service and its container stand together, though no statement joins them.
    beside = [list(others) for others in near]
    for service, (label, scope, name) in enumerate(zip(labels, scopes, names, strict=True)):
        own = container_id(kb.manifest.namespace, str(scope), name, 1) if label == "Service" else ""
        container = number.get(("Container", own))
        if container is not None:
            beside[service].append(container)
            beside[container].append(service)
    groups = _groups(labels, scopes, beside)
    _by_network(groups, labels, names, beside)
    places, boxes = placed(labels, groups, near)
    group_number = {name: n for n, name in enumerate(boxes)}
    kinds = sorted(set(labels))
    source_number = {s: n for n, s in enumerate(sources)}
    return {
        "kinds": kinds,
        "sources": sources,
        "groups": [{"name": name, "box": box} for name, box in boxes.items()],
        "nodes": [
            {
                "kind": kinds.index(label),
                "key": key,
                "name": name[:_MAX_TEXT],
                "scope": scope or "",
                "group": group_number.get(groups[n], -1),
                "at": places[n],
                "linked": int(bool(near[n] or scope)),
                "sources": sorted({source_number[source_of[d]] for d in doc_ids if d in source_of}),
                "documents": len(doc_ids),
            }
            for n, (label, key, name, scope, doc_ids) in enumerate(rows)
        ],
        "edges": relations,
    }


def _relations(edges: Any, number: dict[At, int]) -> list[dict[str, Any]]:
    """Statements of one type between the same nodes as one relation, with the words of the surest."""
    found: dict[tuple[int, int, str], dict[str, Any]] = {}
    ends = ("start_label", "start_key", "end_label", "end_key")
    rows = rows_of(edges.sort_by([("confidence", "descending"), ("edge_id", "ascending")]), *ends, "type",
                   "properties", "edge_id")  # fmt: skip
    for start_label, start_key, end_label, end_key, type_, properties, edge_id in rows:
        start, end = number.get((start_label, start_key)), number.get((end_label, end_key))
        if start is None or end is None or start == end:
            continue
        says = verbalization.said(type_, json.loads(properties))[:_MAX_TEXT]
        edge = found.setdefault(
            (start, end, type_), {"start": start, "end": end, "type": type_, "says": says, "id": edge_id}
        )
        if says and not edge["says"]:
            edge.update(says=says, id=edge_id)
    return [edge for _, edge in sorted(found.items())]


def _groups(labels: Sequence[str], scopes: Sequence[str | None], near: Sequence[Sequence[int]]) -> list[str]:
    """The group of each node of the middle: its project or namespace; that of its services, else of its
    neighbours, where they have one alone; else what says why it has none."""
    groups = []
    for label, scope, others in zip(labels, scopes, near, strict=True):
        services = {scopes[n] for n in others if scopes[n] and labels[n] == "Service"}
        of_others = services or {scopes[n] for n in others if scopes[n]}
        if label in LEFT or label in RIGHT:
            groups.append("")
        elif scope or len(of_others) == 1:
            groups.append(str(scope or of_others.pop()))
        else:
            groups.append("shared or of no project" if others else ONLY_NAMED)
    return groups


def _by_network(
    groups: list[str], labels: Sequence[str], names: Sequence[str], near: Sequence[Sequence[int]]
) -> None:
    """Part what is crowded into groups by the networks of its services, each in that of the smallest one that
    it shares with another, and with them what only they have."""
    for crowded, count in Counter(groups).items():
        if not crowded or count <= _CROWDED:
            continue
        members = [n for n, group in enumerate(groups) if group == crowded]
        services = [n for n in members if labels[n] == "Service"]
        networks: dict[int, set[int]] = {}
        for service in services:
            own = [service, *(n for n in near[service] if labels[n] == "Container")]
            networks[service] = {m for n in own for m in near[n] if labels[m] == "Network"}
        sizes = Counter(m for found in networks.values() for m in found)
        for service, found in networks.items():
            shared = [m for m in found if 1 < sizes[m] < len(services)]
            if shared:
                smallest = min(shared, key=lambda m: (sizes[m], names[m], m))
                groups[service] = groups[smallest] = f"{crowded}: {names[smallest]}"
        for n in members:
            of_services = (
                {groups[o] for o in near[n] if labels[o] == "Service"} if n not in networks else set()
            )
            if len(of_services) == 1:
                groups[n] = of_services.pop()
