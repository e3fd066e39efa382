"""The shortest way between two nodes of the graph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.graph import Numbers
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.retrieval.graph import Graph
from taboot_pipelines.retrieval.results.graph import GraphPath, Step
from taboot_pipelines.retrieval.session import View

MAX_HOPS = 20
#: The relation that is said of a service and a container which it declares: both are one statement of a
#: Compose file, and no edge of the model leads from one to the other.
DECLARES = "DECLARES"


def find_path(view: View, start: str | NodeRef, end: str | NodeRef, max_hops: int) -> GraphPath:
    """See ``KnowledgeBase.path``."""
    if not isinstance(max_hops, int) or isinstance(max_hops, bool) or not 1 <= max_hops <= MAX_HOPS:
        raise TabootError("E_QUERY", f"max_hops must be a whole number from 1 to {MAX_HOPS}.")
    graph = view.graph
    ways = _Ways.of(graph, view.manifest.namespace)
    first, last = _place(graph, start), _place(graph, end)
    steps = ways.shortest(first.nodes, last.nodes, max_hops - len(first.route[:1]))
    if steps is None:
        return GraphPath(steps=())
    if steps:
        begin = ways.begin(steps, set(first.nodes.tolist()))
    else:
        begin = int(np.intersect1d(first.nodes, last.nodes)[0])
    edges: list[tuple[int, bool]] = []
    node = begin
    if len(first.route):
        # The name is served by this proxy: its edge leads to where the way begins.
        edges.append((int(first.route[graph.end[first.route] == node][0]), True))
    for step in steps:
        forward = int(ways.starts[step]) == node
        edges.append((step, forward))
        node = int(ways.ends[step] if forward else ways.starts[step])
    return GraphPath(steps=tuple(_step(view, ways, edge, forward) for edge, forward in edges))


@dataclass(frozen=True)
class _Place:
    """Where a way begins or ends: any of ``nodes``. ``route``: the edges of proxies that serve a public name,
    whose targets the nodes are; a way that begins there shows its edge first."""

    nodes: Numbers
    route: Numbers


def _place(graph: Graph, what: str | NodeRef) -> _Place:
    route = _routes(graph, what) if isinstance(what, str) else np.empty(0, np.int64)
    if len(route):
        return _Place(np.unique(graph.end[route]), route)
    nodes = graph.find(what)
    if isinstance(what, str):
        # A name may be one node's key and another's name: a host's, say, and its tailnet node's.
        called = pc.equal(graph.nodes.column("name"), what).to_numpy(zero_copy_only=False)
        nodes = np.union1d(nodes, np.flatnonzero(called))
    return _Place(nodes, route)


def _routes(graph: Graph, name: str) -> Numbers:
    """The edges of reverse proxies that serve a public name, whose server name is the most exact."""
    wanted = name.strip().rstrip(".").lower()
    if "." not in wanted:
        return np.empty(0, np.int64)
    edges = np.flatnonzero(pc.equal(graph.edges.column("type"), "ROUTES_TO").to_numpy(zero_copy_only=False))
    edges = edges[(graph.start[edges] >= 0) & (graph.end[edges] >= 0)]
    found: dict[int, list[int]] = {}
    rows = graph.edges.column("properties").take(pa.array(edges)).to_pylist()
    for number, properties in zip(edges.tolist(), rows, strict=True):
        rank = _serves(json.loads(properties).get("host") or "", wanted)
        if rank is not None:
            found.setdefault(rank, []).append(number)
    return np.array(found[min(found)] if found else [], np.int64)


def _serves(host: str, name: str) -> int | None:
    """How exactly a server name covers a name, 0 being the best; None if it does not (nginx, "Server
    names": exact, then a wildcard in front, then one behind, then an expression)."""
    pattern = host.lower().rstrip(".")
    if pattern == name:
        return 0
    if pattern.startswith("*.") and name.endswith(pattern[1:]) and len(name) > len(pattern) - 1:
        return 1
    if pattern.startswith(".") and (name == pattern[1:] or name.endswith(pattern)):
        return 1
    if pattern.endswith(".*") and name.startswith(pattern[:-1]):
        return 2
    if host.startswith("~"):
        try:
            return 3 if len(host) < 200 and re.search(host[1:], name) else None
        except re.error:
            return None
    return None


class _Ways:
    """Edges that may be gone by, in both directions: those of the graph but mentions, then one for each
    container of a service."""

    def __init__(self, starts: Numbers, ends: Numbers, cost: Numbers, edges: int) -> None:
        self.starts, self.ends = starts, ends
        #: Of two ways of one length that with the smaller sum is taken: less sure edges cost more.
        self._cost = cost
        #: So many are edges of the graph; what follows are declarations.
        self.edges = edges
        self.open = (starts >= 0) & (ends >= 0)

    @classmethod
    def of(cls, graph: Graph, namespace: str) -> _Ways:
        joins = list(_declarations(graph, namespace))
        starts = np.concatenate([graph.start, np.array([a for a, _ in joins], np.int64)])
        ends = np.concatenate([graph.end, np.array([b for _, b in joins], np.int64)])
        confidence = graph.edges.column("confidence").to_numpy()
        cost = np.concatenate([1.0 - confidence, np.zeros(len(joins))])
        ways = cls(starts, ends, cost, len(graph.edges))
        mentions = pc.equal(graph.edges.column("type"), "MENTIONS").to_numpy(zero_copy_only=False)
        ways.open[: len(mentions)] &= ~mentions
        return ways

    def shortest(self, first: Numbers, last: Numbers, hops: int) -> list[int] | None:
        """The ways in their order, at most ``hops``; empty where a first node is a last one, None if there
        is none."""
        size = 1 + max(int(n.max(initial=-1)) for n in (self.starts, self.ends, first, last))
        cost = np.full(size, np.inf)
        cost[first] = 0.0
        wanted = np.zeros(size, bool)
        wanted[last] = True
        if wanted[first].any():
            return []
        came = np.full(size, -1, np.int64)
        numbers = np.flatnonzero(self.open)
        a = np.concatenate([self.starts[numbers], self.ends[numbers]])
        b = np.concatenate([self.ends[numbers], self.starts[numbers]])
        way = np.concatenate([numbers, numbers])
        for _ in range(hops):
            new = np.isfinite(cost[a]) & ~np.isfinite(cost[b])
            if not new.any():
                return None
            reached, through, price = b[new], way[new], cost[a[new]] + self._cost[way[new]]
            order = np.lexsort((through, price, reached))
            keep = order[np.unique(reached[order], return_index=True)[1]]
            cost[reached[keep]] = price[keep]
            came[reached[keep]] = through[keep]
            hit = reached[keep][wanted[reached[keep]]]
            if len(hit):
                return self._back(int(hit[np.lexsort((hit, cost[hit]))[0]]), came)
        return None

    def _back(self, node: int, came: Numbers) -> list[int]:
        steps: list[int] = []
        while came[node] >= 0:
            step = int(came[node])
            steps.append(step)
            node = self.other(step, node)
        return steps[::-1]

    def other(self, step: int, node: int) -> int:
        """The node at the other end of a way."""
        return int(self.ends[step]) if int(self.starts[step]) == node else int(self.starts[step])

    def begin(self, steps: list[int], first: set[int]) -> int:
        """The first node that a way of one or more steps begins at."""
        ends = [int(self.starts[steps[0]]), int(self.ends[steps[0]])]
        if len(steps) > 1:
            joint = {int(self.starts[steps[1]]), int(self.ends[steps[1]])}
            ends.sort(key=lambda n: n in joint)
        return next(n for n in ends if n in first)


def _declarations(graph: Graph, namespace: str) -> Iterator[tuple[int, int]]:
    """Services with the containers that they declare, as numbers of nodes."""
    labels, keys = graph.nodes.column("label").to_pylist(), graph.nodes.column("key").to_pylist()
    named = list(enumerate(zip(labels, keys, strict=True)))
    containers = {key: number for number, (label, key) in named if label == "Container"}
    for number, (label, key) in named:
        if label != "Service":
            continue
        scope, name = json.loads(key)
        index = 1
        while (container := containers.get(ids.container_id(namespace, scope, name, index))) is not None:
            yield number, container
            index += 1


def _step(view: View, ways: _Ways, number: int, forward: bool) -> Step:
    graph = view.graph
    ends = [graph.nodes.slice(int(n[number]), 1).to_pylist()[0] for n in (ways.starts, ways.ends)]
    before, after = ends if forward else ends[::-1]
    names = {
        "start_label": before["label"],
        "start_key": before["key"],
        "start_name": before["name"],
        "end_label": after["label"],
        "end_key": after["key"],
        "end_name": after["name"],
    }
    if number >= ways.edges:
        return Step(type=DECLARES, forward=forward, **names)
    edge = graph.edges.slice(number, 1).to_pylist()[0]
    return Step(
        type=edge["type"],
        forward=forward,
        properties=json.loads(edge["properties"]),
        edge_id=edge["edge_id"],
        url=view.document_url(edge["doc_id"]),
        line=edge["line"],
        confidence=edge["confidence"],
        **names,
    )
