"""Queries about services: their ports, images, places and settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from taboot_pipelines.knowledge.drift.facts import DriftKind
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, cites, listed
from taboot_pipelines.retrieval.queries.house import Arguments, House, Row
from taboot_pipelines.retrieval.queries.relations import (
    declaring_edges,
    left_open,
    networks_of,
    shares_namespace,
)
from taboot_pipelines.retrieval.queries.service_index import Edge, Service
from taboot_pipelines.retrieval.results.queries import Cell

# --- Ports


def published_ports(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in house.index.out(service.number, "BINDS"):
            if args.port in (None, edge.properties.get("port")):
                yield _binding(house, service, edge)


def _binding(house: House, service: Service, edge: Edge) -> Row:
    facts = edge.properties
    port = facts.get("port")
    cells = {
        **house.service(service),
        "port": port,
        "protocol": facts.get("protocol") or "tcp",
        "container_port": facts.get("targetPort") or port,
        "address": facts.get("hostIp") or house.index.name(edge.end),
    }
    return Row(cells, [cite(edge)])


def services_without_published_ports(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.declared(args):
        bound = house.index.out(service.number, "BINDS") or left_open(service, "ports")
        if not (bound or house.is_opaque(service)):
            yield Row(house.service(service), house.declaration(service))


def port_conflicts(house: House, _args: Arguments) -> Iterator[Row]:
    return drifted(house, DriftKind.PORT_TWICE, "conflict")


def missing_upstreams(house: House, _args: Arguments) -> Iterator[Row]:
    return drifted(house, DriftKind.MISSING_UPSTREAM, "upstream")


def drifted(house: House, kind: DriftKind, column: str) -> Iterator[Row]:
    """What drifted of a kind: its name as a column, and the statement."""
    for drift in house.drifts:
        if drift.kind == kind:
            facts = [f for side in drift.sides for f in side.facts]
            spans = [StatementSpan(f.doc_id, f.line, *(f.spans or ((0, 0),))[0], f.edge_id) for f in facts]
            yield Row({column: drift.name, "statement": drift.statement}, spans)


# --- Images


def images(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in house.index.out(service.number, "BUILDS"):
            if not args.images or edge.end in args.images:
                yield image_row(house, service, edge)


def image_row(house: House, service: Service, edge: Edge) -> Row:
    """The row of one image that a service runs or is built from."""
    facts = house.index.properties(edge.end)
    reference = str(facts.get("reference") or house.index.name(edge.end))
    name, _, digest = reference.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    how = {"compose_build": "built here", "dockerfile_from": "built from"}.get(edge.method, "pulled")
    cells = {
        **house.service(service),
        "image": reference,
        "tag": str(facts.get("tag") or tag),
        "digest": str(facts.get("digest") or digest),
        "how": how,
    }
    return Row(cells, [cite(edge)])


def unpinned_images(house: House, args: Arguments) -> Iterator[Row]:
    """Where configuration names an image, a text that leaves its version out says nothing."""
    for service in house.asked(args):
        edges = house.index.out(service.number, "BUILDS")
        for edge in [e for e in edges if not e.is_of_text] or edges:
            row = image_row(house, service, edge)
            if is_unpinned(row):
                yield row


def is_unpinned(row: Row) -> bool:
    """Whether the image of a row may be another one tomorrow."""
    moving = not row.cells["digest"] and row.cells["tag"] in ("", "latest")
    return moving and row.cells["how"] != "built here"


# --- Where things are


def services(house: House, args: Arguments) -> Iterator[Row]:
    asked = house.asked(args)
    if args.hosts and not (args.services or args.projects):
        asked = [*asked, *_running_on(house, args.hosts, {s.number for s in asked})]
    for service in asked:
        container = house.index.container_of.get(service.number)
        held = house.index.out(container, "RUNS") if container is not None else []
        called = house.index.name(container) if container is not None else ""
        if variables := left_open(service, "container_name"):
            called = f"set elsewhere, by {listed(variables)}"
        documents = house.index.declaring(service)
        declared = declaring_edges(house.index, service)
        machines: dict[str, list[Edge]] = defaultdict(list)
        for run in held:
            machines[house.index.name(run.end)].append(run)
        for host, runs in machines.items() if machines else [("", [])]:
            cells: dict[str, Cell] = {
                **house.service(service),
                "host": host,
                "container": called,
                "file": house.index.documents[documents[0]].path if documents else "",
            }
            if host in args.hosts or not (args.hosts and machines):
                yield Row(cells, cites([*declared, *runs[:1]]))


def _running_on(house: House, hosts: frozenset[str], told: set[int]) -> list[Service]:
    """The services that run on machines by what anything says, but for those told: what a text places there
    is of no source that names the machine."""
    runs = (e for n in house.index.of_label("Host") if house.index.name(n) in hosts
            for e in house.index.into(n, "RUNS"))  # fmt: skip
    found = dict.fromkeys(house.index.service_of.get(e.start, -1) for e in runs)
    return [house.index.services[n] for n in found if n in house.index.services and n not in told]


def projects(house: House, args: Arguments) -> Iterator[Row]:
    held: dict[tuple[str, str], list[Service]] = defaultdict(list)
    for service in house.declared(args):
        held[service.place, service.project].append(service)
    for (place, project), members in held.items():
        cells: dict[str, Cell] = {"project": project, "place": place, "services": len(members)}
        yield Row(cells, [c for s in members for c in house.declaration(s)])


def hosts(house: House, _args: Arguments) -> Iterator[Row]:
    for node in house.index.of_label("Host"):
        runs = house.index.into(node, "RUNS")
        resolved = house.index.out(node, "RESOLVES_TO")
        bound = house.index.into(node, "BINDS")
        if runs or resolved or bound:
            cells: dict[str, Cell] = {
                "host": house.index.name(node),
                "containers": len({e.start for e in runs}),
                "addresses": ", ".join(sorted({house.index.name(e.end) for e in resolved})),
            }
            yield Row(cells, cites([*resolved, *runs, *bound]))


def addresses(house: House, args: Arguments) -> Iterator[Row]:
    wanted = args.text.get("of", "").lower()
    for edge in house.index.of_type("RESOLVES_TO"):
        name, address = house.index.name(edge.start), house.index.name(edge.end)
        if wanted in ("", name.lower(), address.lower()):
            kind = str(edge.properties.get("recordType") or "")
            yield Row({"name": name, "address": address, "record": kind}, [cite(edge)])


def vpn_users(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in house.index.out(service.number, "USES_VPN"):
            yield Row({**house.service(service), "tunnel": house.index.name(edge.end)}, [cite(edge)])


def unreached_services(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.declared(args):
        led = house.index.into(service.number, "ROUTES_TO", "DEPENDS_ON", "CONNECTS_TO")
        bound = house.index.out(service.number, "BINDS")
        if not (led or bound or house.is_opaque(service)):
            yield Row(house.service(service), house.declaration(service))


# --- Networks


def networks(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in networks_of(house.index, service):
            if not args.networks or edge.end in args.networks:
                cells = {
                    **house.service(service),
                    "network": house.index.name(edge.end),
                    "mode": str(edge.properties.get("networkMode") or ""),
                }
                yield Row(cells, [cite(edge)])


def network_peers(house: House, args: Arguments) -> Iterator[Row]:
    own = {s.number for s in args.services}
    for service in args.services:
        for mine in networks_of(house.index, service):
            for edge in house.index.into(mine.end, "RUNS_IN"):
                peer = house.index.service_of.get(edge.start)
                if peer is not None and peer not in own:
                    cells = {
                        **house.service(service),
                        **house.other(peer, "peer"),
                        "network": house.index.name(mine.end),
                    }
                    yield Row(cells, cites([mine, edge]))


def shared_networks(house: House, args: Arguments) -> Iterator[Row]:
    others = {(s.name, s.project) for s in args.others}
    for row in network_peers(house, args):
        if (row.cells["peer"], row.cells["peer_project"]) in others:
            yield row


def namespace_sharers(house: House, args: Arguments) -> Iterator[Row]:
    for service in house.asked(args):
        for edge in house.index.out(service.number, "DEPENDS_ON"):
            if shares_namespace(edge):
                yield Row({**house.service(service), **house.other(edge.end, "owner")}, [cite(edge)])
