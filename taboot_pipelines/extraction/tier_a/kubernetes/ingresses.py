"""Ingresses and routes of the Gateway API: what leads to which Service.

Reference: networking.k8s.io/v1 and its beta versions; gateway.networking.k8s.io/v1 (HTTPRoute and its kin).
"""

from __future__ import annotations

import re
from itertools import islice, product

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    Object,
    Surroundings,
    number,
    texts_of,
)
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import service_ref
from taboot_pipelines.extraction.tier_a.proxying import MAX_ROUTES
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, is_open, listed
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.model.stores import INGRESS_CONTROLLERS

_BACKENDS = {
    "HTTP": "http",
    "HTTPS": "https",
    "GRPC": "grpc",
    "GRPCS": "grpc+tls",
    "FCGI": "fastcgi",
}
_PATTERN = re.compile(r"[()\[\]{}*+?^$|\\]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECURE = frozenset({"websecure", "https"})
#: The API group of the Gateway API, and its routes.
GATEWAY = "gateway.networking.k8s.io"
_ROUTES = frozenset({"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"})


def is_route(one: Object) -> bool:
    """Whether an object is a route of the Gateway API."""
    return one.group == GATEWAY and one.kind in _ROUTES


def claim_class(claims: ClaimBuilder, one: Object) -> None:
    """An IngressClass: the proxy of its name is run by its controller."""
    controller = one.spec.scalar("controller") if one.spec is not None else None
    named = controller.text.lower() if controller is not None else ""
    claims.node(
        NodeRef("ReverseProxy", (one.name.text,), one.name.text),
        one.name,
        {"type": next((kind for kind in INGRESS_CONTROLLERS if kind in named), None)},
    )


def claim_ingress(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> None:
    spec = one.spec
    if spec is None:
        return
    metadata = one.node.get("metadata")
    annotations = texts_of(metadata.get("annotations") if metadata is not None else None)
    proxy, basis = _proxy(claims, one, spec, annotations)
    routes = _Routes(claims, one, surroundings, spec, annotations, proxy, basis)
    default = spec.get("defaultBackend") or spec.get("backend")
    if default is not None:
        routes.claim(default, default, None, None)
    for rule in listed(spec, "rules"):
        host = rule.scalar("host")
        for path in listed(rule.get("http"), "paths"):
            backend = path.get("backend")
            if backend is not None:
                routes.claim(path, backend, host, path.scalar("path"))


def claim_route(claims: ClaimBuilder, one: Object) -> None:
    """A route leads what its gateways get for its host names to Services. What it asks of headers, methods
    and queries says nothing about where a request goes, and is passed over."""
    spec = one.spec
    if spec is None:
        return
    gateways = [
        (claims.node(NodeRef("ReverseProxy", (name.text,), name.text), name), _is_by_tls(one, parent))
        for parent in listed(spec, "parentRefs")
        if (parent.scalar("kind") or parent).text in ("", "Gateway")
        and (name := parent.scalar("name")) is not None
        and not is_open(name.text)
    ]
    named = spec.get("hostnames")
    hosts: list[Node | None] = list(named.each()) if named is not None else []
    ways = (
        way
        for rule in listed(spec, "rules")
        for way in product(
            gateways,
            listed(rule, "backendRefs"),
            hosts or [None],
            [match.get("path") for match in listed(rule, "matches")] or [None],
        )
    )
    for (gateway, tls), backend, host, path in islice(ways, MAX_ROUTES):
        _claim_rule(claims, one, gateway, tls, backend, host, path)
    if next(ways, None) is not None:
        claims.problem(spec, "E_TOO_LARGE", f"only the first {MAX_ROUTES} ways of the route are kept.")


def _is_by_tls(one: Object, parent: Node) -> bool:
    """Whether clients come by TLS, as far as a route tells: by what it is, or the listener it names."""
    section = parent.scalar("sectionName")
    named = section.text.lower() if section is not None else ""
    return one.kind == "TLSRoute" or "https" in named or "tls" in named or number(parent.get("port")) == 443


def _claim_rule(
    claims: ClaimBuilder,
    one: Object,
    gateway: NodeRef | None,
    tls: bool,
    backend: Node,
    host: Node | None,
    path: Node | None,
) -> None:
    name, namespace = backend.scalar("name"), backend.scalar("namespace")
    if name is None or (backend.scalar("kind") or backend).text not in ("", "Service"):
        return
    value, kind = (path.scalar("value"), path.scalar("type")) if path is not None else (None, None)
    unset = _unset(claims, backend, host or backend, host, name, value)
    if unset is None:
        return
    location = value.text if value is not None else None
    # What is no HTTP has no path.
    pathless = one.kind in ("TLSRoute", "TCPRoute", "UDPRoute")
    pattern = pathless or (kind is not None and kind.text == "RegularExpression")
    end = service_ref(claims, one.namespace if namespace is None else namespace.text, name.text)
    claims.edge(
        "ROUTES_TO",
        gateway,
        claims.node(end, name),
        host if host is not None else backend,
        "kubernetes_gateway",
        host=host.text if host is not None else None,
        location=location,
        path=None if pattern else location or "/",
        tls=tls,
        port=number(backend.get("port")),
        unresolved=unset,
    )


def _unset(
    claims: ClaimBuilder, route: Node, named: Node, host: Node | None, name: Node, path: Node | None
) -> list[str] | None:
    """The variables in a host's name, which stand there by their own names and are noted at ``named``; None,
    and a note at ``route``, where anything else of a route is yet to be put in."""
    said = host.text if host is not None else ""
    unset = _VARIABLE.findall(said)
    texts = [_VARIABLE.sub("", said), name.text, path.text if path is not None else ""]
    if any(map(is_open, texts)):
        claims.problem(route, "E_UNRESOLVED", "the route is yet to be put in.")
        return None
    if unset:
        claims.problem(named, "E_UNRESOLVED", "the host's name is yet to be put in.")
    return unset


def _proxy(
    claims: ClaimBuilder, one: Object, spec: Node, annotations: dict[str, str]
) -> tuple[NodeRef | None, Basis]:
    """The proxy that an Ingress is for: its class, else the source's."""
    written = spec.scalar("ingressClassName")
    name = written.text if written is not None else annotations.get("kubernetes.io/ingress.class", "")
    if name and not is_open(name):
        kind = name if name in INGRESS_CONTROLLERS else None
        place = written if written is not None else one.name
        return claims.node(NodeRef("ReverseProxy", (name,), name), place, {"type": kind}), Basis.DERIVED
    given = claims.source.proxy or claims.source.source_id
    return claims.node(NodeRef("ReverseProxy", (given,), given), one.name), Basis.SOURCE


class _Routes:
    """The routes of one Ingress."""

    def __init__(
        self,
        claims: ClaimBuilder,
        one: Object,
        surroundings: Surroundings,
        spec: Node,
        annotations: dict[str, str],
        proxy: NodeRef | None,
        basis: Basis,
    ) -> None:
        self._claims = claims
        self._one = one
        self._surroundings = surroundings
        self._proxy = proxy
        self._basis = basis
        nginx = "nginx.ingress.kubernetes.io/"
        self._scheme = _BACKENDS.get(annotations.get(f"{nginx}backend-protocol", "").upper())
        self._patterns = annotations.get(f"{nginx}use-regex", "").lower() == "true" or "$" in annotations.get(
            f"{nginx}rewrite-target", ""
        )
        traefik = "traefik.ingress.kubernetes.io/router."
        entrypoints = {e.strip() for e in annotations.get(f"{traefik}entrypoints", "").split(",")} - {""}
        self._secure = annotations.get(f"{traefik}tls", "").lower() == "true" or bool(
            entrypoints and entrypoints <= _SECURE
        )
        self._certified: set[str] = set()
        for entry in listed(spec, "tls"):
            hosts = entry.get("hosts")
            names = [host.text.lower() for host in hosts.each()] if hosts is not None else []
            self._certified.update(names)
            # Without hosts the certificate is that of every one.
            self._secure = self._secure or not names

    def claim(self, place: Node, backend: Node, host: Node | None, path: Node | None) -> None:
        claims = self._claims
        name, port = _backend(backend)
        if name is None:
            return
        unset = _unset(claims, place, place, host, name, path)
        if unset is None:
            return
        end = claims.node(service_ref(claims, self._one.namespace, name.text), name)
        location = path.text if path is not None and path.text else None
        claims.edge(
            "ROUTES_TO",
            self._proxy,
            end,
            place,
            "kubernetes_ingress",
            start_basis=self._basis,
            host=host.text if host is not None else None,
            location=location,
            path=self._literal(place, location),
            tls=self._is_secure(host),
            port=self._port(name.text, port),
            scheme=self._scheme,
            unresolved=unset,
        )

    def _literal(self, place: Node, location: str | None) -> str | None:
        """The path that a pattern stands for, where it is none."""
        if location is None:
            return "/"
        kind = place.scalar("pathType")
        exact = kind is not None and kind.text in ("Prefix", "Exact") and not self._patterns
        return location if location.startswith("/") and (exact or not _PATTERN.search(location)) else None

    def _is_secure(self, host: Node | None) -> bool:
        if self._secure:
            return True
        name = host.text.lower() if host is not None else ""
        return bool(name) and (name in self._certified or f"*.{name.partition('.')[2]}" in self._certified)

    def _port(self, service: str, port: Node | None) -> int | None:
        found = number(port)
        if found is not None or port is None:
            return found
        node = self._surroundings.service(self._one.namespace, service)
        for own in listed(node.get("spec") if node is not None else None, "ports"):
            name = own.scalar("name")
            if name is not None and name.text == port.text:
                return number(own.get("port"))
        return None


def _backend(backend: Node) -> tuple[Node | None, Node | None]:
    """The names of the Service and of its port, or its number."""
    service = backend.get("service")
    if service is None:
        return backend.scalar("serviceName"), backend.scalar("servicePort")
    port = service.get("port")
    if port is None:
        return service.scalar("name"), None
    return service.scalar("name"), port.scalar("number") or port.scalar("name")
