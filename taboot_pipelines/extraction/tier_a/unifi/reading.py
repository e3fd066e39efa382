"""The objects that a text holds, of which kind each is, and what it says as a record of the site.

The kind is told from an object's own members: the same object comes alone, in a list, in the envelope of
either API, or in an export that keeps lists by name. What each kind says is in
``benchmarks/gold/inventories.md``, by the names of members used here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import Quote
from taboot_pipelines.extraction.tier_a.inventory import held_address, network_of
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.extraction.tier_a.unifi.records import (
    By,
    Device,
    DnsRecord,
    Inventory,
    PortForward,
    Range,
    Reference,
    Tunnel,
    mac_address,
)
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


#: Device types of gateways.
_GATEWAYS = frozenset(("ugw", "udm", "uxg", "ucg", "udr", "udw", "uxbsdm"))
_WAN = re.compile(r"wan[1-9]")
_TUNNEL_PURPOSES = frozenset(("remote-user-vpn", "site-vpn", "vpn-client"))
#: Before the role in ``vpn_type``: ``wireguard-server``, ``ipsec-vpn``.
_PROTOCOL = re.compile(r"(?:[a-z0-9]+-)?(wireguard|openvpn|l2tp|ipsec|pptp|uid|auto)(?:-.*)?")
#: Of port forwards.
_PROTOCOLS = {"tcp": ("tcp",), "udp": ("udp",), "tcp_udp": ("tcp", "udp")}
_FAMILIES = {"A": 4, "AAAA": 6}
_MAX_VLAN = 4094


def read_text(inventory: Inventory, path: str, texts: UnitTexts) -> None:
    """Add what a file says to ``inventory``; that it cannot be read is a problem of the unit."""
    text = texts.text(path)
    if text is None:
        return
    try:
        found = list(objects(text, path))
    except TabootError as error:
        texts.problem(path, error.code, f"{path}: {error.message}")
        return
    for kind, value in found:
        _READERS[kind](_Reader(inventory, value, path))


class _Reader:
    """One object, read into an inventory."""

    def __init__(self, inventory: Inventory, value: Value, path: str) -> None:
        self.inventory = inventory
        self.value = value
        self._path = path

    def said(self, *steps: str | int) -> Quote | None:
        """The text at ``steps``; None where there is none but blanks."""
        found = self.value.at(*steps)
        if found is None or not isinstance(found.data, str) or not found.data.strip():
            return None
        return self._at(found)

    def _at(self, value: Value) -> Quote:
        return Quote(str(value.data), self._path, value.start, value.end)

    def sayings(self, *paths: tuple[str | int, ...]) -> list[Quote]:
        """The texts at the first of ``paths`` and the others that have one."""
        return [said for path in paths if (said := self.said(*path)) is not None]

    def texts(self, *steps: str | int) -> list[Quote]:
        """The texts of a list, or the one text that stands in its place."""
        found = self.value.at(*steps)
        if found is None:
            return []
        values = found.data if isinstance(found.data, list) else [found]
        return [self._at(v) for v in values if isinstance(v.data, str) and v.data.strip()]

    def within(self, value: Value) -> _Reader:
        """A reader of an object that this one holds."""
        return _Reader(self.inventory, value, self._path)

    def off(self, *steps: str | int) -> bool:
        """Whether a switch is there and off."""
        found = self.value.at(*steps)
        return found is not None and found.data is False

    def ids(self, *names: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for name in names if (text := self.value.string(name))))

    def references(self, by: By, *paths: tuple[str | int, ...]) -> list[Reference]:
        return [Reference(by, said) for said in self.sayings(*paths)]


# --- devices and clients ------------------------------------------------------------------------------------


def _device(read: _Reader) -> None:
    value = read.value
    if read.off("adopted"):
        return
    gateway = value.string("type") in _GATEWAYS or value.at("wan1") is not None
    device = Device(
        names=read.sayings(("name",)),
        fallbacks=read.sayings(("mac",), ("_id",), ("id",)),
        addresses=[*read.sayings(("ip",)), *read.texts("ipv6")],
        networks=[
            *read.references(By.NAME, ("connection_network_name",)),
            *read.references(By.ID, ("connection_network_id",)),
        ],
        mac=mac_address(value.string("mac")),
        ids=read.ids("_id", "device_id", "id"),
        gateway=gateway,
    )
    # Of a device that is offline only the last uplink may be there, and it is as good (rule "No clock").
    for uplink in ("uplink", "last_uplink"):
        if device.uplinks:
            break
        device.uplinks = [
            *read.references(By.NAME, (uplink, "uplink_device_name")),
            *read.references(By.MAC, (uplink, "uplink_mac"), (uplink, "ap_mac")),
        ]
    if not device.uplinks:
        device.uplinks = read.references(By.MAC, ("uplink_mac",))
    device.addresses += [
        said
        for name in sorted(value.members())
        if _WAN.fullmatch(name) and not read.off(name, "enable")
        for said in (*read.sayings((name, "ip")), *read.texts(name, "ipv6"))
    ]
    if value.string("config_network", "type") == "static":
        device.addresses += read.sayings(("config_network", "ip"))
    for entry in value.items("network_table") if gateway else ():
        inner = read.within(entry)
        if inner.off("enabled"):
            continue
        device.addresses += inner.sayings(("ip",))
        if _network(inner) is not None:
            device.networks += inner.references(By.NAME, ("name",))
    read.inventory.devices.append(device)


def _client(read: _Reader) -> None:
    value = read.value
    device = Device(
        names=read.sayings(("name",), ("hostname",)),
        fallbacks=read.sayings(("mac",), ("_id",)),
        addresses=[*read.sayings(("ip",)), *read.texts("ipv6_addresses")],
        mac=mac_address(value.string("mac")),
        ids=read.ids("_id"),
    )
    if any(held_address(said.text) is not None for said in device.addresses):
        device.networks = [
            *read.references(By.NAME, ("network",), ("network_name",)),
            *read.references(By.ID, ("network_id",)),
        ]
        device.uplinks = [
            *read.references(By.NAME, ("last_uplink_name",)),
            *read.references(By.MAC, ("ap_mac",), ("sw_mac",), ("uplink_mac",), ("last_uplink_mac",)),
        ]
    if value.true("use_fixedip"):
        device.addresses += read.sayings(("fixed_ip",))
    if value.true("local_dns_record_enabled"):
        device.aliases = read.sayings(("local_dns_record",))
    read.inventory.devices.append(device)


def _system(read: _Reader) -> None:
    read.inventory.devices.append(Device(names=read.sayings(("hostname",)), addresses=read.texts("ip_addrs")))


def _listed_device(read: _Reader) -> None:
    value = read.value
    if value.string("state") == "PENDING_ADOPTION":
        return
    features = value.at("features")
    named = (
        {str(v.data) for v in features.items()} | features.members().keys() if features is not None else ()
    )
    read.inventory.devices.append(
        Device(
            names=read.sayings(("name",)),
            fallbacks=read.sayings(("macAddress",), ("id",)),
            addresses=read.sayings(("ipAddress",)),
            uplinks=read.references(By.ID, ("uplink", "deviceId"), ("uplinkDeviceId",)),
            mac=mac_address(value.string("macAddress")),
            ids=read.ids("id"),
            gateway="gateway" in named,
        )
    )


def _listed_client(read: _Reader) -> None:
    device = Device(
        names=read.sayings(("name",)),
        fallbacks=read.sayings(("macAddress",), ("id",)),
        addresses=read.sayings(("ipAddress",)),
        mac=mac_address(read.value.string("macAddress")),
        ids=read.ids("id"),
    )
    if any(held_address(said.text) is not None for said in device.addresses):
        device.uplinks = read.references(By.ID, ("uplinkDeviceId",))
    read.inventory.devices.append(device)


# --- networks and tunnels -----------------------------------------------------------------------------------


def _network(read: _Reader) -> Quote | None:
    """Add a network and what it is a tunnel to; the name of the network where it is one by itself."""
    value = read.value
    name = read.said("name")
    purpose = value.string("purpose")
    if read.off("enabled") or name is None or purpose == "wan":
        return None
    if purpose in _TUNNEL_PURPOSES:
        read.inventory.tunnels.append(
            Tunnel(
                name,
                _protocol(value),
                remote=_endpoint(
                    value,
                    "ipsec_peer_ip",
                    "wireguard_client_peer_ip",
                    "openvpn_remote_host",
                    "pptpc_server_ip",
                ),
                local=_endpoint(
                    value,
                    "ipsec_local_ip",
                    "wireguard_local_wan_ip",
                    "openvpn_local_wan_ip",
                    "l2tp_local_wan_ip",
                ),
            )
        )
        for said in [*read.texts("remote_vpn_subnets"), *read.texts("remote_site_subnets")]:
            if network_of(said.text) is not None:
                read.inventory.ranges.append(Range(None, (said,)))
        if purpose != "remote-user-vpn":
            return None
    cidrs = read.texts("ip_subnet")
    if value.string("ipv6_interface_type") != "none":
        cidrs += [*read.texts("ipv6_subnet"), *read.texts("ipv6_subnets")]
    vlan = value.integer("vlan") if not read.off("vlan_enabled") else None
    _add_range(read, name, cidrs, read.ids("_id", "external_id"), vlan)
    return name


def _listed_network(read: _Reader) -> None:
    value = read.value
    name = read.said("name")
    if read.off("enabled") or name is None:
        return
    cidrs = []
    for family in ("ipv4Configuration", "ipv6Configuration"):
        said, length = read.said(family, "hostIpAddress"), value.integer(family, "prefixLength")
        if said is not None and length is not None:
            cidrs.append(Quote(f"{said.text}/{length}", said.path, said.start, said.end))
    _add_range(read, name, cidrs, read.ids("id"), value.integer("vlanId"))


def _add_range(
    read: _Reader, name: Quote, cidrs: list[Quote], ids: tuple[str, ...], vlan: int | None
) -> None:
    valid = tuple(said for said in cidrs if network_of(said.text) is not None)
    number = vlan if vlan is not None and 1 <= vlan <= _MAX_VLAN else None
    read.inventory.ranges.append(Range(name, valid, ids, number))


def _listed_tunnel(read: _Reader) -> None:
    name = read.said("name")
    if name is not None and not read.off("enabled"):
        read.inventory.tunnels.append(Tunnel(name, read.value.string("type").lower()))


def _protocol(value: Value) -> str:
    """The protocol of a tunnel; older controllers name none where there was one only."""
    match = _PROTOCOL.fullmatch(value.string("vpn_type").lower())
    if match is not None:
        return "ipsec" if match[1] == "auto" else match[1]
    if value.string("purpose") == "site-vpn" and value.at("ipsec_peer_ip") is not None:
        return "ipsec"
    return ""


def _endpoint(value: Value, *names: str) -> str:
    """The first of some addresses that is one."""
    for name in names:
        address = held_address(value.string(name))
        if address is not None:
            return str(address)
    return ""


# --- DNS and port forwards ----------------------------------------------------------------------------------


def _dns_record(read: _Reader) -> None:
    _add_record(read, read.said("key"), read.value.string("record_type"), read.said("value"), "ttl")


def _listed_dns_record(read: _Reader) -> None:
    type_ = read.value.string("type").removesuffix("_RECORD")
    members = {"A": "ipv4Address", "AAAA": "ipv6Address", "CNAME": "targetDomain"}
    _add_record(read, read.said("domain"), type_, read.said(members.get(type_, "")), "ttlSeconds")


def _add_record(read: _Reader, name: Quote | None, type_: str, value: Quote | None, ttl: str) -> None:
    if read.off("enabled") or name is None or value is None or "*" in name.text:
        return
    if type_ in _FAMILIES:
        address = held_address(value.text)
        if address is None or address.version != _FAMILIES[type_]:
            return
    elif type_ != "CNAME":
        return
    seconds = read.value.integer(ttl)
    read.inventory.dns.append(DnsRecord(name, type_, value, seconds if seconds and seconds > 0 else None))


def _port_forward(read: _Reader) -> None:
    value = read.value
    target, outer = read.said("fwd"), read.said("dst_port") or _number(read, "dst_port")
    if read.off("enabled") or target is None or outer is None:
        return
    inner = read.said("fwd_port") or _number(read, "fwd_port")
    read.inventory.forwards.append(
        PortForward(
            tuple(read.sayings(("name",), ("_id",))),
            target,
            outer,
            inner.text if inner is not None else "",
            _PROTOCOLS.get(value.string("proto").lower(), ()),
            str(held_address(value.string("destination_ip")) or ""),
        )
    )


def _number(read: _Reader, name: str) -> Quote | None:
    """A port that is written as a number."""
    found = read.value.at(name)
    number = read.value.integer(name)
    if found is None or number is None:
        return None
    return replace(read._at(found), text=str(number))


_READERS: Mapping[Kind, Callable[[_Reader], object]] = {
    Kind.DEVICE: _device,
    Kind.CLIENT: _client,
    Kind.NETWORK: _network,
    Kind.PORT_FORWARD: _port_forward,
    Kind.DNS_RECORD: _dns_record,
    Kind.SYSTEM: _system,
    Kind.LISTED_DEVICE: _listed_device,
    Kind.LISTED_CLIENT: _listed_client,
    Kind.LISTED_NETWORK: _listed_network,
    Kind.LISTED_DNS_RECORD: _listed_dns_record,
    Kind.LISTED_TUNNEL: _listed_tunnel,
}
