"""Turns the packet filters that a headscale capture recorded into the CONNECTS_TO edges a reader must give.

The recording is the gold: it says what the real control plane made of the policy. ``inventories.md`` fixes
how a filter becomes edges; ``python benchmarks/gold/packet_filters.py FOLDER --edges`` lists them for each
capture.

A capture is the HuJSON of headscale's ``hscontrol/policy/v2/testdata``: ``topology.nodes`` with addresses and
approved routes, and for each node ``captures.NAME.netmap.PacketFilterRules`` or, in older recordings,
``captures.NAME.packet_filter_rules``: Tailscale's ``tailcfg.FilterRule``.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold import hujson

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Net = ipaddress.IPv4Network | ipaddress.IPv6Network
Span = tuple[Address, Address]
Ports = tuple[int, int]

ALL_PORTS = (0, 65535)

#: What a rule without ``IPProto`` lets through, and so what an edge without a protocol means.
DEFAULT_PROTOCOLS = ("tcp", "udp", "icmp")

#: Names of IP protocols; ICMP is one word for both families. Another number is written in decimal.
PROTOCOLS = {
    1: "icmp",
    2: "igmp",
    4: "ipv4",
    6: "tcp",
    8: "egp",
    9: "igp",
    17: "udp",
    47: "gre",
    50: "esp",
    51: "ah",
    58: "icmp",
    132: "sctp",
}
WITH_PORTS = frozenset({"tcp", "udp", "sctp"})


@dataclass(frozen=True, order=True)
class Reach:
    """That one host may reach a host or network by one protocol: the unit that is scored.

    ``source`` and a host's ``target`` are host names, a network's ``target`` its CIDR, ``ports`` a canonical
    list such as ``22``, ``80,443``, ``8000-8010`` or ``*``.
    """

    source: str
    label: str
    target: str
    protocol: str
    ports: str


@dataclass(frozen=True)
class Node:
    """A device of a capture: name, own addresses, the subnet routes it may serve, capabilities."""

    name: str
    addresses: tuple[Address, ...]
    routes: tuple[Net, ...] = ()
    capabilities: frozenset[str] = frozenset()


@dataclass
class Reaches:
    """Collects what may be reached and puts it in canonical form: protocols apart, ports merged."""

    routes: Mapping[str, Iterable[Net]] = field(default_factory=dict)
    _ports: dict[tuple[str, str, str, str], list[Ports]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, label: str, target: str, protocols: Iterable[str], ports: Ports) -> None:
        """Note one fact, unless it leads from a host to itself or to a network behind it."""
        own = label == "Host" and source == target
        behind = label == "Network" and target in {str(r) for r in self.routes.get(source, ())}
        if own or behind:
            return
        for protocol in protocols:
            self._ports[source, label, target, protocol].append(
                ports if protocol in WITH_PORTS else ALL_PORTS
            )

    def canonical(self) -> frozenset[Reach]:
        return frozenset(Reach(*key, ports=port_list(spans)) for key, spans in self._ports.items())


def port_list(spans: Iterable[Ports]) -> str:
    """Ranges of ports as a sorted list in which none overlap or touch; ``*`` for all of them."""
    merged: list[Ports] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    # Nothing listens on port 0, so 1-65535 is all of them too.
    if merged and merged[0][0] <= 1 and merged[0][1] == ALL_PORTS[1]:
        return "*"
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in merged)


def parse_ports(text: str | None) -> list[Ports]:
    """The ranges of a list such as ``80,443,8000-8010``; None and ``*`` mean all."""
    if text is None or text == "*":
        return [ALL_PORTS]
    spans = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        spans.append((int(first), int(last or first)))
    return spans


def span(text: str) -> list[Span]:
    """The first and last address of ``*`` (one span a family), an address, a CIDR or a range ``A-B``."""
    if text == "*":
        return [(n[0], n[-1]) for n in (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))]
    first, dash, last = text.partition("-")
    if dash:
        return [(ipaddress.ip_address(first), ipaddress.ip_address(last))]
    network = ipaddress.ip_network(text, strict=False)
    return [(network[0], network[-1])]


def overlaps(a: Span, b: Span) -> bool:
    return a[0].version == b[0].version and int(a[0]) <= int(b[1]) and int(b[0]) <= int(a[1])


def nodes(capture: Mapping[str, Any]) -> list[Node]:
    """The devices of a capture. A route counts if it is approved, advertised and no exit route."""
    found = []
    recorded = capture["captures"]
    for name, node in capture["topology"]["nodes"].items():
        netmap = recorded.get(name, {}).get("netmap") or {}
        self_node = netmap.get("SelfNode") or {}
        own = [node[k] for k in ("ipv4", "ipv6") if node.get(k)] or self_node.get("Addresses") or []
        if "approved_routes" in node:
            routes = [r for r in node["approved_routes"] if r in node.get("routable_ips", ())]
        else:
            routes = [r for r in self_node.get("AllowedIPs") or () if r not in self_node["Addresses"]]
        found.append(
            Node(
                name=(node.get("hostname") or name).rstrip(".").lower(),
                addresses=tuple(ipaddress.ip_interface(a).ip for a in own),
                routes=tuple(n for r in routes if (n := ipaddress.ip_network(r, strict=False)).prefixlen),
                capabilities=frozenset(self_node.get("CapMap") or ()),
            )
        )
    return found


def filter_rules(recorded: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rules recorded for one node; null means that nothing may reach it."""
    if "netmap" in recorded:
        return recorded["netmap"].get("PacketFilterRules") or []
    return recorded.get("packet_filter_rules") or []


