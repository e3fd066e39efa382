"""Traefik's Docker labels as routes of a reverse proxy and as endpoints.

Routers, their services and middlewares as Traefik 2 and 3 have them, and the frontends and segments of
Traefik 1, which count where a container has no routers and services of the later ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims, version_of
from taboot_pipelines.extraction.tier_a.compose.variables import unexplained
from taboot_pipelines.extraction.tier_a.proxying import Guard, port_number
from taboot_pipelines.extraction.tier_a.traefik import rules
from taboot_pipelines.extraction.tier_a.traefik.dynamic import SECURE_ENTRY_POINTS, SINGLE_SIGN_ON
from taboot_pipelines.extraction.tier_a.yaml_nodes import Entry, Node
from taboot_pipelines.model.graph import SCHEMES, Basis, is_hostname
from taboot_pipelines.model.records import NodeRef

_LABEL = re.compile(
    r"traefik\.(http|tcp|udp)\.(routers|services|middlewares)\.([^.]+)(?:\.(.+))?", re.IGNORECASE
)
_OLD_LABEL = re.compile(
    r"traefik\.(?:([^.]+)\.)?(port|protocol|frontend\.(?:rule|entrypoints|auth\.(?:basic|digest"
    r"|forward)(?:\..+)?))",
    re.IGNORECASE,
)
#: Middlewares (chains) that name one another.
_MAX_CHAIN = 16


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
    middlewares: list[str] = field(default_factory=list)
    #: Its rule is one of Traefik 1; how it is guarded stands with it.
    old: bool = False
    guard: Guard | None = None


@dataclass(slots=True)
class Balancer:
    """A Traefik service: where its port stands."""

    name: str
    protocol: str
    port: int | None = None
    scheme: str | None = None
    node: Node | None = None


@dataclass(slots=True)
class Middleware:
    """How a middleware guards, or the middlewares of a chain."""

    guard: Guard | None = None
    chain: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Labels:
    """What one container's labels say. ``enabled``: the label that says so, if there is one;
    ``old``: they are of Traefik 1."""

    routers: dict[tuple[str, str], Router] = field(default_factory=dict)
    balancers: dict[tuple[str, str], Balancer] = field(default_factory=dict)
    middlewares: dict[str, Middleware] = field(default_factory=dict)
    enabled: Node | None = None
    old: bool = False

    @property
    def by_default_rule(self) -> bool:
        """Whether Traefik makes a router of its own for the container: it is asked to take the container,
        which has none for HTTP, nor anything of TCP and UDP alone."""
        protocols = {protocol for protocol, _ in (*self.routers, *self.balancers)}
        return (
            self.enabled is not None
            and not self.old
            and not any(protocol == "http" for protocol, _ in self.routers)
            and (not protocols or "http" in protocols)
        )


def read_labels(labels: Mapping[str, Entry]) -> Labels:
    """The routers and services of one container's labels; nothing if ``traefik.enable`` is false."""
    found = Labels()
    lowered = {name.lower(): value for name, (_, value) in labels.items()}
    enable = lowered.get("traefik.enable")
    if enable is not None and not enable.boolean(default=True):
        return found
    found.enabled = enable
    for name, (_, node) in labels.items():
        match = _LABEL.fullmatch(name)
        if match is None:
            continue
        protocol = match[1].lower()
        kind = match[2].lower()
        who = match[3]
        field_name = (match[4] or "").lower()
        text = node.text
        if kind == "middlewares":
            _middleware(found.middlewares.setdefault(who.lower(), Middleware()), who, field_name, text)
        elif kind == "routers":
            router = found.routers.setdefault((protocol, who.lower()), Router(who, protocol))
            router.label = router.label or node
            if field_name == "rule":
                router.rule = node
            elif field_name == "service":
                router.service = text.strip()
            elif field_name == "middlewares":
                router.middlewares = _words(text)
            elif field_name == "tls":
                router.tls, router.tls_off = node.boolean(default=True), not node.boolean(default=True)
            elif field_name.startswith("tls.") or (
                field_name == "entrypoints"
                and not SECURE_ENTRY_POINTS.isdisjoint(e.strip().lower() for e in text.split(","))
            ):
                router.tls = True
        elif field_name.startswith("loadbalancer"):
            balancer = found.balancers.setdefault((protocol, who.lower()), Balancer(who, protocol))
            number = port_number(text.strip())
            if field_name == "loadbalancer.server.port" and number is not None:
                balancer.port, balancer.node = number, node
            elif field_name == "loadbalancer.server.scheme":
                balancer.scheme = text.strip().lower()
    for router in found.routers.values():
        router.tls = router.tls and not router.tls_off
    if not found.routers and not found.balancers:
        _read_old(labels, found)
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _middleware(middleware: Middleware, name: str, option: str, text: str) -> None:
    kind = option.partition(".")[0]
    if kind in ("basicauth", "digestauth"):
        middleware.guard = Guard("basic")
    elif kind == "forwardauth":
        middleware.guard = Guard("oauth2", name)
    elif option == "chain.middlewares":
        middleware.chain = _words(text)


def guard_of(router: Router, known: Mapping[str, Middleware]) -> Guard | None:
    """Who may pass a router, by the first of its middlewares that asks; ``known``: those of the project."""
    return router.guard or _guarding(router.middlewares, known, set(), 0)


def _guarding(
    names: Sequence[str], known: Mapping[str, Middleware], seen: set[str], depth: int
) -> Guard | None:
    for name in names:
        bare = name.partition("@")[0]
        middleware = known.get(bare.lower())
        if middleware is None:
            if SINGLE_SIGN_ON.search(name) is not None:
                return Guard("oauth2", bare)
            continue
        guard = middleware.guard
        if guard is None and bare not in seen and depth < _MAX_CHAIN:
            seen.add(bare)
            guard = _guarding(middleware.chain, known, seen, depth + 1)
        if guard is not None:
            return guard
    return None


