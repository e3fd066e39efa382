"""The UniFi extractor: units from a listing, and the records of a site as nodes and edges.

What a record becomes says ``benchmarks/gold/inventories.md``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.inventory import held_address, host_name, network_of
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.extraction.tier_a.unifi.reading import read_text
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
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import is_public
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts, UnitSpec

#: A forward of more ports says nothing of each.
MAX_PORTS = 1024

_ITEM = re.compile(r"0*([0-9]{1,5})(?:\s*[-:]\s*0*([0-9]{1,5}))?")

#: An outer port, and the inner one that it leads to where that is known.
Pair = tuple[int, int | None]


def pairs(outer: str, inner: str) -> list[Pair] | None:
    """The pairs of a forward, each outer port once; an empty list if they are more than :data:`MAX_PORTS`.
    None if ``outer`` is no list of ports.

    A range onto a range pairs them, onto one port leads all to it; of ranges or lists of another size only
    the outer ports are known.
    """
    outers, inners = _items(outer), _items(inner) or []
    if outers is None:
        return None
    if sum(map(len, outers)) > MAX_PORTS:
        return []
    if len(outers) == len(inners):
        found = [pair for o, i in zip(outers, inners, strict=True) for pair in _joined(o, i)]
    else:
        flat = [port for item in outers for port in item]
        found = _joined(flat, [port for item in inners for port in item])
    first: dict[int, int | None] = {}
    for port, target in found:
        first.setdefault(port, target)
    return list(first.items())


def _joined(outer: Sequence[int], inner: Sequence[int]) -> list[Pair]:
    if len(inner) == 1:
        return [(port, inner[0]) for port in outer]
    if len(inner) == len(outer):
        return list(zip(outer, inner, strict=True))
    return [(port, None) for port in outer]


def _items(text: str) -> list[range] | None:
    found = []
    for part in text.split(","):
        match = _ITEM.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= 65535:
            return None
        found.append(range(first, last + 1))
    return found


#: Names of a device times its addresses.
MAX_STATEMENTS = 10_000
#: Edges of a site.
MAX_EDGES = 1_000_000
#: CNAMEs in one another; DNS servers follow about as many.
_MAX_ALIASES = 16
#: Addresses of what a CNAME leads to.
_MAX_OF_AN_ALIAS = 100


class Owner:
    """A device with all objects about it: one MAC address or id is one device."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        #: {host name: where it is said}; the first is the principal one.
        self.hosts: dict[str, Quote] = {}

    def candidates(self) -> Iterator[tuple[str, Quote]]:
        """Its own names and those besides, not those where no other is left."""
        for said in [s for d in self.devices for s in d.names] + [s for d in self.devices for s in d.aliases]:
            if key := host_name(said.text):
                yield key, said

    def settle(self, shared: set[str]) -> None:
        """Choose its names; those that are ``shared`` are nobody's."""
        self.hosts = {}
        for key, said in self.candidates():
            if key not in shared:
                self.hosts.setdefault(key, said)
        for said in (s for d in self.devices for s in d.fallbacks):
            if not self.hosts and (key := host_name(_mac_or_text(said.text))):
                self.hosts[key] = said

    @property
    def principal(self) -> NodeRef | None:
        return next((_host(key) for key in self.hosts), None)

    @property
    def gateway(self) -> bool:
        return any(device.gateway for device in self.devices)


def _mac_or_text(text: str) -> str:
    return mac_address(text) or text


def _host(key: str) -> NodeRef:
    return NodeRef("Host", (key,), key)


def owners(devices: Iterable[Device]) -> list[Owner]:
    """The devices that some objects are about, in the order of their first object.

    An object that has neither MAC address nor id, as a controller says of itself, is about the device of its
    name.
    """
    by_identity: dict[str, Owner] = {}
    nameless: list[Device] = []
    for device in devices:
        if not device.identity:
            nameless.append(device)
            continue
        # What has another MAC address is another device, whatever else is the same.
        known = [key for key in ((device.mac,) if device.mac else device.ids) if key in by_identity]
        owner = by_identity[known[0]] if known else Owner()
        owner.devices.append(device)
        for key in (device.mac, *device.ids):
            if key:
                by_identity.setdefault(key, owner)
    found = list({id(owner): owner for owner in by_identity.values()}.values())
    by_name: dict[str, Owner] = {}
    for owner in found:
        for key, _ in owner.candidates():
            by_name.setdefault(key, owner)
    for device in nameless:
        for key in (host_name(said.text) for said in device.names):
            if key and key not in by_name:
                by_name[key] = Owner()
                found.append(by_name[key])
            if key:
                by_name[key].devices.append(device)
                break
    return found


