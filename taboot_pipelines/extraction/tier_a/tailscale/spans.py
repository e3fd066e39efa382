"""Sets of addresses and of ports, as ranges from the first to the last."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from taboot_pipelines.extraction.tier_a.inventory import Address, Range


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