def _read_old(labels: Mapping[str, Entry], found: Labels) -> None:
    """The labels of Traefik 1: ``traefik.frontend.rule``, ``traefik.port`` and the like, and the same with
    the name of a segment, for which the ones without stand in."""
    segments: dict[str, dict[str, Node]] = {}
    for name, (_, node) in labels.items():
        match = _OLD_LABEL.fullmatch(name)
        if match is not None:
            segments.setdefault((match[1] or "").lower(), {})[match[2].lower()] = node
    common = segments.get("", {})
    found.old = bool(segments)
    for segment, options in segments.items():
        rule = options.get("frontend.rule")
        port = options.get("port", common.get("port"))
        if segment and rule is None and len(segments) > 1 and "port" not in options:
            continue
        key = ("http", segment)
        if port is not None and (number := port_number(port.text.strip())) is not None:
            scheme = options.get("protocol", common.get("protocol"))
            written = scheme.text.strip().lower() if scheme is not None else None
            found.balancers[key] = Balancer(segment, "http", number, written, port)
        if rule is None:
            continue
        entry_points = options.get("frontend.entrypoints", common.get("frontend.entrypoints"))
        names = _words(entry_points.text) if entry_points is not None else []
        router = Router(segment, "http", rule, rule, old=True)
        router.tls = not SECURE_ENTRY_POINTS.isdisjoint(n.lower() for n in names)
        router.service = segment if key in found.balancers else None
        for option in options:
            if option.startswith(("frontend.auth.basic", "frontend.auth.digest")):
                router.guard = Guard("basic")
            elif option.startswith("frontend.auth.forward"):
                router.guard = Guard("oauth2")
        found.routers[key] = router


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
    routes: Mapping[str, Labels],
    rule: str | None,
) -> None:
    """The routes and endpoints of one service's labels, given those of every service of the project and what
    :func:`default_rule` says."""
    own = routes[name]
    start, where, properties, basis = proxy
    # Most services have no router, and all labels of a project are many.
    known = {
        middleware: said
        for labels in (routes.values() if own.routers else ())
        for middleware, said in labels.middlewares.items()
    }
    for router in own.routers.values():
        quoted = router.rule or router.label or key
        rule_text: str | None = None
        unset: tuple[str, ...] = ()
        if router.rule is not None:
            # What has no value yet stands in the rule by its name.
            c.mark(name, "labels", router.rule)
            rule_text = unexplained(router.rule.text)
            unset = tuple(v for v in router.rule.missing if v in rule_text)
            if not {"", "$"}.isdisjoint(unset):
                continue
        elif router.protocol != "udp":
            continue
        for end, balancer in _balancers(c, ref, name, router, routes):
            found = (
                (rules.old_targets if router.old else rules.targets)(rule_text)
                if rule_text is not None
                else [rules.Target(None, None, None)]
            )
            if not found and not unset:
                c.report(quoted, "E_PARSE", "the router's rule cannot be read.")
            c.node(start, where or quoted, properties)
            # Of a router without one, a middleware of a file or of the entry point may ask.
            guard = guard_of(router, known)
            for target in found:
                c.edge(
                    "ROUTES_TO",
                    start,
                    end,
                    quoted,
                    "compose_traefik_labels",
                    start_basis=basis,
                    host=target.host,
                    path=target.path if router.protocol == "http" else None,
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
                    auth=guard.auth if guard is not None else None,
                    authInclude=guard.name if guard is not None else None,
                    unresolved=[v for v in unset if v in f"{target.host} {target.location}"],
                )
    if own.by_default_rule and rule is not None:
        _by_default_rule(c, ref, name, proxy, own, rule)
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


def _guard(own: Labels, balancer: Balancer, known: Mapping[str, Middleware]) -> Guard | None:
    """How a container's port is guarded: as the router with the shortest path, the front door, is."""
    found: list[tuple[int, int, Guard | None]] = []
    for number, router in enumerate(own.routers.values()):
        service = (router.service or balancer.name).lower().partition("@")[0]
        if router.protocol == balancer.protocol and service == balancer.name.lower():
            read = rules.old_targets if router.old else rules.targets
            paths = [t.path for t in read(router.rule.text)] if router.rule is not None else []
            shortest = min((len(p) for p in paths if p is not None), default=1 << 20)
            found.append((shortest, number, guard_of(router, known)))
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


def _by_default_rule(c: ProjectClaims, ref: NodeRef, name: str, proxy: Proxy, own: Labels, rule: str) -> None:
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
    c: ProjectClaims, ref: NodeRef, name: str, router: Router, routes: Mapping[str, Labels]
) -> list[tuple[NodeRef, Balancer | None]]:
    """The Compose services that a router leads to: those whose labels define its service, else its own."""
    own = routes[name].balancers
    if router.service is None:
        mine = [b for b in own.values() if b.protocol == router.protocol]
        return [(ref, mine[0] if len(mine) == 1 else None)]
    wanted, _, provider = router.service.lower().partition("@")
    if provider == "internal":
        # Traefik answers it itself, whichever container has the label.
        image = c.images.get(name)
        return [(ref, None)] if image is not None and "traefik" in image[0].name.rpartition("/")[2] else []
    if provider not in ("", "docker", "swarm"):
        return []
    key = (router.protocol, wanted)
    found: list[tuple[NodeRef, Balancer | None]] = [
        (c.service(other), labels.balancers[key])
        for other, labels in routes.items()
        if key in labels.balancers
    ]
    # A service that no label defines is the one Traefik makes of the container itself.
    return [(ref, own[key])] if key in own else found or [(ref, None)]
