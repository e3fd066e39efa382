"""The objects that a text holds, and of which kind each is.

The kind is told from an object's own members: the same object comes alone, in a list, in the envelope of
either API, or in an export that keeps lists by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

from taboot_pipelines.extraction.tier_a.unifi.records import mac_address
from taboot_pipelines.model import json_text
from taboot_pipelines.model.json_text import Value


class Kind(StrEnum):
    """A kind of object that says something for the graph. ``listed``: as the integration API has it."""

    DEVICE = "device"
    CLIENT = "client"
    NETWORK = "network"
    PORT_FORWARD = "port forward"
    DNS_RECORD = "DNS record"
    SYSTEM = "system"
    LISTED_DEVICE = "listed device"
    LISTED_CLIENT = "listed client"
    LISTED_NETWORK = "listed network"
    LISTED_DNS_RECORD = "listed DNS record"
    LISTED_TUNNEL = "listed tunnel"


#: Device types of the classic API: uap, usw, ugw, udm, uxg, ubb …
_DEVICE_TYPE = re.compile(r"u[a-z0-9]{1,7}")
_PURPOSES = frozenset(
    ("corporate", "guest", "wan", "vlan-only", "remote-user-vpn", "site-vpn", "vpn-client", "bridge")
)
_CLIENT_TYPES = frozenset(("WIRED", "WIRELESS", "VPN", "TELEPORT"))
_TUNNEL_TYPES = frozenset(("OPENVPN", "WIREGUARD", "L2TP", "PPTP", "IPSEC", "UID"))
_MANAGEMENT = frozenset(("GATEWAY", "SWITCH", "UNMANAGED"))
#: Members of which a client has some, and no other object with a MAC address has one.
_OF_CLIENTS = ("oui", "is_wired", "hostname", "use_fixedip", "first_seen", "user_id", "usergroup_id", "noted")
#: Members of what a client did for a while: a session, an authorization of a guest, an event.
_OF_THE_PAST = ("authorized_by", "duration", "msg")
#: Members of an object that is something by itself, not a holder of lists.
_IDENTITY = ("_id", "id", "mac", "key", "unique_id")


def objects(text: str, path: str) -> Iterator[tuple[Kind, Value]]:
    """The objects of a text that say something, in its order; none for a text that is no JSON.

    A name in ``.jsonl`` or ``.ndjson`` means one value for each line. Raises ``E_PARSE`` for JSON that is
    broken.
    """
    if path.lower().endswith((".jsonl", ".ndjson")):
        at = 0
        for line in text.split("\n"):
            if line.strip():
                yield from _objects(json_text.parse(text, start=at, end=at + len(line)))
            at += len(line) + 1
    elif path.lower().endswith(".json") or text.lstrip()[:1] in ("{", "["):
        yield from _objects(json_text.parse(text))


def _objects(value: Value) -> Iterator[tuple[Kind, Value]]:
    stack = [value]
    while stack:
        held = stack.pop().data
        if isinstance(held, list):
            stack.extend(reversed(held))
        elif isinstance(held, dict):
            kind = _kind(held)
            if kind is not None:
                yield kind, Value(held, 0, 0)
            elif not _is_message(held) and not any(name in held for name in _IDENTITY):
                stack.extend(v for v in reversed(held.values()) if isinstance(v.data, dict | list))


def _is_message(held: Mapping[str, Value]) -> bool:
    """Whether it is what a controller pushes to those who listen: events, and objects that changed or went.
    Answers to questions have no ``message`` in their ``meta``."""
    meta = held.get("meta")
    return meta is not None and bool(meta.string("message"))


def _kind(held: Mapping[str, Value]) -> Kind | None:
    type_ = _text(held, "type")
    if mac_address(_text(held, "mac")):
        of_type = _DEVICE_TYPE.fullmatch(type_) and ("adopted" in held or "model" in held)
        if of_type or "productLine" in held:
            return Kind.DEVICE
        if any(name in held for name in _OF_CLIENTS) and not any(name in held for name in _OF_THE_PAST):
            return Kind.CLIENT
        return None
    if type_ in _CLIENT_TYPES and ("access" in held or "connectedAt" in held or "macAddress" in held):
        return Kind.LISTED_CLIENT
    if "macAddress" in held and ("model" in held or "features" in held or "firmwareVersion" in held):
        return Kind.LISTED_DEVICE
    if "name" in held:
        if _text(held, "purpose") in _PURPOSES:
            return Kind.NETWORK
        if _text(held, "management") in _MANAGEMENT or ("vlanId" in held and "zoneId" in held):
            return Kind.LISTED_NETWORK
        if type_ in _TUNNEL_TYPES and "id" in held:
            return Kind.LISTED_TUNNEL
    if "record_type" in held and "key" in held:
        return Kind.DNS_RECORD
    if type_.endswith("_RECORD") and "domain" in held:
        return Kind.LISTED_DNS_RECORD
    if "fwd" in held and "dst_port" in held:
        return Kind.PORT_FORWARD
    if "ip_addrs" in held and "hostname" in held:
        return Kind.SYSTEM
    return None


def _text(held: Mapping[str, Value], name: str) -> str:
    value = held.get(name)
    return value.data if value is not None and isinstance(value.data, str) else ""
