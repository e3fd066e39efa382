"""Routes of any reverse proxy as claims: what it routes to, by which host and path, and the endpoints there.

The mapping is that of nginx, for every proxy. A bare name is a service of the proxy's own network, which
exposes the endpoint; an address or a dotted name is the endpoint itself.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import Target, endpoint, normal_host
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import (
    EdgeClaim,
    Evidence,
    FileView,
    Interpretation,
    NodeClaim,
    NodeRef,
    Problem,
    SourceFacts,
)

#: Routes of one unit: names × paths × servers.
MAX_ROUTES = 30_000
MAX_PROBLEMS = 200

#: Steps that following references of one unit may take: blocks, servers, services, guards.
MAX_STEPS = 200_000

#: What is wrong with a file's own text; a store that fails must stop the run.
BAD_TEXT = frozenset({"E_ENCODING", "E_BINARY", "E_PARSE", "E_TOO_LARGE", "E_EMPTY", "E_CYCLE"})

_NAME_CHARACTER = re.compile(r"[A-Za-z0-9_-]")
_ADDRESS = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[^:]*))?")


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may pass: ``auth`` as in the model, and the name of what decides it, where it has one."""

    auth: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One way through the proxy: requests for ``host`` (None: any) at ``location`` go to ``target``.

    ``location`` is the condition on the path as written, ``path`` the literal prefix that it fixes. ``where``
    is the statement that names the target.
    """

    target: Target
    where: Evidence
    host: str | None = None
    location: str | None = None
    path: str | None = "/"
    tls: bool = False
    guard: Guard | None = None
    #: The scope in which a bare name is a service, where the statement tells it.
    scope: str = ""


def port_number(text: str) -> int | None:
    """A port that is written as a number; None for anything else."""
    digits = text.isascii() and text.isdigit() and len(text) <= 5
    return int(text) if digits and 1 <= int(text) <= 65535 else None


def split_address(text: str) -> tuple[str, str | None] | None:
    """``host``, ``host:port``, ``:port`` and ``[v6]:port`` as (host, port as written); None for another
    form."""
    match = _ADDRESS.fullmatch(text)
    return None if match is None else (match["host"], match["port"])


class UnitTexts:
    """The files that one unit reads, and what is wrong with them."""

    def __init__(self, view: FileView) -> None:
        self._view = view
        self._texts: dict[str, str | None] = {}
        self._lines: dict[str, list[int]] = {}
        self._problems: dict[Problem, None] = {}

    @property
    def view(self) -> FileView:
        return self._view

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems)

    def text(self, path: str) -> str | None:
        """The text of a file; None if it is absent or its bytes are no text (which is a problem)."""
        if path not in self._texts:
            self._texts[path] = None
            try:
                self._texts[path] = self._view.read(path)
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                self.problem(path, error.code, error.message)
        return self._texts[path]

    def problem(self, path: str, code: str, message: str) -> None:
        # That something was left out is said in any case.
        if len(self._problems) < MAX_PROBLEMS * (2 if code == "E_TOO_LARGE" else 1):
            self._problems.setdefault(Problem(path, code, message))

    def problem_at(self, where: Evidence, code: str, what: str) -> None:
        """``what``, a sentence without its full stop, with the file and the line of ``where``."""
        lines = self._lines.get(where.path)
        if lines is None:
            text = self._texts.get(where.path) or ""
            lines = self._lines[where.path] = [m.start() for m in re.finditer("\n", text)]
        line = bisect_right(lines, where.start - 1) + 1
        self.problem(where.path, code, f"{where.path}, line {line}: {what}.")

    def quote(self, where: Evidence) -> str:
        return (self._texts.get(where.path) or "")[where.start : where.end]


class Steps:
    """Counts the steps that a unit takes, since references may multiply."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = MAX_STEPS

    def take(self, count: int = 1) -> None:
        """Raises ``E_TOO_LARGE`` after :data:`MAX_STEPS` steps."""
        self._left -= count
        if self._left < 0:
            raise TabootError(
                "E_TOO_LARGE", f"{self._path} refers to itself more often than is followed.", path=self._path
            )


