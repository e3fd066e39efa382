"""VPN tunnels, as far as images and network modes give them away."""

from __future__ import annotations

import re

from taboot_pipelines.extraction.tier_a.compose.collector import ProjectClaims
from taboot_pipelines.extraction.tier_a.yaml_nodes import Node
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import NodeRef

_VPN = re.compile(
    r"(?:^|[/_-])"
    r"(wireguard|wg-easy|wg|gluetun|openvpn|nordvpn|nordlynx|protonvpn|mullvad|surfshark|tailscale|headscale"
    r"|zerotier|netbird|vpn)"
    r"(?=$|[/_-])"
)
_WIREGUARD = frozenset({"wireguard", "wg-easy", "wg", "nordlynx"})
#: The tunnel types that an image's name gives away by itself.
_TYPES = {
    "wireguard": "wireguard",
    "wg-easy": "wireguard",
    "wg": "wireguard",
    "nordlynx": "wireguard",
    "openvpn": "openvpn",
    "tailscale": "tailscale",
    "zerotier": "zerotier",
    "netbird": "netbird",
}


def _vpn_kind(c: ProjectClaims, name: str) -> str | None:
    image = c.images.get(name)
    match = _VPN.search(image[0].repository) if image is not None else None
    return match[1] if match is not None else None


def _tunnel(c: ProjectClaims, service: str, kind: str) -> NodeRef | None:
    _, image = c.images[service]
    ref = NodeRef("VPNTunnel", (ids.digest(c.source.namespace, c.scope, service),), service)
    return c.node(ref, image, {"name": service, "type": _TYPES.get(kind), "declared": True}, confidence=0.8)


def claim_vpn(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """A service uses the tunnel whose service lends it its network, or the one that it runs itself."""
    mode = node.scalar("network_mode")
    if mode is not None and mode.text.startswith("service:"):
        via = mode.text.removeprefix("service:")
        kind = _vpn_kind(c, via)
        if kind is not None and via != name:
            c.edge("USES_VPN", ref, _tunnel(c, via, kind), mode, "compose_vpn", confidence=0.8)
    kind = _vpn_kind(c, name)
    capabilities = node.get("cap_add")
    if kind in _WIREGUARD and kind is not None and capabilities is not None:
        added = {item.text.upper().removeprefix("CAP_") for item in capabilities.each()}
        if "NET_ADMIN" in added:
            c.edge(
                "USES_VPN",
                ref,
                _tunnel(c, name, kind),
                c.images[name][1],
                "compose_vpn",
                end_basis=Basis.DERIVED,
                confidence=0.8,
            )
