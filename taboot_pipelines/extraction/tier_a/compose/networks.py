"""The networks of a project by their real names, and which of them a container is in."""

from __future__ import annotations

from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model.graph import NETWORK_MODES, Basis, is_cidr, is_public
from taboot_pipelines.model.records import NodeRef


def _network_ref(c: ProjectClaims, name: str) -> NodeRef:
    return NodeRef("Network", (f"{c.place}/{name}",), name)


def _real_network(c: ProjectClaims, name: str) -> str | None:
    """The real name of a network of the project; None if it cannot be known."""
    entry = c.project.networks.get(name)
    if entry is None:
        return f"{c.project.name}_{name}"
    _, node = entry
    external = node.get("external")
    written = node.scalar("name") or (
        external.scalar("name") if external is not None and external.is_map else None
    )
    if written is not None:
        return None if written.missing else written.text
    is_external = external is not None and (external.is_map or external.boolean())
    return name if is_external else f"{c.project.name}_{name}"


def claim_networks(c: ProjectClaims) -> None:
    """The networks that the project declares."""
    for name, (key, node) in c.project.networks.items():
        if name.startswith("x-") or name == "":
            continue
        real = _real_network(c, name)
        if real is None:
            c.report(
                key, "E_PARSE", "the network's real name holds a variable without a value; it is left out."
            )
            continue
        external = node.get("external")
        driver = node.scalar("driver")
        ipam = node.get("ipam")
        config = ipam.get("config") if ipam is not None else None
        subnets = [
            s
            for item in (config.items if config is not None else ())
            if (s := item.scalar("subnet")) is not None
        ]
        cidrs = list(dict.fromkeys(s.text for s in subnets if is_cidr(s.text)))
        is_external = external is not None and (external.is_map or external.boolean())
        c.node(
            _network_ref(c, real),
            key,
            {
                "name": real,
                "driver": driver.text if driver is not None and not driver.missing else None,
                "external": is_external,
                "cidrs": cidrs,
                "isPublic": any(is_public(cidr) for cidr in cidrs) if cidrs else None,
            },
            declared=True,
        )


def memberships(
    c: ProjectClaims, name: str, key: Node, node: Node
) -> Iterator[tuple[NodeRef | None, Node, Basis | None, str | None, list[str]]]:
    """(network, quoted node, basis, networkMode, aliases) of a service's containers."""
    mode = node.scalar("network_mode")
    if mode is not None:
        if (
            c.mark(name, "network_mode", mode)
            or mode.text.startswith(("service:", "container:"))
            or mode.text == "none"
        ):
            return
        network = "bridge" if mode.text == "default" else mode.text
        ref = _network_ref(c, network)
        builtin = network in ("host", "bridge")
        c.node(ref, mode, {"name": network, "driver": network if builtin else None})
        yield ref, mode, None, network if builtin else "custom", []
        return
    networks = node.get("networks")
    entries = merging.names(networks)
    if not entries:
        if node.get("network_mode") is not None or node.get("provider") is not None:
            # An empty mode is a mode, and what a provider runs is no container of the project's networks.
            return
        default = _default_network(c, key)
        if default is not None:
            yield default, key, Basis.DERIVED, _driver(c, "default"), []
        return
    for network, (network_key, options) in entries.items():
        if network_key.missing:
            c.mark(name, "networks", network_key)
            continue
        real = _real_network(c, network)
        if real is None or real == "none" or network == "":
            continue
        if network == "default":
            _default_network(c, key)
        elif network not in c.project.networks:
            c.report(network_key, "E_NOT_FOUND", "the network is not declared in the project.")
        joined = c.node(_network_ref(c, real), network_key, {"name": real})
        aliases = options.get("aliases")
        yield (
            joined,
            network_key,
            None,
            _driver(c, network),
            [a.text for a in aliases.each() if not a.missing] if aliases is not None else [],
        )


def _default_network(c: ProjectClaims, key: Node) -> NodeRef | None:
    real = _real_network(c, "default")
    if real is None:
        return None
    driver = None if "default" in c.project.networks else "bridge"
    return c.node(_network_ref(c, real), key, {"name": real, "driver": driver}, declared=True)


def _driver(c: ProjectClaims, name: str) -> str | None:
    """The mode that a network's driver gives; None for an external network, whose driver is not said."""
    entry = c.project.networks.get(name)
    driver = entry[1].scalar("driver") if entry is not None else None
    if driver is not None:
        return driver.text if driver.text in NETWORK_MODES else "custom"
    external = entry[1].get("external") if entry is not None else None
    if external is not None and (external.is_map or external.boolean()):
        real = _real_network(c, name)
        return real if real in ("host", "bridge") else None
    return "bridge"
