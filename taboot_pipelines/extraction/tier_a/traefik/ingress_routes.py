"""Traefik's Kubernetes resources: IngressRoute, IngressRouteTCP, IngressRouteUDP, with the TraefikServices
and Middlewares that they name in the same file.

A Kubernetes service is a Service in the scope ``{host or source id}/{Kubernetes namespace}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.kubernetes.placements import default_namespace
from taboot_pipelines.extraction.tier_a.proxying import Route, RouteClaims, Steps
from taboot_pipelines.extraction.tier_a.texts import BAD_TEXT, Problems, UnitTexts
from taboot_pipelines.extraction.tier_a.traefik import rules
from taboot_pipelines.extraction.tier_a.traefik.dynamic import (
    SECURE_ENTRY_POINTS,
    Ref,
    first_guard,
    has,
    option,
    text_of,
    words_of,
)
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SEQUENCE, Node, Origin, parse
from taboot_pipelines.model.records import Evidence, FileView, Interpretation, SourceFacts

_API = re.compile(r"""^["']?apiVersion["']?[ \t]*:[ \t]*["']?traefik\.(?:io|containo\.us)/""", re.MULTILINE)
_VERSION = re.compile(r"traefik\.(?:io|containo\.us)/.+")
_PROTOCOLS = {"IngressRoute": "http", "IngressRouteTCP": "tcp", "IngressRouteUDP": "udp"}
#: TraefikServices that name one another.
_MAX_CHAIN = 16

#: (kind, Kubernetes namespace, name)
_Key = tuple[str, str, str]


class IngressRouteReader:
    """Tier A for the routes among the resources of a Kubernetes manifest; it passes over all others."""

    name = "ingressroute"
    version = "8"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        """What the file's routes say. What cannot be read or resolved is a problem beside the rest
        (``E_PARSE``, ``E_CYCLE``, ``E_NOT_FOUND``, ``E_UNRESOLVED``)."""
        texts = UnitTexts(view)
        claims = RouteClaims(texts, source, path, "traefik", "traefik_ingressroute")
        text = texts.text(path)
        if text is not None and _API.search(text) is not None:
            place, namespace = source.host or source.source_id, default_namespace(path, view)
            try:
                found = parse(Origin(path, text, ""), Problems())
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                texts.problem(path, error.code, error.message)
                found = []
            try:
                claims.add_all(_Unit(path, texts, _resources(found), place, namespace).routes())
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                texts.problem(path, error.code, error.message)
        return claims.result()


def _resources(found: Sequence[Node]) -> list[Node]:
    """The resources of all documents, those in lists too."""
    resources: list[Node] = []
    for document in found:
        items = option(document, "items") if text_of(option(document, "kind")).endswith("List") else None
        each = items.items if items is not None and items.kind == SEQUENCE else [document]
        resources += [r for r in each if r.kind == MAPPING]
    return resources


class _Unit:
    def __init__(
        self, path: str, texts: UnitTexts, resources: Sequence[Node], place: str, default: str
    ) -> None:
        """``default``: the namespace of resources that name none."""
        self._steps = Steps(path)
        self._texts = texts
        self._place = place
        self._own: list[tuple[_Key, Node]] = []
        #: The ports of Services by their names: {(namespace, service): {port name: number}}.
        self._ports: dict[tuple[str, str], dict[str, int]] = {}
        for resource in resources:
            kind = text_of(option(resource, "kind"))
            namespace = text_of(option(resource, "metadata", "namespace")) or default
            key = (kind, namespace, text_of(option(resource, "metadata", "name")))
            if _VERSION.fullmatch(text_of(option(resource, "apiVersion"))) is not None:
                self._own.append((key, resource))
            elif kind == "Service":
                self._ports[key[1:]] = {
                    text_of(option(port, "name")): int(text_of(option(port, "port")))
                    for port in _each(option(resource, "spec", "ports"))
                    if text_of(option(port, "port")).isdecimal() and len(text_of(option(port, "port"))) < 6
                }
        self._named = dict(self._own)

    def routes(self) -> Iterator[Route]:
        for (kind, namespace, _), resource in self._own:
            protocol = _PROTOCOLS.get(kind)
            if protocol is None:
                continue
            spec = option(resource, "spec")
            tls = has(spec, "tls") or (
                protocol == "http"
                and not SECURE_ENTRY_POINTS.isdisjoint(
                    n.lower() for n in words_of(option(spec, "entryPoints"))
                )
            )
            for route in _each(option(spec, "routes")):
                yield from self._route(route, protocol, namespace, tls)

    def _route(self, route: Node, protocol: str, namespace: str, tls: bool) -> Iterator[Route]:
        found = [rules.Target(None, None, None)]
        match = option(route, "match")
        if match is not None:
            found = rules.targets(text_of(match))
            if not found:
                self._texts.problem_at(_evidence(match), "E_PARSE", "the route's rule cannot be read.")
                return
        elif protocol != "udp":
            return
        guard = first_guard(
            _middlewares(route, namespace),
            self._middleware,
            lambda ref, chain: _middlewares(chain, ref[0]),
            self._steps,
        )
        for service in _each(option(route, "services")):
            for target, where, scope in self._targets(service, protocol, namespace, ()):
                for each in found:
                    path = each.path if protocol == "http" else None
                    yield Route(
                        target,
                        where,
                        each.host,
                        each.location,
                        path,
                        tls,
                        guard,
                        scope,
                        methods=each.methods,
                    )

    def _targets(
        self, service: Node, protocol: str, namespace: str, chain: tuple[_Key, ...]
    ) -> Iterator[tuple[Target, Evidence, str]]:
        self._steps.take()
        name = option(service, "name")
        if name is None or not text_of(name) or text_of(name).endswith("@internal"):
            return
        where = _evidence(service)
        namespace = text_of(option(service, "namespace")) or namespace
        if text_of(option(service, "kind")) == "TraefikService":
            yield from self._combined(("TraefikService", namespace, text_of(name)), where, protocol, chain)
            return
        port = text_of(option(service, "port"))
        scheme = protocol if protocol != "http" else text_of(option(service, "scheme")) or "http"
        number = (
            int(port)
            if port.isascii() and port.isdecimal() and len(port) < 6
            else self._ports.get((namespace, text_of(name)), {}).get(port)
        )
        if port == "443" and protocol == "http" and option(service, "scheme") is None:
            scheme = "https"
        if number is None or not 1 <= number <= 65535:
            what = "the port of the service is known by a name only." if port else "the service has no port."
            self._texts.problem_at(where, "E_UNRESOLVED", what)
            return
        scheme = {"h2c": "http"}.get(scheme, scheme)
        yield Target(scheme, text_of(name), number), where, f"{self._place}/{namespace}"

    def _combined(
        self, key: _Key, where: Evidence, protocol: str, chain: tuple[_Key, ...]
    ) -> Iterator[tuple[Target, Evidence, str]]:
        if key in chain or len(chain) >= _MAX_CHAIN:
            self._texts.problem_at(where, "E_CYCLE", "a TraefikService leads back to itself.")
            return
        spec = option(self._named.get(key), "spec")
        if spec is None:
            self._texts.problem_at(
                where, "E_NOT_FOUND", "the TraefikService that is named is not in the file."
            )
            return
        services: list[Node] = [
            *_each(option(spec, "weighted", "services")),
            *_each(option(spec, "highestRandomWeight", "services")),
        ]
        mirroring = option(spec, "mirroring")
        if mirroring is not None:
            services += [mirroring, *_each(option(mirroring, "mirrors"))]
        for part in ("service", "fallback"):
            each = option(spec, "failover", part)
            services += [each] if each is not None else []
        for service in services:
            yield from self._targets(service, protocol, key[1], (*chain, key))

    def _middleware(self, ref: Ref) -> Node | None:
        return option(self._named.get(("Middleware", *ref)), "spec")


def _middlewares(node: Node | None, namespace: str) -> list[Ref]:
    """The middlewares that a route or a chain names; ``namespace``: its own."""
    each = _each(option(node, "middlewares"))
    return [(text_of(option(n, "namespace")) or namespace, text_of(option(n, "name"))) for n in each]


def _each(node: Node | None) -> Sequence[Node]:
    return node.items if node is not None and node.kind == SEQUENCE else ()


def _evidence(node: Node) -> Evidence:
    return Evidence(node.origin.path, node.start, max(node.end, node.start + 1))
