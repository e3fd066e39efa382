"""A tailnet as claims: its devices with names, addresses and routes, and who may reach whom."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder
from taboot_pipelines.extraction.tier_a.inventory import Address, Range, host_name, network_of
from taboot_pipelines.extraction.tier_a.tailscale import access, forms
from taboot_pipelines.extraction.tier_a.tailscale.forms import JsonText, Sighting, Stated, Tailnet
from taboot_pipelines.extraction.tier_a.tailscale.policy import parse_policy, port_list, span_of
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.graph import TAILNET, check_node, is_public
from taboot_pipelines.model.records import (
    Evidence,
    FileView,
    Interpretation,
    NodeRef,
    SourceFacts,
    UnitSpec,
)
from taboot_pipelines.model.tailnets import Form, form_of

#: Quoted rules of all connections of a unit.
MAX_POLICY_EDGES = 100_000
#: Edges of a unit, with those of devices.
MAX_EDGES = 1_000_000
#: A longer quote is a rule, which is no name or address in another form.
_MAX_WRITTEN = 300

_SUFFIXES = (".json", ".hujson", ".jsonc", ".json5")
#: Folders that hold a part of a tailnet: what is in one belongs to what is beside it.
# fmt: off
_PARTS = frozenset((
    "acl", "acls", "device", "devices", "dns", "machine", "machines", "netmap", "netmaps", "node", "nodes",
    "policies", "policy", "routes", "settings", "status", "user", "users",
))
# fmt: on


class TailscaleExtractor:
    """Tier A for Tailscale and Headscale: a unit is a folder, with those of its subfolders that hold a part
    of a tailnet (``devices``, ``dns`` …). All its files are of one tailnet, but for captures, of which each
    is one."""

    name = "tailscale"
    version = "6"

    def units(self, paths: Sequence[str]) -> list[UnitSpec]:
        """The folders that hold JSON or HuJSON."""
        folders: dict[str, list[str]] = {}
        for path in sorted(set(paths)):
            if path.lower().endswith(_SUFFIXES):
                folders.setdefault(_folder(path), []).append(path)
        return [UnitSpec(folder or ".", tuple(files)) for folder, files in sorted(folders.items())]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """What the tailnets of a unit say. Raises nothing but what the store behind ``view`` raises; what
        cannot be read or resolved is a problem beside the rest (``E_PARSE``, ``E_UNRESOLVED``,
        ``E_TOO_LARGE``)."""
        claims = _Claims(source, UnitTexts(view))
        shared = Tailnet()
        for path in unit.files:
            text = claims.texts.text(path)
            if text is None:
                continue
            try:
                document = JsonText(path, text)
                form = form_of(document.root)
                said = forms.read(document, form, source.source_id) if form is not None else None
            except TabootError as error:
                claims.texts.problem(path, error.code, error.message)
                continue
            for unread in said.errors if said is not None else ():
                claims.note(path, unread.code, f"a policy in it cannot be read: {unread.message.rstrip('.')}")
            if said is None:
                claims.note(path, "E_UNRESOLVED", "holds nothing of a tailnet in a form that is known")
            elif form is Form.CAPTURE:
                claims.add(said)
            else:
                shared.take(said)
        claims.add(shared)
        return claims.builder.result()


def _folder(path: str) -> str:
    folders = path.split("/")[:-1]
    while folders and folders[-1].lower() in _PARTS:
        folders.pop()
    return "/".join(folders)


@dataclass(slots=True, eq=False)
class _Device:
    """All that is said of one device, in the order of the files."""

    sightings: list[Sighting] = field(default_factory=list)
    #: Normal forms of those names that are its alone, and the first of them.
    names: list[str] = field(default_factory=list)
    principal: str = ""
    routes: list[Stated[Range]] = field(default_factory=list)

    def in_files(self) -> dict[str, list[Sighting]]:
        """Its sightings by the file that they stand in."""
        found: dict[str, list[Sighting]] = {}
        for sighting in self.sightings:
            for evidence in _places(sighting):
                found.setdefault(evidence.path, []).append(sighting)
                break
        return found

    @property
    def external(self) -> bool:
        return all(s.external for s in self.sightings)

    @property
    def authorized(self) -> bool:
        return all(s.authorized for s in self.sightings)


def _places(sighting: Sighting) -> Iterable[Evidence]:
    if sighting.key is not None:
        yield sighting.key.evidence
    yield from (name.evidence for name in sighting.names)
    yield from (address.evidence for address in sighting.addresses)


class _Claims:
    def __init__(self, source: SourceFacts, texts: UnitTexts) -> None:
        # `tag:web` names no host `web`, and a part of a longer path or address none either.
        self.builder = ClaimBuilder(source, texts, once_per_file=True, max_edges=MAX_EDGES, joints=":/")
        self.texts = texts
        self._source = source
        self._policy_edges = 0

    def note(self, path: str, code: str, message: str) -> None:
        self.texts.problem(path, code, f"{path}: {message}.")

    def add(self, tailnet: Tailnet) -> None:
        """Add all that a tailnet says."""
        devices = _devices(tailnet)
        for device in devices:
            for sightings in device.in_files().values():
                self._device(device, sightings)
            for route in device.routes if device.authorized and device.principal else ():
                self._route(device, route)
        self._access(tailnet, devices)

    # --- devices --------------------------------------------------------------------------------------------

    def _device(self, device: _Device, sightings: Sequence[Sighting]) -> None:
        """What one file says of a device."""
        first = sightings[0]
        said: dict[str, Evidence] = {}
        for name in (n for s in sightings for n in s.names):
            if name.value in device.names:
                said.setdefault(name.value, name.evidence)
        if not said and device.principal and first.key is not None:
            said[device.principal] = first.key.evidence
        system = {"osType": first.os} if _valid("Host", ("host",), {"osType": first.os}) else {}
        hosts = [NodeRef("Host", (name,), name) for name in said]
        for host in hosts:
            self.builder.node(host, said[host.name], system, declared=True)
        addresses: dict[Address, Evidence] = {}
        for held in (a for s in sightings for a in s.addresses):
            addresses.setdefault(held.value, held.evidence)
        for address, evidence in addresses.items():
            ip = NodeRef("IP", (str(address),), str(address))
            self.builder.node(ip, evidence, {"isPublic": is_public(ip.name)})
            record = {"recordType": "A" if address.version == 4 else "AAAA"}
            for host in hosts:
                self._edge("RESOLVES_TO", host, ip, evidence, "tailscale_device", record)
        if first.key is not None:
            node = NodeRef(
                "TailscaleNode", (first.key.value,), first.dns_name or _first(said) or first.key.value
            )
            self.builder.node(node, first.key.evidence, self._properties(device, first))
            for host in hosts if device.authorized else ():
                self._edge("USES_VPN", host, node, first.key.evidence, "tailscale_device", {})

    def _properties(self, device: _Device, first: Sighting) -> dict[str, Any]:
        addresses = [str(a.value) for a in first.addresses if a.value in TAILNET]
        return {
            "name": first.dns_name or (first.names[0].value if first.names else None),
            "tailscaleIp": addresses[0] if addresses else None,
            "lastSeen": first.last_seen or None,
            "authorized": first.authorized,
            "tags": sorted(first.tags) or None,
            "advertisedRoutes": first.advertised or None,
            "enabledRoutes": sorted({str(r.value) for r in device.routes}) or None,
            "exitNode": first.exit_node or None,
            "machineKeyHash": self._keyed(first.machine_key) if first.machine_key else None,
        }

    def _keyed(self, key: str) -> str:
        """A machine's key as a hash that is another one in each namespace."""
        return hmac.new(self._source.namespace.encode(), key.encode(), hashlib.sha256).hexdigest()

    def _route(self, device: _Device, route: Stated[Range]) -> None:
        cidr = str(route.value)
        network = NodeRef("Network", (cidr,), cidr)
        self.builder.node(network, route.evidence, {"cidrs": [cidr], "isPublic": is_public(cidr)})
        host = NodeRef("Host", (device.principal,), device.principal)
        self._edge("CONNECTS_TO", host, network, route.evidence, "tailscale_route", {})

    # --- access ---------------------------------------------------------------------------------------------

    def _access(self, tailnet: Tailnet, devices: Sequence[_Device]) -> None:
        """The connections that the policy lets through; where none is known, those of packet filters."""
        peers = {id(d): _peer(d, tailnet) for d in devices if d.principal and d.authorized and not d.external}
        everyone = tuple(peers.values())
        if not everyone:
            return
        for text, root in tailnet.policies:
            reaches = access.Reaches()
            policy = parse_policy(text, root, self._problem)
            access.allowed_by_policy(policy, everyone, bool(tailnet.roles), self._problem, reaches)
            self._reaches(text.path, reaches, "tailscale_policy")
        if tailnet.policies:
            return
        # One after the other, since a reach quotes the rules of one file.
        by_file: dict[str, access.Reaches] = {}
        for text, rules, sighting in tailnet.filters:
            here = next((peers.get(id(d)) for d in devices if sighting in d.sightings), None)
            if here is not None:
                reaches = by_file.setdefault(text.path, access.Reaches())
                access.allowed_by_filter(text, rules, here, everyone, self._problem, reaches)
        for path, reaches in by_file.items():
            self._reaches(path, reaches, "tailscale_filter")

    def _problem(self, evidence: Evidence, message: str) -> None:
        self.texts.problem_at(evidence, "E_UNRESOLVED", f"{message}.")

    def _reaches(self, path: str, reaches: access.Reaches, method: str) -> None:
        for reach, grounds in reaches.found.items():
            if self._policy_edges >= MAX_POLICY_EDGES:
                reaches.full = True
                break
            source = NodeRef("Host", (reach.source,), reach.source)
            target = NodeRef(reach.label, (reach.target,), reach.target)
            properties = {
                "protocol": reach.protocol,
                # By WireGuard, between two devices; not behind a router of a subnet.
                "encrypted": True if reach.label == "Host" else None,
                "via": sorted(grounds.via) if grounds.via else None,
                **_conditions(grounds),
            }
            for rule in grounds.rules:
                self._policy_edges += 1
                self._edge("CONNECTS_TO", source, target, rule, method, properties)
        if reaches.full:
            self.note(
                path,
                "E_TOO_LARGE",
                f"lets through more than {access.MAX_REACHES} connections; the rest was left out",
            )

    def _edge(
        self,
        type_: str,
        start: NodeRef,
        end: NodeRef,
        evidence: Evidence,
        method: str,
        properties: dict[str, Any],
    ) -> None:
        quote = self.texts.quote(evidence)
        self.builder.edge(
            type_,
            start,
            end,
            evidence,
            method,
            written=_written(end, quote),
            start_basis=self.builder.basis(start, evidence, _written(start, quote)),
            **properties,
        )


