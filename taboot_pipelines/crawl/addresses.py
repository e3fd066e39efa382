"""Which addresses may be connected to (SSRF guard), and the resolver that says which a name has.

The check belongs where the socket is opened: :func:`reachable` resolves a name once and checks every address
of the answer, and the connection is made to one of those it returns, whatever the name means a moment later.
It holds for pages, redirects, robots, sitemaps and whatever else is asked for by a URL that somebody else
wrote. A proxy is named by the operator and may be anywhere but at a metadata service (:data:`ANYWHERE`).

Stricter than IANA's registries on purpose: the anycast addresses for PCP and TURN in 192.0.0.0/24 and
2001::/23 are global, but what answers is the network's own; no IPv6 address outside of 2000::/3 is public.

Names of hosts: looked up beside the thread that fetches, checked, and remembered for a while.

A name is asked for once a minute at most. All addresses of an answer are checked, and one that may not be
reached refuses the name: a server that mixes public and private ones is after the private one. The connection
is made to what was checked, whatever the name means a moment later.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError

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

_NEVER = "Remove the URL: what answers there are credentials of machines."
#: Where clouds hand out a machine's credentials. Most are in networks that are refused anyway, but not all
#: (Azure's is public), and a network that was allowed by its range does not open them: they must be allowed
#: one by one.
METADATA_ADDRESSES: frozenset[Address] = frozenset(
    ipaddress.ip_address(a)
    for a in (
        "169.254.169.254",  # AWS, Google, Azure, OpenStack, DigitalOcean, Oracle and others
        "169.254.169.253",  # AWS: the resolver
        "169.254.169.123",  # AWS: the clock
        "169.254.170.2",  # AWS: containers
        "169.254.170.23",  # AWS: pods
        "169.254.0.23",  # Tencent
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure: the host
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS: pods
        "fd00:42::42",  # Scaleway
        "fd20:ce::254",  # Google
    )
)
#: Their names, refused before they are looked up: a proxy may look them up elsewhere.
METADATA_HOSTS = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.com",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
#: Of a name with more addresses no connection is tried to the others; all are checked.
MAX_TRIED_ADDRESSES = 8
#: A name with more addresses than any service has is refused.
MAX_ADDRESSES = 4096

#: For ``allowed``, where the operator's own word says what to connect to (a proxy), not a page's: every
#: address but those of metadata services.
ANYWHERE: tuple[Network, ...] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))

#: ``resolver(host, port)``: the addresses of a host name, or of an address written as one. Raises
#: ``OSError``.
Resolver = Callable[[str, int], Sequence[Address]]


def resolve(host: str, port: int) -> list[Address]:
    """The system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(sockaddr[0])) for *_, sockaddr in found]


def reachable(
    host: str, port: int, allowed: Sequence[Network], resolver: Resolver = resolve
) -> list[Address]:
    """The addresses of ``host`` (a name, or an address with or without brackets) that a connection may be
    tried to, at most :data:`MAX_TRIED_ADDRESSES`, in the resolver's order.

    Raises ``E_URL_BLOCKED`` if one of its addresses may not be connected to, or its name is refused, and
    ``OSError`` if it has none.
    """
    name = host.strip("[]")
    if not check_host(name):
        raise TabootError(
            "E_URL_BLOCKED", f"The host {host} is a cloud's metadata service.", remedy=_NEVER, host=host
        )
    try:
        addresses = list(dict.fromkeys(resolver(name, port)))
    except ValueError:  # a label that no DNS name can hold
        raise OSError("the name does not resolve") from None
    if not addresses:
        raise OSError("the name has no address")
    if len(addresses) > MAX_ADDRESSES:
        raise TabootError(
            "E_URL_BLOCKED",
            f"The host {host} has more than {MAX_ADDRESSES} addresses.",
            remedy="Ask the owner of its DNS zone.",
            host=host,
        )
    for address in addresses:
        if not check_address(address, allowed):
            raise not_public(host, address, allowed)
    return addresses[:MAX_TRIED_ADDRESSES]


