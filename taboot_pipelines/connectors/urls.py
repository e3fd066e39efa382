"""URLs as the WHATWG standard parses them, their canonical keys, and which addresses may be connected to.

One parser (ada) gives the host that is checked and the bytes that are sent, so that no two readings of one
URL can differ.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus

from ada_url import URL

from taboot_pipelines.errors import TabootError

#: Version of :func:`canonical_key`. Locators are made of keys, so a change of the algorithm is a new version.
KEY_VERSION = "1"
MAX_LENGTH = 8192
_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(r"(?i)utm_.*|gclid|fbclid", re.DOTALL)

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


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A parsed ``http`` or ``https`` URL without credentials. ``text`` is its normal form without fragment;
    ``host`` as in the Host header without port (an IPv6 address in brackets); ``target`` is path and
    query."""

    text: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"


def parse_url(text: str, base: str | None = None) -> WebUrl:
    """Raises ``E_URL_BAD``; its message never holds the URL, which may carry credentials."""
    if len(text) > MAX_LENGTH:
        raise TabootError("E_URL_BAD", f"The URL is longer than {MAX_LENGTH} characters.")
    try:
        url = URL(text, base) if base is not None else URL(text)
        scheme, host = url.protocol.removesuffix(":"), url.hostname
        if scheme not in _PORTS or not host:
            raise TabootError("E_URL_BAD", "The URL's scheme is not http or https.")
        if url.username or url.password:
            raise TabootError(
                "E_URL_BAD", "The URL holds a user name or password; it would be stored with every document."
            )
        port = int(url.port) if url.port else _PORTS[scheme]
        target = url.pathname + url.search
        authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    except ValueError:  # also text that is not Unicode
        raise TabootError("E_URL_BAD", "The URL cannot be parsed (WHATWG URL standard).") from None
    return WebUrl(f"{scheme}://{authority}{target}", scheme, host, port, target)


def canonical_key(url: WebUrl) -> str:
    """What deduplicates pages (rule ``fetch-url-is-not-the-key``), version :data:`KEY_VERSION`: the WHATWG
    normal form (scheme and host in lower case and ASCII, default port, ``.`` and ``..`` gone) without
    fragment, without the query's tracking parameters (``utm_*``, ``gclid``, ``fbclid``), and without an empty
    query. A trailing slash and the other parameters stay as they are.
    """
    base, mark, query = url.text.partition("?")
    kept = (
        [p for p in query.split("&") if not _TRACKING.fullmatch(unquote_plus(p.partition("=")[0]))]
        if mark
        else []
    )
    return f"{base}?{'&'.join(kept)}" if any(kept) else base


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
