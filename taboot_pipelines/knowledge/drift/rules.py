"""Ports that two services of one machine publish, and all rules over one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, islice

import pyarrow as pa

from taboot_pipelines.knowledge.drift import prose_rules, route_rules
from taboot_pipelines.knowledge.drift.declared import Declared, Service
from taboot_pipelines.knowledge.drift.facts import (
    Authority,
    DocumentView,
    Drift,
    DriftKind,
    Fact,
    Side,
    Texts,
    read_facts,
)

#: Pairs of services at one port that are compared.
_MAX_PAIRS = 10_000


def ports_bound_twice(declared: Declared) -> Iterator[Drift]:
    """Two services of one machine that publish the same port and protocol on addresses that overlap.

    Containers, sockets of systemd, and ports that Kubernetes takes of a machine or of an address. Where the
    machine is not known, one project is surely on one; that a whole source is, is supposed (rule
    ``unnamed-machine``). Not where profiles exclude each other, nor for files of one folder that are
    projects of their own: these are variants of which one runs.
    """
    bound: dict[tuple[str, int, str], list[tuple[Service, Fact]]] = defaultdict(list)
    for service in declared.services.values():
        for fact in (*service.binds(), *service.taken):
            port, protocol = fact.port(), str(fact.properties.get("protocol"))
            if port is not None:
                machine = service.host if _is_unnamed(service, fact) else fact.end_key
                bound[machine, port, protocol].append((service, fact))
    for (machine, port, protocol), found in sorted(bound.items()):
        found.sort(key=lambda pair: (pair[0].key, pair[1].place))
        # By the project that all are of, if that is why they are surely on one machine.
        clashing: dict[tuple[bool, str], dict[str, tuple[Service, Fact]]] = defaultdict(dict)
        for (one, mine), (other, theirs) in islice(combinations(found, 2), _MAX_PAIRS):
            if (
                one is not other
                and _overlap(mine, theirs)
                and not _are_alternatives(declared, one, other, mine)
            ):
                unnamed = _is_unnamed(one, mine)
                supposed = unnamed and not _are_together(declared, one, other, mine)
                group = clashing[supposed, one.scope if unnamed and not supposed else ""]
                group.setdefault(one.key, (one, mine))
                group.setdefault(other.key, (other, theirs))
        for (supposed, _), group in sorted(clashing.items()):
            sides = [group[key] for key in sorted(group)]
            yield _bound_twice(f"{port}/{protocol}", sides, machine if supposed else "")


def _is_unnamed(service: Service, fact: Fact) -> bool:
    """Whether nothing says of which machine a port is."""
    return fact.end_label == "IP" and fact not in service.taken


def _bound_twice(port: str, bound: list[tuple[Service, Fact]], source: str) -> Drift:
    """``source``: whose machine is supposed to be one; empty where it is known to be one."""
    service, fact = bound[0]
    *most, last = [_called(s) for s, _ in bound]
    where, at = fact.end_name, (fact.end_label, fact.end_key, fact.end_name)
    if source:
        where, at = f"the machine of {source} (no `host` names it)", ("Host", source, source)
    elif _is_unnamed(service, fact):
        project = service.scope.rpartition("/")[2]
        where, at = f"project {project}", ("Service", service.key, service.name)
    return Drift(
        DriftKind.PORT_TWICE,
        *at,
        f"{', '.join(most)} and {last} publish {port} on {where}, which one service can have.",
        tuple(Side(_published(s, f), (f,)) for s, f in bound),
        supposed=bool(source),
    )


def _called(service: Service) -> str:
    return f"{service.scope.rpartition('/')[2]}/{service.name}"


def _published(service: Service, fact: Fact) -> str:
    address = fact.properties.get("hostIp")
    return f"{_called(service)} publishes {f'{address}:' if address else ''}{fact.port()}"


def _overlap(one: Fact, other: Fact) -> bool:
    """Whether both may be asked for the same packet. No address is every address; ``0.0.0.0`` is every one of
    IPv4, ``::`` every one of IPv6."""
    a, b = (
        str(f.properties.get("hostIp") or (f.end_key if f.end_label == "IP" else "") or "")
        for f in (one, other)
    )
    if not a or not b or a == b:
        return True
    if (":" in a) != (":" in b):
        return False
    return a in ("0.0.0.0", "::") or b in ("0.0.0.0", "::")


def _are_alternatives(declared: Declared, one: Service, other: Service, mine: Fact) -> bool:
    """Whether only one of two services is meant to run: their profiles exclude each other, or they are of
    different files of one folder or project."""
    a, b = (set(s.properties.get("profiles") or ()) for s in (one, other))
    if a and b and a.isdisjoint(b):
        return True
    if not (one.container and other.container):
        return False
    if one.scope != other.scope:
        return not declared.folders(one).isdisjoint(declared.folders(other))
    # Files of one project name, none of which holds both. Of quadlets each is a file of its own.
    return not _is_quadlet(mine) and one.documents.isdisjoint(other.documents)


def _are_together(declared: Declared, one: Service, other: Service, mine: Fact) -> bool:
    """Whether two services are of one machine, whichever it is: of one project, and units of one folder."""
    if one.scope != other.scope:
        return False
    return not _is_quadlet(mine) or not declared.folders(one).isdisjoint(declared.folders(other))


def _is_quadlet(fact: Fact) -> bool:
    return any(m.startswith("quadlet_") for m in fact.methods)


def unreachable_names(declared: Declared) -> Iterator[Drift]:
    """Services that ask for another by a name that it has where they cannot meet: on no network are both.

    Not of files of one folder, which may be laid over each other where they run.
    """
    found: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in declared.facts:
        if fact.type == "MENTIONS":
            found[str(fact.properties.get("by")), fact.end_key].append(fact)
    for (key, other), facts in sorted(found.items()):
        asking, named = declared.services.get(key), declared.services.get(other)
        if asking is None or named is None or asking.scope == named.scope:
            continue
        if declared.folders(asking).isdisjoint(declared.folders(named)):
            yield Drift(
                DriftKind.UNREACHABLE_NAME,
                "Service",
                named.key,
                named.name,
                f"{_called(asking)} asks for {_called(named)}, but no network has both: it is named, and not"
                " reachable.",
                (Side(f"{_called(asking)} asks for {_called(named)}", tuple(facts)),),
            )


# --- All rules over one snapshot


def find_drift(
    namespace: str,
    edges: pa.Table,
    nodes: pa.Table,
    documents: Mapping[str, DocumentView],
    text: Texts,
    running: Callable[[Declared], Iterable[Drift]] = lambda _: (),
    listening: route_rules.Listening = lambda _: {},
) -> tuple[Drift, ...]:
    """What drifted in a namespace: first what is to be mended, the surest kinds before; then what texts of a
    day say.

    ``edges``: ``knowledge.graph.OBSERVED_EDGES``; ``nodes``: ``tables.NODES_SCHEMA``; ``documents``: by
    doc_id; ``text``: read only for what may be a drift; ``running``: compares what runs. In one pass, in
    memory that grows with the edges that are not mentions.
    """
    facts, asserted = read_facts(edges, documents)
    declared = Declared(namespace, facts, nodes, documents)
    found = [
        *ports_bound_twice(declared),
        *route_rules.routes_to_wrong_ports(declared, text, listening),
        *route_rules.routes_past_services(declared, text),
        *route_rules.missing_upstreams(declared, text),
        *route_rules.missing_cluster_services(declared, text),
        *unreachable_names(declared),
        *running(declared),
    ]
    for standing, said in asserted.items():
        record = standing is Authority.RECORD
        for rule in (prose_rules.ports_of_text, prose_rules.images_of_text, prose_rules.addresses_of_text):
            found += rule(declared, said, text, record=record)
    return tuple(sorted(found, key=lambda d: d.order))
