"""Routes as claims (mapping "nginx, SWAG"): reverse proxies, what they route to, and the endpoints there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import Target, endpoint, normal_host
from taboot_pipelines.extraction.tier_a.nginx.routes import Reader, Route
from taboot_pipelines.extraction.tier_a.nginx.targets import Miss, parse_pass
from taboot_pipelines.extraction.tier_a.nginx.variables import Place
from taboot_pipelines.extraction.tier_a.proxying import basis
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    SourceFacts,
    UnitSpec,
)

#: A quote that begins at a `set` must stay one statement that a person takes in at a glance.
MAX_QUOTE = 2000
#: Statements looked at in one unit: server names × locations × upstream servers.
MAX_STATEMENTS = 30_000


class NginxExtractor:
    """Tier A for nginx: a unit is a configuration file (or a fragment of SWAG) with all that it includes."""

    name = "nginx"
    version = "2"

    def units(self, paths: Iterable[str]) -> list[UnitSpec]:
        """Each file handed in is a unit, named by its path; the connector says which files are in force."""
        return [UnitSpec(path, (path,)) for path in sorted(set(paths))]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What the unit's main file and its includes say. Raises nothing but what the store behind ``view``
        raises; what cannot be read, followed or resolved is a problem beside the rest (``E_PARSE``,
        ``E_CYCLE``, ``E_UNRESOLVED``, ``E_TOO_LARGE``, ``E_NOT_FOUND``)."""
        reader = Reader(unit.files[0], view)
        reader.read()
        claims = _Claims(reader, source, unit.files[0])
        for route in reader.routes:
            claims.add(route)
        return claims.result()


@dataclass(frozen=True, slots=True)
class _Exposure:
    """A service seen to expose an endpoint by a route, whose guard may be another's at another location."""

    service: NodeRef
    endpoint: NodeRef
    evidence: Evidence
    method: str
    start_basis: Basis
    end_basis: Basis
    route: Route


