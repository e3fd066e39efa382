"""Workloads: the service that their pods are, its images, the ports of machines, and what it connects to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Where
from taboot_pipelines.extraction.tier_a.compose.claims import version_of
from taboot_pipelines.extraction.tier_a.compose.connections import (
    asking_scheme,
    encryption,
    lone_hosts,
    named_hosts,
)
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.kubernetes.objects import Object, Surroundings, number
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node, listed
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import NodeRef

_PROTOCOL = re.compile(r"[a-z0-9]+")
#: ``service.namespace.svc``, with a pod before it or a cluster's domain behind.
_CLUSTER_NAME = re.compile(r"(?:[\w-]+\.)?([\w-]+)\.([\w-]+)\.svc(?:\.[\w.-]*)?", re.ASCII)
#: How sure a name without a port is a host's by what it is the value of (see ``lone_hosts``): at least, and
#: at most; and how sure one in a URL, with a port or in full is.
_SURE = (0.0, 0.9, 0.9)


def service_ref(claims: ClaimBuilder, namespace: str, name: str) -> NodeRef:
    """A workload or a Service of Kubernetes: two of one name in a namespace are one service."""
    return NodeRef("Service", (f"{claims.place}/{namespace}", name), name)


def claim_workload(claims: ClaimBuilder, one: Object, surroundings: Surroundings) -> None:
    _, pod = one.pod
    containers = listed(pod, "containers")
    images = [(c, image) for c in containers if (image := c.scalar("image")) is not None]
    reference = try_reference(images[0][1].text) if images else None
    ports = [port for container in containers for port in listed(container, "ports")]
    first = next((port for port in ports if number(port.get("containerPort")) is not None), None)
    service = claims.node(
        service_ref(claims, one.namespace, one.name.text),
        one.name,
        {
            "schemaVersion": SCHEMA_VERSION,
            "version": version_of(reference) if reference is not None else None,
            "port": number(first.get("containerPort")) if first is not None else None,
            "protocol": protocol_of(first) if first is not None else None,
            "description": one.description,
        },
        declared=True,
    )
    if service is None or pod is None:
        return
    claim_reach(claims, service, one.namespace, one.name)
    everything = listed(pod, "initContainers", "containers", "ephemeralContainers")
    unresolved: dict[str, None] = {}
    for container in everything:
        image = container.scalar("image")
        if image is not None and not claim_image(claims, service, image):
            unresolved["image"] = None
    shares = pod.get("hostNetwork")
    for port in ports:
        _claim_host_port(claims, service, port, shared=shares is not None and shares.boolean())
    for container in everything:
        for key, value in _texts(container, one.namespace, surroundings):
            claim_connections(claims, service, key, value.text, value, one.namespace, surroundings)
    if unresolved:
        claims.amend(service, unresolved=list(unresolved))


def claim_reach(
    claims: ClaimBuilder, service: NodeRef, namespace: str, where: Node, *names: str, pattern: bool = False
) -> None:
    """A workload and a Service are in the cluster and in their namespace; a Service has ``names`` there.
    ``pattern``: it is a release, whose chart calls its Services by its name and what they are."""
    zone = f"{namespace}.svc"
    full = [f"{name}.{part}" for name in names for part in (namespace, zone, f"{zone}.cluster.local")]
    made = [f"{name}-*.{namespace}" for name in names] if pattern else []
    claims.reach(service, f"{claims.place}/cluster.local", [*full, *made], where)
    claims.reach(service, f"{claims.place}/{zone}.cluster.local", names, where)


def _patterns(host: str, namespace: str) -> list[str]:
    """What a release may answer to whose chart called a Service by this host's name, the longest first:
    names begin with the release's (helm.sh, "Best practices: templates")."""
    full = _CLUSTER_NAME.fullmatch(host)
    name, _, other = host.rstrip(".").partition(".") if full is None else (full[1], "", full[2])
    words = name.lower().split("-")
    if "." in other:
        return []
    beginnings = ("-".join(words[:n]) for n in range(len(words) - 1, 0, -1))
    return [f"{beginning}-*.{other or namespace}" for beginning in beginnings if beginning]


def protocol_of(port: Node) -> str:
    """The transport of a port, in lower case."""
    written = port.scalar("protocol")
    text = written.text.lower() if written is not None else "tcp"
    return text if _PROTOCOL.fullmatch(text) is not None else "tcp"


