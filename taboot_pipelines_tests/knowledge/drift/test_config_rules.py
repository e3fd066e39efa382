"""Configuration that contradicts configuration, and what only looks so."""

from __future__ import annotations

import pytest

from taboot_pipelines_tests.knowledge.drift.house import House

JELLYFIN = """\
services:
  jellyfin:
    image: jellyfin/jellyfin:10.10.7
    ports: ["8096:8096", "7359:7359/udp"]
    networks: [proxy]
networks:
  proxy: {external: true}
"""
SWAG = """\
services:
  swag:
    image: lscr.io/linuxserver/swag
    ports: ["80:80", "443:443"]
    networks: [proxy]
networks:
  proxy: {external: true}
"""


def conf(upstream: str, more: str = "") -> str:
    return f"""\
server {{
    listen 443 ssl;
    server_name tv.*;
    location / {{
        include /config/nginx/proxy.conf;
        set $upstream_app {upstream.partition(":")[0]};
        set $upstream_port {upstream.partition(":")[2]};
        set $upstream_proto http;
        proxy_pass $upstream_proto://$upstream_app:$upstream_port;
    }}
    {more}
}}
"""


def house(jellyfin: str = JELLYFIN, upstream: str = "jellyfin:8096", **files: str) -> House:
    named = {f"{name.replace('__', '/')}.yaml": text for name, text in files.items()}
    return House(
        {"media/compose.yaml": jellyfin, "edge/compose.yaml": SWAG, "tv.conf": conf(upstream), **named}
    )


# --- routes -------------------------------------------------------------------------------------------------


def test_a_route_to_the_port_that_is_listened_on_is_none() -> None:
    assert house().found() == []


def test_a_route_to_a_port_that_nothing_names() -> None:
    (drift,) = house(upstream="jellyfin:8097").drifts()
    assert drift.kind == "route_port" and drift.name == "jellyfin" and not drift.record
    assert drift.statement == (
        "swag routes to jellyfin:8097, and the container is declared to listen on 8096."
    )
    route, binds = drift.sides
    assert (route.says, route.facts[0].doc_id, route.facts[0].line) == (
        "swag routes to port 8097",
        "tv.conf",
        6,
    )
    assert binds.says == "jellyfin publishes 8096:8096, 7359:7359/udp"


def test_a_route_to_the_published_port_on_the_same_network() -> None:
    mapped = JELLYFIN.replace("8096:8096", "18096:8096")
    (drift,) = house(mapped, "jellyfin:18096").drifts()
    assert "which is the published port: the container listens on 8096" in drift.statement
    assert house(mapped, "jellyfin:8096").found() == []


def test_the_published_port_counts_where_no_network_is_shared() -> None:
    apart = JELLYFIN.replace("8096:8096", "18096:8096").replace("proxy", "inner")
    assert house(apart, "jellyfin:18096").found() == []
    (drift,) = house(apart, "jellyfin:8096").drifts()
    assert "shares no network with it and publishes 18096" in drift.statement


@pytest.mark.parametrize(
    "jellyfin",
    [
        # A container listens on what it does not declare; one that declares no port for HTTP is not judged.
        JELLYFIN.replace('ports: ["8096:8096", "7359:7359/udp"]', "restart: always"),
        JELLYFIN.replace("8096:8096", "51413:51413"),
        JELLYFIN.replace("8096:8096", "2222:22"),
        # The port stands elsewhere in the declaration.
        JELLYFIN.replace("networks: [proxy]\n", "networks: [proxy]\n    expose: [8097]\n", 1),
        JELLYFIN.replace("networks: [proxy]\n", "networks: [proxy]\n    environment: {HTTP_PORT: 8097}\n", 1),
        JELLYFIN.replace("networks: [proxy]\n", 'networks: [proxy]\n    command: --http ":8097"\n', 1),
        # What shares its network listens too, and on the host's anything may.
        JELLYFIN + "  other: {driver: bridge}\n",
        JELLYFIN.replace("    networks: [proxy]\n", "    network_mode: host\n"),
        JELLYFIN.replace("8096:8096", "${PORT}:8096"),
    ],
)
def test_ports_that_a_declaration_does_not_rule_out(jellyfin: str) -> None:
    if "other:" in jellyfin:
        jellyfin = JELLYFIN.replace(
            "networks:\n  proxy",
            "  torrent:\n    image: t\n    network_mode: service:jellyfin\nnetworks:\n  proxy",
        )
    assert house(jellyfin, "jellyfin:8097").found() == []


def test_a_second_port_beside_the_right_one_is_none() -> None:
    hub = "location /hub { proxy_pass http://jellyfin:3012; }"
    files = house().files | {"tv.conf": conf("jellyfin:8096", hub)}
    assert House(files).found() == []


def test_another_configuration_that_leads_to_the_port_speaks_for_it() -> None:
    probe = "services:\n  homepage:\n    image: h\n    environment: {URL: 'http://jellyfin:8097'}\n"
    both = JELLYFIN.replace("services:\n", probe)
    assert house(both, "jellyfin:8097").found() == []


def test_a_label_of_traefik_that_names_another_port() -> None:
    labels = """\
    labels:
      - traefik.http.routers.tv.rule=Host(`tv.example.org`)
      - traefik.http.services.tv.loadbalancer.server.port=8097
"""
    labelled = JELLYFIN.replace("    networks: [proxy]\n", f"    networks: [proxy]\n{labels}")
    assert house(labelled.replace("8097", "8096")).found() == []
    files = {"media/compose.yaml": labelled}
    assert House(files).found() == [("route_port", "jellyfin")]


