"""Configuration against configuration: ports bound twice, routes to wrong ports and to nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, groupby, islice

from taboot_pipelines.knowledge.drift.declared import Declared, Service, smallest
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Fact, Side, Texts
from taboot_pipelines.knowledge.drift.ports import NOT_HTTP, blank, listed, names_number

#: Pairs of services at one port that are compared.
_MAX_PAIRS = 10_000
#: Names that mean the machine itself, or are given by the engine.
_GIVEN = frozenset({"localhost", "host", "gateway", "dockerhost", "backend", "upstream", "default"})
_HTTP = frozenset({"http", "https", "ws", "wss"})
#: So much of what a proxy routes to by bare names must be declared before a name that is not is missed.
_MIN_SHARE, _MIN_SHARE_UNKNOWN_PROXY, _MIN_KNOWN_UNKNOWN_PROXY = 0.5, 0.66, 2


def ports_bound_twice(declared: Declared) -> Iterator[Drift]:
    """Two services of one machine (or, where the machine is not known, of one project) that publish the same
    port and protocol on addresses that overlap.

    Not where profiles exclude each other, nor for files of one folder that are projects of their own: these
    are variants of which one runs.
    """
    bound: dict[tuple[str, int, str], list[tuple[Service, Fact]]] = defaultdict(list)
    for service in declared.services.values():
        for fact in service.binds():
            machine = service.scope if fact.end_label == "IP" else fact.end_key
            port, protocol = fact.port(), str(fact.properties.get("protocol"))
            if port is not None:
                bound[machine, port, protocol].append((service, fact))
    for (_, port, protocol), found in sorted(bound.items()):
        found.sort(key=lambda pair: (pair[0].key, pair[1].place))
        clashing: dict[str, tuple[Service, Fact]] = {}
        for (one, mine), (other, theirs) in islice(combinations(found, 2), _MAX_PAIRS):
            if one is not other and _overlap(mine, theirs) and not _are_alternatives(declared, one, other):
                clashing.setdefault(one.key, (one, mine))
                clashing.setdefault(other.key, (other, theirs))
        if clashing:
            yield _bound_twice(f"{port}/{protocol}", [clashing[key] for key in sorted(clashing)])


def _bound_twice(port: str, bound: list[tuple[Service, Fact]]) -> Drift:
    service, fact = bound[0]
    *most, last = [_called(s) for s, _ in bound]
    on_host = fact.end_label == "Host"
    where = fact.end_name if on_host else f"project {service.scope.rpartition('/')[2]}"
    return Drift(
        DriftKind.PORT_TWICE,
        *(
            (fact.end_label, fact.end_key, fact.end_name)
            if on_host
            else ("Service", service.key, service.name)
        ),
        f"{', '.join(most)} and {last} publish {port} on {where}, which one service can have.",
        tuple(Side(_published(s, f), (f,)) for s, f in bound),
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


def _are_alternatives(declared: Declared, one: Service, other: Service) -> bool:
    """Whether only one of two services is meant to run: their profiles exclude each other, or their projects
    are files of one folder."""
    a, b = (set(s.properties.get("profiles") or ()) for s in (one, other))
    if a and b and a.isdisjoint(b):
        return True
    return one.scope != other.scope and not declared.folders(one).isdisjoint(declared.folders(other))


def routes_to_wrong_ports(declared: Declared, text: Texts) -> Iterator[Drift]:
    """Routes to a port that the service does not listen on.

    Where proxy and service are on one network, the port must be one of the container's: a route to the
    *published* port of a mapping is wrong, and so is one to a port that the files which declare the service
    name nowhere, if that service declares a port for HTTP and no other configuration leads to it. Containers
    may listen on ports that they do not declare: a service that declares none for HTTP is not judged. Where
    the two share no network, the port must be a published one.
    """
    routes = [f for f in declared.facts if f.type == "ROUTES_TO" and f.end_key in declared.services]
    routes.sort(key=lambda f: (f.end_key, f.port() or 0, f.start_key, f.place))
    for (key, port, proxy_key), group in groupby(routes, lambda f: (f.end_key, f.port(), f.start_key)):
        facts = list(group)
        service, proxy = declared.services[key], declared.proxies.get(proxy_key)
        if port is None or service.opaque or not service.published or proxy is service:
            continue
        why = _why_wrong(declared, service, proxy, port, facts, text)
        if why:
            first = facts[0]
            yield Drift(
                DriftKind.ROUTE_PORT,
                "Service",
                key,
                service.name,
                f"{first.start_name} routes to {service.name}:{port}, {why}.",
                (
                    Side(f"{first.start_name} routes to port {port}", smallest(facts)),
                    Side(f"{service.name} publishes {mapped(service)}", smallest(service.binds())),
                ),
            )


def mapped(service: Service) -> str:
    """The ports of a service as Compose writes them, TCP first."""
    written = {
        (protocol if protocol != "tcp" else "", port, fact.port("targetPort") or port)
        for port, facts in service.published.items()
        for fact in facts
        for protocol in [str(fact.properties.get("protocol"))]
    }
    return ", ".join(
        f"{outer}:{inner}{protocol and f'/{protocol}'}" for protocol, outer, inner in sorted(written)
    )


def _why_wrong(
    declared: Declared, service: Service, proxy: Service | None, port: int, facts: list[Fact], text: Texts
) -> str:
    """What is wrong with a route, as a clause; empty if that is not certain."""
    tcp = [f for f in service.binds() if f.properties.get("protocol") == "tcp"]
    targets = {p for f in tcp if (p := f.port("targetPort"))}
    outside = {p for f in tcp if (p := f.port())}
    if proxy is not None and _is_apart(proxy, service):
        if port in outside or not outside:
            return ""
        return f"which shares no network with it and publishes {listed(outside)}"
    if port in service.targets or not targets:
        return ""
    own = [*facts, *(f for f in service.named.get(port, ()) if f.doc_id in {r.doc_id for r in facts})]
    if any(f not in own for f in service.named.get(port, ())):
        return ""
    for doc_id in sorted(service.documents):
        spans = [s for f in (*own, *service.binds()) if f.doc_id == doc_id for s in f.spans]
        if names_number(blank(text(doc_id), spans), port):
            return ""
    if port in outside:
        return f"which is the published port: the container listens on {listed(targets)}"
    http = targets - NOT_HTTP
    if not http or any(p in service.targets for p in service.named):
        return ""
    if any(f.properties.get("scheme") not in (None, *_HTTP) for f in facts):
        return ""
    return f"and the container is declared to listen on {listed(http)}"


def _is_apart(proxy: Service, service: Service) -> bool:
    """Whether a proxy certainly has no network with a service."""
    if proxy.shares_network or service.shares_network or not service.networks:
        return False
    if proxy.on_host_network:
        return True
    return bool(proxy.networks) and proxy.networks.isdisjoint(service.networks)


def missing_upstreams(declared: Declared, text: Texts) -> Iterator[Drift]:
    """Routes to a bare name that nothing declares: no service, container, alias, machine or host name.

    Only where the projects of the proxy's machine are known: most of the bare names that it routes to must be
    declared, and the proxy itself, or at least two of these names.
    """
    routes: dict[str, dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
    for fact in declared.facts:
        if fact.type == "ROUTES_TO" and fact.end_label == "Service":
            routes[fact.start_key][fact.end_key].append(fact)
    for proxy_key, ends in sorted(routes.items()):
        missing = {k: f for k, f in ends.items() if _is_missing(declared, k, f[0].end_name)}
        known = sum(k in declared.services for k in ends)
        proxy = declared.proxies.get(proxy_key)
        enough = (_MIN_SHARE, 1) if proxy else (_MIN_SHARE_UNKNOWN_PROXY, _MIN_KNOWN_UNKNOWN_PROXY)
        if not missing or known < enough[1] or known < enough[0] * len(ends):
            continue
        for key, facts in sorted(missing.items()):
            name, first = facts[0].end_name, min(facts, key=lambda f: f.place)
            if _is_host_name(declared, name, text):
                continue
            yield Drift(
                DriftKind.MISSING_UPSTREAM,
                "Service",
                key,
                name,
                f"{first.start_name} routes to {name}, which no project declares.",
                (Side(f"{first.start_name} routes to {name}", smallest(facts)),),
            )


def _is_missing(declared: Declared, key: str, name: str) -> bool:
    lower = name.lower()
    return (
        key not in declared.services
        and lower not in _GIVEN
        and "." not in lower
        and lower not in declared.by_name
        and lower not in declared.aliases
        and lower not in declared.machines
    )


def _is_host_name(declared: Declared, name: str, text: Texts) -> bool:
    """Whether a file that declares services gives one this name in another way: ``hostname``, or a link's."""
    said = re.compile(rf"(?i)(?:host_?name\s*[:=]\s*[\"']?|[\w.-]:){re.escape(name)}[\"']?\s*$", re.MULTILINE)
    return any(
        said.search(text(d)) for d in sorted({d for s in declared.services.values() for d in s.documents})
    )
