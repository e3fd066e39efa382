"""What the declaration of a container says of itself, to hold against the routes that lead to it: the ports
at which it listens, and the host names under which it is to be found.

A module of its own, since only what may have drifted is asked about.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Side, StatedSpan
from taboot_pipelines.retrieval.drift.declared_values import (
    HOST,
    NUMBER,
    Labels,
    domain_of,
    is_spelled_like,
    labels_of,
)
from taboot_pipelines.retrieval.queries.citations import listed
from taboot_pipelines.retrieval.queries.config_files import CHECKED_PORT, ConfigEntries, ConfigEntry
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, plain_name

#: An address at which a program listens: every one of the machine, and a port.
_LISTENED_AT = re.compile(r"(?:(?<![\d.])0\.0\.0\.0|\[::\]|(?<!\S)\*?):(?P<port>\d{2,5})(?!\S)")
#: What programs call the port, and the address with the port, at which they listen.
_PORTS = frozenset(["port", "http_port"])
_ADDRESSES = frozenset(
    ["listen", "listen_address", "listen_addr", "address", "addr", "bind", "bind_address", "bind_addr"]
)
#: The key of Homepage for where a service is to be found (gethomepage.dev, "Docker", "Automatic Service
#: Discovery").
_OWN_URL = "homepage.href"
#: Host names, and nothing else.
_HOSTS = re.compile(rf"(?:{HOST.pattern})(?:[,;\s]+(?:{HOST.pattern}))*", re.IGNORECASE)


def listening(config: ConfigEntries, service: Service) -> dict[int, StatedSpan]:
    """The ports at which a container is told to listen, or is asked by its own health check, and where
    that stands. Which ports it publishes is not among it.
    """
    found: dict[int, StatedSpan] = {}
    for entry in _entries(config, service):
        for port in _ports(entry, plain_name(service.name).replace("-", "_")):
            found.setdefault(port, _place(entry))
    return found


def _entries(config: ConfigEntries, service: Service) -> list[ConfigEntry]:
    """The values of a container's declaration, an item of a list before the list."""
    return sorted(config.of_service(service), key=lambda entry: entry.value.end - entry.value.start)


def _ports(entry: ConfigEntry, name: str) -> Iterator[int]:
    field, key = entry.value.path[2:3], entry.value.path[-1].lstrip("-").lower()
    text = entry.known or expand(entry.value.value, {}).text
    if field == ("expose",):
        yield from map(int, NUMBER.findall(text))
    elif field == ("healthcheck",) and key == "test":
        yield from (int(match["port"]) for match in CHECKED_PORT.finditer(text))
    elif field in (("environment",), ("command",), ("entrypoint",)):
        # Under any other name it may be that of what is asked for, or one beside the first.
        own = key.replace("-", "_").rpartition(".")[2].removeprefix(f"{name}_")
        if own in _PORTS and text.strip().isdigit():
            yield int(text)
        elif own in _ADDRESSES:
            yield from (int(match["port"]) for match in _LISTENED_AT.finditer(text))


def _place(entry: ConfigEntry) -> StatedSpan:
    cite = entry.cite
    return StatedSpan(cite.doc_id, cite.line, cite.start, cite.end)


def unanswered_urls(house: ServiceIndex, config: ConfigEntries) -> Iterator[Drift]:
    """The URLs, and the settings that are host names, in the declaration of a container to which nothing of
    the house leads, though routes of their domain do: where Homepage is told to find the container, or what
    is spelled almost as the host of a route, its own or another's.
    """
    by_service = {n: _routed(house.into(n, "ROUTES_TO")) for n in sorted(house.services)}
    # What leads to one of these is not known, and a host that is called so is its.
    unrouted = {plain_name(house.services[n].name) for n, own in by_service.items() if not own}
    routes = _routed(house.of_type("ROUTES_TO"))
    answering = {*routes, *(labels_of(house.name(edge.start)) for edge in house.of_type("RESOLVES_TO"))}
    domains = {domain_of(host) for host in routes}
    for number, own in by_service.items():
        service = house.services[number]
        missed: dict[tuple[str, tuple[Labels, ...]], list[StatedSpan]] = defaultdict(list)
        for entry in _entries(config, service) if service.declared and routes else ():
            for host in _hosts(entry):
                labels = labels_of(host)
                if not {labels, (labels[0], "*")}.isdisjoint(answering) or domain_of(labels) not in domains:
                    continue
                alike = [
                    r
                    for r in routes
                    if is_spelled_like(labels[0], r[0]) and domain_of(r) == domain_of(labels)
                ]
                led = [r for r in alike if r in own] or alike
                if entry.value.path[-1] == _OWN_URL and own:
                    led = list(own)
                elif labels[0] in unrouted:
                    continue
                if led:
                    missed[host, tuple(sorted(led))].append(_place(entry))
        for (host, routed), places in sorted(missed.items()):
            to = "it" if own.keys() >= {*routed} else "what is called alike"
            leads = f"{listed(['.'.join(labels) for labels in routed])} leads to {to}"
            yield Drift(
                DriftKind.CONFIG_HOST_NAME,
                "Service",
                house.key(number),
                service.name,
                f"{service.name} names {host}, to which nothing answers, and {leads}.",
                (
                    Side(f"{service.name} names {host}", stands=tuple(places)),
                    Side(leads, stands=tuple(routes[labels] for labels in routed)),
                ),
            )


def _hosts(entry: ConfigEntry) -> list[str]:
    """The host names of the URLs in a value, or those that it consists of."""
    text = entry.value.value
    is_of_hosts = entry.value.path[2:3] == ("environment",) and _HOSTS.fullmatch(text)
    found = HOST.finditer(text)
    return [m[1] for m in found if is_of_hosts or m[0].lower().startswith("http")]


def _routed(edges: Iterable[Edge]) -> dict[Labels, StatedSpan]:
    """The host names of routes, and where each is declared; not those of examples (RFC 2606)."""
    found: dict[Labels, StatedSpan] = {}
    for edge in edges:
        host = _host(edge)
        if host not in ((), ("*",)) and host[-2:-1] != ("example",):
            found.setdefault(host, StatedSpan(edge.doc_id, edge.line, *edge.span))
    return found


def _host(route: Edge) -> Labels:
    """The host name of a route, ``*`` for what is filled in elsewhere; empty where it has none."""
    host = str(route.properties.get("host") or "")
    for variable in route.properties.get("unresolved") or ():
        host = host.replace(str(variable), "*")
    return labels_of(host) if host else ()