def _conditions(grounds: access.Grounds) -> dict[str, Any]:
    """The ports of a connection, and its postures.

    Where some ports ask for no posture, these are ``ports``, and the others stand in ``conditionalPorts``;
    where all ask for one, ``posture`` lists the postures, and ``conditionalPorts`` tells them apart if they
    are not the same for all ports.
    """
    free = grounds.ports.get((), [])
    bound = {posture: ports for posture, ports in grounds.ports.items() if posture}
    told = [
        f"{port_list(ports)} {' or '.join(posture)}"
        for posture, ports in sorted(bound.items())
        if not free or port_list([*free, *ports]) != port_list(free)
    ]
    return {
        "ports": port_list(free or [p for ports in bound.values() for p in ports]),
        "posture": None if free else sorted(set().union(*bound)),
        "conditionalPorts": told if told and (free or len(bound) > 1) else None,
    }


def _devices(tailnet: Tailnet) -> list[_Device]:
    """The devices of a tailnet: sightings of one id are one device, and of the names those are left that no
    two devices have."""
    by_key: dict[str | int, _Device] = {}
    for sighting in tailnet.sightings:
        key: str | int = sighting.key.value if sighting.key is not None else id(sighting)
        by_key.setdefault(key, _Device()).sightings.append(sighting)
    enabled: dict[str, list[Stated[Range]]] = {}
    for owner, route in tailnet.enabled:
        enabled.setdefault(owner, []).append(route)
    devices = list(by_key.values())
    named = {id(d): _names(d) for d in devices}
    shared = Counter(name for names in named.values() for name in names)
    for key, device in by_key.items():
        device.names = [name for name in named[id(device)] if shared[name] == 1]
        own_id = device.sightings[0].key
        device.principal = _first(device.names) or (host_name(own_id.value) if own_id is not None else "")
        routes = [r for s in device.sightings for r in s.routes] + enabled.get(str(key), [])
        if any(r.value.prefixlen == 0 for r in routes):
            device.sightings[0].exit_node = True
        seen: set[tuple[Range, str]] = set()
        for route in routes:
            if route.value.prefixlen and (route.value, route.evidence.path) not in seen:
                seen.add((route.value, route.evidence.path))
                device.routes.append(route)
    return devices


