"""The records of a site: what its objects state, each statement with the place that says it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from taboot_pipelines.extraction.tier_a.claims import Quote

_MAC = re.compile(r"[0-9a-f]{2}([:-]?)[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}")


class By(StrEnum):
    """How a reference calls what it leads to."""

    NAME = "name"
    MAC = "mac"
    ID = "id"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a network or a device."""

    by: By
    said: Quote


@dataclass(slots=True)
class Device:
    """One object about a device or a client.

    ``names``: in the order in which they count. ``fallbacks``: names where no other is left. ``aliases``:
    names besides, never the principal one. ``ids``: those by which other objects refer to it. ``networks``
    and ``uplinks``: what it is connected to.
    """

    names: list[Quote] = field(default_factory=list)
    fallbacks: list[Quote] = field(default_factory=list)
    aliases: list[Quote] = field(default_factory=list)
    addresses: list[Quote] = field(default_factory=list)
    networks: list[Reference] = field(default_factory=list)
    uplinks: list[Reference] = field(default_factory=list)
    mac: str = ""
    ids: tuple[str, ...] = ()
    gateway: bool = False

    @property
    def identity(self) -> str:
        """What tells it apart; empty where only its name is known."""
        return self.mac or (self.ids[0] if self.ids else "")


@dataclass(frozen=True, slots=True)
class Range:
    """A network that is known by its name, or by its one range where ``name`` is None."""

    name: Quote | None
    cidrs: tuple[Quote, ...]
    ids: tuple[str, ...] = ()
    vlan: int | None = None


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A VPN server, a client of one, or a connection of two sites. ``protocol``: empty where unknown."""

    name: Quote
    protocol: str
    remote: str = ""
    local: str = ""


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """An A, AAAA or CNAME record."""

    name: Quote
    type: str
    value: Quote
    ttl: int | None


@dataclass(frozen=True, slots=True)
class PortForward:
    """A port forward. ``names``: its name and its id. ``outer`` and ``inner``: ports as written.
    ``address``: the outer one, or empty."""

    names: tuple[Quote, ...]
    target: Quote
    outer: Quote
    inner: str
    protocols: tuple[str, ...]
    address: str


@dataclass(slots=True)
class Inventory:
    """All records of a site, in the order of its files."""

    devices: list[Device] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    tunnels: list[Tunnel] = field(default_factory=list)
    dns: list[DnsRecord] = field(default_factory=list)
    forwards: list[PortForward] = field(default_factory=list)


def mac_address(text: str) -> str:
    """A MAC address in lower case with colons; empty where the text is none."""
    lower = text.strip().lower()
    if _MAC.fullmatch(lower) is None:
        return ""
    digits = re.sub("[:-]", "", lower)
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))
