"""Normal forms of what inventories of devices say: names, addresses and ranges, one for every extractor."""

from __future__ import annotations

import ipaddress
import re
from unicodedata import category

from taboot_pipelines.model.graph import is_hostname

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAC = re.compile(r"[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}")
_APOSTROPHES = re.compile("['\u2018\u2019]")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_.-]+")
#: Names that every device gives itself, so that they name none.
_NOBODY = ("localhost", "localhost.localdomain")


def host_name(text: str) -> str:
    """The key of the Host that a device's name, DNS name or MAC address stands for; "" where none does.

    Lower case, without a trailing dot, IDNA where it is not ASCII; apostrophes go, what else a name cannot
    hold becomes ``-``.
    """
    name = _APOSTROPHES.sub("", text.strip().rstrip(".").lower())
    if _MAC.fullmatch(name):
        return name.replace(":", "-")
    if not name.isascii():
        # Signs such as a dash or an emoji go before the letters are encoded.
        kept = "".join(c if c.isalnum() or category(c)[0] == "M" or c in "_.-" else " " for c in name)
        name = "-".join(kept.split())
        try:
            name = ".".join(part.strip("-").encode("idna").decode("ascii") for part in name.split("."))
        except UnicodeError:
            return ""
    name = _NOT_IN_A_NAME.sub("-", name)
    name = ".".join(part.strip("-") for part in name.split(".") if part.strip("-"))
    return name if is_hostname(name) and name not in _NOBODY else ""


def held_address(text: str) -> Address | None:
    """The address that a device holds, written with or without prefix length and zone; None where it is none
    that tells devices apart (unspecified, loopback, link-local)."""
    try:
        address = ipaddress.ip_interface(text.partition("%")[0].strip()).ip
    except ValueError:
        return None
    return None if address.is_unspecified or address.is_loopback or address.is_link_local else address


def network_of(text: str) -> Range | None:
    """The range that is written with its host bits or without; None where it is none."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None