def shared_names(found: Iterable[Owner]) -> set[str]:
    """The names that several devices have."""
    holders: dict[str, set[int]] = defaultdict(set)
    for owner in found:
        for key, _ in owner.candidates():
            holders[key].add(id(owner))
    return {key for key, by in holders.items() if len(by) > 1}


class SiteClaims:
    """Says what a site's records state: each node and each edge once for each file that says it."""

    def __init__(self, source: SourceFacts, prefix: str, texts: UnitTexts) -> None:
        """``prefix``: of the keys of networks and services, the source's id, with the site's name behind it
        where the source has several."""
        self._claims = ClaimBuilder(source, texts, once_per_file=True, max_edges=MAX_EDGES)
        self._source = source
        self._prefix = prefix
        self._texts = texts
        self._stated: set[tuple[Any, ...]] = set()
        #: {host name: the addresses that it resolves to}
        self._addresses: dict[str, dict[str, None]] = defaultdict(dict)

    def add(self, inventory: Inventory, found: list[Owner], nobody: set[str]) -> None:
        """Add all that ``inventory`` says. ``found``: the owners of its devices, whose names are settled.
        ``nobody``: names that several devices have."""
        networks = {key: said for r in inventory.ranges if (said := r.name) for key in r.ids}
        principals: dict[tuple[By, str], NodeRef] = {}
        for owner in found:
            if (principal := owner.principal) is not None:
                for device in owner.devices:
                    if device.mac:
                        principals.setdefault((By.MAC, device.mac), principal)
                    for key in device.ids:
                        principals.setdefault((By.ID, key), principal)
                for key in owner.hosts:
                    principals.setdefault((By.NAME, key), principal)
        for owner in found:
            self._device(owner)
        for owner in found:
            self._connections(owner, principals, networks, nobody)
        self._ranges(inventory.ranges)
        gateways = [owner.principal for owner in found if owner.gateway]
        # In each file the object that states most of it.
        for tunnel in sorted(
            inventory.tunnels, key=lambda t: -sum(map(bool, (t.protocol, t.remote, t.local)))
        ):
            self._tunnel(tunnel, gateways[0] if len(gateways) == 1 else None)
        self._dns(inventory.dns)
        for forward in inventory.forwards:
            self._forward(forward)

    def result(self) -> Interpretation:
        return self._claims.result()

    # --- devices --------------------------------------------------------------------------------------------

    def _device(self, owner: Owner) -> None:
        by_path: dict[str, dict[str, Quote]] = defaultdict(dict)
        for device in owner.devices:
            for said in (*device.names, *device.aliases, *device.fallbacks):
                key = host_name(_mac_or_text(said.text))
                if key in owner.hosts:
                    by_path[said.path].setdefault(key, said)
        for said_there in by_path.values():
            for key, said in said_there.items():
                self._named(key, said)
        said_of = [said for device in owner.devices for said in device.addresses]
        for key in islice(owner.hosts, max(1, MAX_STATEMENTS // max(1, len(said_of)))):
            for said in said_of[:MAX_STATEMENTS]:
                self._resolves(key, said)
        if len(owner.hosts) * len(said_of) > MAX_STATEMENTS:
            path = said_of[0].path
            self._texts.problem(
                path,
                "E_TOO_LARGE",
                f"{path}: a device has more than {MAX_STATEMENTS} names of addresses; the rest was left out.",
            )

    def _named(self, key: str, said: Quote) -> None:
        written = said.text.strip()
        self._claims.node(_host(key), said, declared=True, aliases=(written,) if written != key else ())

    def _resolves(self, key: str, said: Quote, ttl: int | None = None) -> None:
        address = held_address(said.text)
        if address is None:
            return
        ip = self._ip(said)
        self._addresses[key][str(address)] = None
        record = "AAAA" if address.version == 6 else "A"
        self._edge("RESOLVES_TO", _host(key), ip, said, recordType=record, ttl=ttl)

    def _ip(self, said: Quote) -> NodeRef:
        text = str(held_address(said.text))
        self._claims.ip(text, said)
        return NodeRef("IP", (text,), text)

    def _connections(
        self,
        owner: Owner,
        principals: Mapping[tuple[By, str], NodeRef],
        networks: Mapping[str, Quote],
        nobody: set[str],
    ) -> None:
        start = owner.principal
        if start is None:
            return
        for device in owner.devices:
            for reference in device.networks:
                said = reference.said
                name = said if reference.by is By.NAME else networks.get(said.text)
                if name is not None:
                    node = self._network(name.text)
                    if reference.by is By.NAME:
                        self._claims.node(node, said, {"name": name.text})
                    self._edge("CONNECTS_TO", start, node, said)
            for reference in device.uplinks:
                end = self._uplink(reference, principals, nobody)
                if end is not None and end != start:
                    self._edge("CONNECTS_TO", start, end, reference.said)

    def _uplink(
        self, reference: Reference, principals: Mapping[tuple[By, str], NodeRef], nobody: set[str]
    ) -> NodeRef | None:
        said = reference.said
        if reference.by is By.MAC:
            return principals.get((By.MAC, mac_address(said.text)))
        if reference.by is By.ID:
            return principals.get((By.ID, said.text))
        key = host_name(said.text)
        if not key or key in nobody:
            return None
        known = principals.get((By.NAME, key))
        if known is not None and known.key != (key,):
            return known
        self._claims.node(_host(key), said)
        return _host(key)

    # --- networks and tunnels -------------------------------------------------------------------------------

    def _network(self, name: str) -> NodeRef:
        return NodeRef("Network", (f"{self._prefix}/{name}",), name)

    def _ranges(self, given: list[Range]) -> None:
        """Each network has all ranges that some object of the site states of it."""
        by_node: dict[NodeRef, list[Range]] = defaultdict(list)
        for one in given:
            if one.name is not None:
                by_node[self._network(one.name.text)].append(one)
            else:
                cidr = str(network_of(one.cidrs[0].text))
                by_node[NodeRef("Network", (cidr,), cidr)].append(one)
        for node, stated in by_node.items():
            cidrs = list(dict.fromkeys(str(network_of(s.text)) for one in stated for s in one.cidrs))
            properties = {
                "name": node.name if stated[0].name is not None else None,
                "cidrs": cidrs or None,
                "isPublic": any(map(is_public, cidrs)) if cidrs else None,
                "vlan": next((one.vlan for one in stated if one.vlan is not None), None),
            }
            # In each file the object that states most of it.
            for one in sorted(stated, key=lambda one: -len(one.cidrs)):
                self._claims.node(node, one.name or one.cidrs[0], properties, declared=True)

    def _tunnel(self, tunnel: Tunnel, gateway: NodeRef | None) -> None:
        name = tunnel.name.text
        node = NodeRef("VPNTunnel", (ids.digest(self._source.namespace, self._prefix, name),), name)
        properties = {
            "name": name,
            "type": tunnel.protocol or None,
            "remoteEndpoint": tunnel.remote or None,
            "localEndpoint": tunnel.local or None,
            "declared": True,
        }
        self._claims.node(node, tunnel.name, properties, declared=True)
        if gateway is not None:
            self._edge("USES_VPN", gateway, node, tunnel.name)

    # --- DNS and port forwards ------------------------------------------------------------------------------

    def _dns(self, records: list[DnsRecord]) -> None:
        canonical: dict[str, str] = {}
        for record in records:
            key = host_name(record.name.text)
            if not key:
                continue
            self._named(key, record.name)
            if record.type == "CNAME":
                canonical.setdefault(key, host_name(record.value.text))
            else:
                self._resolves(key, record.value, record.ttl)
        for record in records:
            key = host_name(record.name.text)
            if not key or record.type != "CNAME":
                continue
            target = host_name(record.value.text)
            for _ in range(_MAX_ALIASES):
                if target in self._addresses or target not in canonical:
                    break
                target = canonical[target]
            for address in islice(self._addresses.get(target, ()), _MAX_OF_AN_ALIAS):
                ip = NodeRef("IP", (address,), address)
                self._edge("RESOLVES_TO", _host(key), ip, record.value, recordType="CNAME", ttl=record.ttl)

    def _forward(self, forward: PortForward) -> None:
        named = next((said for said in forward.names if host_name(said.text)), None)
        if named is None:
            return
        name = host_name(named.text)
        service = NodeRef("Service", (f"{self._prefix}/port-forward", name), name)
        self._claims.node(service, named, declared=True)
        bound = pairs(forward.outer.text, forward.inner)
        if bound is None:
            self._texts.problem(
                forward.outer.path,
                "E_UNRESOLVED",
                f"{forward.outer.path}: the ports of a port forward are none.",
            )
            return
        if not bound or not forward.protocols or held_address(forward.target.text) is None:
            return
        ip = self._ip(forward.target)
        for protocol in forward.protocols:
            for port, target in bound:
                self._edge(
                    "BINDS",
                    service,
                    ip,
                    forward.target,
                    port=port,
                    protocol=protocol,
                    targetPort=target,
                    hostIp=forward.address or None,
                )

    # --- claims ---------------------------------------------------------------------------------------------

    def _edge(self, type_: str, start: NodeRef, end: NodeRef, said: Quote, **properties: Any) -> None:
        """Claim an edge once for each file that states it."""
        told = [properties.get(name) for name in ("port", "protocol", "recordType")]
        key = (type_, start, end, *told, said.path)
        if key not in self._stated:
            self._stated.add(key)
            # In JSON the quote itself is what a name is another form of.
            written = self._texts.quote(said.evidence) if _is_form(end.name, said.text) else ""
            method = f"unifi_{type_.lower()}"
            self._claims.edge(type_, start, end, said, method, written=written, **properties)


def _is_form(name: str, text: str) -> bool:
    """Whether a name is a form of a text: of a device's name, or of an address."""
    written = text.strip()
    return name in (written, host_name(_mac_or_text(written)), str(held_address(written)))


_SITE = re.compile(r"(sites/[^/]+)/.+", re.DOTALL)
_DEVICES = re.compile(r"sites/[^/]+/devices/.+", re.DOTALL)
#: The unit of all files that lie in no site's folder.
_REST = "."


class UnifiExtractor:
    """Tier A for UniFi: a unit is a site of a controller, else all files of the source together."""

    name = "unifi"
    version = "4"

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        """A unit for each folder ``sites/NAME``, and one for the files outside of them.

        The first file of a unit is its folder, so that the unit stays where it is when files come and go.
        Behind its own files stand those of other sites that name devices: no name counts that two devices of
        a source have.
        """
        sites: dict[str, list[str]] = defaultdict(list)
        for path in sorted(set(paths)):
            match = _SITE.fullmatch(path)
            sites[match[1] if match else _REST].append(path)
        telling = {
            site: [path for path in files if _DEVICES.fullmatch(path)] or files[:1]
            for site, files in sites.items()
        }
        rest = telling.pop(_REST, None)
        units = [
            UnitSpec(
                site, (site, *sites[site], *(p for other in telling if other != site for p in telling[other]))
            )
            for site in telling
        ]
        return units if rest is None else [UnitSpec(_REST, (_REST, *sites[_REST])), *units]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What the files of a unit say together. Raises nothing but what the store behind ``view`` raises; a
        file that is broken is a problem beside the rest (``E_PARSE``)."""
        folder, *files = unit.files
        own = [path for path in files if folder == _REST or path.startswith(f"{folder}/")]
        texts = UnitTexts(view)
        inventory = _read(own, texts)
        elsewhere = files[len(own) :]
        # What is wrong with the files of another site is said with that.
        strangers = _read(elsewhere, UnitTexts(view))
        found = owners(inventory.devices)
        shared = shared_names([*found, *owners(strangers.devices)])
        for owner in found:
            owner.settle(shared)
        prefix = f"{source.source_id}/{folder.removeprefix('sites/')}" if elsewhere else source.source_id
        claims = SiteClaims(source, prefix, texts)
        claims.add(inventory, found, shared)
        return claims.result()


def _read(files: Sequence[str], texts: UnitTexts) -> Inventory:
    inventory = Inventory()
    for path in files:
        read_text(inventory, path, texts)
    return inventory