class _Claims:
    def __init__(self, reader: Reader, source: SourceFacts, main: str) -> None:
        self._reader = reader
        self._main = main
        name = source.proxy or source.source_id
        self._proxy = NodeRef("ReverseProxy", (name,), name)
        self._nodes: dict[tuple[NodeRef, str], NodeClaim] = {}
        self._edges: dict[tuple[object, ...], EdgeClaim] = {}
        #: The routes that some server block takes with TLS.
        self._secure: set[tuple[object, ...]] = set()
        self._exposures: list[_Exposure] = []
        self._statements = 0
        #: Endpoints that the proxy reaches without a service between, with the route and the quote.
        self._direct: list[tuple[NodeRef, Evidence, Route]] = []

    def full(self) -> bool:
        return self._statements > MAX_STATEMENTS

    def add(self, route: Route) -> None:
        if self.full():
            return
        target = parse_pass(route.directive, route.value, route.transport)
        if isinstance(target, Miss):
            self._miss(target, route.place)
            return
        peers = self._reader.peers(route, target)
        if peers is None:
            self._route(route, target, _quote(route), f"nginx_{route.directive}")
            return
        for peer, place in peers:
            if self.full():
                return
            if isinstance(peer, Miss):
                self._miss(peer, place)
            else:
                self._route(route, peer, Evidence(place.path, place.start, place.end), "nginx_upstream")

    def _miss(self, miss: Miss, place: Place) -> None:
        if miss is Miss.VARIABLE:
            self._reader.problem_at(
                place, "E_UNRESOLVED", "the target depends on a variable that only a request sets"
            )
        elif miss is Miss.SYNTAX:
            self._reader.problem_at(place, "E_UNRESOLVED", "the target is not an address")

    def _route(self, route: Route, target: Target, evidence: Evidence, method: str) -> None:
        port = target.resolved_port()
        host = normal_host(target.host)
        place = Place(evidence.path, evidence.start, evidence.end, 0)
        if port is None or host is None:
            self._reader.problem_at(place, "E_UNRESOLVED", "the target has no port")
            return
        text = self._reader.texts[evidence.path][evidence.start : evidence.end]
        node = endpoint(target.scheme, host, port)
        end = NodeRef("Service", ("", target.host), target.host) if target.bare else node
        try:
            check_node(self._proxy.label, self._proxy.key, {})
            check_node(node.label, node.key, {})
            check_node(end.label, end.key, {})
        except TabootError:
            self._reader.problem_at(place, "E_UNRESOLVED", "a name does not follow the model")
            return
        end_basis = _basis(end.name, target.host, text)
        server = route.server
        names: list[str | None] = [
            n for n in dict.fromkeys(server.names if server else ()) if n and not any(map(str.isspace, n))
        ]
        self._statements += len(names) + 1
        if self.full():
            self._reader.problem(
                self._main,
                "E_TOO_LARGE",
                f"{self._main} states more than {MAX_STATEMENTS} relations; the rest was left out.",
            )
            return
        for name in names or [None]:
            properties = {
                "host": name,
                "location": route.location,
                "path": route.path,
                "tls": server is not None and server.tls,
                "port": port,
                "scheme": target.scheme,
            }
            self._edge(
                EdgeClaim(
                    "ROUTES_TO", self._proxy, end, evidence, method, Basis.SOURCE, end_basis, properties
                )
            )
        self._node(self._proxy, evidence, {"type": "nginx", "configPath": self._main}, once=True)
        if target.bare:
            self._node(end, evidence, {})
            self._exposures.append(
                _Exposure(end, node, evidence, method, end_basis, _basis(node.name, target.host, text), route)
            )
        else:
            self._direct.append((node, evidence, route))

    def _node(
        self, node: NodeRef, evidence: Evidence, properties: dict[str, object], once: bool = False
    ) -> None:
        self._nodes.setdefault((node, "" if once else evidence.path), NodeClaim(node, evidence, properties))

    def _edge(self, edge: EdgeClaim) -> None:
        try:
            check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        except TabootError:
            self._reader.problem_at(
                Place(edge.evidence.path, edge.evidence.start, edge.evidence.end, 0),
                "E_UNRESOLVED",
                "a route does not follow the model",
            )
            return
        route = _route_key(edge)
        self._edges.setdefault((edge.type, edge.evidence, *route), edge)
        if edge.properties.get("tls"):
            self._secure.add(route)

    def _merged(self) -> list[EdgeClaim]:
        """The edges, a route that several server blocks state being as secure as the best of them says."""
        return [
            replace(edge, properties={**edge.properties, "tls": True})
            if edge.type == "ROUTES_TO" and _route_key(edge) in self._secure
            else edge
            for edge in self._edges.values()
        ]

    def result(self) -> Interpretation:
        # An endpoint stands for the whole of the service behind it: of several locations that reach it, the
        # one with the shortest path, the front door, says how it is guarded.
        fronts: dict[NodeRef, Route] = {}
        for node, route in [(e.endpoint, e.route) for e in self._exposures] + [
            (n, r) for n, _, r in self._direct
        ]:
            front = fronts.get(node)
            if front is None or _rank(route) < _rank(front):
                fronts[node] = route
        for exposure in self._exposures:
            auth, include = _auth(fronts[exposure.endpoint])
            self._edge(
                EdgeClaim(
                    "EXPOSES_ENDPOINT",
                    exposure.service,
                    exposure.endpoint,
                    exposure.evidence,
                    exposure.method,
                    exposure.start_basis,
                    exposure.end_basis,
                    {"auth": auth, **({"authInclude": include} if include else {})},
                )
            )
        for node, evidence in [(e.endpoint, e.evidence) for e in self._exposures] + [
            (n, e) for n, e, _ in self._direct
        ]:
            self._node(node, evidence, {"authRequired": _auth(fronts[node])[0] != "none"})
        reader = self._reader
        return Interpretation(
            tuple(self._nodes.values()),
            tuple(self._merged()),
            frozenset(reader.subordinates - {self._main}),
            frozenset(),
            tuple(reader.problems),
        )


def _route_key(edge: EdgeClaim) -> tuple[object, ...]:
    return edge.start, edge.end, edge.properties.get("host"), edge.properties.get("location")


def _rank(route: Route) -> tuple[bool, int, bool]:
    """Where a route stands among those to one endpoint. Of two alike that which has TLS is the front."""
    return route.path is None, len(route.path or ""), route.server is None or not route.server.tls


def _auth(route: Route) -> tuple[str, str | None]:
    if route.guard is not None:
        return "oauth2", route.guard
    if route.guarded:
        # `auth_request` by itself: someone else's single sign-on.
        return "oauth2", None
    return ("basic", None) if route.basic else ("none", None)


def _quote(route: Route) -> Evidence:
    """The pass directive, with the assignments beside it that it is put together from."""
    place = route.place
    start, end = place.start, place.end
    for s in route.sets:
        if s.path == place.path and s.home == place.home:
            start, end = min(start, s.start), max(end, s.end)
    return (
        Evidence(place.path, start, end)
        if end - start <= MAX_QUOTE
        else Evidence(place.path, place.start, place.end)
    )


def _basis(name: str, host: str, quote: str) -> Basis:
    # With a variable in it, what the quote says of a host is put together from elsewhere.
    return basis(name, "" if "$" in quote else host, quote)