def sources(rule: Mapping[str, Any], all_nodes: Iterable[Node]) -> list[tuple[Node, int]]:
    """The nodes a rule lets in, each with the IP version it comes by."""
    capabilities = {s[4:] for s in rule.get("SrcIPs") or () if s.startswith("cap:")}
    spans = [one for s in rule.get("SrcIPs") or () if not s.startswith("cap:") for one in span(s)]
    return [
        (node, address.version)
        for node in all_nodes
        for address in node.addresses
        if node.capabilities & capabilities or any(overlaps((address, address), s) for s in spans)
    ]


def expected(capture: Mapping[str, Any]) -> frozenset[Reach]:
    """The CONNECTS_TO edges that the filters of a capture stand for, in canonical form."""
    all_nodes = nodes(capture)
    reaches = Reaches(routes={n.name: n.routes for n in all_nodes})
    by_capture = dict(zip(capture["topology"]["nodes"], all_nodes, strict=True))
    for name, recorded in capture["captures"].items():
        here = by_capture[name]
        ends: list[tuple[str, str, Span]] = [("Host", here.name, (a, a)) for a in here.addresses]
        ends += [("Network", str(r), (r[0], r[-1])) for r in here.routes]
        for rule in filter_rules(recorded):
            numbers = rule.get("IPProto") or ()
            protocols = {PROTOCOLS.get(n, str(n)) for n in numbers} or DEFAULT_PROTOCOLS
            let_in = sources(rule, all_nodes)
            for destination in rule.get("DstPorts") or ():
                ports = (destination["Ports"]["First"], destination["Ports"]["Last"])
                spans = span(destination["IP"])
                for label, target, end in ends:
                    if any(overlaps(end, s) for s in spans):
                        for source, version in let_in:
                            if version == end[0].version:
                                reaches.add(source.name, label, target, protocols, ports)
    return reaches.canonical()


def found(
    edges: Iterable[tuple[str, str, str, str | None, str | None]], capture: Mapping[str, Any]
) -> frozenset[Reach]:
    """A reader's CONNECTS_TO edges (source, label and key of the target, protocol, ports) in the same form.

    An edge without a protocol means TCP, UDP and ICMP, one without ports all of them; a device's edge to a
    network that it routes to itself comes from its routes, not from the policy, and is left out.
    """
    reaches = Reaches(routes={n.name: n.routes for n in nodes(capture)})
    for source, label, target, protocol, ports in edges:
        for one in parse_ports(ports):
            reaches.add(source, label, target, (protocol,) if protocol else DEFAULT_PROTOCOLS, one)
    return reaches.canonical()


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 over the edges of all captures together, and how many captures are exact."""

    expected: int
    found: int
    right: int
    captures: int
    exact: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.expected if self.expected else 1.0

    @property
    def f1(self) -> float:
        """1 where nothing is expected and nothing found, 0 where only one of both is so."""
        total = self.expected + self.found
        return 2 * self.right / total if total else 1.0


def score(pairs: Iterable[tuple[frozenset[Reach], frozenset[Reach]]]) -> Score:
    """Compare what is expected with what was found, one pair a capture."""
    known = list(pairs)
    return Score(
        expected=sum(len(e) for e, _ in known),
        found=sum(len(f) for _, f in known),
        right=sum(len(e & f) for e, f in known),
        captures=len(known),
        exact=sum(e == f for e, f in known),
    )


def read(path: Path) -> Mapping[str, Any]:
    return hujson.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(__file__).parent / "handmade",
        help="a folder of captures (*.hujson, *.json), read recursively; default: those made by hand",
    )
    parser.add_argument("--edges", action="store_true", help="list the edges of each capture")
    args = parser.parse_args()
    for path in sorted(p for p in args.folder.rglob("*") if p.suffix in {".hujson", ".json"}):
        edges = sorted(expected(read(path)))
        print(f"{path.name}: {len(edges)} edges")
        for e in edges if args.edges else ():
            print(f"  {e.source} -> {e.label} {e.target} {e.protocol} {e.ports}")


if __name__ == "__main__":
    main()
