"""What the declaration of a container says of itself, to hold against the routes that lead to it: the ports
at which it listens, and the host names under which it is to be found.

A module of its own, since only what may have drifted is asked about.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Side, StatedSpan
from taboot_pipelines.retrieval.drift.declared_values import (
    HOST,
    NUMBER,
    Labels,
    domain_of,
    labels_of,
    likeness,
)
from taboot_pipelines.retrieval.queries.citations import listed
from taboot_pipelines.retrieval.queries.config_files import ConfigEntries, ConfigEntry
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, ServiceIndex, plain_name

#: What a health check asks inside of a container (Compose Specification, "healthcheck").
_ASKED_INSIDE = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(?P<port>\d{2,5})(?!\d)")
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
#: So like must the first labels of two host names be to be spellings of one.
_ALIKE = 0.75


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
        yield from (int(match["port"]) for match in _ASKED_INSIDE.finditer(text))
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
    the house leads, though their domain is one of those of the routes to that container: where Homepage is
    told to find it, or what is spelled almost as the host of one of these routes.
    """
    named = {plain_name(service.name) for service in house.services.values()}
    answering = {_host(edge) for edge in house.of_type("ROUTES_TO")}
    answering |= {labels_of(house.name(edge.start)) for edge in house.of_type("RESOLVES_TO")}
    for number, service in sorted(house.services.items()):
        routes = _routed(house, number) if service.declared else {}
        domains = {domain_of(host) for host in routes}
        others = named - {plain_name(service.name)}
        missed: dict[str, list[StatedSpan]] = defaultdict(list)
        for entry in _entries(config, service) if routes else ():
            is_of_hosts = entry.value.path[2:3] == ("environment",) and _HOSTS.fullmatch(entry.value.value)
            for match in HOST.finditer(entry.value.value):
                labels = labels_of(match[1])
                is_url = match[0].lower().startswith("http") or is_of_hosts
                if not is_url or domain_of(labels) not in domains:
                    continue
                if not {labels, (labels[0], "*")}.isdisjoint(answering) or labels[-2:-1] == ("example",):
                    continue  # RFC 2606
                is_like = labels[0] not in others and any(_is_like(labels[0], own[0]) for own in routes)
                if is_like or entry.value.path[-1] == _OWN_URL:
                    missed[match[1]].append(_place(entry))
        for host, places in sorted(missed.items()):
            answers = f"{service.name} answers to {listed(sorted('.'.join(own) for own in routes))}"
            yield Drift(
                DriftKind.CONFIG_HOST_NAME,
                "Service",
                house.key(number),
                service.name,
                f"{service.name} is said to be at {host}, to which nothing answers, and {answers}.",
                (
                    Side(f"{service.name} at {host}", stands=tuple(places)),
                    Side(answers, stands=tuple(routes.values())),
                ),
            )


def _is_like(label: str, other: str) -> bool:
    """Whether one is spelled almost as the other, part by part, or has a part more at its end."""
    if label.startswith(f"{other}-") or other.startswith(f"{label}-"):
        return True
    parts, others = label.split("-"), other.split("-")
    alike = (likeness(a, b) >= _ALIKE for a, b in zip(parts, others, strict=False))
    return len(parts) == len(others) and all(alike)


def _routed(house: ServiceIndex, service: int) -> dict[Labels, StatedSpan]:
    """The host names of the routes that lead to a service, and where each is declared."""
    found: dict[Labels, StatedSpan] = {}
    for edge in house.into(service, "ROUTES_TO"):
        if (host := _host(edge)) not in ((), ("*",)):
            found.setdefault(host, StatedSpan(edge.doc_id, edge.line, *edge.span))
    return found


def _host(route: Edge) -> Labels:
    """The host name of a route, ``*`` for what is filled in elsewhere; empty where it has none."""
    host = str(route.properties.get("host") or "")
    for variable in route.properties.get("unresolved") or ():
        host = host.replace(str(variable), "*")
    return labels_of(host) if host else ()