def claim_image(claims: ClaimBuilder, service: NodeRef, image: Node) -> bool:
    """False for an image that is yet to be put in."""
    if "$" in image.text or "{{" in image.text:
        claims.problem(image, "E_UNRESOLVED", "the image is yet to be put in.")
        return False
    reference = try_reference(image.text)
    if reference is None:
        claims.problem(image, "E_PARSE", "the image reference does not follow the OCI grammar.")
        return True
    end = claims.image(reference, image.text, image)
    if end is not None:
        claims.edge(
            "BUILDS",
            service,
            end,
            image,
            "kubernetes_image",
            written=image.text,
        )
    return True


def _claim_host_port(claims: ClaimBuilder, service: NodeRef, port: Node, *, shared: bool) -> None:
    """A port of the machines that the pods run on; with ``shared``, of their own network."""
    target = number(port.get("containerPort"))
    published = number(port.get("hostPort")) or (target if shared else None)
    if published is None:
        return
    address = port.scalar("hostIP")
    claims.bind(
        service,
        port,
        published,
        protocol_of(port),
        "kubernetes_host_port",
        target=target,
        address=address.text if address is not None else None,
    )


# --- connections --------------------------------------------------------------------------------------------


def _texts(container: Node, namespace: str, surroundings: Surroundings) -> Iterator[tuple[str, Node]]:
    """(what it is the value of, the value) of what a container is given: its environment, that of ConfigMaps
    included, and its command."""
    for variable in listed(container, "env"):
        name, value = variable.scalar("name"), variable.get("value")
        # An image reference has the form of a host and a port.
        if name is not None and "IMAGE" in name.text.upper():
            continue
        if value is not None and value.kind == SCALAR:
            yield name.text if name is not None else "", value
        origin = variable.get("valueFrom")
        reference = origin.get("configMapKeyRef") if origin is not None else None
        key = reference.scalar("key") if reference is not None else None
        if reference is not None and key is not None:
            yield from configured(reference, namespace, surroundings, key.text)
    for whole in listed(container, "envFrom"):
        reference = whole.get("configMapRef")
        if reference is not None:
            yield from configured(reference, namespace, surroundings, None)
    for field in ("command", "args"):
        part = container.get(field)
        option = ""
        for value in part.each() if part is not None else ():
            yield option, value
            option = value.text if value.text.startswith("-") else ""


def configured(
    reference: Node, namespace: str, surroundings: Surroundings, key: str | None
) -> Iterator[tuple[str, Node]]:
    """The keys and values of a ConfigMap, or those of one key."""
    name = reference.scalar("name")
    config = surroundings.config(namespace, name.text) if name is not None else None
    data = config.get("data") if config is not None else None
    for variable, (_, value) in data.entries.items() if data is not None else ():
        if value.kind == SCALAR and (key is None or variable == key) and "IMAGE" not in variable.upper():
            yield variable, value


def claim_connections(
    claims: ClaimBuilder,
    service: NodeRef,
    key: str,
    text: str,
    where: Where,
    namespace: str,
    surroundings: Surroundings,
    method: str = "kubernetes_env",
    sure: tuple[float, float, float] = _SURE,
) -> None:
    """Connections to the services that the value of a key names by a URL or as ``host:port``, and the hosts
    that may be those of other files."""
    least, most, named = sure
    if _CLUSTER_NAME.fullmatch(text) is not None:
        made = _patterns(text, namespace)
        claims.use(service, text, where, f"{method}_host", confidence=named, patterns=made)
    for host, confidence in lone_hosts(key, text):
        if confidence >= least:
            claims.use(service, host, where, f"{method}_host", confidence=min(confidence, most))
    for scheme, host, port in named_hosts(text):
        end = named_service(claims, host, namespace, surroundings)
        asked = asking_scheme(key, scheme) if end is None else scheme
        claims.use(
            service,
            host,
            where,
            f"{method}_url",
            protocol=asked,
            port=port,
            encrypted=encryption(asked, text),
            confidence=named,
            patterns=_patterns(host, namespace),
        )
        if end is None or end == service:
            continue
        claims.edge(
            "CONNECTS_TO",
            claims.node(service, where),
            claims.node(end, where),
            where,
            f"{method}_url",
            written=host,
            confidence=named,
            protocol=scheme,
            port=port,
            encrypted=encryption(scheme, text),
        )


def named_service(
    claims: ClaimBuilder, host: str, namespace: str, surroundings: Surroundings
) -> NodeRef | None:
    """The Service that a name means within the cluster: one that the manifests have, or any by its full
    name."""
    full = _CLUSTER_NAME.fullmatch(host)
    if full is not None:
        return service_ref(claims, full[2], full[1])
    name, _, other = host.rstrip(".").partition(".")
    if "." in other or surroundings.service(other or namespace, name) is None:
        return None
    return service_ref(claims, other or namespace, name)
