"""The gate that every node and edge passes: the fields and rules of each type."""

from __future__ import annotations

from typing import Any

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.graph import EDGES, NODES, check_edge, check_node

HEX = "a" * 64


def test_there_are_eleven_of_each() -> None:
    assert len(NODES) == 11 and len(EDGES) == 11


@pytest.mark.parametrize(
    ("label", "key", "properties"),
    [
        (
            "Service",
            ("hearth.lan/media", "Jellyfin_1.x"),
            {"port": 8096, "protocol": "http", "profiles": ["gpu"]},
        ),
        ("Service", ("", "db"), {}),
        ("Host", ("nas.lan",), {"ip": "192.168.1.2", "osType": "linux"}),
        ("IP", ("2001:db8::1",), {"isPublic": False}),
        ("Endpoint", ("grpc+tls", "my_host", 443, "/"), {"authRequired": True}),
        ("Network", ("hearth.lan/proxy",), {"cidrs": ["10.0.0.0/8"], "name": "proxy"}),
        ("Container", (HEX,), {"declared": True, "name": "db"}),
        ("Image", ("name:registry.lan:5000/a/b:latest",), {"tag": "latest"}),
        ("Image", ("sha256:" + HEX,), {}),
        ("TailscaleNode", ("n1",), {"tailscaleIp": "100.100.1.1"}),
        ("VPNTunnel", ("t",), {"localEndpoint": None, "type": "wireguard"}),
    ],
)
def test_good_nodes(label: str, key: tuple[Any, ...], properties: dict[str, Any]) -> None:
    check_node(label, key, properties)


@pytest.mark.parametrize(
    ("label", "key", "properties", "field"),
    [
        ("Services", ("", "db"), {}, "Services"),
        ("Service", ("db",), {}, "scope, name"),
        ("Service", ("", "my db"), {}, "name"),
        ("Service", ("", "db"), {"port": 0}, "port"),
        ("Service", ("", "db"), {"port": True}, "port"),
        ("Service", ("", "db"), {"colour": "red"}, "colour"),
        ("Host", ("nas.lan.",), {}, "hostname"),
        ("Host", ("-nas",), {}, "hostname"),
        ("IP", ("10.0.0.300",), {}, "addr"),
        ("IP", ("2001:0db8::0001",), {}, "addr"),
        ("Endpoint", ("ftp", "a.b", 21, "/"), {}, "scheme"),
        ("Endpoint", ("http", "a.b", 65536, "/"), {}, "port"),
        ("Endpoint", ("http", "a.b", 80, "x"), {}, "path"),
        ("Container", ("xyz",), {}, "containerId"),
        ("Image", ("redis",), {}, "imageId"),
        ("TailscaleNode", ("n1",), {"tailscaleIp": "10.0.0.1"}, "tailscaleIp"),
    ],
)
def test_bad_nodes_name_the_field(
    label: str, key: tuple[Any, ...], properties: dict[str, Any], field: str
) -> None:
    with pytest.raises(TabootError, match="E_SCHEMA_INVALID") as error:
        check_node(label, key, properties)
    assert field in error.value.message


@pytest.mark.parametrize(
    ("type_", "start", "end", "properties", "confidence", "what"),
    [
        ("BINDS", "Service", "IP", {"port": 80}, 1.0, "protocol"),
        ("BINDS", "Network", "IP", {"port": 80, "protocol": "tcp"}, 1.0, "Network"),
        ("RUNS", "Container", "Host", {"restartPolicy": "sometimes"}, 1.0, "restartPolicy"),
        ("ROUTES_TO", "ReverseProxy", "Service", {}, 1.0, "tls"),
        ("DEPENDS_ON", "Service", "Service", {}, 1.5, "confidence"),
        ("DEPENDS_ON", "Service", "Service", {}, float("nan"), "confidence"),
        ("NEAR", "Service", "Service", {}, 1.0, "NEAR"),
    ],
)
def test_bad_edges_name_the_reason(
    type_: str, start: str, end: str, properties: dict[str, Any], confidence: float, what: str
) -> None:
    with pytest.raises(TabootError, match="E_SCHEMA_INVALID") as error:
        check_edge(type_, start, end, properties, confidence)
    assert what in error.value.message
