"""Networks, published ports and `extra_hosts`: by which names and addresses containers are reached."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.variables import resolved
from taboot_pipelines.extraction.tier_a.texts import described
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node
from taboot_pipelines.model.graph import NETWORK_MODES, Basis, is_cidr, is_hostname, is_public
from taboot_pipelines.model.records import Evidence, NodeRef


def _network_ref(c: ProjectClaims, name: str) -> NodeRef:
    return NodeRef("Network", (f"{c.place}/{name}",), name)


def _is_external(node: Node) -> bool:
    """Whether a project uses a network that others make."""
    external = node.get("external")
    return external is not None and (external.is_map or external.boolean())


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
    return name if _is_external(node) else f"{c.project.name}_{name}"


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
        driver = node.scalar("driver")
        ipam = node.get("ipam")
        config = ipam.get("config") if ipam is not None else None
        subnets = [
            s
            for item in (config.items if config is not None else ())
            if (s := item.scalar("subnet")) is not None
        ]
        cidrs = list(dict.fromkeys(s.text for s in subnets if is_cidr(s.text)))
        c.node(
            _network_ref(c, real),
            key,
            {
                "name": real,
                "driver": driver.text if driver is not None and not driver.missing else None,
                "cidrs": cidrs,
                "description": described(
                    (name, value.text) for name, (_, value) in merging.pairs(node.get("labels")).items()
                ),
                "isPublic": any(is_public(cidr) for cidr in cidrs) if cidrs else None,
            },
            declared=True,
            aliases=[name] if name not in (real, "default") else [],
        )


_ADDRESSES = ("ipv4_address", "ipv6_address")


class Membership(NamedTuple):
    """A network that containers are on. ``basis``: as of an edge's end; ``mode``: the networkMode;
    ``external``: the project uses the network and does not make it; ``addresses``: those that they are given
    there."""

    network: NodeRef | None
    quoted: Node
    basis: Basis | None
    mode: str | None
    aliases: list[str]
    external: bool | None = None
    addresses: Sequence[str] = ()


def memberships(c: ProjectClaims, name: str, key: Node, node: Node) -> Iterator[Membership]:
    """The networks of a service's containers."""
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
        yield Membership(ref, mode, None, network if builtin else "custom", [])
        return
    networks = node.get("networks")
    entries = merging.names(networks)
    if not entries:
        if node.get("network_mode") is not None or node.get("provider") is not None:
            # An empty mode is a mode, and what a provider runs is no container of the project's networks.
            return
        default = _default_network(c, key)
        if default is not None:
            yield Membership(default, key, Basis.DERIVED, _driver(c, "default"), [], _external(c, "default"))
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
        yield Membership(
            joined,
            network_key,
            None,
            _driver(c, network),
            [a.text for a in aliases.each() if not a.missing] if aliases is not None else [],
            _external(c, network),
            [a.text for a in map(options.scalar, _ADDRESSES) if a is not None and not a.missing],
        )


def _external(c: ProjectClaims, network: str) -> bool | None:
    """True for a network of others; None, which is not said, for one of the project."""
    entry = c.project.networks.get(network)
    return True if entry is not None and _is_external(entry[1]) else None


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
    if entry is not None and _is_external(entry[1]):
        real = _real_network(c, name)
        return real if real in ("host", "bridge") else None
    return "bridge"


_RANGE = re.compile(r"0*(\d{1,5})(?:-0*(\d{1,5}))?", re.ASCII)
_PROTOCOL = re.compile(r"[a-z0-9][a-z0-9+._-]*")


@dataclass(frozen=True, slots=True)
class Binding:
    """``published`` is None where the engine picks the port; ``host_ip`` None where none is written."""

    target: int
    published: int | None
    protocol: str
    host_ip: str | None


@dataclass(frozen=True, slots=True)
class Ports:
    """What one entry says. ``open``: a range is published for one target, so the port is not known."""

    bindings: tuple[Binding, ...]
    open: bool = False


def _range(text: str) -> range | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if first <= last <= 65535 else None


