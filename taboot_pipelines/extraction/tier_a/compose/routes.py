"""Traefik's labels as routes of a reverse proxy and as endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import traefik
from taboot_pipelines.extraction.tier_a.compose.collector import Collector, evidence, version_of
from taboot_pipelines.extraction.tier_a.traefik import rules
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model.graph import SCHEMES, Basis, is_hostname
from taboot_pipelines.model.records import Evidence, NodeRef

#: The proxy, the evidence for it (None: each route is), its properties, and its basis as an edge's start.
Proxy = tuple[NodeRef, Evidence | None, dict[str, Any], Basis]


def find_proxy(c: Collector, services: list[tuple[str, Node, Node]]) -> Proxy:
    """The project's Traefik service, else the proxy of the source."""
    for name, _, _ in services:
        image = c.images.get(name)
        if image is not None and image[0].repository.rpartition("/")[2] == "traefik":
            ref = NodeRef("ReverseProxy", (name,), name)
            properties = {"type": "traefik", "version": version_of(image[0])}
            c.node(ref, evidence(image[1]), properties)
            return ref, evidence(image[1]), properties, Basis.DERIVED
    name = c.source.proxy or c.source.source_id
    return NodeRef("ReverseProxy", (name,), name), None, {"type": "traefik"}, Basis.SOURCE


def claim_routes(
    c: Collector, ref: NodeRef, name: str, key: Node, proxy: Proxy, routes: Mapping[str, traefik.Labels]
) -> None:
    """The routes and endpoints of one service's labels, given those of every service of the project."""
    own = routes[name]
    start, where, properties, basis = proxy
    for router in own.routers.values():
        quoted = router.rule or router.label or key
        if router.rule is not None and c.mark(name, "labels", router.rule):
            continue
        if router.rule is None and router.protocol != "udp":
            continue
        for end, balancer in _balancers(c, ref, name, router, routes):
            found = (
                rules.targets(router.rule.text)
                if router.rule is not None
                else [rules.Target(None, None, None)]
            )
            if not found:
                c.report(quoted, "E_PARSE", "the router's rule cannot be read.")
            c.node(start, where or evidence(quoted), properties)
            for target in found:
                c.edge(
                    "ROUTES_TO",
                    start,
                    end,
                    quoted,
                    "compose_traefik_labels",
                    start_basis=basis,
                    host=target.host,
                    path=target.path,
                    location=target.location,
                    tls=router.tls,
                    port=balancer.port if balancer is not None else None,
                    scheme=(
                        router.protocol
                        if router.protocol != "http"
                        else balancer.scheme
                        if balancer is not None and balancer.scheme in SCHEMES
                        else None
                    ),
                )
    for balancer in own.balancers.values():
        scheme = (balancer.scheme or "http") if balancer.protocol == "http" else balancer.protocol
        scheme = "http" if scheme == "h2c" else scheme
        if balancer.port is None or balancer.node is None or scheme not in SCHEMES or not is_hostname(name):
            continue
        end = NodeRef("Endpoint", (scheme, name, balancer.port, "/"), f"{scheme}://{name}:{balancer.port}/")
        c.node(end, evidence(balancer.node))
        c.edge("EXPOSES_ENDPOINT", ref, end, balancer.node, "compose_traefik_labels", Basis.DERIVED)


def _balancers(
    c: Collector, ref: NodeRef, name: str, router: traefik.Router, routes: Mapping[str, traefik.Labels]
) -> list[tuple[NodeRef, traefik.Balancer | None]]:
    """The Compose services that a router leads to: those whose labels define its service, else its own."""
    own = routes[name].balancers
    if router.service is None:
        mine = [b for b in own.values() if b.protocol == router.protocol]
        return [(ref, mine[0] if len(mine) == 1 else None)]
    wanted, _, provider = router.service.lower().partition("@")
    if provider == "internal":
        return [(ref, None)]
    if provider not in ("", "docker", "swarm"):
        return []
    key = (router.protocol, wanted)
    found: list[tuple[NodeRef, traefik.Balancer | None]] = [
        (c.service(other), labels.balancers[key])
        for other, labels in routes.items()
        if key in labels.balancers
    ]
    # A service that no label defines is the one Traefik makes of the container itself.
    return [(ref, own[key])] if key in own else found or [(ref, None)]
