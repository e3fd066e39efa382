"""Published ports, and the addresses of `extra_hosts`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.ports import read_ports
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, SEQUENCE, Node
from taboot_pipelines.model.graph import is_hostname
from taboot_pipelines.model.records import Evidence, NodeRef

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
            c.bind(
                ref,
                item,
                binding.published,
                binding.protocol,
                "compose_ports",
                target=binding.target,
                address=binding.host_ip,
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