def _names(device: _Device) -> list[str]:
    """The names of a device, of one that is shared in that in MagicDNS alone."""
    external = device.external
    names = []
    for sighting in device.sightings:
        for name in sighting.names:
            if not external or name.value == host_name(sighting.dns_name):
                names.append(name.value)
    return list(dict.fromkeys(names))


def _peer(device: _Device, tailnet: Tailnet) -> access.Peer:
    sightings = device.sightings
    tags = frozenset[str]().union(*(s.tags for s in sightings))
    users = frozenset[str]() if tags else frozenset[str]().union(*(s.users for s in sightings))
    roles = frozenset[str]().union(*(s.roles for s in sightings), *(tailnet.roles.get(u, ()) for u in users))
    return access.Peer(
        host=device.principal,
        addresses=tuple(dict.fromkeys(span_of(a.value) for s in sightings for a in s.addresses)),
        routes=tuple(dict.fromkeys(r.value for r in device.routes)),
        tags=tags,
        users=users,
        roles=frozenset() if tags else roles,
        capabilities=frozenset[str]().union(*(s.capabilities for s in sightings)),
    )


def _first(names: Iterable[str]) -> str:
    return next(iter(names), "")


def _valid(label: str, key: tuple[str, ...], properties: dict[str, Any]) -> bool:
    try:
        check_node(label, key, properties)
    except TabootError:
        return False
    return True


def _written(node: NodeRef, quote: str) -> str:
    """The name or address that a quote is, if the node is another form of it; else nothing. A longer quote is
    a rule, which is neither."""
    text = quote.strip('"')
    if len(text) > _MAX_WRITTEN:
        return ""
    if node.label == "Host":
        return text if host_name(text) == node.name else ""
    return text if node.label in ("IP", "Network") and network_of(text) is not None else ""