# --- upstreams ----------------------------------------------------------------------------------------------


def test_an_upstream_that_no_project_declares() -> None:
    files = house().files | {"old.conf": conf("emby:8096")}
    (drift,) = House(files).drifts()
    assert (drift.kind, drift.name) == ("missing_upstream", "emby")
    assert drift.statement == "swag routes to emby, which no project declares."
    assert [s.facts[0].doc_id for s in drift.sides] == ["old.conf"]


@pytest.mark.parametrize(
    "said",
    [
        "    container_name: emby\n",
        "    hostname: emby\n",
        '    extra_hosts: ["emby:192.168.1.4"]\n',
    ],
)
def test_a_name_that_is_given_in_another_way(said: str) -> None:
    named = JELLYFIN.replace("    networks: [proxy]\n", f"    networks: [proxy]\n{said}")
    files = house(named).files | {"old.conf": conf("emby:8096")}
    assert House(files).found() == []


def test_an_alias_on_a_network_is_a_name() -> None:
    named = JELLYFIN.replace("    networks: [proxy]\n", "    networks: {proxy: {aliases: [emby]}}\n")
    assert House(house(named).files | {"old.conf": conf("emby:8096")}).found() == []


def test_where_most_upstreams_are_unknown_the_projects_are_too() -> None:
    strangers = {f"{name}.conf": conf(f"{name}:80") for name in ("emby", "plex", "kodi")}
    assert House(house().files | strangers).found() == []
    assert House({"edge/compose.yaml": SWAG, "emby.conf": conf("emby:80")}).found() == []


def test_addresses_and_dotted_names_are_no_missing_services() -> None:
    files = house().files | {"nas.conf": conf("nas.lan:5000"), "box.conf": conf("192.168.1.9:80")}
    assert House(files).found() == []


def test_a_name_of_two_services_is_declared() -> None:
    web = "services:\n  web: {image: nginx}\n"
    files = house().files | {"a/compose.yaml": web, "b/compose.yaml": web, "web.conf": conf("web:80")}
    assert House(files).found() == []


# --- ports that are bound twice -----------------------------------------------------------------------------


def binding(name: str, port: str, more: str = "") -> str:
    return f"services:\n  {name}:\n    image: {name}\n    ports: ['{port}']\n{more}"


def twice(one: str, other: str, host: str | None = "hearth.lan") -> list[tuple[str, str]]:
    return House({"a/compose.yaml": one, "b/compose.yaml": other}, host).found()


def test_two_services_of_a_host_that_publish_one_port() -> None:
    (drift,) = House(
        {"a/compose.yaml": binding("grafana", "3000:3000"), "b/compose.yaml": binding("wiki", "3000:80")}
    ).drifts()
    assert (drift.kind, drift.label, drift.name) == ("port_twice", "Host", "hearth.lan")
    assert drift.statement == (
        "a/grafana and b/wiki publish 3000/tcp on hearth.lan, which one service can have."
    )
    assert [s.says for s in drift.sides] == ["a/grafana publishes 3000", "b/wiki publishes 3000"]
    assert [s.facts[0].line for s in drift.sides] == [4, 4]


def test_three_services_at_one_port_are_one_drift() -> None:
    files = {f"{n}/compose.yaml": binding(n, "80:80") for n in ("a", "b", "c")}
    (drift,) = House(files).drifts()
    assert len(drift.sides) == 3 and drift.statement.startswith("a/a, b/b and c/c publish 80/tcp")


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("192.168.1.2:53:53", "192.168.1.3:53:53", False),
        ("192.168.1.2:53:53", "192.168.1.2:53:53", True),
        ("192.168.1.2:53:53", "53:53", True),
        ("192.168.1.2:53:53", "0.0.0.0:53:53", True),
        ("127.0.0.1:53:53", "[::1]:53:53", False),
        ("192.168.1.2:53:53", "[::]:53:53", False),
        ("53:53/tcp", "53:53/udp", False),
        ("53:53", "54:53", False),
        ("8000-8003:80-83", "8002:80", True),
    ],
)
def test_addresses_and_protocols(one: str, other: str, clash: bool) -> None:
    expected = [("port_twice", "hearth.lan")] if clash else []
    assert twice(binding("a", one), binding("b", other)) == expected


def test_unknown_machines_are_not_one_machine() -> None:
    assert twice(binding("a", "80:80"), binding("b", "80:80"), host=None) == []


def test_one_project_is_on_one_machine_whichever_it_is() -> None:
    both = binding("a", "80:80") + "  b:\n    image: b\n    ports: ['80:8080']\n"
    assert House({"p/compose.yaml": both}, None).found() == [("port_twice", "a")]


def test_profiles_that_exclude_each_other() -> None:
    cpu = binding("llm", "11434:11434", "    profiles: [cpu]\n")
    gpu = "  llm-gpu:\n    image: llm\n    ports: ['11434:11434']\n    profiles: [gpu]\n"
    assert House({"p/compose.yaml": cpu + gpu}).found() == []
    assert House({"p/compose.yaml": cpu + gpu.replace("[gpu]", "[gpu, cpu]")}).found() != []


def test_files_of_one_folder_are_variants() -> None:
    files = {"p/compose.yaml": binding("a", "80:80"), "p/compose.dev.yaml": binding("a", "80:80")}
    assert House(files).found() == []


def test_replicas_of_one_service_are_the_engines_affair() -> None:
    assert House({"p/compose.yaml": binding("a", "80:80", "    deploy: {replicas: 3}\n")}).found() == []
