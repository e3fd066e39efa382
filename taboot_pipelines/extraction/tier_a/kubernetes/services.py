"""Services of Kubernetes: their endpoints, the ports at which they are reached from outside, and the
workloads that their selectors lead to.
"""

from __future__ import annotations

import re

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.compose.claims import version_of
from taboot_pipelines.extraction.tier_a.endpoints import normal_host
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    Object,
    Surroundings,
    number,
    texts_of,
)
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import (
    claim_image,
    claim_reach,
    named_service,
    protocol_of,
    service_ref,
)
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node, is_open, listed
from taboot_pipelines.model.graph import SCHEMA_VERSION, SCHEMES, Basis
from taboot_pipelines.model.records import NodeRef

_APPLICATIONS = {
    "h2c": "http",
    "kubernetes.io/h2c": "http",
    "kubernetes.io/ws": "ws",
    "kubernetes.io/wss": "wss",
}
#: Annotations by which an address is asked for, of MetalLB, Cilium and kube-vip.
_ADDRESSES = (
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "io.cilium/lb-ipam-ips",
    "lbipam.cilium.io/ips",
    "kube-vip.io/loadbalancerIPs",
)


def claim_service(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> None:
    service = claims.node(
        service_ref(claims, one.namespace, one.name.text),
        one.name,
        {"schemaVersion": SCHEMA_VERSION, "description": one.description},
        declared=True,
    )
    spec = one.spec
    if service is not None:
        claim_reach(claims, service, one.namespace, one.name, one.name.text)
    if service is None or spec is None:
        return
    kind = spec.scalar("type")
    if kind is not None and kind.text == "ExternalName":
        _claim_external(claims, service, spec, one.namespace, surroundings)
        return
    ports = listed(spec, "ports")
    selector = spec.get("selector")
    pods = surroundings.selected(one.namespace, texts_of(selector))
    _claim_selected(claims, service, one.namespace, selector, pods, ports)
    addresses = _addresses(one.node, spec)
    for port in ports:
        at = number(port.get("port"))
        if at is None:
            written = port.scalar("port")
            if written is not None and is_open(written.text):
                claims.problem(port, "E_UNRESOLVED", "the port is yet to be put in.")
            else:
                claims.problem(port, "E_PARSE", "this is no port of a service.")
            continue
        _claim_endpoint(claims, service, port, at)
        target = target_port(port, pods)
        outer = number(port.get("nodePort"))
        if outer is not None and kind is not None and kind.text in ("NodePort", "LoadBalancer"):
            claims.bind(service, port, outer, protocol_of(port), "kubernetes_node_port", target=target)
        balanced = kind is not None and kind.text == "LoadBalancer"
        for address in addresses if balanced else []:
            claims.bind(
                service,
                port,
                at,
                protocol_of(port),
                "kubernetes_load_balancer",
                target=target,
                address=address,
                own=True,
            )
        if balanced and not addresses:
            claims.bind(service, port, at, protocol_of(port), "kubernetes_load_balancer", target=target)
        outside = spec.get("externalIPs")
        for external in outside.each() if outside is not None else ():
            claims.bind(
                service,
                port,
                at,
                protocol_of(port),
                "kubernetes_external_ip",
                target=target,
                address=external.text,
                own=True,
            )


#: By which names the Services of a database cluster end: to write, to read from any, to read from others.
_OF_CLUSTERS = ("rw", "ro", "r")
_POSTGRESQL = 5432


def is_database(one: Object) -> bool:
    """Whether an object is a cluster of PostgreSQL that CloudNativePG runs."""
    return one.kind == "Cluster" and one.group == "postgresql.cnpg.io"


def claim_database(claims: ClaimBuilder, one: Object) -> None:
    """A cluster of PostgreSQL: a service that answers to the names of the Services which its operator makes
    (cloudnative-pg.io, "Service management")."""
    image = one.spec.scalar("imageName") if one.spec is not None else None
    reference = try_reference(image.text) if image is not None else None
    names = [f"{one.name.text}-{end}" for end in _OF_CLUSTERS]
    service = claims.node(
        service_ref(claims, one.namespace, one.name.text),
        one.name,
        {
            "schemaVersion": SCHEMA_VERSION,
            "version": version_of(reference) if reference is not None else None,
            "port": _POSTGRESQL,
            "protocol": "tcp",
        },
        declared=True,
        aliases=names,
    )
    if service is None:
        return
    claim_reach(claims, service, one.namespace, one.name, *names)
    if image is not None:
        claim_image(claims, service, image)


def target_port(port: Node, pods: list[tuple[str, Node]]) -> int | None:
    """The port of the pods that a port of a service leads to; None where it has a name that no pod has."""
    written = port.scalar("targetPort")
    if written is None:
        return number(port.get("port"))
    found = number(written)
    if found is not None:
        return found
    for _, pod in pods:
        for container in listed(pod, "containers", "initContainers"):
            for own in listed(container, "ports"):
                name = own.scalar("name")
                if name is not None and name.text == written.text:
                    return number(own.get("containerPort"))
    return None


def _claim_selected(
    claims: ClaimBuilder,
    service: NodeRef,
    namespace: str,
    selector: Node | None,
    pods: list[tuple[str, Node]],
    ports: list[Node],
) -> None:
    """A Service leads what it is asked to the workloads that its selector names."""
    if selector is None:
        return
    for name, _ in pods:
        end = service_ref(claims, namespace, name)
        if end == service or claims.node(end, selector) is None:
            continue
        transports: dict[str, Node] = {}
        for port in ports:
            transports.setdefault(protocol_of(port), port)
        for transport, port in transports.items():
            claims.edge(
                "CONNECTS_TO",
                service,
                end,
                selector,
                "kubernetes_selector",
                protocol=transport,
                port=target_port(port, pods),
            )


def _claim_endpoint(claims: ClaimBuilder, service: NodeRef, port: Node, at: int) -> None:
    application = port.scalar("appProtocol")
    named = application.text.lower() if application is not None else ""
    scheme = _APPLICATIONS.get(named, named)
    scheme = scheme if scheme in SCHEMES else protocol_of(port)
    if scheme not in SCHEMES:
        return
    end = claims.endpoint(scheme, service.name, at, "/", port)
    claims.edge(
        "EXPOSES_ENDPOINT",
        service,
        end,
        port,
        "kubernetes_service_port",
        end_basis=Basis.DERIVED,
    )


def _claim_external(
    claims: ClaimBuilder, service: NodeRef, spec: Node, namespace: str, surroundings: Surroundings
) -> None:
    """A Service that is another name for a host."""
    external = spec.scalar("externalName")
    if external is None:
        return
    host = normal_host(external.text)
    end = named_service(claims, external.text, namespace, surroundings)
    if end is None and host is not None:
        end = NodeRef("Host", (host,), host)
    if end is None or end == service:
        return
    if claims.node(end, external) is not None:
        claims.edge(
            "CONNECTS_TO",
            service,
            end,
            external,
            "kubernetes_external_name",
            written=external.text,
        )


def _addresses(node: Node, spec: Node) -> list[str]:
    """The addresses of a load balancer, as far as the manifest asks for them or tells them."""
    found: dict[str, None] = {}
    asked = spec.scalar("loadBalancerIP")
    if asked is not None:
        found[asked.text] = None
    metadata = node.get("metadata")
    annotations = texts_of(metadata.get("annotations") if metadata is not None else None)
    for name in _ADDRESSES:
        for address in re.split(r"[,\s]+", annotations.get(name, "")):
            if address:
                found[address] = None
    status = node.get("status")
    for ingress in listed(status.get("loadBalancer") if status is not None else None, "ingress"):
        told = ingress.scalar("ip")
        if told is not None:
            found[told.text] = None
    return list(found)
