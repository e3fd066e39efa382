"""WireGuard's configuration as ``wg-quick`` reads it: one interface, its peers, and where they are.

An interface is a tunnel of the machine that the source's entry names. Keys, private and public ones, are
neither key nor property of anything and stand in no quote; of a peer's public key a keyed hash tells where
else the same peer is. Names in comments are no facts.

Reference: wg(8), wg-quick(8).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.endpoints import normal_host
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis, is_ip, is_public
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

#: Routes with a shorter prefix lead to everything, alone or in pairs, and so to no network.
_MIN_PREFIX = 2
_MAX_PEERS = 10_000
_SECTION = re.compile(r"[ \t]*\[[ \t]*(\w+)[ \t]*\][ \t]*", re.ASCII)
_SETTING = re.compile(r"[ \t]*(\w+)[ \t]*=[ \t]*", re.ASCII)
_FIRST = re.compile(r"\ufeff?(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*\[[ \t]*(?:interface|peer)[ \t]*\]", re.I)
_KNOWN = re.compile(
    r"^[ \t]*(?:PrivateKey|PublicKey|AllowedIPs|ListenPort|Address|Endpoint)[ \t]*=", re.I | re.M
)
_ENDPOINT = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]]+)):(\d{1,5})", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def looks_like_wireguard(head: str) -> bool:
    """Whether a text begins with a section of WireGuard's and has one of its settings."""
    return _FIRST.match(head) is not None and _KNOWN.search(head) is not None


@dataclass(slots=True)
class _Section:
    """``[Interface]`` or ``[Peer]``: {setting in lower case: what it is set to, each time}."""

    kind: str
    header: Quote
    settings: dict[str, list[Quote]] = field(default_factory=dict)

    def values(self, name: str) -> list[Quote]:
        """The parts, between commas, of all that a setting is set to."""
        return [
            Quote(
                match[0].strip(),
                said.path,
                said.start + match.start(),
                said.start + match.start() + len(match[0].rstrip()),
            )
            for said in self.settings.get(name, ())
            for match in re.finditer(r"[^,\s][^,]*", said.text)
        ]


