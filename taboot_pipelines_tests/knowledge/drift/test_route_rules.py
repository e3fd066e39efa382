"""Routes to wrong ports and to nothing, and what only looks so."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_either_port_counts_where_no_network_is_shared() -> None:
    apart = JELLYFIN.replace("8096:8096", "18096:8096").replace("proxy", "inner")
    assert house(apart, "jellyfin:18096").found() == []
    assert house(apart, "jellyfin:8096").found() == []
    assert house(apart, "jellyfin:8097").found() == [("route_port", "jellyfin")]


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


def test_the_port_of_another_service_of_the_file() -> None:
    """A conf that was copied from another's: what stands in that service's part speaks of that service."""
    sonarr = '  sonarr:\n    image: s\n    ports: ["8989:8989"]\n    environment: {PORT: 8989}\nnetworks:\n'
    both = JELLYFIN.replace("networks:\n  proxy", f"{sonarr}  proxy")
    assert house(both, "jellyfin:8989").found() == [("route_port", "jellyfin")]
    # Values that are taken in from elsewhere in the file may be its own.
    merged = both.replace("    image: jellyfin", "    <<: *common\n    image: jellyfin")
    anchor = "x-common: &common\n  environment: {PORT: 8989}\n"
    assert house(anchor + merged, "jellyfin:8989").found() == []


FORMATS = {
    "etc/dynamic.yml": """\
http:
  routers:
    tv: {{rule: "Host(`tv.example.org`)", service: tv}}
  services:
    tv: {{loadBalancer: {{servers: [{{url: "http://{0}"}}]}}}}
""",
    "etc/Caddyfile": "tv.example.org {{\n  reverse_proxy {0}\n}}\n",
    "etc/haproxy.cfg": """\
frontend web
  mode http
  bind :443
  acl tv hdr(host) -i tv.example.org
  use_backend tv if tv
backend tv
  mode http
  server tv {0}
""",
}


@pytest.mark.parametrize("path", sorted(FORMATS))
def test_every_format_of_proxies(path: str) -> None:
    def found(upstream: str, **more: str) -> list[tuple[str, str]]:
        files = {"media/compose.yaml": JELLYFIN.replace("8096:8096", "18096:8096")} | more
        return House(files | {path: FORMATS[path].format(upstream)}).found()

    assert found("jellyfin:8096") == []
    assert found("jellyfin:8097") == [("route_port", "jellyfin")]
    assert found("jellyfin:18096") == [("route_port", "jellyfin")]
    edge = {"etc/edge.container": "[Container]\nImage=docker.io/library/caddy\n"}
    known = {"etc/more.caddy": "a.example.org {\n  reverse_proxy jellyfin:8096\n}\n"}
    assert found("emby:8096", **edge, **known) == [("missing_upstream", "emby")]


# --- routes to a machine ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "found"),
    [
        ("hearth.lan:8096", []),
        ("hearth.lan:8097", [("route_port", "tv")]),
        ("192.168.20.11:8097", [("route_port", "tv")]),
        # Another proxy may stand before it.
        ("hearth.lan:80", []),
        # It is another service's, or of another machine.
        ("hearth.lan:8989", []),
        ("nas.lan:8097", []),
        ("192.168.20.12:8097", []),
    ],
)
@pytest.mark.parametrize("path", sorted(FORMATS))
def test_a_port_of_a_machine(path: str, upstream: str, found: list[tuple[str, str]]) -> None:
    compose = """\
services:
  tv: {image: jellyfin/jellyfin, ports: ["8096:80"]}
  sonarr: {image: sonarr, ports: ["8989:8989"]}
"""
    hosts = "192.168.20.11 hearth.lan hearth\n192.168.20.12 nas.lan\n"
    files = {"media/compose.yaml": compose, "etc/hosts": hosts, path: FORMATS[path].format(upstream)}
    assert House(files).found() == found


def test_both_sides_of_a_route_to_a_machine() -> None:
    files = {
        "media/compose.yaml": "services:\n  tv:\n    image: j\n    ports: ['8096:80']\n",
        "etc/Caddyfile": FORMATS["etc/Caddyfile"].format("hearth.lan:8097"),
    }
    (drift,) = House(files).drifts()
    assert drift.statement == ("edge routes tv.example.org to hearth.lan:8097, where tv publishes 8096:80.")
    assert [(s.facts[0].doc_id, s.facts[0].line) for s in drift.sides] == [
        ("etc/Caddyfile", 2),
        ("media/compose.yaml", 4),
    ]
    # Something else that names the address speaks for it, and so does a name that begins alike.
    other = {"etc/other.caddy": "x.example.org {\n  reverse_proxy hearth.lan:8097\n}\n"}
    assert House(files | other).found() == []
    alike = files["media/compose.yaml"] + "  tv-web:\n    image: w\n"
    assert House(files | {"media/compose.yaml": alike}).found() == []


# --- Kubernetes ---------------------------------------------------------------------------------------------

INGRESS = """\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: tv, namespace: {1}}}
spec:
  ingressClassName: nginx
  rules:
    - host: tv.example.org
      http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {0}}}}}]}}
"""
ROUTE = """\
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {{name: tv, namespace: {1}}}
spec:
  routes:
    - match: Host(`tv.example.org`)
      kind: Rule
      services: [{0}]