def not_public(host: str, address: Address, allowed: Sequence[Network]) -> TabootError:
    """The refusal of a host for one of its addresses, which ``allowed`` does not open."""
    message = f"The host {host} has the address {address}, which is not public."
    if allowed is ANYWHERE:
        message = f"The proxy {host} has the address {address}, a cloud's metadata service."
    return TabootError("E_URL_BLOCKED", message, host=host)


def check_host(host: str) -> bool:
    """Whether the host name may be looked up at all: it is none of :data:`METADATA_HOSTS`."""
    return host.rstrip(".").lower() not in METADATA_HOSTS


def check_address(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether a connection to ``address`` may be made: it is public unicast, or one of ``allowed`` holds it.
    An IPv4 address that an IPv6 one carries (mapped, 6to4, Teredo, NAT64, ISATAP) must pass as well. One of
    :data:`METADATA_ADDRESSES` passes only if ``allowed`` names it alone."""
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
        # A mapped or 6to4 address is its IPv4 address, nothing else; Pythons differ about what the latter is.
        plain = address.ipv4_mapped is not None or address.sixtofour is not None
        forms = inner if plain else [address, *inner]
    return all(_may(form, allowed) for form in forms)


def _may(address: Address, allowed: Sequence[Network]) -> bool:
    if address in METADATA_ADDRESSES:
        return any(address in n and n.num_addresses == 1 for n in allowed)
    return any(address in n for n in allowed) or _public(address)


def _public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_unspecified
        and (address.version == 4 or address in _GLOBAL_UNICAST or address in _NAT64)
        and not any(address in n for n in _RESERVED if n.version == address.version)
    )


#: Names remembered at once; the oldest go first.
MAX_NAMES = 10_000
LIFE_SECONDS = 60.0
#: How long a name that did not resolve is not asked for again.
FAILURE_SECONDS = 2.0
#: Look-ups at one time. A name server that does not answer holds one of them for a while.
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Pin:
    """What a name may be connected to. ``addresses`` is empty where it does not resolve, for good unless
    ``again``, and where ``blocked`` says why it may not be reached."""

    addresses: tuple[Address, ...] = ()
    blocked: TabootError | None = None
    again: bool = False


class Names:
    """``wake`` is called, from another thread, whenever a look-up has ended."""

    def __init__(self, allowed: Sequence[Network], resolver: Resolver, wake: Callable[[], None]) -> None:
        self._allowed = tuple(allowed)
        self._resolver = resolver
        self._wake = wake
        self._lock = threading.Lock()
        #: By host, port, and whether it is a proxy's.
        self._known: dict[tuple[str, int, bool], tuple[float, Pin | None]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def find(self, host: str, port: int, *, proxy: bool = False) -> Pin | None:
        """What ``host`` (an IPv6 address in brackets) may be connected to; None while it is looked up.
        ``proxy``: it is a proxy of the operator, and so may be anywhere but at a metadata service."""
        literal = _literal(host)
        if literal is not None:
            return self._pin(host, port, proxy, lambda *_: [literal])
        key = host, port, proxy
        now = time.monotonic()
        with self._lock:
            until, pin = self._known.get(key, (0.0, None))
            if now < until:
                return pin
            while len(self._known) >= MAX_NAMES:
                del self._known[next(iter(self._known))]
            self._known.pop(key, None)
            self._known[key] = (float("inf"), None)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="taboot-names")
        self._threads.submit(self._look_up, key)
        return None

    def close(self) -> None:
        """Begin no more look-ups. One that is under way ends by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _look_up(self, key: tuple[str, int, bool]) -> None:
        host, port, proxy = key
        pin, life = Pin(), FAILURE_SECONDS
        try:
            pin, life = self._pin(host, port, proxy, self._resolver), LIFE_SECONDS
        except socket.gaierror as error:
            pin = Pin(again=error.errno == socket.EAI_AGAIN)
        except OSError:
            pass
        finally:
            with self._lock:
                self._known[key] = (time.monotonic() + life, pin)
            self._wake()

    def _pin(self, host: str, port: int, proxy: bool, resolver: Resolver) -> Pin:
        try:
            return Pin(tuple(reachable(host, port, ANYWHERE if proxy else self._allowed, resolver)))
        except TabootError as error:
            return Pin(blocked=error)


def _literal(host: str) -> Address | None:
    if not host.startswith("[") and not host[-1:].isdigit():
        return None
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
