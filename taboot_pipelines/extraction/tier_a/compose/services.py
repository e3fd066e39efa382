"""A project's services and containers, and the order in which its claims are collected."""

from __future__ import annotations

from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose import traefik
from taboot_pipelines.extraction.tier_a.compose.addresses import claim_extra_hosts, claim_ports
from taboot_pipelines.extraction.tier_a.compose.builds import claim_builds
from taboot_pipelines.extraction.tier_a.compose.collector import SERVICE_NAME, ProjectClaims, version_of
from taboot_pipelines.extraction.tier_a.compose.connections import all_labels, claim_connections
from taboot_pipelines.extraction.tier_a.compose.dependencies import claim_dependencies
from taboot_pipelines.extraction.tier_a.compose.networks import claim_networks, memberships
from taboot_pipelines.extraction.tier_a.compose.ports import read_ports
from taboot_pipelines.extraction.tier_a.compose.routes import claim_routes, default_rule, find_proxy
from taboot_pipelines.extraction.tier_a.compose.scalars import resolved
from taboot_pipelines.extraction.tier_a.compose.tunnels import claim_vpn
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, Node
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import SCHEMA_VERSION, Basis
from taboot_pipelines.model.records import NodeRef

#: Replicas of one service that become containers of their own.
MAX_REPLICAS = 100
_RESTARTS = {
    "none": "no",
    "no": "no",
    "false": "no",
    "any": "always",
    "always": "always",
    "on-failure": "on-failure",
    "unless-stopped": "unless-stopped",
}


def claim_project(c: ProjectClaims) -> None:
    """Collect everything that the project says: first its names, then service by service."""
    services: list[tuple[str, Node, Node]] = []
    for name, (key, node) in c.project.services.items():
        if name.startswith("x-") and node.get("image") is None and node.get("build") is None:
            continue
        if SERVICE_NAME.fullmatch(name) is None or (node.kind != MAPPING and not node.is_null):
            c.report(key, "E_PARSE", "this is no service that Compose accepts; it is left out.")
            continue
        services.append((name, key, node))
        _names_of(c, name, node)
    for name, key, node in services:
        _declare(c, name, key, node)
    claim_networks(c)
    proxy = find_proxy(c, services)
    routes = {name: traefik.read_labels(all_labels(c, name, node)) for name, _, node in services}
    rule = default_rule(services)
    for name, key, node in services:
        ref = c.service(name)
        claim_dependencies(c, ref, name, node)
        claim_builds(c, ref, name, key, node)
        claim_ports(c, ref, name, node)
        _containers(c, name, key, node)
        claim_extra_hosts(c, node)
        claim_connections(c, ref, name, node)
        claim_vpn(c, ref, name, node)
        claim_routes(c, ref, name, key, proxy, routes, rule)
    for name, marks in c.unresolved.items():
        c.amend(c.service(name), unresolved=marks)


def _names_of(c: ProjectClaims, name: str, node: Node) -> None:
    c.answering[name] = name
    image = node.scalar("image")
    if image is not None and not image.missing:
        reference = try_reference(image.text)
        if reference is not None:
            c.images[name] = (reference, image)


def _declare(c: ProjectClaims, name: str, key: Node, node: Node) -> None:
    container = node.scalar("container_name")
    alias = None if container is None or c.mark(name, "container_name", container) else container.text
    for other in (alias, c.container_name(name, 1), *_network_aliases(node)):
        if other:
            c.answering.setdefault(other, name)
    image = c.images.get(name)
    port = _first_port(node)
    profiles = node.get("profiles")
    c.node(
        c.service(name),
        key,
        {
            "schemaVersion": SCHEMA_VERSION,
            "version": version_of(image[0]) if image is not None else None,
            "protocol": port[1] if port else None,
            "port": port[0] if port else None,
            "profiles": list(dict.fromkeys(p.text for p in profiles.each()))
            if profiles is not None
            else None,
            "restart": _restart(node)[0],
            "containerName": alias,
        },
        declared=True,
        aliases=(alias,) if alias and alias != name else (),
    )


def _network_aliases(node: Node) -> Iterator[str]:
    networks = node.get("networks")
    for _, network in networks.entries.values() if networks is not None else ():
        aliases = network.get("aliases")
        if aliases is not None:
            yield from (a.text for a in aliases.each() if not a.missing)


def _first_port(node: Node) -> tuple[int, str] | None:
    for field in ("ports", "expose"):
        entries = node.get(field)
        for item in entries.items if entries is not None else ():
            ports = read_ports(item)
            if ports is not None:
                return ports.bindings[0].target, ports.bindings[0].protocol
    return None


def _restart(node: Node) -> tuple[str | None, str | None]:
    """The policy as written, and as the model names it. ``deploy.restart_policy`` counts more, as Compose has
    it.
    """
    deploy = node.get("deploy")
    policy = deploy.get("restart_policy") if deploy is not None else None
    written = policy.scalar("condition") if policy is not None else node.scalar("restart")
    if written is None:
        return ("any", "always") if policy is not None else (None, None)
    if written.missing:
        return None, None
    return written.text, _RESTARTS.get(written.text.partition(":")[0].strip().lower())


def _replicas(c: ProjectClaims, node: Node) -> int:
    deploy = node.get("deploy")
    written = node.scalar("scale") or (deploy.scalar("replicas") if deploy is not None else None)
    text = resolved(written) if written is not None else ""
    if written is None or not (text.isascii() and text.isdecimal()) or len(text) > 9:
        return 1
    count = int(text)
    if count > MAX_REPLICAS:
        c.report(written, "E_TOO_LARGE", f"only the first {MAX_REPLICAS} replicas are kept.")
    return min(count, MAX_REPLICAS)


def _containers(c: ProjectClaims, name: str, key: Node, node: Node) -> None:
    container = node.scalar("container_name")
    image = c.images.get(name)
    joined = list(memberships(c, name, key, node))
    restart = _restart(node)[1]
    for index in range(1, _replicas(c, node) + 1):
        own = container is not None and not container.missing and index == 1
        title = container.text if own and container is not None else c.container_name(name, index)
        ref = NodeRef("Container", (ids.container_id(c.source.namespace, c.scope, name, index),), title)
        c.node(
            ref,
            container if own and container is not None else key,
            {
                "name": title,
                "image": image[1].text if image is not None else None,
                "composeProject": c.project.name,
                "composeService": name,
                "declared": True,
            },
            declared=True,
        )
        for network, quoted, basis, mode, aliases in joined:
            c.edge(
                "RUNS_IN",
                ref,
                network,
                quoted,
                "compose_networks",
                end_basis=basis,
                networkMode=mode,
                aliases=aliases,
            )
        if c.claim_host(key) is not None:
            c.edge("RUNS", ref, c.host, key, "compose_host", end_basis=Basis.SOURCE, restartPolicy=restart)
