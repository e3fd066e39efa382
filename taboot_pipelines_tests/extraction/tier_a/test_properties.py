"""What readers say of nodes and connections beside names: descriptions, addresses, encryption, methods."""

from __future__ import annotations

import pytest

from taboot_pipelines.extraction.tier_a.compose.connections import encryption
from taboot_pipelines_tests.extraction.tier_a.compose.helpers import interpret
from taboot_pipelines_tests.extraction.tier_a.config.reading import interpret as read_files
from taboot_pipelines_tests.extraction.tier_a.config.reading import one
from taboot_pipelines_tests.extraction.tier_a.proxies.reading import interpret as interpret_proxy

STACK = """
    services:
      # Keeps the passwords of
      # the family.
      vault:
        image: vaultwarden/server
        environment:
          REDIS_URL: rediss://cache:6379/0
          DATABASE_URL: postgresql://u@db/app?sslmode=verify-full
      # ---------- Databases ----------
      db:
        image: postgres
      # cache2:
      #   image: valkey
      cache:
        image: redis
        environment:
          - METRICS=http://vault:80
          - BROKER=tcp://db:5432
      # A comment loses against a label.
      gitea:
        image: gitea
        labels:
          - homepage.group=Code
          - homepage.description=Git of  the house
      # gitea
      runner:
        image: runner
        labels: {org.opencontainers.image.description: "${TEXT}"}
    networks:
      back:
        labels: {lab.example.description: Only inside}
        ipam: {config: [{subnet: 172.30.0.0/16}, {subnet: 172.30.5.0/24}]}
"""


def test_services_and_networks_are_described_by_labels_and_by_the_comment_above() -> None:
    said = interpret(STACK)
    found = {n.node.name: n.properties.get("description") for n in said.nodes("Service")}
    assert found == {
        "vault": "Keeps the passwords of the family.",
        "db": None,
        "cache": None,
        "gitea": "Git of the house",
        "runner": None,
    }
    assert said.node("Network", "app_back").properties["description"] == "Only inside"


def test_a_connection_is_encrypted_by_the_scheme_of_its_url() -> None:
    found = {
        (e.start.name, e.end.name): e.properties.get("encrypted")
        for e in interpret(STACK).result.edges
        if e.type == "CONNECTS_TO"
    }
    assert found == {
        ("vault", "cache"): True,
        ("vault", "db"): True,
        ("cache", "vault"): False,
        ("cache", "db"): None,
    }


@pytest.mark.parametrize(
    ("scheme", "text", "encrypted"),
    [
        ("https", "https://a", True),
        ("mqtt", "mqtt://a", False),
        ("postgres", "postgres://a?x=1&sslmode=disable", False),
        ("postgres", "postgres://a?sslmode=prefer", None),
        ("postgres", "host=a sslmode=require", True),
        ("mysql", "mysql://a?sslmode=require", None),
        ("http", "http://a?sslmode=require", False),
        (None, "sslmode=require", None),
    ],
)
def test_what_tells_of_encryption(scheme: str | None, text: str, encrypted: bool | None) -> None:
    assert encryption(scheme, text) is encrypted


def test_quadlets_tell_it_of_the_containers_beside_them_and_of_others() -> None:
    said = read_files(
        {
            "app.container": "[Container]\nImage=app\n"
            "Environment=A=rediss://systemd-cache:6379 B=http://far:80\n",
            "cache.container": "[Container]\nImage=redis\n",
        }
    )["app.container"]
    assert [e.properties["encrypted"] for e in said.edges if e.type == "CONNECTS_TO"] == [True]
    assert [use.encrypted for use in said.uses] == [False]


def test_a_host_has_the_one_address_that_it_resolves_to_and_the_remark_behind_it() -> None:
    said = one(
        "hosts",
        "10.0.0.1 nas.lan nas # The box in the cellar\nfd00::1 nas.lan\n10.0.0.2 two.lan\n10.0.0.3 two.lan\n",
    )
    hosts = {n.node.name: n.properties for n in said.nodes if n.node.label == "Host"}
    assert hosts["nas.lan"] == {"description": "The box in the cellar", "ip": "10.0.0.1"}
    assert hosts["nas"] == {"ip": "10.0.0.1"} and hosts["two.lan"] == {}


def test_an_address_lies_in_the_smallest_network_of_its_file() -> None:
    said = interpret(STACK + "    x-hosts: &hosts ['nas:172.30.5.9', 'pi:172.30.9.9', 'out:10.0.0.9']\n")
    assert not said.nodes("IP")
    more = STACK.replace(
        "        image: postgres\n",
        "        image: postgres\n        extra_hosts: ['nas:172.30.5.9', 'pi:172.30.9.9', 'out:10.0.0.9']\n",
    )
    assert {n.node.name: n.properties.get("cidr") for n in interpret(more).nodes("IP")} == {
        "172.30.5.9": "172.30.5.0/24",
        "172.30.9.9": "172.30.0.0/16",
        "10.0.0.9": None,
    }


def test_units_and_objects_of_kubernetes_describe_themselves() -> None:
    unit = one("app.service", "[Unit]\nDescription=Photos of the house\n[Service]\nExecStart=/bin/a\n")
    assert unit.nodes[0].properties["description"] == "Photos of the house"
    template = one("app@.service", "[Unit]\nDescription=Photos of %i\n[Service]\nExecStart=/bin/a\n")
    assert "description" not in template.nodes[0].properties
    network = one("back.network", "[Unit]\nDescription=Only inside\n[Network]\nDriver=bridge\n")
    assert network.nodes[0].properties["description"] == "Only inside"
    manifest = one(
        "app.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app\n"
        "  annotations: {kubernetes.io/description: Photos}\n"
        "spec: {template: {spec: {containers: [{name: a, image: a}]}}}\n",
    )
    (service,) = [n for n in manifest.nodes if n.node.label == "Service"]
    assert service.properties["description"] == "Photos"


@pytest.mark.parametrize(
    ("name", "text", "method"),
    [
        (
            "dynamic.yml",
            """
            http:
              routers:
                a: {rule: "Host(`a.lan`) && (Method(`get`) || Method(`HEAD`))", service: a}
              services:
                a: {loadBalancer: {servers: [{url: "http://app:80"}]}}
            """,
            "GET",
        ),
        (
            "dynamic.yml",
            """
            http:
              routers:
                a: {rule: "Host(`a.lan`) && Method(`GET`, `HEAD`)", service: a}
                b: {rule: "Host(`a.lan`)", service: a}
              services:
                a: {loadBalancer: {servers: [{url: "http://app:80"}]}}
            """,
            None,
        ),
        (
            "site.conf",
            "server { server_name a.lan; location / { limit_except GET OPTIONS { deny all; }"
            " proxy_pass http://app:80; } }",
            "GET,OPTIONS",
        ),
        (
            "site.conf",
            "server { server_name a.lan; location / { limit_except GET { auth_basic x; }"
            " proxy_pass http://app:80; } }",
            None,
        ),
    ],
)
def test_an_endpoint_has_the_methods_that_its_front_door_takes(
    name: str, text: str, method: str | None
) -> None:
    said = interpret_proxy({name: text}, name)
    (endpoint,) = [n for n in said.nodes if n.node.label == "Endpoint"]
    assert endpoint.properties.get("method") == method