"""
OBJECTS = """\
apiVersion: v1
kind: Service
metadata: {name: jellyfin, namespace: media}
spec:
  selector: {app: jellyfin}
  ports: [{name: http, port: 80, targetPort: 8096}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: jellyfin-server, namespace: media}
spec:
  selector: {matchLabels: {app: jellyfin}}
  template:
    metadata: {labels: {app: jellyfin}}
    spec:
      containers: [{name: jellyfin, image: jellyfin/jellyfin, ports: [{containerPort: 8096}]}]
"""


def cluster(kind: str, service: str, namespace: str = "media", objects: str = OBJECTS) -> House:
    return House({"etc/k8s/tv.yaml": kind.format(service, namespace), "etc/k8s/jellyfin.yaml": objects})


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (INGRESS, "{name: jellyfin, port: {number: 80}}", "{name: jellyfin, port: {number: 8096}}"),
        (INGRESS, "{name: jellyfin, port: {name: http}}", "{name: jellyfin, port: {number: 8080}}"),
        (ROUTE, "{name: jellyfin, port: 80}", "{name: jellyfin, port: 8096}"),
    ],
)
def test_ports_of_services_in_a_cluster(kind: str, right: str, wrong: str) -> None:
    assert cluster(kind, right).found() == []
    (drift,) = cluster(kind, wrong).drifts()
    assert (drift.kind, drift.name) == ("route_port", "jellyfin")
    assert drift.statement.endswith("and the Service has 80.")
    assert [s.facts[0].doc_id for s in drift.sides] == ["etc/k8s/tv.yaml", "etc/k8s/jellyfin.yaml"]
    # Manifests of no namespace that lie apart need not be of one cluster.
    anywhere = OBJECTS.replace("media", "default")
    assert cluster(kind, wrong, "default", anywhere).found() == [("route_port", "jellyfin")]
    apart = {"etc/a/tv.yaml": kind.format(wrong, "default"), "etc/b/jellyfin.yaml": anywhere}
    assert House(apart).found() == []


@pytest.mark.parametrize("kind", [INGRESS, ROUTE])
def test_a_service_that_no_manifest_declares(kind: str) -> None:
    def found(*more: str) -> list[tuple[str, str]]:
        emby, jellyfin = (
            (f"{{name: {name}, port: 80}}" if kind is ROUTE else f"{{name: {name}, port: {{number: 80}}}}")
            for name in ("emby", "jellyfin")
        )
        files = {
            "etc/k8s/emby.yaml": kind.format(emby, "media"),
            "etc/k8s/tv.yaml": kind.format(jellyfin, "media"),
            "etc/k8s/jellyfin.yaml": OBJECTS,
        }
        return House(files | {f"etc/k8s/more{i}.yaml": text for i, text in enumerate(more)}).found()

    assert found() == [("missing_upstream", "emby")]
    external = "apiVersion: v1\nkind: Service\nmetadata: {name: emby, namespace: media}\n"
    assert found(f"{external}spec: {{type: ExternalName, externalName: nas.lan}}\n") == []
    # A chart or an operator may bring it.
    assert found("apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: emby}\n") == []
    assert found("kind: Kustomization\nresources:\n  - ../emby\n") == []
    assert found("kind: Kustomization\nresources:\n  - tv.yaml\n") == [("missing_upstream", "emby")]


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


@pytest.mark.parametrize("name", ["media_jellyfin", "media_jellyfin_1", "media-jellyfin-1"])
def test_names_that_the_engine_gives(name: str) -> None:
    files = house().files | {"old.conf": conf(f"{name}:8096")}
    assert House(files).found() == []


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


# --- real confs and projects --------------------------------------------------------------------------------

_COMPOSE_FENCE = re.compile(r"```ya?ml\n(?:---\n)?(services:\n.*?)```", re.DOTALL)
_UPSTREAM_PORT = re.compile(r"(?<=set \$upstream_port )\d+")


@pytest.mark.parametrize("network", ["", "    networks: [proxy]\n"])
def test_real_confs_fit_the_projects_that_their_makers_document(data: Path, network: str) -> None:
    """The Compose projects of LinuxServer's pages beside SWAG's confs, which lead to twenty of them; then
    every port of a conf is another one."""
    files = {}
    for page in sorted((data / "linuxserver-docs-md" / "docs").rglob("*.md")):
        if fence := _COMPOSE_FENCE.search(page.read_text("utf-8")):
            project = fence[1].replace("    container_name:", f"{network}    container_name:")
            shared = "networks:\n  proxy: {external: true}\n" if network else ""
            files[f"{page.stem}/compose.yaml"] = project + shared
    confs = {
        conf.name: conf.read_text("utf-8")
        for conf in (data / "swag-reverse-proxy-confs").glob("*.conf.sample")
        if not conf.name.startswith("_template")
    }
    kept = {name.removesuffix(".sample"): text for name, text in confs.items()}
    assert len(files) > 100 and len(kept) > 100
    assert House(files | kept, None).found() == []

    shifted = {n: _UPSTREAM_PORT.sub(lambda p: str(int(p[0]) + 11), t) for n, t in kept.items()}
    found = House(files | shifted, None).found()
    assert {kind for kind, _ in found} == {"route_port"} and len({name for _, name in found}) >= 19