class ProxyClaims:
    """Collects the routes of one proxy. ``kind``: of the proxy (``haproxy``); ``method``: of the claims."""

    def __init__(self, texts: UnitTexts, source: SourceFacts, main: str, kind: str, method: str) -> None:
        self._texts = texts
        self._main = main
        self._kind = kind
        self._method = method
        name = source.proxy or source.source_id
        self.proxy = NodeRef("ReverseProxy", (name,), name)
        self._nodes: dict[tuple[NodeRef, str], NodeClaim] = {}
        self._edges: dict[tuple[object, ...], EdgeClaim] = {}
        self._secure: set[tuple[object, ...]] = set()
        #: Each endpoint with the service in front of it, if there is one, and the route that leads there.
        self._ends: list[tuple[NodeRef | None, NodeRef, Route, Basis, Basis]] = []
        self._count = 0

    def add_all(self, routes: Iterable[Route]) -> None:
        """Claim routes until there are more than :data:`MAX_ROUTES`."""
        for route in routes:
            self.add(route)
            if self._count > MAX_ROUTES:
                return

    def add(self, route: Route) -> None:
        """Claim a route. One whose port cannot be known, or whose names do not follow the model, is a
        problem (``E_UNRESOLVED``); more than :data:`MAX_ROUTES` are ``E_TOO_LARGE``."""
        self._count += 1
        if self._count > MAX_ROUTES:
            if self._count == MAX_ROUTES + 1:
                self._texts.problem(
                    self._main,
                    "E_TOO_LARGE",
                    f"{self._main} states more than {MAX_ROUTES} routes; the rest was left out.",
                )
            return
        target = route.target
        written = target.host or "localhost"
        port = target.resolved_port()
        host = normal_host(written)
        if host is None or port is None:
            what = "the target has no port" if port is None else "the target is not an address"
            self._texts.problem_at(route.where, "E_UNRESOLVED", what)
            return
        node = endpoint(target.scheme, host, port)
        end = NodeRef("Service", (route.scope, written), written) if target.bare else node
        quote = self._texts.quote(route.where)
        end_basis = basis(end.name, written, quote)
        edge = EdgeClaim(
            "ROUTES_TO",
            self.proxy,
            end,
            route.where,
            self._method,
            Basis.SOURCE,
            end_basis,
            {
                "host": route.host,
                "location": route.location,
                "path": route.path,
                "tls": route.tls,
                "port": port,
                "scheme": target.scheme,
            },
        )
        try:
            for each in (self.proxy, node, end):
                check_node(each.label, each.key, {})
            check_edge(edge.type, edge.start.label, edge.end.label, edge.properties, edge.confidence)
        except TabootError:
            self._texts.problem_at(route.where, "E_UNRESOLVED", "a route does not follow the model")
            return
        self._node(self.proxy, route.where, {"type": self._kind, "configPath": self._main}, once=True)
        key = _route_key(edge)
        self._edges.setdefault((edge.type, edge.evidence, *key), edge)
        if route.tls:
            self._secure.add(key)
        if target.bare:
            self._node(end, route.where, {})
        self._ends.append(
            (
                end if target.bare else None,
                node,
                route,
                end_basis,
                basis(node.name, written, quote),
            )
        )

    def _node(
        self, node: NodeRef, evidence: Evidence, properties: dict[str, object], once: bool = False
    ) -> None:
        self._nodes.setdefault((node, "" if once else evidence.path), NodeClaim(node, evidence, properties))

    def result(self, subordinates: frozenset[str] = frozenset()) -> Interpretation:
        """What was claimed. A route that several blocks state is as secure as the best of them says. An
        endpoint stands for the whole of what is behind it: of several routes that lead there the one with the
        shortest path, the front door, says how it is guarded.
        """
        fronts: dict[NodeRef, Route] = {}
        for _, node, route, _, _ in self._ends:
            front = fronts.get(node)
            if front is None or _rank(route) < _rank(front):
                fronts[node] = route
        edges = [
            replace(edge, properties={**edge.properties, "tls": True})
            if _route_key(edge) in self._secure
            else edge
            for edge in self._edges.values()
        ]
        exposed: dict[tuple[object, ...], EdgeClaim] = {}
        for service, node, route, start_basis, end_basis in self._ends:
            guard = fronts[node].guard or Guard("none")
            self._node(node, route.where, {"authRequired": guard.auth != "none"})
            if service is not None:
                properties = {"auth": guard.auth, **({"authInclude": guard.name} if guard.name else {})}
                exposed.setdefault(
                    (service, node, route.where),
                    EdgeClaim(
                        "EXPOSES_ENDPOINT",
                        service,
                        node,
                        route.where,
                        self._method,
                        start_basis,
                        end_basis,
                        properties,
                    ),
                )
        return Interpretation(
            tuple(self._nodes.values()),
            (*edges, *exposed.values()),
            subordinates - {self._main},
            frozenset(),
            self._texts.problems,
        )


def _route_key(edge: EdgeClaim) -> tuple[object, ...]:
    return edge.start, edge.end, edge.properties.get("host"), edge.properties.get("location")


def _rank(route: Route) -> tuple[bool, int, bool]:
    """Where a route stands among those to one endpoint. Of two alike that which has TLS is the front."""
    return route.path is None, len(route.path or ""), not route.tls


def basis(name: str, host: str, quote: str) -> Basis:
    """Why an end is called ``name``: it stands in the quote, or its host does."""
    if _stands(name, quote):
        return Basis.BYTES
    return Basis.NORMALIZED if host and _stands(host, quote) else Basis.DERIVED


def _stands(name: str, quote: str) -> bool:
    at = quote.find(name)
    while at >= 0:
        end = at + len(name)
        if (
            not (at and _NAME_CHARACTER.match(quote[at - 1]))
            and _NAME_CHARACTER.match(quote[end : end + 1]) is None
        ):
            return True
        at = quote.find(name, at + 1)
    return False


def literal_prefix(pattern: str) -> str | None:
    """The path that a pattern with ``*`` begins with; None unless it fixes one from the root."""
    prefix = pattern.partition("*")[0]
    return prefix if prefix.startswith("/") and not any(map(str.isspace, prefix)) else None


def beside(path: str, name: str) -> str:
    """The path of ``name`` relative to the directory of the file ``path``."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def products(
    hosts: Sequence[str | None], places: Sequence[tuple[str | None, str | None]]
) -> list[tuple[str | None, str | None, str | None]]:
    """(host, location, path) for each host at each place (location, path)."""
    return [(host, location, path) for host in hosts for location, path in places]
