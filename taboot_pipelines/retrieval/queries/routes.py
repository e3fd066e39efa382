"""Queries about how services are reached: host name, proxy, target, TLS and login."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from taboot_pipelines.retrieval.queries.citations import cite, cites, listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry, of_servers
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.logins import by_tls, cited, login
from taboot_pipelines.retrieval.queries.relations import (
    host_of_route,
    in_force,
    reachable,
    shares_namespace,
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
    facts, asked = edge.properties, login(house, edge)
    service = house.index.services.get(edge.end)
    cells = {
        "hostname": host_of_route(house.index, edge),
        "path": str(facts.get("path") or facts.get("location") or "/"),
        "proxy": house.index.name(edge.start),
        "tls": by_tls(house, edge),
        "login": asked.how,
        "target": target_name_of(house.index, edge),
        "target_project": service.project if service is not None else "",
        "target_port": facts.get("port"),
        "scheme": str(facts.get("scheme") or ""),
    }
    rules = _rules(house, edge)
    allowed = [e.value.value for e in rules if e.value.path[-1] == "allow"]
    only = "only " if len(rules) > len(allowed) else ""
    cells["allowed"] = f"{only}from {listed(allowed)}" if allowed else ""
    return Row(cells, [*cited(edge, asked), *(e.cite for e in (rules if allowed else ()))])


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
    """Whether a route leads to a service, or to the one whose network it uses: which of the two then listens
    nothing says but the port."""
    shared = {e.end for e in house.index.out(service.number, "DEPENDS_ON") if shares_namespace(e)}
    return any(house.index.into(number, "ROUTES_TO") for number in (service.number, *shared))