class WireguardReader:
    """Reads configurations of interfaces (a
    :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "wireguard"
    version = "3"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        texts = UnitTexts(view)
        text = texts.text(path) or ""
        claims = ClaimBuilder(source, texts)
        sections = _sections(path, text, claims)
        if sections:
            _claim(claims, path, sections)
        return claims.result()


def _sections(path: str, text: str, claims: ClaimBuilder) -> list[_Section]:
    found: list[_Section] = []
    at = 1 if text.startswith("\ufeff") else 0
    for line in text[at:].split("\n"):
        start, at = at, at + len(line) + 1
        bare = line.partition("#")[0].rstrip()
        if not bare.strip():
            continue
        whole = Quote("", path, start, start + len(bare))
        header = _SECTION.fullmatch(bare)
        if header is not None:
            kind = header[1].lower()
            if kind not in ("interface", "peer"):
                claims.problem(whole, "E_PARSE", "this is no section of WireGuard's.")
            found.append(
                _Section(kind, Quote(bare.strip(), path, start + len(bare) - len(bare.lstrip()), whole.end))
            )
            continue
        setting = _SETTING.match(bare)
        if setting is None or not found:
            claims.problem(whole, "E_PARSE", "this is no setting of a section.")
            continue
        value = Quote(bare[setting.end() :], path, start + setting.end(), whole.end)
        if value.text:
            found[-1].settings.setdefault(setting[1].lower(), []).append(value)
    return found


def _claim(claims: ClaimBuilder, path: str, sections: list[_Section]) -> None:
    interfaces = [s for s in sections if s.kind == "interface"]
    peers = [s for s in sections if s.kind == "peer"]
    if len(peers) > _MAX_PEERS:
        claims.problem(
            peers[_MAX_PEERS].header, "E_TOO_LARGE", f"only the first {_MAX_PEERS} peers are kept."
        )
        del peers[_MAX_PEERS:]
    name = path.rpartition("/")[2].rpartition(".")[0]
    addresses = _addresses(claims, [said for s in interfaces for said in s.values("address")])
    remote = _claim_endpoints(claims, peers)
    header = sections[0].header
    # Two machines' interfaces of one name lie in different folders.
    place = f"{claims.place}/{path.rpartition('.')[0]}"
    tunnel = claims.node(
        NodeRef("VPNTunnel", (ids.digest(claims.source.namespace, place, name),), name or path),
        header,
        {
            "name": name,
            "type": "wireguard",
            "localEndpoint": str(addresses[0][0].ip) if addresses else None,
            "remoteEndpoint": remote,
            "peerKeyHashes": _key_hashes(claims, peers),
            "declared": True,
        },
        declared=True,
    )
    host = claims.claim_host(header)
    claims.edge(
        "USES_VPN",
        host,
        tunnel,
        header,
        "wireguard_interface",
        start_basis=Basis.SOURCE,
        end_basis=Basis.DERIVED,
    )
    listened = [port for s in interfaces for port in s.settings.get("listenport", ())]
    if host is not None and listened and (port := _port(listened[-1].text)) is not None:
        claims.endpoint("udp", host.name, port, "/", listened[-1])
    for interface, said in addresses:
        ip = claims.node(
            NodeRef("IP", (str(interface.ip),), str(interface.ip)),
            said,
            {"isPublic": is_public(str(interface.ip)), "cidr": str(interface.network)},
        )
        if ip is not None:
            claims.edge(
                "RESOLVES_TO",
                host,
                ip,
                said,
                "wireguard_address",
                start_basis=Basis.SOURCE,
                written=said.text,
                recordType="A" if interface.version == 4 else "AAAA",
            )
        _claim_network(claims, host, interface, said, "wireguard_address", routed=True)
    # Without a table no routes are made.
    routed = not any(said.text.lower() == "off" for s in interfaces for said in s.values("table"))
    for interface, said in _addresses(claims, [said for s in peers for said in s.values("allowedips")]):
        if interface.network.prefixlen == interface.max_prefixlen:
            claims.ip(str(interface.ip), said)
        else:
            _claim_network(claims, host, interface, said, "wireguard_allowed_ips", routed=routed)


def _port(text: str) -> int | None:
    found = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return found if 1 <= found <= 65535 else None


def _claim_network(
    claims: ClaimBuilder,
    host: NodeRef | None,
    interface: Interface,
    said: Quote,
    method: str,
    *,
    routed: bool,
) -> None:
    """The network of an address with a prefix, and that the machine reaches it."""
    network = interface.network
    if network.prefixlen == network.max_prefixlen or network.prefixlen < _MIN_PREFIX:
        return
    cidr = str(network)
    node = claims.node(
        NodeRef("Network", (cidr,), cidr), said, {"cidrs": [cidr], "isPublic": is_public(cidr)}
    )
    if node is not None and routed:
        claims.edge(
            "CONNECTS_TO",
            host,
            node,
            said,
            method,
            start_basis=Basis.SOURCE,
            written=said.text,
            encrypted=True,
        )


def _addresses(claims: ClaimBuilder, written: list[Quote]) -> list[tuple[Interface, Quote]]:
    found = []
    for said in written:
        try:
            found.append((ipaddress.ip_interface(said.text.lstrip("+-")), said))
        except ValueError:
            claims.problem(said, "E_PARSE", "this is no address, with or without the length of a prefix.")
    return found


def _claim_endpoints(claims: ClaimBuilder, peers: list[_Section]) -> str | None:
    """Claim where peers are; returns the address of the only peer, if it has one that is an address."""
    found: list[str] = []
    for peer in peers:
        # The last one counts.
        for said in peer.settings.get("endpoint", ())[-1:]:
            match = _ENDPOINT.fullmatch(said.text)
            host = normal_host(f"[{match[1]}]" if match[1] else match[2]) if match is not None else None
            port = _port(match[3]) if match is not None else None
            if match is None or host is None or port is None:
                claims.problem(said, "E_PARSE", "this is no host with a port.")
                continue
            claims.endpoint("udp", host, port, "/", said)
            if is_ip(host):
                claims.ip(host, said)
                found.append(host)
                continue
            end = claims.node(NodeRef("Host", (host,), host), said)
            if end is not None:
                claims.edge(
                    "CONNECTS_TO",
                    claims.claim_host(said),
                    end,
                    said,
                    "wireguard_endpoint",
                    start_basis=Basis.SOURCE,
                    written=said.text,
                    protocol="wireguard",
                    port=port,
                    encrypted=True,
                )
    return found[0] if len(peers) == 1 and found else None


def _key_hashes(claims: ClaimBuilder, peers: list[_Section]) -> list[str]:
    """Peers' keys as hashes that are others in each namespace."""
    found: dict[str, None] = {}
    for peer in peers:
        for said in peer.settings.get("publickey", ())[-1:]:
            if _KEY.fullmatch(said.text) is None:
                claims.problem(said, "E_PARSE", "this is no key of WireGuard's.")
                continue
            found[
                hmac.new(claims.source.namespace.encode(), said.text.encode(), hashlib.sha256).hexdigest()
            ] = None
    return list(found)
