"""Traefik's Docker labels (v2 and v3): routers, their services, and what a rule says about host and path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.yaml_nodes import Entry, Node

_LABEL = re.compile(r"traefik\.(http|tcp|udp)\.(routers|services)\.([^.]+)(?:\.(.+))?", re.IGNORECASE)
_SECURE_ENTRYPOINTS = frozenset({"websecure", "https", "web-secure", "websecured"})


@dataclass(slots=True)
class Router:
    name: str
    protocol: str
    rule: Node | None = None
    #: The first label of the router, which stands for it when it has no rule.
    label: Node | None = None
    service: str | None = None
    tls: bool = False
    tls_off: bool = False


@dataclass(slots=True)
class Balancer:
    """A Traefik service: where its port stands."""

    name: str
    protocol: str
    port: int | None = None
    scheme: str | None = None
    node: Node | None = None


@dataclass(slots=True)
class Labels:
    routers: dict[tuple[str, str], Router] = field(default_factory=dict)
    balancers: dict[tuple[str, str], Balancer] = field(default_factory=dict)


def read_labels(labels: Mapping[str, Entry]) -> Labels:
    """The routers and services of one container's labels; nothing if ``traefik.enable`` is false."""
    found = Labels()
    lowered = {name.lower(): value for name, (_, value) in labels.items()}
    enable = lowered.get("traefik.enable")
    if enable is not None and not enable.boolean(default=True):
        return found
    for name, (_, node) in labels.items():
        match = _LABEL.fullmatch(name)
        if match is None:
            continue
        protocol = match[1].lower()
        kind = match[2].lower()
        who = match[3]
        field_name = (match[4] or "").lower()
        text = node.text
        if kind == "routers":
            router = found.routers.setdefault((protocol, who.lower()), Router(who, protocol))
            router.label = router.label or node
            if field_name == "rule":
                router.rule = node
            elif field_name == "service":
                router.service = text.strip()
            elif field_name == "tls":
                router.tls, router.tls_off = node.boolean(default=True), not node.boolean(default=True)
            elif field_name.startswith("tls.") or (
                field_name == "entrypoints"
                and not _SECURE_ENTRYPOINTS.isdisjoint(e.strip().lower() for e in text.split(","))
            ):
                router.tls = True
        elif field_name.startswith("loadbalancer"):
            balancer = found.balancers.setdefault((protocol, who.lower()), Balancer(who, protocol))
            if (
                field_name == "loadbalancer.server.port"
                and text.isascii()
                and text.strip().isdecimal()
                and len(text) < 12
                and 1 <= int(text) <= 65535
            ):
                balancer.port, balancer.node = int(text), node
            elif field_name == "loadbalancer.server.scheme":
                balancer.scheme = text.strip().lower()
    for router in found.routers.values():
        router.tls = router.tls and not router.tls_off
    return found
