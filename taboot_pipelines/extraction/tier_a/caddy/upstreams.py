"""What Caddy's sites and JSON have in common: upstreams, matchers and what a request has passed so far."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.proxying import (
    Guard,
    Route,
    literal_prefix,
    port_number,
    split_address,
)
from taboot_pipelines.extraction.tier_a.texts import UNKNOWN
from taboot_pipelines.model.records import Evidence

#: Ports that one range may stand for.
MAX_RANGE = 1000
#: Places that nested matchers may multiply to, and guards that are looked at for a route.
MAX_PLACES = 1000
MAX_GUARDS = 100
_SCHEMES = {"http": ("http", 80), "h2c": ("http", 80), "https": ("https", 443)}
_NETWORK = re.compile(r"(tcp[46]?|udp[46]?|unix\w*|unix\+\w+|fd\w*)/")
_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")

#: A place: the condition on the path as written, and the literal path that it fixes.
HostAndPath = tuple[str | None, str | None]
ANYWHERE: HostAndPath = (None, "/")


class UnresolvedError(Exception):
    """An upstream that depends on what only a request, or the environment, sets."""


@dataclass(frozen=True, slots=True)
class Match:
    """One alternative of a matcher; None: it says nothing of that."""

    hosts: tuple[str, ...] | None = None
    places: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Guarded:
    """A guard, and the places it stands for (None: all)."""

    guard: Guard
    places: tuple[HostAndPath, ...] | None

    def holds(self, place: HostAndPath) -> bool:
        if self.places is None:
            return True
        return any(
            location == place[0] or (path is not None and place[1] is not None and place[1].startswith(path))
            for location, path in self.places
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds where a handler stands. ``hosts``: (host, whether by TLS)."""

    hosts: tuple[tuple[str | None, bool], ...]
    places: tuple[HostAndPath, ...] = (ANYWHERE,)
    #: What was taken from the beginning of the path.
    stripped: str = ""
    guards: tuple[Guarded, ...] = ()
    #: The requests a minute that a client may make.
    rate_limit: int | None = None

    def matching(self, match: Match) -> Scope:
        """The scope of what one alternative of a matcher lets through."""
        hosts = self.hosts
        if match.hosts is not None:
            tls = any(secure for _, secure in hosts)
            hosts = tuple((host, tls) for host in match.hosts)
        places = self.places
        if match.places is not None:
            inner = [p for p in match.places if p not in ("*", "/*")]
            if len(inner) * len(self.places) > MAX_PLACES:
                raise TabootError("E_TOO_LARGE", f"Conditions on paths multiply to more than {MAX_PLACES}.")
            if len(inner) == len(match.places):
                places = tuple(self._place(outer, p) for outer in self.places for p in inner)
        return replace(self, hosts=hosts, places=tuple(dict.fromkeys(places)))

    def _place(self, outer: HostAndPath, pattern: str) -> HostAndPath:
        literal = literal_prefix(pattern)
        if literal is not None and self.stripped:
            literal = self.stripped + literal
        if literal is None or (outer[1] is not None and outer[1].startswith(literal)):
            literal = outer[1] if outer != ANYWHERE else None
        location = pattern if outer[0] is None or outer[0] == pattern else f"{outer[0]} {pattern}"
        return location, literal

    def under(self, prefix: str) -> Scope:
        return replace(self, stripped=self.stripped + prefix)

    def guarded(self, guard: Guarded) -> Scope:
        if len(self.guards) >= MAX_GUARDS:
            return self
        return replace(self, guards=(*self.guards, guard))

    def routes(self, target: Target, where: Evidence) -> Iterator[Route]:
        for host, tls in self.hosts:
            for place in self.places:
                guard = next((g.guard for g in reversed(self.guards) if g.holds(place)), None)
                yield Route(target, where, host, place[0], place[1], tls, guard, rate_limit=self.rate_limit)


def dial_targets(address: str, scheme: str) -> list[Target]:
    """What ``host:port``, ``:port``, a range of ports or ``tcp/host:port`` leads to; nothing for a socket.

    Raises :class:`UnresolvedError`.
    """
    if (network := _NETWORK.match(address)) is not None:
        if not network[1].startswith(("tcp", "udp")):
            return []
        address = address[network.end() :]
    if "{" in address or UNKNOWN in address:
        raise UnresolvedError
    split = split_address(address)
    if split is None:
        raise UnresolvedError
    host, port = split
    number = port_number(port or "")
    if number is not None:
        return [Target(scheme, host, number)]
    numbers = _RANGE.fullmatch(port or "")
    if numbers is None or port_number(numbers[1]) is None or port_number(numbers[2]) is None:
        raise UnresolvedError
    first, last = int(numbers[1]), int(numbers[2])
    if not first <= last < first + MAX_RANGE:
        raise UnresolvedError
    return [Target(scheme, host, each) for each in range(first, last + 1)]


def upstream_targets(address: str, scheme: str) -> list[Target]:
    """What an argument of ``reverse_proxy`` leads to: a URL without a path, or an address for ``dial``; the
    port of the scheme where none is written. ``scheme``: of its transport. Raises :class:`UnresolvedError`.
    """
    written, mark, rest = address.partition("://")
    port = 80
    if mark:
        if written not in _SCHEMES:
            raise UnresolvedError
        own, port = _SCHEMES[written]
        scheme = own if scheme == "http" else scheme
        address = rest.partition("/")[0]
    if _NETWORK.match(address) is None and "{" not in address:
        split = split_address(address)
        if split is not None and split[1] is None:
            address = f"{address}:{port}"
    return dial_targets(address, scheme)


def dialled(address: str) -> str:
    """An upstream as Caddy dials it, without its scheme."""
    return address.partition("://")[2] or address


def places_of(patterns: Sequence[str]) -> tuple[HostAndPath, ...]:
    """The places that patterns of a path mean by themselves."""
    return tuple((pattern, literal_prefix(pattern)) for pattern in patterns)
