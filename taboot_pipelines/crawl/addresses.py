"""Which addresses may be connected to, and the resolver that says which a name has."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: All global unicast that IANA has given out (RFC 4291 §2.4). What lies outside is unassigned, local, or an
#: IPv4 address in a form for hosts and translators: compatible, translated (``::ffff:0:a.b.c.d``, RFC 2765),
#: local NAT64 (RFC 8215).
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
#: The upper half of an ISATAP interface identifier, without the bit that says whether it is universal; the
#: lower half is an IPv4 address (RFC 5214 §6.1).
_ISATAP, _UNIVERSAL = 0x00005EFE, 0x02000000
#: Reserved and not so marked by every version of ``ipaddress`` (RFC 6890, 9637).
_RESERVED: tuple[Network, ...] = tuple(
    ipaddress.ip_network(n)
    for n in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    )
)

#: ``resolver(host, port)``: the addresses of a host name, or of an address written as one. Raises
#: ``OSError``.
Resolver = Callable[[str, int], Sequence[Address]]


def resolve(host: str, port: int) -> list[Address]:
    """The system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(sockaddr[0])) for *_, sockaddr in found]


def check_address(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether a connection to ``address`` may be made: it is public unicast, or one of ``allowed`` holds it.
    An IPv4 address that an IPv6 one carries (mapped, 6to4, Teredo, NAT64, ISATAP) must pass as well."""
    forms: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            address = ipaddress.IPv6Address(int(address))
        carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if int(address) >> 32 & 0xFFFFFFFF & ~_UNIVERSAL == _ISATAP:
            carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = [c for c in carried if c is not None]
        # A mapped address is its IPv4 address, nothing else.
        forms = [*inner] if address.ipv4_mapped is not None else [address, *inner]
    return all(any(f in n for n in allowed) or _public(f) for f in forms)


def _public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_unspecified
        and (address.version == 4 or address in _GLOBAL_UNICAST or address in _NAT64)
        and not any(address in n for n in _RESERVED if n.version == address.version)
    )
