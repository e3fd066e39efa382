"""Tailscale's and Headscale's policy files: the rules that let connections through, and the words they use.

Access is given by ``acls`` and by ``grants`` with ``ip``, and nothing takes it away. Section and field names
are taken in any case, as the services do, and the fields ``users`` and ``ports`` of old ACLs like ``src`` and
``dst``. Format: tailscale.com/docs/reference/syntax/policy-file.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from taboot_pipelines.extraction.tier_a.inventory import Address, Range
from taboot_pipelines.extraction.tier_a.tailscale.forms import JsonText
from taboot_pipelines.model.json_text import Value
from taboot_pipelines.model.records import Evidence


class Span(NamedTuple):
    """The addresses of one IP version from ``first`` to ``last``."""

    version: int
    first: int
    last: int

    def meets(self, other: Span) -> bool:
        """Whether the two have an address in common."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last


class Ports(NamedTuple):
    """The ports from ``first`` to ``last``."""

    first: int
    last: int


#: All addresses.
EVERYWHERE = (Span(4, 0, 2**32 - 1), Span(6, 0, 2**128 - 1))
ALL_PORTS = Ports(0, 65535)

_PORTS = re.compile(r"\s*([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?\s*")


def span_of(what: Address | Range) -> Span:
    """The span of an address or a range."""
    if isinstance(what, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        return Span(what.version, int(what.network_address), int(what.broadcast_address))
    return Span(what.version, int(what), int(what))


def parse_span(text: str) -> Span | None:
    """The span of an address, a CIDR or a range ``A-B``; None for anything else."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    first, dash, last = text.partition("-")
    try:
        if dash:
            low, high = ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
            return Span(low.version, int(low), int(high)) if low.version == high.version else None
        return span_of(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


def without(spans: Iterable[Span], hole: Span) -> list[Span]:
    """The spans without the addresses of ``hole``."""
    left = []
    for span in spans:
        if not span.meets(hole):
            left.append(span)
            continue
        if span.first < hole.first:
            left.append(Span(span.version, span.first, hole.first - 1))
        if span.last > hole.last:
            left.append(Span(span.version, hole.last + 1, span.last))
    return left


def parse_ports(text: str) -> list[Ports] | None:
    """The ports of ``80,443,8000-8010`` or ``*``; None for anything else."""
    if text.strip() == "*":
        return [ALL_PORTS]
    found = []
    for part in text.split(","):
        match = _PORTS.fullmatch(part)
        if match is None:
            return None
        ports = Ports(int(match[1]), int(match[2] or match[1]))
        if not ports.first <= ports.last <= ALL_PORTS.last:
            return None
        found.append(ports)
    return found


def port_list(ports: Iterable[Ports]) -> str:
    """Ports as the shortest sorted list of them, ``*`` for all; port 0 does not count."""
    merged: list[Ports] = []
    for one in sorted(ports):
        if merged and one.first <= merged[-1].last + 1:
            merged[-1] = Ports(merged[-1].first, max(merged[-1].last, one.last))
        else:
            merged.append(one)
    if merged and merged[0].first <= 1 and merged[0].last == ALL_PORTS.last:
        return "*"
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in merged)


#: Names of IP protocols by number; ICMP is one word for both families, another number stays one.
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
_OTHER_NAMES = {"ip-in-ip": "ipv4", "ipv6-icmp": "icmp", "icmpv6": "icmp", "icmp6": "icmp"}
_WITH_PORTS = frozenset((None, "tcp", "udp", "sctp"))
#: IP sets and groups in one another.
_MAX_NESTING = 20


@dataclass(frozen=True, slots=True)
class Allowance:
    """A protocol (None: TCP, UDP and ICMP) with the ports of it that are open."""

    protocol: str | None
    ports: tuple[Ports, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A destination as the rule writes it, with what may be reached there."""

    selector: str
    allowances: tuple[Allowance, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One ACL or grant. ``via``: the tags of the routers that it goes by. ``posture``: conditions of which a
    source must meet one, ascending; they are not checked, since they change with each device by the hour
    (versions, countries, what other services say of it)."""

    evidence: Evidence
    sources: tuple[str, ...]
    targets: tuple[Target, ...]
    via: tuple[str, ...] = ()
    posture: tuple[str, ...] = ()


@dataclass(slots=True)
class Policy:
    """The rules of a policy, and what its words mean."""

    rules: list[Rule] = field(default_factory=list)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hosts: dict[str, Span] = field(default_factory=dict)
    _sets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def members(self, group: str, depth: int = 0) -> frozenset[str] | None:
        """The users of a group; None where the policy defines no such group."""
        if group not in self.groups:
            return None
        found: set[str] = set()
        for member in self.groups[group]:
            if member.startswith("group:") and depth < _MAX_NESTING:
                found |= self.members(member, depth + 1) or frozenset()
            else:
                found.add(member)
        return frozenset(found)

    def spans(self, selector: str) -> tuple[Span, ...] | None:
        """The addresses that a host, an IP set, an address or a range stands for; None where it is none."""
        if selector.startswith("ipset:"):
            return self._set(selector)
        if selector.removeprefix("host:") in self.hosts:
            return (self.hosts[selector.removeprefix("host:")],)
        span = parse_span(selector)
        return None if span is None else (span,)

    def _set(self, name: str, depth: int = 0) -> tuple[Span, ...] | None:
        if name not in self._sets or depth >= _MAX_NESTING:
            return None
        found: list[Span] = []
        for entry in self._sets[name]:
            verb, _, what = entry.strip().partition(" ")
            if verb not in ("add", "remove"):
                verb, what = "add", entry
            what = what.strip()
            spans = self._set(what, depth + 1) if what.startswith("ipset:") else self.spans(what)
            for span in spans or ():
                if verb == "add":
                    found.append(span)
                else:
                    found = without(found, span)
        return tuple(found)


def parse_policy(text: JsonText, root: Value, problem: Callable[[Evidence, str], None]) -> Policy:
    """The policy in an object of a text; ``problem`` is told of what is no rule, with its place.

    One that has neither ``acls`` nor ``grants`` lets everybody through; an empty list of them lets nobody.
    """
    sections = _lower(root)
    policy = Policy()
    for name, value in _members(sections.get("groups")):
        policy.groups[name] = tuple(_strings(value))
    for name, value in _members(sections.get("hosts")):
        span = parse_span(value.data) if isinstance(value.data, str) else None
        if span is None:
            problem(text.evidence(value), "a host is no address and no range")
        else:
            policy.hosts[name] = span
    for name, value in _members(sections.get("ipsets")):
        policy._sets[name] = tuple(_strings(value))
    everybody = tuple(sorted(set(_strings(sections.get("defaultsrcposture")))))
    given = [sections[name] for name in ("acls", "grants") if name in sections]
    if all(section.data is None for section in given):
        policy.rules.append(
            Rule(text.evidence(root), ("*",), (Target("*", (_allowance(None, [ALL_PORTS]),)),))
        )
    for value in sections["acls"].items() if "acls" in sections else ():
        policy.rules += _acl(text, value, everybody, problem)
    for value in sections["grants"].items() if "grants" in sections else ():
        policy.rules += _grant(text, value, everybody, problem)
    return policy


def _acl(
    text: JsonText, value: Value, everybody: tuple[str, ...], problem: Callable[[Evidence, str], None]
) -> Iterator[Rule]:
    known = _lower(value)
    evidence = text.evidence(value)
    if "action" in known and str(known["action"].data).lower() != "accept":
        problem(evidence, "the action of a rule is not accept")
        return
    proto = known.get("proto")
    protocol: str | None = None
    if proto is not None and proto.data not in (None, ""):
        protocol = _protocol(str(proto.data))
        if protocol is None:
            problem(text.evidence(proto), "a protocol is unknown")
            return
    targets = []
    for said in _strings(known.get("dst", known.get("ports"))):
        selector, _, ports = said.rpartition(":")
        spans = parse_ports(ports) if selector else None
        if spans is None:
            problem(evidence, "a destination lacks its ports")
        else:
            targets.append(Target(selector, (_allowance(protocol, spans),)))
    sources = tuple(_strings(known.get("src", known.get("users"))))
    posture = tuple(sorted(set(_strings(known.get("srcposture"))))) or everybody
    yield Rule(evidence, sources, tuple(targets), (), posture)


def _grant(
    text: JsonText, value: Value, everybody: tuple[str, ...], problem: Callable[[Evidence, str], None]
) -> Iterator[Rule]:
    known = _lower(value)
    allowances = []
    for said in _strings(known.get("ip")):
        name, colon, ports = said.rpartition(":")
        protocol = _protocol(name) if colon else None
        spans = parse_ports(ports)
        if spans is None and not colon:
            protocol, spans = _protocol(said), [ALL_PORTS]
        if spans is None or (protocol is None and (colon or not parse_ports(said))):
            problem(text.evidence(value), "what a grant allows is no protocol and no port")
        else:
            allowances.append(_allowance(protocol, spans))
    if allowances:
        targets = tuple(Target(selector, tuple(allowances)) for selector in _strings(known.get("dst")))
        via = tuple(_strings(known.get("via")))
        posture = tuple(sorted(set(_strings(known.get("srcposture"))))) or everybody
        yield Rule(text.evidence(value), tuple(_strings(known.get("src"))), targets, via, posture)


def _allowance(protocol: str | None, ports: list[Ports]) -> Allowance:
    return Allowance(protocol, tuple(ports) if protocol in _WITH_PORTS else (ALL_PORTS,))


def numbered(number: int, ports: list[Ports]) -> Allowance:
    """What a packet filter lets through of a protocol that it names by its number."""
    return _allowance(PROTOCOLS.get(number, str(number)), ports)


def _protocol(name: str) -> str | None:
    """The name of a protocol that is written by name or number; None where there is none."""
    name = name.strip().lower()
    if name.isdecimal() and len(name) <= 3 and int(name) <= 255:
        return PROTOCOLS.get(int(name), str(int(name)))
    name = _OTHER_NAMES.get(name, name)
    return name if name in PROTOCOLS.values() else None


def _lower(value: Value) -> Mapping[str, Value]:
    return {name.lower(): member for name, member in value.members().items()}


def _members(value: Value | None) -> Iterator[tuple[str, Value]]:
    yield from value.members().items() if value is not None else ()


def _strings(value: Value | None) -> Iterator[str]:
    for item in value.items() if value is not None else ():
        if isinstance(item.data, str) and item.data.strip():
            yield item.data.strip()
