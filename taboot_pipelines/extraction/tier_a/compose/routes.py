"""Traefik's labels as routes of a reverse proxy and as endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import traefik
from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims, version_of
from taboot_pipelines.extraction.tier_a.proxying import Guard
from taboot_pipelines.extraction.tier_a.traefik import rules
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model.graph import SCHEMES, Basis, is_hostname
from taboot_pipelines.model.records import NodeRef

#: Stands for the name of a container in a default rule.
_CONTAINER = "\ufdd0"
_NAME = re.compile(r"\{\{\s*(?:normalize\s+)?\.Name\s*\}\}")
_DEFAULT_RULE = re.compile(r"--providers\.(?:docker|swarm)\.defaultrule[= ](.+)", re.IGNORECASE | re.DOTALL)

#: The proxy, the evidence for it (None: each route is), its properties, and its basis as an edge's start.
Proxy = tuple[NodeRef, Node | None, dict[str, Any], Basis]


def find_proxy(c: ProjectClaims, services: list[tuple[str, Node, Node]]) -> Proxy:
    """The project's Traefik service, else the proxy of the source."""
    for name, _, _ in services:
        image = c.images.get(name)
        if image is not None and image[0].repository.rpartition("/")[2] == "traefik":
            ref = NodeRef("ReverseProxy", (name,), name)
            properties = {"type": "traefik", "version": version_of(image[0])}
            c.node(ref, image[1], properties)
            return ref, image[1], properties, Basis.DERIVED
    name = c.source.proxy or c.source.source_id
    return NodeRef("ReverseProxy", (name,), name), None, {"type": "traefik"}, Basis.SOURCE


def claim_routes(
    c: ProjectClaims,
    ref: NodeRef,
    name: str,
    key: Node,
    proxy: Proxy,
    routes: Mapping[str, traefik.Labels],
    rule: str | None,
) -> None:
    """The routes and endpoints of one service's labels, given those of every service of the project and what
    :func:`default_rule` says."""
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
                (rules.old_targets if router.old else rules.targets)(router.rule.text)
                if router.rule is not None
                else [rules.Target(None, None, None)]
            )
            if not found:
                c.report(quoted, "E_PARSE", "the router's rule cannot be read.")
            c.node(start, where or quoted, properties)
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
    if own.by_default_rule and rule is not None:
        _by_default_rule(c, ref, name, proxy, own, rule)
    known = {
        middleware: said for labels in routes.values() for middleware, said in labels.middlewares.items()
    }
    for balancer in own.balancers.values():
        scheme = (balancer.scheme or "http") if balancer.protocol == "http" else balancer.protocol
        scheme = "http" if scheme == "h2c" else scheme
        if balancer.port is None or balancer.node is None or scheme not in SCHEMES or not is_hostname(name):
            continue
        end = NodeRef("Endpoint", (scheme, name, balancer.port, "/"), f"{scheme}://{name}:{balancer.port}/")
        guard = _guard(own, balancer, known)
        c.node(end, balancer.node, {"authRequired": True} if guard is not None else None)
        c.edge(
            "EXPOSES_ENDPOINT",
            ref,
            end,
            balancer.node,
            "compose_traefik_labels",
            end_basis=Basis.DERIVED,
            auth=guard.auth if guard is not None else None,
            authInclude=guard.name if guard is not None else None,
        )


def _guard(
    own: traefik.Labels, balancer: traefik.Balancer, known: Mapping[str, traefik.Middleware]
) -> Guard | None:
    """How a container's port is guarded: as the router with the shortest path, the front door, is."""
    found: list[tuple[int, int, Guard | None]] = []
    for number, router in enumerate(own.routers.values()):
        service = (router.service or balancer.name).lower().partition("@")[0]
        if router.protocol == balancer.protocol and service == balancer.name.lower():
            read = rules.old_targets if router.old else rules.targets
            paths = [t.path for t in read(router.rule.text)] if router.rule is not None else []
            shortest = min((len(p) for p in paths if p is not None), default=1 << 20)
            found.append((shortest, number, traefik.guard_of(router, known)))
    return min(found, key=lambda f: f[:2])[2] if found else None


def default_rule(services: list[tuple[str, Node, Node]]) -> str | None:
    """The rule that Traefik gives to a container without one, as the command of the project's Traefik says,
    or Traefik's own; None where that is a template that is not known."""
    for _, _, node in services:
        command = node.get("command")
        for word in command.each() if command is not None else ():
            match = _DEFAULT_RULE.search(word.text)
            if match is not None:
                written = _NAME.sub(_CONTAINER, match[1]).strip().strip("\"'")
                return None if "{{" in written.replace(_CONTAINER, "") else written
    return f"Host(`{_CONTAINER}`)"


def _by_default_rule(
    c: ProjectClaims, ref: NodeRef, name: str, proxy: Proxy, own: traefik.Labels, rule: str
) -> None:
    start, where, properties, basis = proxy
    assert own.enabled is not None
    # The provider calls a container of Compose so, and what a host cannot hold becomes a dash.
    called = re.sub(r"[^A-Za-z0-9]+", "-", f"{name}-{c.project.name}").strip("-")
    balancers = [b for b in own.balancers.values() if b.protocol == "http"]
    for target in rules.targets(rule.replace(_CONTAINER, called)):
        c.node(start, where or own.enabled, properties)
        c.edge(
            "ROUTES_TO",
            start,
            ref,
            own.enabled,
            "compose_traefik_labels",
            end_basis=Basis.DERIVED,
            start_basis=basis,
            host=target.host,
            path=target.path,
            location=target.location,
            tls=False,
            port=balancers[0].port if len(balancers) == 1 else None,
        )


def _balancers(
    c: ProjectClaims, ref: NodeRef, name: str, router: traefik.Router, routes: Mapping[str, traefik.Labels]
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
