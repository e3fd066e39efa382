"""WireGuard's configuration."""

from __future__ import annotations

import base64

from taboot_pipelines.documents.secrets.masking import mask
from taboot_pipelines_tests.extraction.tier_a.config.reading import edges, interpret, one, shown

PRIVATE, PUBLIC, SHARED = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2, 3))
SERVER = f"""\
[Interface]
PrivateKey = {PRIVATE}
Address = 10.8.0.1/24, fd00::1/64
ListenPort = 51820
[Peer] # phone
PublicKey = {PUBLIC}
PresharedKey = {SHARED}
AllowedIPs = 10.8.0.2/32
[Peer]
PublicKey = {PRIVATE}
AllowedIPs = 192.168.80.0/24, 0.0.0.0/0, ::/0, 128.0.0.0/1
Endpoint = office.example.com:51821
"""


def test_the_machine_uses_the_tunnel_holds_its_addresses_and_reaches_its_networks() -> None:
    said = one("wg/wg0.conf", SERVER, host="nas.lan")
    assert [shown(e) for e in said.edges] == [
        ("CONNECTS_TO", "nas.lan", "office.example.com"),
        ("USES_VPN", "nas.lan", "wg0"),
        ("RESOLVES_TO", "nas.lan", "10.8.0.1"),
        ("CONNECTS_TO", "nas.lan", "10.8.0.0/24"),
        ("RESOLVES_TO", "nas.lan", "fd00::1"),
        ("CONNECTS_TO", "nas.lan", "fd00::/64"),
        ("CONNECTS_TO", "nas.lan", "192.168.80.0/24"),
    ]
    assert "nas.lan:51820" in {n.node.name for n in said.nodes if n.node.label == "Endpoint"}
    (tunnel,) = (n for n in said.nodes if n.node.label == "VPNTunnel")
    assert tunnel.properties["localEndpoint"] == "10.8.0.1" and len(tunnel.properties["peerKeyHashes"]) == 2


def test_without_a_machine_only_the_tunnel_and_its_addresses_are_known() -> None:
    said = one("wg0.conf", SERVER)
    assert said.edges == ()
    assert {n.node.label for n in said.nodes} == {"VPNTunnel", "IP", "Network", "Host", "Endpoint"}


def test_no_key_is_in_any_claim_or_problem() -> None:
    said = one("wg0.conf", SERVER + f"PublicKey = {PUBLIC[:-3]}\nnonsense {SHARED}\n", host="nas.lan")
    assert said.problems
    text = repr(said)
    quotes = [SERVER[c.evidence.start : c.evidence.end] for c in (*said.nodes, *said.edges)]
    for key in (PRIVATE, PUBLIC, SHARED):
        assert key[:12] not in text and not any(key[:12] in quote for quote in quotes)


def test_no_key_is_in_the_text_of_the_document() -> None:
    hidden = mask(SERVER, "text/x-nginx-conf")
    assert len(hidden) == len(SERVER) and not any(key[:12] in hidden for key in (PRIVATE, PUBLIC, SHARED))


def test_a_peer_has_one_hash_in_a_namespace() -> None:
    files = {
        "a.conf": f"[Interface]\nAddress=10.0.0.1/24\n[Peer]\nPublicKey={PUBLIC}\n",
        "b.conf": f"[Peer]\npublickey = {PUBLIC}\nallowedips = 10.0.0.0/24\n",
    }
    hashes = [
        n.properties["peerKeyHashes"]
        for said in interpret(files).values()
        for n in said.nodes
        if n.node.label == "VPNTunnel"
    ]
    assert len(hashes) == 2 and hashes[0] == hashes[1]


def test_without_a_table_no_route_is_made() -> None:
    text = "[Interface]\nTable = off\n[Peer]\nAllowedIPs = 10.9.0.0/16\n"
    said = one("wg0.conf", text, host="nas.lan")
    assert edges(said, "CONNECTS_TO") == []
    assert "10.9.0.0/16" in {n.node.name for n in said.nodes}


def test_other_confs_are_none() -> None:
    for text in (
        "[mysqld]\nport=1\n[Interface]\nAddress=10.0.0.1/24\n",
        "server { listen 80; }\n",
        "[Peer]\nx=1\n",
    ):
        assert one("a.conf", text).nodes == ()
