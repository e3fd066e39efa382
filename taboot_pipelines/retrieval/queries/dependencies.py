"""Queries about what needs what: dependencies, connections, and what fails without a service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taboot_pipelines.retrieval.queries.citations import cite, cites
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.relations import is_order, served_by, used_by, walk, way_of
from taboot_pipelines.retrieval.queries.service_index import Edge, Service
from taboot_pipelines.retrieval.results.queries import Cell


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
        into = house.index.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
        needs = [e for e in into if e.type == "DEPENDS_ON" and not is_order(e)]
        if args.transitive and needs:
            needs = [e for e in walk(house.index, service.number, forward=False) if not is_order(e)]
        told = {e.start for e in needs}
        connected = [e for e in into if e.type == "CONNECTS_TO" and e.start not in told]
        told |= {e.start for e in connected}
        after = [e for e in into if is_order(e) and e.start not in told]
        yield from _affected(house, service, needs, "needs it")
        yield from _affected(house, service, connected, "connects to it")
        for edge in served_by(house.index, service):
            cells = {**house.service(service), **house.other(edge.end, "affected")}
            yield Row(
                {**cells, "how": "is reached through it", "at": way_of(house.index, edge)}, [cite(edge)]
            )
        yield from _affected(house, service, after, "only starts after it")


def _affected(house: House, service: Service, edges: Iterable[Edge], how: str) -> Iterator[Row]:
    for edge in edges:
        cells = {**house.service(service), **house.other(edge.start, "affected"), "how": how, "at": ""}
        yield Row(cells, [cite(edge)])


def most_needed(house: House, args: Arguments) -> Iterator[Row]:
    found = []
    for service in house.declared(args):
        edges = [e for e in house.index.into(service.number, "DEPENDS_ON", "CONNECTS_TO") if not is_order(e)]
        if edges:
            cells = {**house.service(service), "dependents": len({e.start for e in edges})}
            found.append(Row(cells, [cite(e) for e in edges]))
    yield from sorted(found, key=lambda r: (-int(r.cells["dependents"] or 0), str(r.cells["service"])))
