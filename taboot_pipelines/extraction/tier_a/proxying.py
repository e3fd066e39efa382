"""Routes of any reverse proxy as claims: what it routes to, by which host and path, and the endpoints there.

The mapping is that of nginx, for every proxy. A bare name is a service of the proxy's own network, which
exposes the endpoint; an address or a dotted name is the endpoint itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, basis_of
from taboot_pipelines.extraction.tier_a.endpoints import Target, endpoint, normal_host
from taboot_pipelines.extraction.tier_a.texts import UNKNOWN, UnitTexts
from taboot_pipelines.model.graph import Basis, check_edge, check_node
from taboot_pipelines.model.records import Evidence, Interpretation, NodeRef, SourceFacts

#: Routes of one unit: names × paths × servers.
MAX_ROUTES = 30_000
#: Steps that following references of one unit may take: blocks, servers, services, guards.
MAX_STEPS = 200_000

_PERIOD = re.compile(r"([0-9]{1,8})(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_ADDRESS = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[^:]*))?")


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may pass: ``auth`` as in the model, and the name of what decides it, where it has one. ``auth``
    None: that is not known, since what decides it, of this name, is not in the files that were read."""

    auth: str | None
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
    #: How it is stated, where that is another method than that of the proxy's other routes.
    method: str = ""
    #: The requests a minute that a client may make.
    rate_limit: int | None = None
    #: The methods that a request must have one of, as they are written; none: any.
    methods: tuple[str, ...] = ()

    @property
    def properties(self) -> dict[str, Any]:
        """Of the relation from the proxy to the target."""
        return {
            "host": self.host,
            "location": self.location,
            "path": self.path,
            "tls": self.tls,
            "port": self.target.resolved_port(),
            "scheme": self.target.scheme,
            "auth": self.guard.auth if self.guard is not None else "none",
            "authInclude": self.guard.name if self.guard is not None else None,
        }


def port_number(text: str) -> int | None:
    """A port that is written as a number; None for anything else."""
    digits = text.isascii() and text.isdigit() and len(text) <= 5
    return int(text) if digits and 1 <= int(text) <= 65535 else None


def per_minute(count: str, period: str) -> int | None:
    """The requests a minute of so many in a span of time as Go writes it, of one unit (``30s``); None where
    one of them is no such number, or nothing is let through."""
    spans = _PERIOD.fullmatch(period)
    if spans is None or not (count.isascii() and count.isdigit() and len(count) <= 9 and int(count)):
        return None
    seconds = int(spans[1]) * _SECONDS[spans[2]]
    return max(1, round(int(count) * 60 / seconds)) if seconds else None


def split_address(text: str) -> tuple[str, str | None] | None:
    """``host``, ``host:port``, ``:port`` and ``[v6]:port`` as (host, port as written); None for another
    form."""
    match = _ADDRESS.fullmatch(text)
    return None if match is None else (match["host"], match["port"])


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