def _address(text: str) -> str | None:
    """The normal form of an address; None if it is none."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        return str(ipaddress.ip_address(text)) if "%" not in text else None
    except ValueError:
        return None


def target_port(node: Node) -> tuple[int, str] | None:
    """The first port in the container of one entry of `ports`, and its protocol: known too where the
    published one is a variable without a value."""
    target, protocol = node.scalar("target"), node.scalar("protocol")
    if node.kind == SCALAR:
        ports = _short(node.text.rpartition(":")[2]) if node.missing else read_ports(node)
    elif target is not None:
        ports = _bindings(resolved(target), "", protocol.text if protocol is not None else "tcp", None)
    else:
        ports = None
    return (ports.bindings[0].target, ports.bindings[0].protocol) if ports is not None else None


def read_ports(node: Node) -> Ports | None:
    """The bindings of one entry of `ports`; None if it is none that Compose accepts."""
    if node.kind == SCALAR:
        return _short(resolved(node).strip())
    if node.kind == MAPPING:
        return _long(node)
    return None


def _short(text: str) -> Ports | None:
    """``[[IP:]PUBLISHED:]TARGET[/PROTOCOL]``, IPv6 with or without brackets, ports as ranges of equal length.

    An address that is empty, as a variable without a value leaves it, is none.
    """
    parts = text.rsplit(":", 2)
    target, _, protocol = parts[-1].partition("/")
    address = None
    if len(parts) == 3 and parts[0] != "":
        address = _address(parts[0])
        if address is None:
            return None
    published = parts[-2] if len(parts) > 1 else ""
    return _bindings(target, published, protocol or "tcp", address)


def _long(node: Node) -> Ports | None:
    target = node.scalar("target")
    published = node.scalar("published")
    protocol = node.scalar("protocol")
    host_ip = node.scalar("host_ip")
    if target is None:
        return None
    address = None
    if host_ip is not None:
        address = _address(host_ip.text)
        if address is None:
            return None
    return _bindings(
        resolved(target),
        resolved(published) if published else "",
        protocol.text if protocol else "tcp",
        address,
    )


def _bindings(target_text: str, published_text: str, protocol: str, address: str | None) -> Ports | None:
    targets = _range(target_text)
    protocol = protocol.lower()
    if targets is None or targets[0] == 0 or _PROTOCOL.fullmatch(protocol) is None:
        return None
    if published_text.strip("0") == "":
        return Ports(tuple(Binding(t, None, protocol, address) for t in targets))
    published = _range(published_text)
    if published is None:
        return None
    if len(published) != len(targets):
        return (
            Ports((Binding(targets[0], None, protocol, address),), open=True) if len(targets) == 1 else None
        )
    return Ports(
        tuple(Binding(t, p or None, protocol, address) for t, p in zip(targets, published, strict=True))
    )


#: A published port whose address alone is a variable, without a default.
_OF_ADDRESS = re.compile(r"(\$(?:\w+|\{\w+\})):([^$:]*:[^$:]*)")
#: Bindings of one project.
MAX_BINDINGS = 100_000


def claim_ports(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """One binding for each published port, of the source's host or of the address it is published on."""
    entries = node.get("ports")
    if entries is None:
        return
    if entries.kind != SEQUENCE:
        c.report(entries, "E_PARSE", "`ports` is not a list.")
        return
    for item in entries.items:
        parts = [item] if item.kind == SCALAR else [v for _, v in item.entries.values()]
        # Which address a variable names that has no value is not known; the ports behind it are.
        unset = _OF_ADDRESS.fullmatch(item.text) if item.missing else None
        if unset is None and sum(c.mark(name, "ports", part) for part in parts):
            continue
        ports = read_ports(item) if unset is None else _short(unset[2])
        if ports is None:
            c.report(item, "E_PARSE", "this is no port that Compose accepts.")
            continue
        if ports.open:
            c.report(
                item, "E_PARSE", "a range is published for one port: which of them is taken is not said."
            )
        for binding in ports.bindings:
            if binding.published is None:
                continue
            c.bindings += 1
            if c.bindings > MAX_BINDINGS:
                c.report(
                    item, "E_TOO_LARGE", f"only the first {MAX_BINDINGS} bindings of the project are kept."
                )
                return
            c.bind(
                ref,
                item,
                binding.published,
                binding.protocol,
                "compose_ports",
                target=binding.target,
                address=binding.host_ip,
                unset="" if unset is None else unset[1],
                written=c.texts.quote(item.evidence),
            )


def claim_extra_hosts(c: ProjectClaims, node: Node) -> None:
    """Names that `extra_hosts` gives to addresses."""
    hosts = node.get("extra_hosts")
    if hosts is None:
        return
    for name, address, quoted, where in _host_entries(hosts):
        hostname = name.strip().lower().rstrip(".")
        try:
            parsed = ipaddress.ip_address(address.strip().strip("[]"))
        except ValueError:
            if address.strip() != "host-gateway" and not quoted.missing:
                c.report(quoted, "E_PARSE", "this is no address of a host.")
            continue
        if not is_hostname(hostname) or "%" in address:
            if not quoted.missing:
                c.report(quoted, "E_PARSE", "this is no host name.")
            continue
        start = c.node(NodeRef("Host", (hostname,), hostname), where)
        end = c.ip(str(parsed), quoted)
        if start is not None:
            c.edge(
                "RESOLVES_TO",
                start,
                end,
                where,
                "compose_extra_hosts",
                written=address.strip(),
                start_basis=c.basis(start, where, name.strip()),
                recordType="A" if parsed.version == 4 else "AAAA",
            )


def _host_entries(hosts: Node) -> Iterator[tuple[str, str, Node, Evidence]]:
    """(name, address, node, statement) of `extra_hosts`: ``name:address``, ``name=address``, or a mapping."""
    if hosts.kind == MAPPING:
        for name, (key, value) in hosts.entries.items():
            for node in value.each():
                together = key.origin is node.origin and key.start < node.end
                yield (
                    name,
                    node.text,
                    node,
                    Evidence(node.origin.path, key.start, node.end) if together else node.evidence,
                )
        return
    # An override lays a list on a mapping by appending.
    for part in hosts.items:
        if part.kind == MAPPING:
            yield from _host_entries(part)
    for item in hosts.each():
        name, separator, address = item.text.partition("=")
        if not separator:
            name, separator, address = item.text.partition(":")
        yield name, address, item, item.evidence
