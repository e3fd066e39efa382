"""Queries about how services are reached: host name, proxy, target, TLS and login."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from taboot_pipelines.retrieval.queries.citations import cite, cites, listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, of_servers
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.relations import (
    guard,
    guards,
    host_of_route,
    in_force,
    reachable,
    target_name_of,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, distinct
from taboot_pipelines.retrieval.results.queries import Cell


def _chosen(house: House, args: Arguments) -> list[Edge]:
    """The routes in force to the services, of the proxies and at the host name that were named."""
    edges = house.index.of_type("ROUTES_TO")
    if args.services:
        wanted = {s.number for s in args.services}
        edges = [e for e in edges if e.end in wanted]
    elif args.projects or args.hosts:
        wanted = {s.number for s in house.declared(args)}
        edges = [e for e in edges if e.end in wanted]
    if args.proxies:
        edges = [e for e in edges if e.start in args.proxies]
    if name := args.text.get("hostname"):
        # Who pastes an address means its host.
        bare = re.sub(r"^[a-z][a-z0-9+.-]*://|(?<=[^/])/.*$", "", name.lower())
        edges = [e for e in edges if _serves(house, e, bare)]
    return in_force(house.index, edges)


def _serves(house: House, edge: Edge, name: str) -> bool:
    """Whether a route answers to a host name: by its own, which may be a wildcard that is asked for as it
    stands, or by a wildcard for one label or any domain."""
    own = {str(edge.properties.get("host") or "").lower(), host_of_route(house.index, edge).lower()}
    patterns = (re.escape(host).replace(r"\*", r"[\w.-]+") for host in own if host)
    return name in own or any(re.fullmatch(pattern, name) for pattern in patterns)


def routes(house: House, args: Arguments) -> Iterator[Row]:
    for edge in _chosen(house, args):
        yield route(house, edge)


def route(house: House, edge: Edge) -> Row:
    """A route as a row."""
    facts, asking = edge.properties, guards(house.index, edge)
    service = house.index.services.get(edge.end)
    asked, told = _by_middlewares(house, edge)
    login = ", ".join(distinct(map(guard, asking))) or asked
    # A reader that does not say it of the route says it of the endpoint, if the port is known.
    if not login and service is not None and not (facts.get("auth") or _endpoints(house, edge)):
        login = None
    cells = {
        "hostname": host_of_route(house.index, edge),
        "path": str(facts.get("path") or facts.get("location") or "/"),
        "proxy": house.index.name(edge.start),
        "tls": bool(facts.get("tls")),
        "login": login,
        "target": target_name_of(house.index, edge),
        "target_project": service.project if service is not None else "",
        "target_port": facts.get("port"),
        "scheme": str(facts.get("scheme") or ""),
    }
    rules = _rules(house, edge)
    allowed = [e.value.value for e in rules if e.value.path[-1] == "allow"]
    only = "only " if len(rules) > len(allowed) else ""
    cells["allowed"] = f"{only}from {listed(allowed)}" if allowed else ""
    return Row(cells, [*cites([edge, *asking]), *(e.cite for e in (*told, *(rules if allowed else ())))])


#: The key of the rule of one of Traefik's routers, in a file or as a container's label.
_ROUTER = re.compile(r"(?:^|\.)((?:http|tcp)\.routers\.[^.]+)\.rule$", re.IGNORECASE)
#: Middlewares that name one another.
_MAX_CHAIN = 8


def _endpoints(house: House, edge: Edge) -> list[Edge]:
    """The endpoints behind a route that its own reader states: no other one knows what guards them."""
    held = house.index.out(edge.end, "EXPOSES_ENDPOINT")
    return [e for e in held if e.doc_id == edge.doc_id and edge.method in e.methods]


def _by_middlewares(house: House, edge: Edge) -> tuple[str | None, list[ConfigEntry]]:
    """How Traefik asks who one is before it follows a route, and what says so: the middlewares of the router,
    those of chains among them. They may be declared by another file than the router is, which then names
    them without saying how they ask. Empty where none asks, None where that is not known."""
    said = (e.properties for e in (edge, *_endpoints(house, edge)))
    named = [str(p["authInclude"]) for p in said if p.get("authInclude") and not p.get("auth")]
    if named:
        return _first_guard(house, edge.doc_id, ", ".join(named), 0)
    if "routers" not in house.index.text(edge.doc_id).lower():
        return "", []
    values = house.entries.of_document(edge.doc_id)
    rules = (m for v in values if v.value.line == edge.line and (m := _ROUTER.search(v.value.key)))
    router = next((m[1].lower() for m in rules), None)
    # Of a list in a file its items follow the whole of it.
    own = (v for v in values if router and f".{v.value.key}".lower().endswith(f".{router}.middlewares"))
    held = next(own, None)
    if held is None:
        return "", []
    asked, told = _first_guard(house, edge.doc_id, held.value.value, 0)
    return asked, [held, *told] if asked else []


def _middleware(house: House, doc_id: str, name: str) -> Mapping[str, ConfigEntry]:
    """{kind: setting} of the middleware of a name: of the file's own, else of the files of its folder tree;
    nothing where these differ in what it is."""
    known = house.middlewares.get(name, {})
    if doc_id in known:
        return known[doc_id]
    root = _root(house, doc_id)
    near = [held for other, held in known.items() if _root(house, other) == root]
    kinds = {frozenset((k, e.value.value if k == "chain" else "") for k, e in held.items()) for held in near}
    return near[0] if len(kinds) == 1 else {}


def _root(house: House, doc_id: str) -> str:
    """Where the source of a document lies: sources of one folder are of one machine."""
    source = house.index.documents[doc_id].source
    return house.index.roots.get(source, source)


def _first_guard(house: House, doc_id: str, names: str, depth: int) -> tuple[str | None, list[ConfigEntry]]:
    """The first of the middlewares in a list that asks, with the settings that lead to it; None where none of
    those does that are known, and others are not."""
    known = True
    for name in filter(None, re.split(r"[,\s]+", names)) if depth < _MAX_CHAIN else ():
        bare = name.partition("@")[0]
        kinds = _middleware(house, doc_id, bare.lower())
        known = known and bool(kinds)
        if entry := kinds.get("basicauth") or kinds.get("digestauth"):
            return "basic", [entry]
        if entry := kinds.get("forwardauth"):
            return f"oauth2 ({bare})", [entry]
        if chain := kinds.get("chain"):
            asked, told = _first_guard(house, doc_id, chain.value.value, depth + 1)
            if asked:
                return asked, [chain, *told]
            known = known and asked is not None
    return "" if known else None, []


def _rules(house: House, edge: Edge) -> list[ConfigEntry]:
    """The ``allow`` and ``deny`` that hold for the location of an nginx conf that a route is, each once."""
    if house.index.documents[edge.doc_id].mime != "text/x-nginx-conf":
        return []
    if "allow " not in house.index.text(edge.doc_id):
        return []  # as nearly always, and a conf takes longer to read
    location = f"location {edge.properties.get('location')}"
    values = house.entries.of_document(edge.doc_id)
    values = of_servers(values, {str(edge.properties.get("host") or "")})
    rules = [p for p in values if p.value.path[-1] in ("allow", "deny")]
    # A location without rules of its own has those of its server.
    own = [p for p in rules if location in p.value.path]
    return own or [p for p in rules if len(p.value.path) > 1 and p.value.path[-2].startswith("server ")]


def unprotected_routes(house: House, args: Arguments) -> Iterator[Row]:
    for row in routes(house, args):
        if row.cells["login"] == "":
            yield row


def logins_in_doubt(house: House, args: Arguments) -> str:
    """Of which routes no file that was read says whether their proxy asks for a login."""
    found = [way_of_row(row.cells) for row in routes(house, args) if row.cells["login"] is None]
    return f"Whether a login is asked for is not known of {listed(distinct(found))}." if found else ""


def behind(house: House, args: Arguments) -> Iterator[Row]:
    for edge in _chosen(house, args):
        row = route(house, edge)
        container = house.index.container_of.get(edge.end)
        built = house.index.out(edge.end, "BUILDS")[:1]
        runs = house.index.out(container, "RUNS") if container is not None else []
        image = house.index.properties(built[0].end).get("reference") if built else ""
        cells = {
            **row.cells,
            "container": house.index.name(container) if container is not None else "",
            "image": str(image or ""),
            "host": house.index.name(runs[0].end) if runs else "",
        }
        yield Row(cells, [*row.cites, *cites([*built, *runs[:1]])])


def exposed_services(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        routed = in_force(house.index, house.index.into(service.number, "ROUTES_TO"))
        rows = [route(house, e) for e in routed]
        whole = {_way_in(row) for row in rows if row.cells["path"] == "/"}
        for row in rows:
            if row.cells["path"] != "/" and _way_in(row) in whole:
                continue  # the host as a whole leads there alike
            cells = {**house.service(service), "how": "proxy", "at": way_of_row(row.cells)}
            yield Row(cells | {c: row.cells[c] for c in ("login", "allowed")}, row.cites)
        for edge in reachable(house.index.out(service.number, "BINDS")):
            at = f"{house.index.name(edge.end)}:{edge.properties.get('port')}"
            yield Row(
                {**house.service(service), "how": "published port", "at": at, "login": "", "allowed": ""},
                [cite(edge)],
            )


def _way_in(row: Row) -> tuple[Cell, ...]:
    """What a route is but for its path."""
    return tuple(row.cells[c] for c in ("hostname", "proxy", "target", "target_port", "login", "allowed"))


def way_of_row(cells: Mapping[str, Cell]) -> str:
    """``host/path``, the place where the route of a row begins."""
    return f"{cells['hostname']}{'' if cells['path'] == '/' else cells['path']}"


def unexposed_services(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.declared(args):
        led = _is_led_to(house, service) or reachable(house.index.out(service.number, "BINDS"))
        if not (led or house.is_opaque(service)):
            yield Row(house.service(service), house.declaration(service))


def services_behind_no_proxy(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.declared(args):
        if not (_is_led_to(house, service) or house.is_opaque(service)):
            yield Row(house.service(service), house.declaration(service))


def _is_led_to(house: House, service: Service) -> bool:
    return bool(house.index.into(service.number, "ROUTES_TO"))
