"""Published ports, and the addresses of `extra_hosts`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose.collector import Collector, evidence, quote
from taboot_pipelines.extraction.tier_a.compose.ports import read_ports
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node
from taboot_pipelines.model.graph import Basis, is_hostname, is_public
from taboot_pipelines.model.records import Evidence, NodeRef

#: Bindings of one project.
MAX_BINDINGS = 100_000


def claim_ports(c: Collector, ref: NodeRef, name: str, node: Node) -> None:
    """One binding for each published port, of the source's host or of the address it is published on."""
    entries = node.get("ports")
    if entries is None:
        return
    if entries.kind != SEQUENCE:
        c.report(entries, "E_PARSE", "`ports` is not a list.")
        return
    for item in entries.items:
        parts = [item] if item.kind == SCALAR else [v for _, v in item.entries.values()]
        if sum(c.mark(name, "ports", part) for part in parts):
            continue
        ports = read_ports(item)
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
            if c.host is not None:
                end, basis = c.host, Basis.SOURCE
                c.node(end, evidence(item), declared=True)
            else:
                end = _ip(c, binding.host_ip or "0.0.0.0", item)
                basis = (
                    Basis.DERIVED
                    if binding.host_ip is None
                    else Basis.BYTES
                    if end.name in quote(item)
                    else Basis.NORMALIZED
                )
            c.edge(
                "BINDS",
                ref,
                end,
                item,
                "compose_ports",
                basis,
                port=binding.published,
                protocol=binding.protocol,
                targetPort=binding.target,
                hostIp=binding.host_ip,
            )


def _ip(c: Collector, address: str, node: Node) -> NodeRef:
    return c.node(NodeRef("IP", (address,), address), evidence(node), {"isPublic": is_public(address)})


def claim_extra_hosts(c: Collector, node: Node) -> None:
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
        said = quoted.origin.text[where.start : where.end]
        start = c.node(NodeRef("Host", (hostname,), hostname), where)
        end = _ip(c, str(parsed), quoted)
        c.edge(
            "RESOLVES_TO",
            start,
            end,
            quoted,
            "compose_extra_hosts",
            (
                Basis.BYTES
                if end.name in said
                else Basis.NORMALIZED
                if address.strip() in said
                else Basis.DERIVED
            ),
            where=where,
            start_basis=(
                Basis.BYTES
                if hostname in said
                else Basis.NORMALIZED
                if name.strip() in said
                else Basis.DERIVED
            ),
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
                    Evidence(node.origin.path, key.start, node.end) if together else evidence(node),
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
        yield name, address, item, evidence(item)