class RouteClaims:
    """Claims the routes of one proxy. ``kind``: of the proxy (``haproxy``); ``method``: of the claims;
    ``name``: what the file itself says that it is called, which goes over what the source says."""

    def __init__(
        self,
        texts: UnitTexts,
        source: SourceFacts,
        main: str,
        kind: str,
        method: str,
        *,
        name: str | None = None,
    ) -> None:
        self._claims = ClaimBuilder(source, texts, once_per_file=True)
        self._main = main
        self._kind = kind
        self._method = method
        self._named = Basis.SOURCE if name is None else Basis.DERIVED
        name = name or source.proxy or source.source_id
        self._proxy = NodeRef("ReverseProxy", (name,), name)
        #: Each route once, in the order given, with what it leads to and the endpoint there.
        self._routes: dict[tuple[Evidence, object, object], tuple[Route, NodeRef, NodeRef]] = {}
        #: {an endpoint's key: the front door to it}
        self._fronts: dict[tuple[Any, ...], Route] = {}
        self._secure: set[tuple[object, ...]] = set()
        self._count = 0

    def add_all(self, routes: Iterable[Route]) -> None:
        """Claim routes until there are more than :data:`MAX_ROUTES`."""
        for route in routes:
            self.add(route)
            if self.full:
                return

    @property
    def full(self) -> bool:
        """Whether no further route is taken."""
        return self._count > MAX_ROUTES

    def add(self, route: Route) -> None:
        """Claim a route. One whose port cannot be known, or whose names do not follow the model, is a
        problem (``E_UNRESOLVED``); more than :data:`MAX_ROUTES` are ``E_TOO_LARGE``."""
        if self.full:
            return
        self._count += 1
        if self._count > MAX_ROUTES:
            self._claims.texts.problem(
                self._main,
                "E_TOO_LARGE",
                f"{self._main} states more than {MAX_ROUTES} routes; the rest was left out.",
            )
            return
        target = route.target
        if any(UNKNOWN in text for text in (target.host, route.host, route.location, route.path) if text):
            self._claims.problem(route.where, "E_UNRESOLVED", "a part of the route is put in by a template.")
            return
        written = target.host or "localhost"
        port = target.resolved_port()
        host = normal_host(written)
        if host is None or port is None:
            what = "the target has no port." if port is None else "the target is not an address."
            self._claims.problem(route.where, "E_UNRESOLVED", what)
            return
        node = endpoint(target.scheme, host, port)
        end = NodeRef("Service", (route.scope, written), written) if target.bare else node
        try:
            if node.key not in self._fronts:
                for each in (self._proxy, node, end):
                    check_node(each.label, each.key, {})
            check_edge("ROUTES_TO", self._proxy.label, end.label, route.properties, 1.0)
        except TabootError:
            self._claims.problem(route.where, "E_UNRESOLVED", "a route does not follow the model.")
            return
        key = _key(route, end)
        self._routes.setdefault((route.where, node.key, key), (route, node, end))
        front = self._fronts.get(node.key)
        if front is None or _rank(route) < _rank(front):
            self._fronts[node.key] = route
        if route.tls:
            self._secure.add(key)

    def result(self, subordinates: frozenset[str] = frozenset()) -> Interpretation:
        """What was claimed. A route that several blocks state is as secure as the best of them says. An
        endpoint stands for the whole of what is behind it: of several routes that lead there the one with the
        shortest path, the front door, says how it is guarded.
        """
        claims = self._claims
        stated: set[tuple[object, ...]] = set()
        for (_, _, key), (route, node, end) in self._routes.items():
            where, method = route.where, route.method or self._method
            # With a variable in it, what the quote says of a host is put together from elsewhere.
            quote = claims.texts.quote(where)
            host = "" if "$" in quote else route.target.host
            end_basis = basis_of(end.name, quote, host)
            if not stated:
                claims.node(self._proxy, where, {"type": self._kind, "configPath": self._main})
            front = self._fronts[node.key]
            guard = front.guard or Guard("none")
            if end is not node:
                claims.node(end, where)
            required = guard.auth != "none" if guard.auth is not None else None
            claims.node(node, where, {"authRequired": required, "method": ",".join(sorted(front.methods))})
            secure = {"tls": route.tls or key in self._secure}
            if (where, key) not in stated:
                stated.add((where, key))
                claims.edge(
                    "ROUTES_TO",
                    self._proxy,
                    end,
                    where,
                    method,
                    start_basis=self._named,
                    end_basis=end_basis,
                    **{**route.properties, **secure},
                )
            if end is not node:
                claims.edge(
                    "EXPOSES_ENDPOINT",
                    end,
                    node,
                    where,
                    method,
                    written=host,
                    start_basis=end_basis,
                    auth=guard.auth,
                    authInclude=guard.name,
                    rateLimit=front.rate_limit,
                )
        return claims.result(subordinates - {self._main})


def _key(route: Route, end: NodeRef) -> tuple[object, ...]:
    """What tells a route from others, wherever they are stated."""
    return end.label, end.key, route.host, route.location, route.target.resolved_port()


def _rank(route: Route) -> tuple[bool, int, bool, bool, bool]:
    """Where a route stands among those to one endpoint. Of two alike that which takes every method, then that
    which has TLS, and then that which asks for nothing is the front."""
    path = route.path or ""
    return route.path is None, len(path), bool(route.methods), not route.tls, route.guard is not None


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
