"""Queries about what needs what: dependencies, connections, and what fails without a service."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from taboot_pipelines.retrieval.queries.citations import cite, cites
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.logins import checked_by, cited
from taboot_pipelines.retrieval.queries.relations import (
    MAX_WALK,
    is_built_in,
    is_order,
    served_by,
    target_of,
    used_by,
    walk,
    way_of,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex
from taboot_pipelines.retrieval.results.queries import Cell
from taboot_pipelines.retrieval.session import View

#: How a route is affected by the service that checks its logins.
ASKS_LOGIN = "asks it for the login"


def dependencies(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        edges = house.index.out(service.number, "DEPENDS_ON")
        if args.transitive:
            edges = walk(house.index, service.number, forward=True)
        for edge in edges:
            yield _dependency(house, service, edge, near=edge.start, far=edge.end, column="needs")


def dependents(house: House, args: Arguments) -> Iterator[Row]:
    for service in args.services:
        edges = house.index.into(service.number, "DEPENDS_ON")
        if args.transitive:
            edges = walk(house.index, service.number, forward=False)
        for edge in edges:
            yield _dependency(house, service, edge, near=edge.end, far=edge.start, column="dependent")


def _dependency(house: House, service: Service, edge: Edge, *, near: int, far: int, column: str) -> Row:
    """A dependency whose end ``near`` is the service, or what leads to it."""
    cells: dict[str, Cell] = {
        **house.service(service),
        **house.other(far, column),
        "kind": "order" if is_order(edge) else "need",
        "condition": str(edge.properties.get("condition") or ""),
        "through": "" if near == service.number else house.index.name(near),
    }
    return Row(cells, [cite(edge)])


def connections(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in house.index.out(service.number, "CONNECTS_TO"):
            protocol = str(edge.properties.get("protocol") or "")
            cells = {**house.service(service), **house.other(edge.end, "to"), "protocol": protocol}
            yield Row(cells, [cite(edge)])


def consumers(house: House, args: Arguments) -> Iterator[Row]:
    for service in args.services:
        edges = house.index.into(service.number, "CONNECTS_TO", "DEPENDS_ON")
        connecting = {e.start for e in edges if e.type == "CONNECTS_TO"}
        for edge in edges:
            if is_order(edge) or (edge.type == "DEPENDS_ON" and edge.start in connecting):
                continue
            how = "connects" if edge.type == "CONNECTS_TO" else "depends"
            cells = {**house.service(service), **house.other(edge.start, "consumer"), "how": how}
            yield Row(cells, [cite(edge)])


def shared_services(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        own = used_by(house.index, service)
        for other in args.others:
            for edge in used_by(house.index, other):
                mine = [e for e in own if e.end == edge.end]
                if mine and other != service:
                    cells = {
                        **house.service(service),
                        **house.other(other.number, "other"),
                        **house.other(edge.end, "shared"),
                    }
                    yield Row(cells, cites([*mine, edge]))


def impact(house: House, args: Arguments) -> Iterator[Row]:
    for service in args.services:
        failing = list(_failing(house.index, service.number, transitive=args.transitive))
        told = dict.fromkeys([service.number, *(e.start for e in failing)])
        for type_, how in (("DEPENDS_ON", "needs it"), ("CONNECTS_TO", "connects to it")):
            yield from _affected(house, service, [e for e in failing if e.type == type_], how)
        for edge in served_by(house.index, service):
            cells = {**house.service(service), **house.other(edge.end, "affected")}
            more = {"how": "is reached through it", "at": way_of(house.index, edge), "through": ""}
            yield Row({**cells, **more}, [cite(edge)])
        for number in told if args.transitive else (service.number,):
            through = "" if number == service.number else house.index.name(number)
            for route, asked in checked_by(house).get(number, ()):
                cells = {**house.service(service), **house.other(route.end, "affected")}
                if route.end not in house.index.services:
                    cells["affected"] = target_of(house.index, route)
                more = {"how": ASKS_LOGIN, "at": way_of(house.index, route), "through": through}
                yield Row({**cells, **more}, cited(route, asked))
        after = house.index.into(service.number, "DEPENDS_ON")
        if args.transitive:
            after = walk(house.index, service.number, forward=False)
        yield from _affected(
            house, service, [e for e in after if e.start not in told], "only starts after it"
        )


def _failing(house: ServiceIndex, node: int, *, transitive: bool) -> Iterator[Edge]:
    """The edges by which services need a service or connect to it, or to what does, nearest first: of each
    service those of its shortest way, its needs before its connections.

    A proxy connects to what it leads to and outlives it: what hangs on the proxy is not reached by that. Nor
    is what hangs on a service of which a text alone says that it connects: a diagram draws requests.
    """
    seen, layer = {node}, [node]
    while layer:
        found: dict[int, list[Edge]] = {}
        for type_ in ("DEPENDS_ON", "CONNECTS_TO"):
            edges = [e for at in layer for e in house.into(at, type_) if not is_order(e)]
            known = seen | found.keys()
            for edge in edges:
                if edge.start not in known and edge.start in house.services:
                    found.setdefault(edge.start, []).append(edge)
        for edges in found.values():
            yield from edges
        seen |= found.keys()
        layer = []
        if transitive and len(seen) < MAX_WALK:
            layer = [
                n
                for n, edges in found.items()
                if not (_only_leads_to(house, house.services[n], edges) or _only_drawn(edges))
            ]


def _only_drawn(edges: Iterable[Edge]) -> bool:
    return all(edge.type == "CONNECTS_TO" and edge.is_of_text for edge in edges)


def _only_leads_to(house: ServiceIndex, service: Service, edges: Sequence[Edge]) -> bool:
    """Whether a service connects to what these edges end at because it is their proxy."""
    ends = {edge.end for edge in edges if edge.type == "CONNECTS_TO"}
    if not any(house.into(end, "ROUTES_TO") for end in ends):
        return False
    return ends <= {route.end for route in served_by(house, service)}


def _affected(house: House, service: Service, edges: Iterable[Edge], how: str) -> Iterator[Row]:
    for edge in edges:
        through = "" if edge.end == service.number else house.index.name(edge.end)
        cells = {**house.service(service), **house.other(edge.start, "affected")}
        yield Row({**cells, "how": how, "at": "", "through": through}, [cite(edge)])


def sharers(house: House, args: Arguments) -> Iterator[Row]:
    own = {s.number for s in args.services}
    for service in args.services:
        container = house.index.container_of.get(service.number)
        held = [
            ("host", service.number if container is None else container, "RUNS"),
            ("network", service.number if container is None else container, "RUNS_IN"),
            ("image", service.number, "BUILDS"),
        ]
        machines = {e.end for e in house.index.out(held[0][1], "RUNS")}
        for shares, node, type_ in held:
            for mine in house.index.out(node, type_):
                # Each machine has its own of these, so that who shares one shares the machine.
                apart = shares == "network" and is_built_in(house.index, mine.end)
                for edge in house.index.into(mine.end, type_):
                    other = house.index.service_of.get(edge.start, edge.start)
                    if apart and machines.isdisjoint(e.end for e in house.index.out(edge.start, "RUNS")):
                        continue
                    if other in house.index.services and other not in own:
                        yield _sharer(house, service, other, shares, house.index.name(mine.end), mine, edge)
        mounters = house.view.once(_mounters)
        for name, entry in _mounts(house, service).items():
            for peer, its in mounters.get(name, ()):
                if peer.number not in own:
                    cells = {**house.service(service), **house.other(peer.number, "other")}
                    yield Row({**cells, "shares": "volume", "what": name[-1]}, [its.cite, entry.cite])


def _sharer(
    house: House, service: Service, other: int, shares: str, what: str, mine: Edge, edge: Edge
) -> Row:
    cells = {**house.service(service), **house.other(other, "other"), "shares": shares, "what": what}
    return Row(cells, cites([edge, mine]))


_Mounters = Mapping[tuple[str, str], Sequence[tuple[Service, ConfigEntry]]]


def _mounters(view: View) -> _Mounters:
    """The services that mount what several could share, for which each service's whole declaration is looked
    through."""
    house = House(view, lambda _: ())
    found: dict[tuple[str, str], list[tuple[Service, ConfigEntry]]] = {}
    for service in house.declared(Arguments()):
        for name, entry in _mounts(house, service).items():
            found.setdefault(name, []).append((service, entry))
    return found


def _mounts(house: House, service: Service) -> dict[tuple[str, str], ConfigEntry]:
    """What a service mounts of its machine, by (place, real name or path); sockets and devices are none that
    services share data by."""
    found: dict[tuple[str, str], ConfigEntry] = {}
    for entry in house.entries.of_service(service):
        if entry.value.path[entry.lead] != "volumes" or ", " in (value := entry.known or entry.value.value):
            continue
        source, colon, _ = value.partition(":")
        if not colon or source.endswith(".sock") or source.startswith(("/dev", "/etc/localtime", "/proc")):
            continue
        if source.startswith("."):
            # Sources over the same files meet in their place on the disk.
            file = house.view.document_url(entry.document.doc_id)
            source = posixpath.normpath(posixpath.join(posixpath.dirname(file), source))
        elif not source.startswith(("/", "~", "$")):
            source = _volume(house, service, entry, source)
        found.setdefault((service.place, source), entry)
    return found


def _volume(house: House, service: Service, mount: ConfigEntry, name: str) -> str:
    """The real name of a volume of a project."""
    said = {
        ".".join(e.value.path[2:]): e.value.value
        for e in house.entries.of_document(mount.document.doc_id)
        if e.value.path[:2] == ("volumes", name)
    }
    external = said.get("external") == "true"
    return said.get("name") or (name if external else f"{service.project}_{name}")


def most_needed(house: House, args: Arguments) -> Iterator[Row]:
    found = []
    for service in house.declared(args):
        edges = [e for e in house.index.into(service.number, "DEPENDS_ON", "CONNECTS_TO") if not is_order(e)]
        if edges:
            cells = {**house.service(service), "dependents": len({e.start for e in edges})}
            found.append(Row(cells, [cite(e) for e in edges]))
    yield from sorted(found, key=lambda r: (-int(r.cells["dependents"] or 0), str(r.cells["service"])))
